#include "bench/bench_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <regex>

#include "base/to_size.h"
#include "options/arguments.h"
#include "weft/error.h"
#include "weft/plan.h"

namespace weft::cli {
namespace {

/// Least time of a repetition; it has several runs if one is shorter.
constexpr double kLeastSeconds = 0.02;

/// Elements of a leaf. In every type these bytes are numbers in the middle of its range.
std::vector<std::byte> elements(const ValueInfo& leaf, const OpShape& shape) {
  const std::vector<std::int64_t> sizes = leaf.shape.dims({});
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  std::vector<std::byte> bytes(row_bytes(leaf.dtype, n), std::byte{0x2c});
  if (leaf.dtype == DType::kI32) {
    const std::vector<std::int32_t> indices(to_size(n), shape.indices.at(leaf.name));
    std::memcpy(bytes.data(), indices.data(), bytes.size());
  } else if (leaf.dtype == DType::kF32) {
    std::vector<float> values(to_size(n));
    std::uint32_t random = 1;
    for (float& value : values) {
      random = random * 1664525u + 1013904223u;
      value = static_cast<float>(random >> 8) * 0x1p-23f - 1.0f;
    }
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

Json measure_op(const OpShape& shape, const MachineLimits& limits, const Devices& devices, int n_repetitions,
                const InterruptGuard& interrupt) {
  Graph g;
  const Value y = g.output("y", shape.build(g));
  Plan plan(g, devices, {.n_threads = limits.n_threads});
  std::vector<std::vector<std::byte>> data;
  std::vector<Plan::InputData> inputs;
  double n_bytes = static_cast<double>(y.shape().elements({})) * 4.0;
  for (const ValueInfo& value : g.values()) {
    if (value.kind != ValueKind::kInput && value.kind != ValueKind::kWeight) continue;
    data.push_back(elements(value, shape));
    n_bytes += static_cast<double>(data.back().size());
    const std::span<const std::byte> bytes = data.back();
    if (value.kind == ValueKind::kWeight) {
      plan.set_weight(value.name, bytes);
    } else {
      inputs.emplace_back(value.name, bytes);
    }
  }
  using Clock = std::chrono::steady_clock;
  const auto timed = [&](int n_runs) {
    const auto start = Clock::now();
    for (int i = 0; i < n_runs; ++i) plan.run();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  plan.run({}, inputs);
  int n_runs = 1;
  while (timed(n_runs) < kLeastSeconds) n_runs *= 2;
  Samples ms;
  for (int i = 0; i < n_repetitions; ++i) {
    if (interrupt.requested()) throw Error(ErrorCode::kCancelled, "interrupted");
    ms.values.push_back(1e3 * timed(n_runs) / n_runs);
  }

  // Products with quantised weights are of integers.
  const DType dtype = dtype_from_name(shape.dtype).value();
  const MultiplyAdds& peaks = limits.multiply_adds_per_second;
  const double peak = info(dtype).block_elements > 1 ? peaks.int8 : peaks.f32;
  const double memory_s = n_bytes / limits.read_bytes_per_second, compute_s = shape.multiply_adds / peak;
  const double seconds = ms.min() / 1e3;
  const bool counted = shape.multiply_adds > 0.0;
  return {{"op", shape.op},
          {"type", shape.dtype},
          {"sizes", shape.sizes},
          {"shape", shape.text},
          {"threads", limits.n_threads},
          {"min_ms", ms.min()},
          {"mean_ms", ms.mean()},
          {"gflops", counted ? Json(2e-9 * shape.multiply_adds / seconds) : Json(nullptr)},
          {"gbytes_per_second", 1e-9 * n_bytes / seconds},
          {"roofline_ms", 1e3 * std::max(memory_s, compute_s)},
          {"roofline_fraction", std::max(memory_s, compute_s) / seconds},
          {"bound", memory_s > compute_s ? "memory" : "compute"},
          {"ms", ms.values}};
}

}  // namespace

Json measure_ops(const OpsOptions& options, const MachineLimits& limits, int n_repetitions,
                 const InterruptGuard& interrupt) {
  std::regex filter;
  try {
    filter = std::regex(options.filter);
  } catch (const std::regex_error& error) {
    throw UsageError(fmt::format("--filter: '{}' is not a regular expression", options.filter));
  }
  const Devices devices = open_devices({"cpu"});
  Json rows = Json::array();
  for (const OpShape& shape : op_shapes())
    if (std::regex_search(shape.name(), filter))
      rows.push_back(measure_op(shape, limits, devices, n_repetitions, interrupt));
  if (rows.empty()) throw UsageError(fmt::format("--filter: '{}' matches no op", options.filter));
  return rows;
}

std::vector<Column> ops_columns() {
  return {text_column("op", "op", false),
          text_column("type", "type", false),
          text_column("shape", "shape", false),
          text_column("threads", "threads"),
          number_column("ms", "min_ms", 3),
          number_column("GFLOP/s", "gflops", 1),
          number_column("GB/s", "gbytes_per_second", 1),
          percent_column("of roofline", "roofline_fraction"),
          text_column("bound by", "bound")};
}

}  // namespace weft::cli
