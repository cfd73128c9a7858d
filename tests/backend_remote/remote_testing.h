#pragma once
// Followers in threads of this process, each with its CPU.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/remote/leader.h"
#include "backend/remote/server.h"
#include "backend_remote/queue_link.h"
#include "weft/backend/registry.h"
#include "weft/device.h"
#include "weft/error.h"

namespace weft::test {

inline std::shared_ptr<Device> cpu(int n_threads = 1) {
  return load_backends()->open("cpu", {.n_threads = n_threads});
}

/// What a follower opens in place of its CPU.
using Wrap = std::function<std::shared_ptr<Device>(std::shared_ptr<Device> cpu)>;

/// A CPU with one thread, whatever is asked of it.
inline std::shared_ptr<Registry> registry_of_small_cpu(const Wrap& wrap = {}) {
  auto registry = std::make_shared<Registry>();
  const DeviceInfo info = {
      .name = "cpu", .backend = "cpu", .memory_total = 1u << 30, .memory_free = 1u << 30, .n_threads = 1};
  registry->add({"cpu", [info] { return std::vector{info}; },
                 [wrap](std::string_view, const OpenOptions&) { return wrap ? wrap(cpu()) : cpu(); }});
  return registry;
}

/// Ways between followers, by their ranks. Thread-safe.
class Lines {
 public:
  std::shared_ptr<QueueLink::Way> way(int from, int to) {
    const std::scoped_lock lock(mutex_);
    auto& way = ways_[{from, to}];
    if (way == nullptr) way = std::make_shared<QueueLink::Way>();
    return way;
  }
  /// All bytes that were sent on them.
  std::size_t n_bytes() {
    const std::scoped_lock lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [ends, way] : ways_) {
      const std::scoped_lock of_way(way->mutex);
      sum += way->n_bytes;
    }
    return sum;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<int, int>, std::shared_ptr<QueueLink::Way>> ways_;
};

class RemoteCpu {
 public:
  /// With lines it reaches other followers, as the one of that rank.
  explicit RemoteCpu(const std::string& name = "rank1", remote::Patience patience = {},
                     const std::shared_ptr<Lines>& lines = nullptr, int rank = 0, const Wrap& wrap = {}) {
    remote::Peers::Connect connect;
    if (lines != nullptr)
      connect = [lines, rank](int other) {
        return std::make_unique<QueueLink>(lines->way(rank, other), lines->way(other, rank));
      };
    server_ = std::jthread(
        [there = there_, back = back_, patience, connect, registry = registry_of_small_cpu(wrap)] {
          QueueLink link(back, there);
          try {
            remote::serve(*registry, link, patience, connect);
          } catch (const Error&) {  // A test cut the line.
          }
        });
    follower_ =
        std::make_shared<remote::Follower>(name, std::make_unique<QueueLink>(there_, back_), patience);
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
  /// The same, without an error.
  void hang() const {
    for (const auto& way : {there_, back_}) {
      const std::scoped_lock lock(way->mutex);
      way->silent = true;
    }
  }
  std::string lost() const { return follower_->lost(); }
  const std::shared_ptr<remote::Follower>& follower() const { return follower_; }
  /// Returns once the follower has ended.
  void join() { server_.join(); }

 private:
  const std::shared_ptr<QueueLink::Way> there_ = std::make_shared<QueueLink::Way>();
  const std::shared_ptr<QueueLink::Way> back_ = std::make_shared<QueueLink::Way>();
  std::jthread server_;
  std::shared_ptr<remote::Follower> follower_;  // Ends before the thread that it ends.
  DeviceInfo info_;
};

/// "rank1.cpu", "rank2.cpu", ... in addition to the CPU of this process. With lines, they send to each other.
class RemoteCpus {
 public:
  explicit RemoteCpus(int n, remote::Patience patience = {}, bool have_lines = true, const Wrap& wrap = {}) {
    std::vector<std::shared_ptr<remote::Follower>> followers;
    for (int rank = 1; rank <= n; ++rank) {
      cpus_.push_back(std::make_shared<RemoteCpu>("rank" + std::to_string(rank), patience,
                                                  have_lines ? lines_ : nullptr, rank, wrap));
      followers.push_back(cpus_.back()->follower());
    }
    for (std::size_t i = 0; i < followers.size() && have_lines; ++i)
      followers[i]->meet(static_cast<int>(i) + 1, followers);
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
  ~RemoteCpus() {
    for (const auto& cpu : cpus_) cpu->follower()->part();
  }
  RemoteCpus(const RemoteCpus&) = delete;
  RemoteCpus& operator=(const RemoteCpus&) = delete;

  const std::shared_ptr<Registry>& registry() const { return registry_; }
  RemoteCpu& operator[](std::size_t i) const { return *cpus_[i]; }
  Lines& lines() const { return *lines_; }

 private:
  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
  std::vector<std::shared_ptr<RemoteCpu>> cpus_;
  std::shared_ptr<Registry> registry_ = load_backends();
};

}  // namespace weft::test
