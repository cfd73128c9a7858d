#pragma once
// A CPU whose steps fail when a test says so.
//
//   const auto faults = std::make_shared<test::Faults>();
//   const auto model = test::load_failing(path, faults);   // as Model::load, on this device
//   faults->fail_at(3, test::Failure::kBefore);            // the third step from now on throws
//
// All contexts of the model share the faults, and steps are counted over all of them. Runs of moves alone,
// and each ubatch of a batch, are separate steps. A batcher's random test would draw `fail_at` between its
// steps, or set `every`.
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/forwarding_device.h"
#include "weft/backend/registry.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft::test {

enum class Failure : std::uint8_t {
  kBefore,       ///< Error kDevice, before anything is done.
  kAfter,        ///< Error kDevice, once all is done: from wait().
  kOutOfMemory,  ///< std::bad_alloc, before anything is done.
};

/// Used by the thread that decodes.
struct Faults {
  /// The n-th step from now on fails, n >= 1; 0: none does.
  void fail_at(int n, Failure how) {
    countdown = n;
    failure = how;
  }
  int countdown = 0;
  Failure failure = Failure::kBefore;
  bool lost = false;  ///< All steps fail, and nothing is written to caches.
  int n_steps = 0;    ///< That were submitted.
  int n_failed = 0;

  bool next_fails() {
    ++n_steps;
    const bool fails = lost || (countdown > 0 && --countdown == 0);
    n_failed += fails ? 1 : 0;
    return fails;
  }
};

class FaultyPlan final : public ForwardingPlan {
 public:
  FaultyPlan(std::unique_ptr<DevicePlan> inner, std::shared_ptr<Faults> faults)
      : ForwardingPlan(std::move(inner)), faults_(std::move(faults)) {}
  void submit(std::span<const std::int64_t> symbols, const Bindings& bindings,
              const Changes& actual) override {
    fails_ = faults_->next_fails();
    if (fails_ && faults_->failure == Failure::kBefore) fail();
    if (fails_ && faults_->failure == Failure::kOutOfMemory) {
      fails_ = false;
      throw std::bad_alloc();
    }
    inner_->submit(symbols, bindings, actual);
  }
  void wait() override {
    inner_->wait();
    if (fails_) fail();
  }

 private:
  [[noreturn]] void fail() {
    fails_ = false;
    throw Error(ErrorCode::kDevice, "the device has failed, as the test wants it");
  }
  const std::shared_ptr<Faults> faults_;
  bool fails_ = false;
};

class FailingDevice final : public ForwardingDevice {
 public:
  FailingDevice(std::shared_ptr<Device> inner, std::string name, std::shared_ptr<Faults> faults)
      : ForwardingDevice(std::move(inner), std::move(name)), faults_(std::move(faults)) {}
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return std::make_unique<FaultyPlan>(inner_->compile(graph, bindings, options), faults_);
  }
  void write_cells(DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) override {
    if (faults_->lost) throw Error(ErrorCode::kDevice, "the device is lost, as the test wants it");
    inner_->write_cells(state, role, cells, rows);
  }

 private:
  const std::shared_ptr<Faults> faults_;
};

/// Of a model on a CPU with faults. One thread computes.
inline ModelParams failing_params(const std::shared_ptr<Faults>& faults) {
  const auto registry = load_backends(), plain = load_backends();
  registry->add({"cpu", [] { return std::vector{DeviceInfo{.name = "cpu", .backend = "cpu"}}; },
                 [=](std::string_view name, const OpenOptions& options) {
                   return std::make_shared<FailingDevice>(plain->open("cpu", options), std::string(name),
                                                          faults);
                 }});
  ModelParams params;
  params.n_threads = 1;
  params.registry = registry;
  return params;
}
inline std::shared_ptr<Model> load_failing(const std::filesystem::path& path,
                                           const std::shared_ptr<Faults>& faults) {
  return Model::load(path, failing_params(faults));
}

}  // namespace weft::test
