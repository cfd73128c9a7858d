#pragma once
// Followers in threads of this process, each with its CPU.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/remote/leader.h"
#include "backend/remote/server.h"
#include "backend_remote/queue_link.h"
#include "weft/backend/registry.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::test {

inline std::shared_ptr<Device> cpu(int n_threads = 1) {
  return find_backends()->open("cpu", {.n_threads = n_threads});
}

/// A CPU with one thread, whatever is asked of it.
inline std::shared_ptr<Registry> registry_of_small_cpu() {
  auto registry = std::make_shared<Registry>();
  const DeviceInfo info = {
      .name = "cpu", .backend = "cpu", .memory_total = 1u << 30, .memory_free = 1u << 30, .n_threads = 1};
  registry->add({"cpu", [info] { return std::vector{info}; },
                 [](std::string_view, const OpenOptions&) { return cpu(); }});
  return registry;
}

class RemoteCpu {
 public:
  explicit RemoteCpu(const std::string& name = "rank1", remote::Patience patience = {}) {
    server_ = std::jthread([there = there_, back = back_, patience, registry = registry_of_small_cpu()] {
      QueueLink link(back, there);
      try {
        remote::serve(*registry, link, patience);
      } catch (const Error&) {  // A test cut the line.
      }
    });
    follower_ =
        std::make_unique<remote::Follower>(name, std::make_unique<QueueLink>(there_, back_), patience);
    info_ = follower_->devices().front();
    info_.name = name + "." + info_.name;
    info_.backend = "remote";
  }

  const DeviceInfo& info() const { return info_; }
  std::shared_ptr<Device> open(const OpenOptions& options = {}) const {
    return follower_->open(follower_->devices().front(), options, info_);
  }
  /// Bytes that went to the follower so far.
  std::size_t bytes_sent() const {
    const std::scoped_lock lock(there_->mutex);
    return there_->n_bytes;
  }
  /// From now on nothing gets through.
  void cut() const {
    for (const auto& way : {there_, back_}) {
      const std::scoped_lock lock(way->mutex);
      way->broken = true;
      way->news.notify_all();
    }
  }
  /// The same, and nobody is told.
  void hang() const {
    for (const auto& way : {there_, back_}) {
      const std::scoped_lock lock(way->mutex);
      way->silent = true;
    }
  }
  std::string lost() const { return follower_->lost(); }
  /// Returns once the follower has ended.
  void join() { server_.join(); }

 private:
  const std::shared_ptr<QueueLink::Way> there_ = std::make_shared<QueueLink::Way>();
  const std::shared_ptr<QueueLink::Way> back_ = std::make_shared<QueueLink::Way>();
  std::jthread server_;
  std::unique_ptr<remote::Follower> follower_;  // Ends before the thread that it ends.
  DeviceInfo info_;
};

/// "rank1.cpu", "rank2.cpu", ... beside the CPU of this process.
class RemoteCpus {
 public:
  explicit RemoteCpus(int n) {
    for (int rank = 1; rank <= n; ++rank)
      cpus_.push_back(std::make_shared<RemoteCpu>("rank" + std::to_string(rank)));
    registry_->add(
        {"remote",
         [cpus = cpus_] {
           std::vector<DeviceInfo> infos;
           for (const auto& cpu : cpus) infos.push_back(cpu->info());
           return infos;
         },
         [cpus = cpus_](std::string_view name, const OpenOptions& options) -> std::shared_ptr<Device> {
           for (const auto& cpu : cpus)
             if (cpu->info().name == name) return cpu->open(options);
           return nullptr;
         }});
  }
  const std::shared_ptr<Registry>& registry() const { return registry_; }
  RemoteCpu& operator[](std::size_t i) const { return *cpus_[i]; }

 private:
  std::vector<std::shared_ptr<RemoteCpu>> cpus_;
  std::shared_ptr<Registry> registry_ = find_backends();
};

}  // namespace weft::test
