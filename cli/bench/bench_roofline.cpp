#include "bench/bench_roofline.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::chrono::seconds kJustDone{2};

}  // namespace

double LeastWork::seconds(const MachineLimits& limits) const {
  double sum = 0.0;
  for (const LeastPart& part : parts_) sum += limits.least_seconds(part.bytes, part.multiply_adds);
  return sum;
}

std::string LeastWork::bound(const MachineLimits& limits) const {
  double memory = 0.0;
  for (const LeastPart& part : parts_) {
    const double least = limits.least_seconds(part.bytes, part.multiply_adds);
    if (least > limits.least_seconds(0.0, part.multiply_adds)) memory += least;
  }
  return 2.0 * memory > seconds(limits) ? "memory" : "compute";
}

WorkCounter::WorkCounter(Context& context) : context_(context) { context_.set_profile(&profile_); }

LeastPart WorkCounter::take() {
  const LeastPart part = {profile_.bytes(), profile_.multiply_adds()};
  for (Profile::Work& work : profile_.work) {
    work.bytes = 0.0;
    work.multiply_adds = {};
  }
  return part;
}

const MachineLimits& LimitsCache::of(int n_threads) {
  const auto found = limits_.find(n_threads);
  if (found != limits_.end()) return found->second.machine;
  const MachineLimits& measured =
      limits_.emplace(n_threads, OfThreads{measure_limits(n_threads, isa_), {}}).first->second.machine;
  last_ = std::chrono::steady_clock::now();
  return measured;
}

void LimitsCache::add_products(DType weights, int n_threads) {
  of(n_threads);
  auto& products = limits_.at(n_threads).products;
  if (!products.contains(weights)) products[weights] = measure_products(weights, n_threads, isa_);
}

void LimitsCache::measure_again(int n_threads) {
  const auto found = limits_.find(n_threads);
  if (found == limits_.end() || std::chrono::steady_clock::now() - last_ < kJustDone) return;
  MachineLimits& best = found->second.machine;
  try {
    const MachineLimits now = measure_limits(n_threads, isa_);
    best.read_bytes_per_second = std::max(best.read_bytes_per_second, now.read_bytes_per_second);
    for (double MultiplyAdds::* const kind : {&MultiplyAdds::int8, &MultiplyAdds::f32, &MultiplyAdds::bf16})
      best.multiply_adds_per_second.*kind =
          std::max(best.multiply_adds_per_second.*kind, now.multiply_adds_per_second.*kind);
    for (auto& [weights, speed] : found->second.products)
      speed = std::max(speed, measure_products(weights, n_threads, isa_));
  } catch (const Error& error) {
    // The model may leave no memory to measure in. Then the earlier limits stay.
    if (error.code() != ErrorCode::kOutOfMemory) throw;
  }
  last_ = std::chrono::steady_clock::now();
}

Json LimitsCache::to_json() const {
  Json json = Json::array();
  for (const auto& [asked, of_threads] : limits_) {
    const MachineLimits& limits = of_threads.machine;
    Json products = Json::object();
    for (const auto& [weights, speed] : of_threads.products) products[info(weights).name] = speed;
    json.push_back({{"threads", limits.n_threads},
                    {"kernels", limits.kernels},
                    {"read_bytes_per_second", limits.read_bytes_per_second},
                    {"int8_multiply_adds_per_second", limits.multiply_adds_per_second.int8},
                    {"f32_multiply_adds_per_second", limits.multiply_adds_per_second.f32},
                    {"bf16_multiply_adds_per_second", limits.multiply_adds_per_second.bf16},
                    {"product_multiply_adds_per_second", products}});
  }
  return json;
}

std::string LimitsCache::text() const {
  std::string text;
  for (const auto& [asked, of_threads] : limits_) {
    const MachineLimits& limits = of_threads.machine;
    text += fmt::format(
        "this machine at best, {} thread{}: {:.1f} GB/s read, {:.0f} Gop/s int8, {:.0f} GFLOP/s f32, "
        "{:.0f} in pairs of bf16 ({})\n",
        limits.n_threads, limits.n_threads == 1 ? "" : "s", limits.read_bytes_per_second / 1e9,
        2.0 * limits.multiply_adds_per_second.int8 / 1e9, 2.0 * limits.multiply_adds_per_second.f32 / 1e9,
        2.0 * limits.multiply_adds_per_second.bf16 / 1e9, limits.kernels);
    for (const auto& [weights, speed] : of_threads.products) {
      const bool quantised = info(weights).kind == DTypeKind::kQuantised;
      const double peak =
          quantised ? limits.multiply_adds_per_second.int8 : limits.multiply_adds_per_second.f32;
      text += fmt::format(
          "products with {} weights from the nearest caches: {:.0f} Gop/s, {:.0f} % of the {} peak\n",
          info(weights).name, 2.0 * speed / 1e9, 100.0 * speed / peak, quantised ? "int8" : "f32");
    }
  }
  return text;
}

}  // namespace weft::cli
