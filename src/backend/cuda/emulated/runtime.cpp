#include "backend/cuda/runtime.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "backend/cuda/arguments.h"
#include "weft/error.h"

namespace weft::cuda {
namespace {

constexpr std::align_val_t kAlignment{256};
using Clock = std::chrono::steady_clock;

/// Work is done as soon as it is added.
class EmulatedEvent final : public Event {
 public:
  void record() override { at_ = Clock::now(); }
  bool wait_for(std::chrono::nanoseconds) override { return true; }
  double seconds_since(const Event& earlier) const override {
    return std::chrono::duration<double>(at_ - dynamic_cast<const EmulatedEvent&>(earlier).at_).count();
  }

 private:
  Clock::time_point at_;
};

struct EmulatedGraph final : LaunchGraph {
  explicit EmulatedGraph(std::span<const GridLaunch> all) : launches(all.begin(), all.end()) {}
  std::vector<GridLaunch> launches;
};

class EmulatedRuntime final : public Runtime {
 public:
  const GpuProperties& properties() const override { return properties_; }
  std::uint64_t memory_free() const override { return properties_.memory_total; }
  std::uint64_t allocate(Place, std::size_t bytes) override {
    void* const memory = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment);
    std::memset(memory, 0xcd, bytes);
    return reinterpret_cast<std::uint64_t>(memory);
  }
  void free(Place, std::uint64_t address) noexcept override {
    ::operator delete(reinterpret_cast<void*>(address), kAlignment);
  }
  void write(std::uint64_t to, std::span<const std::byte> bytes) override {
    if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(to), bytes.data(), bytes.size());
  }
  void read(std::uint64_t from, std::span<std::byte> bytes) override {
    if (!bytes.empty()) std::memcpy(bytes.data(), reinterpret_cast<const void*>(from), bytes.size());
  }
  void clear(std::uint64_t at, std::size_t bytes) override {
    std::memset(reinterpret_cast<void*>(at), 0, bytes);
  }
  void copy_in_order(std::uint64_t to, std::span<const std::byte> bytes) override { write(to, bytes); }
  void launch(const GridLaunch& one) override {
    const Index3 grid = {one.grid[0], one.grid[1], one.grid[2]};
    if (launch_kernel(one.launch->kernel, arguments_of(*one.launch), grid, nullptr) != 0)
      throw Error(ErrorCode::kDevice, std::string("there is no kernel ") + gpu::name(one.launch->kernel));
  }
  void launch(const LaunchGraph& graph) override {
    for (const GridLaunch& one : dynamic_cast<const EmulatedGraph&>(graph).launches) launch(one);
  }
  std::unique_ptr<LaunchGraph> make_graph(std::span<const GridLaunch> launches) override {
    return std::make_unique<EmulatedGraph>(launches);
  }
  std::unique_ptr<Event> make_event() override { return std::make_unique<EmulatedEvent>(); }
  void wait_idle() noexcept override {}

 private:
  GpuProperties properties_ = {.name = "emulated GPU",
                               .features = "emulated",
                               .memory_total = std::uint64_t{4} << 30,
                               .is_emulated = true};
};

}  // namespace

std::shared_ptr<Runtime> open_emulated() { return std::make_shared<EmulatedRuntime>(); }

}  // namespace weft::cuda
