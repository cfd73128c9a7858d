#include "weft/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/to_size.h"
#include "exec/plan.h"
#include "weft/backend/registry.h"
#include "weft/dtype.h"

namespace weft {
namespace {

constexpr int kRepeats = 5;
constexpr std::int64_t kRows = 16384, kColumns = 2048;  // A matrix of 35 MB: more than most caches hold.
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kCopyRows = 512;  // 4 MB

/// One node between an input and an output. Returns the shortest time of a step.
class Bench {
 public:
  Bench(Device& device, Op op, std::vector<std::int64_t> weight, std::int64_t max_rows) : device_(device) {
    const SymbolId n = graph_.add_symbol("n", 1, max_rows);
    const ValueId x = graph_.add_input("x", DType::kF32, {Dim(1, n), kColumns});
    ValueId w = kNoValue;
    if (!weight.empty())
      w = graph_.add_weight("w", DType::kQ8_0, Shape(std::span<const std::int64_t>(weight)));
    const ValueId y =
        w != kNoValue ? graph_.add(std::move(op), {w, x}, "y") : graph_.add(std::move(op), {x}, "y");
    graph_.add_output(y);
    Bindings bindings(graph_.values().size(), nullptr);
    const auto bind = [&](ValueId value, std::unique_ptr<DeviceTensor> tensor) {
      bindings[to_size(value)] = tensor.get();
      tensors_.push_back(std::move(tensor));
    };
    input_ = (bind(x, device.create_host_tensor(DType::kF32, std::vector{max_rows, kColumns})),
              tensors_.back().get());
    bind(y, device.create_host_tensor(DType::kF32, std::vector{max_rows, graph_.value(y).shape.columns()}));
    if (w != kNoValue) {
      const std::vector<std::byte> zeros(row_bytes(DType::kQ8_0, weight[0] * weight[1]));
      bind(w, device.create_weight(DType::kQ8_0, weight, {zeros, {}}));
    }
    plan_ = std::make_unique<exec::Plan>(device_, graph_, bindings,
                                         CompileOptions{.allowed = {.shapes = true}, .n_threads = 0});
  }

  /// Including a copy of the input from another device.
  double seconds(std::int64_t rows) {
    const std::vector<std::byte> source(to_size(rows * kColumns) * sizeof(float));
    double best = 1e9;
    for (int i = 0; i <= kRepeats; ++i) {
      const auto start = std::chrono::steady_clock::now();
      std::memcpy(input_->host().data(), source.data(), source.size());
      exec::Step step;
      step.symbols = {&rows, 1};
      step.actual.shapes = i == 0;
      plan_->run(step);
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (i > 0) best = std::min(best, taken.count());  // The first run warms up.
    }
    return best;
  }

 private:
  Device& device_;
  Graph graph_;
  std::vector<std::unique_ptr<DeviceTensor>> tensors_;
  DeviceTensor* input_ = nullptr;
  std::unique_ptr<exec::Plan> plan_;
};

}  // namespace

double MachineLimits::least_seconds(double bytes, const MultiplyAdds& multiply_adds) const {
  const MultiplyAdds& speed = multiply_adds_per_second;
  const double products_seconds =
      multiply_adds.int8 / speed.int8 + multiply_adds.f32 / speed.f32 + multiply_adds.bf16 / speed.bf16;
  return std::max(bytes / read_bytes_per_second, products_seconds);
}

DeviceSpeed measure(const Registry& registry, const std::string& name) {
  const std::shared_ptr<Device> device = registry.open(name);
  Bench product(*device, ops::Matmul{}, {kRows, kColumns}, kTokens);
  Bench scale(*device, ops::Scale{2.0f}, {}, kCopyRows);
  DeviceSpeed speed;
  const auto bytes = static_cast<double>(row_bytes(DType::kQ8_0, kRows * kColumns));
  speed.bytes_per_second = bytes / product.seconds(1);
  speed.flops = 2.0 * kTokens * kRows * kColumns / product.seconds(kTokens);
  speed.step_seconds = scale.seconds(1);
  speed.copy_bytes_per_second = 2.0 * kCopyRows * kColumns * sizeof(float) / scale.seconds(kCopyRows);
  return speed;
}

}  // namespace weft
