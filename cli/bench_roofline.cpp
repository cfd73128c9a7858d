#include "bench_roofline.h"

#include <fmt/format.h>

namespace weft::cli {

Roofline::Roofline(Context& context, const MachineLimits& limits) : context_(context), limits_(limits) {
  context_.set_profile(&profile_);
}

void Roofline::count() {
  const double bytes = profile_.bytes(), multiply_adds = profile_.multiply_adds();
  const double least = limits_.least_seconds(bytes, multiply_adds);
  seconds_ += least;
  if (least > limits_.least_seconds(0.0, multiply_adds)) memory_seconds_ += least;
  for (Profile::Work& work : profile_.work) work.bytes = work.multiply_adds = 0.0;
}

void Roofline::clear() {
  count();
  seconds_ = memory_seconds_ = 0.0;
}

const MachineLimits& LimitsCache::of(int n_threads) {
  const auto found = limits_.find(n_threads);
  if (found != limits_.end()) return found->second;
  return limits_.emplace(n_threads, measure_limits(n_threads, isa_)).first->second;
}

Json LimitsCache::to_json() const {
  Json json = Json::array();
  for (const auto& [asked, limits] : limits_) {
    json.push_back({{"threads", limits.n_threads},
                    {"kernels", limits.kernels},
                    {"read_bytes_per_second", limits.read_bytes_per_second},
                    {"int8_multiply_adds_per_second", limits.multiply_adds_per_second},
                    {"f32_multiply_adds_per_second", limits.float_multiply_adds_per_second}});
  }
  return json;
}

std::string LimitsCache::text() const {
  std::string text;
  for (const auto& [asked, limits] : limits_) {
    text += fmt::format(
        "this machine at best, {} thread{}: {:.1f} GB/s read, {:.0f} Gop/s int8, {:.0f} GFLOP/s f32 ({})\n",
        limits.n_threads, limits.n_threads == 1 ? "" : "s", limits.read_bytes_per_second / 1e9,
        2.0 * limits.multiply_adds_per_second / 1e9, 2.0 * limits.float_multiply_adds_per_second / 1e9,
        limits.kernels);
  }
  return text;
}

}  // namespace weft::cli
