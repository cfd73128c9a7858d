#pragma once
// Simulates a machine of many cores as far as the thread pool depends on it. The model has the cores that
// wrote and read each cache line, the cost of a line from another core, and the threads that wait. It is
// deterministic.
//
// A read that misses takes the line from the nearest core that has it. A write takes it from all others and
// lasts as long as the farthest needs. One line serves one request after another: a write holds it for as
// long as it lasts, a read for kReadHold of that. A thread that spins on a line requests it again after each
// write. Independent requests overlap, at most Machine::overlap at a time: lines that a stealing thread
// reads, and stores without a waiting thread.
//
// Stamps have 64 bits here and do not wrap around. The pool's stamps do, which its own tests cover.
//
// Latencies are assumptions: common figures of servers, none of them measured by us.
#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "base/pool.h"

namespace weft::lab {

/// The cores, in groups that share an L3, on sockets. Times in nanoseconds.
struct Machine {
  int n_cores = 2;
  int group_size = 8;
  int n_sockets = 1;
  double hit = 1.0, locked = 6.0;  // Costs of a load and of a locked instruction on a line that the core has.
  double in_group = 25.0, in_socket = 90.0, across = 200.0;  // For a line of another core.
  int overlap = 8;                                           // Independent requests of one core.
  double pause = 30.0;                                       // Between two reads of a spinning thread.

  int group_of(int core) const { return core / group_size; }
  int n_groups() const { return (n_cores + group_size - 1) / group_size; }
  double latency(int a, int b) const {
    if (group_of(a) == group_of(b)) return in_group;
    const int per_socket = (n_cores + n_sockets - 1) / n_sockets;
    return a / per_socket == b / per_socket ? in_socket : across;
  }
};

struct Line {
  std::uint64_t value = 0;
  std::vector<int> held_by;  // Cores with a copy; one alone may write.
  double free_at = 0.0;
  std::vector<std::pair<std::coroutine_handle<>, int>> spinning;  // The coroutines with their cores.
};

class Simulator {
 public:
  static constexpr double kReadHold = 0.25;

  explicit Simulator(const Machine& machine) : machine_(machine), store_at_(machine.n_cores, 0.0) {}

  struct Thread {
    struct promise_type {
      std::exception_ptr failure;
      std::coroutine_handle<> caller;
      Thread get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
      std::suspend_always initial_suspend() noexcept { return {}; }
      auto final_suspend() noexcept {
        struct Back {
          bool await_ready() noexcept { return false; }
          std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> own) noexcept {
            return own.promise().caller ? own.promise().caller : std::noop_coroutine();
          }
          void await_resume() noexcept {}
        };
        return Back{};
      }
      void return_void() {}
      void unhandled_exception() { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
    // A part of a thread's work is waited for by the thread.
    bool await_ready() const { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const {
      handle.promise().caller = caller;
      return handle;
    }
    void await_resume() const { handle.destroy(); }
  };

  double now() const { return now_; }
  /// Lines that came from another core.
  std::uint64_t n_transfers() const { return n_transfers_; }
  /// Lines that came from a core of another group.
  std::uint64_t n_far() const { return n_far_; }

  void start(const Thread& thread, double at) { wake(thread.handle, at); }
  void run() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.handle.resume();
    }
  }

  struct Sleep {
    Simulator& s;
    double until;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { s.wake(handle, until); }
    void await_resume() const {}
  };
  Sleep work(double ns) { return {*this, now_ + ns}; }

  /// The value that was read, or was there before a write.
  struct Access {
    Sleep sleep;
    std::uint64_t value;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const { sleep.await_suspend(handle); }
    std::uint64_t await_resume() const { return value; }
  };
  Access load(int core, Line& line) {
    const double end = take(core, line, false, now_);
    return {{*this, end}, line.value};
  }
  template <typename F>
  Access update(int core, Line& line, F f) {
    const double end = take(core, line, true, now_) + machine_.locked;
    const std::uint64_t before = line.value;
    line.value = f(before);
    return {{*this, end}, before};
  }
  Access add(int core, Line& line, std::uint64_t n) {
    return update(core, line, [n](std::uint64_t value) { return value + n; });
  }
  /// Continues at once, unless the core has too many stores in flight.
  Sleep store(int core, Line& line, std::uint64_t value) {
    const double begin = std::max(now_, store_at_[static_cast<std::size_t>(core)]);
    const double end = take(core, line, true, begin);
    line.value = value;
    store_at_[static_cast<std::size_t>(core)] = begin + (end - begin) / machine_.overlap;
    return {*this, std::max(now_ + machine_.hit, store_at_[static_cast<std::size_t>(core)])};
  }
  /// Reads several lines that do not depend on each other.
  Sleep load_all(int core, const std::vector<Line*>& lines) {
    double end = now_;
    for (std::size_t i = 0; i < lines.size();) {
      double last = end;
      for (int k = 0; k < machine_.overlap && i < lines.size(); ++k, ++i)
        last = std::max(last, take(core, *lines[i], false, end));
      end = last;
    }
    return {*this, end};
  }
  /// Waits until another core writes to the line, and then until the next read.
  struct Change {
    Simulator& s;
    Line& line;
    int core;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) const {
      if (s.has(core, line))
        line.spinning.emplace_back(handle, core);
      else  // It was written to since it was read.
        s.look_again(handle, core, s.now_);
    }
    void await_resume() const {}
  };
  Change change(int core, Line& line) { return {*this, line, core}; }

 private:
  struct Event {
    double at;
    std::uint64_t number;
    std::coroutine_handle<> handle;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  void wake(std::coroutine_handle<> handle, double at) { events_.push({at, n_events_++, handle}); }

  void look_again(std::coroutine_handle<> handle, int core, double at) {
    const std::uint64_t x = hash(n_events_, static_cast<std::uint64_t>(core));
    wake(handle, at + machine_.pause * static_cast<double>(x % 16) / 16.0);
  }
  static bool has(int core, const Line& line) {
    return std::find(line.held_by.begin(), line.held_by.end(), core) != line.held_by.end();
  }

  /// The time when the core has the line, for reading or writing.
  double take(int core, Line& line, bool write, double at) {
    if (has(core, line) && (!write || line.held_by.size() == 1)) return at + machine_.hit;
    double nearest = 1e9, farthest = 0.0;
    for (const int other : line.held_by) {
      if (other == core) continue;
      nearest = std::min(nearest, machine_.latency(core, other));
      farthest = std::max(farthest, machine_.latency(core, other));
    }
    if (line.held_by.empty()) nearest = farthest = machine_.in_socket;  // Memory's.
    const double cost = write ? farthest : nearest;
    ++n_transfers_;
    n_far_ += cost > machine_.in_group;
    const double begin = std::max(at, line.free_at);
    line.free_at = begin + (write ? cost : cost * kReadHold);
    if (write) {
      line.held_by.assign(1, core);
      for (const auto& [handle, of] : line.spinning) look_again(handle, of, line.free_at);
      line.spinning.clear();
    } else {
      line.held_by.push_back(core);
    }
    return begin + cost;
  }

 public:
  static std::uint64_t hash(std::uint64_t a, std::uint64_t b) {
    std::uint64_t x = a * 0x9e3779b97f4a7c15u + b + 1;
    x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 29);
  }

 private:
  const Machine machine_;
  std::priority_queue<Event> events_;
  std::vector<double> store_at_;  // By core: when it can take the next store.
  double now_ = 0.0;
  std::uint64_t n_events_ = 0, n_transfers_ = 0, n_far_ = 0;
};

/// The variant of the pool.
struct Scheme {
  /// One counter per phase that all threads read. For each run the caller sets it and all shares, each on its
  /// own line. Each run of tasks is counted separately. False: as in base/pool.h.
  bool per_phase = false;
  int group_size = 1 << 20;  // Threads of a group; more than there are: one group.
  double patience = 1900.0;  // The time before a thread looks at other groups' shares.
  bool in_order = true;      // Threads of a group run on cores of one L3; otherwise anywhere.
};

/// The simulated load.
struct Load {
  int n_phases = 64;
  int tasks_per_thread = 8;
  double task_ns = 1000.0;
  double noise = 0.1;    // Part of task_ns, up or down.
  int late_thread = -1;  // Begins its run so much later ...
  double late_ns = 0.0;
  std::vector<double> slowness;  // By thread; empty: all 1.
  int n_with_shares = 0;         // Threads that have shares; 0: all.
  bool others_help = false;      // The others are helpers (base/pool.h); otherwise they are idle.
};

struct Outcome {
  double run_ns = 0.0;     // All phases, and what the caller does before.
  double before_ns = 0.0;  // Of that: before the first phase.
  double transfers = 0.0;  // A phase.
  double far = 0.0;
  double work_ns = 0.0;  // The time of the tasks if all threads are always busy.
  double over_ns() const { return run_ns - work_ns; }
};

/// The pool's threads.
class PoolModel {
 public:
  PoolModel(const Machine& machine, const Scheme& scheme, const Load& load)
      : machine_(machine),
        scheme_(scheme),
        load_(load),
        n_threads_(machine.n_cores),
        n_groups_((n_threads_ + scheme.group_size - 1) / scheme.group_size),
        sim_(machine),
        shares_(static_cast<std::size_t>(scheme.per_phase ? load.n_phases * n_threads_ : n_threads_)),
        phases_(static_cast<std::size_t>(load.n_phases)),
        tasks_(static_cast<std::size_t>(load.n_phases)),
        groups_(static_cast<std::size_t>(n_groups_)),
        released_(static_cast<std::size_t>(n_groups_)) {
    core_of_.resize(static_cast<std::size_t>(n_threads_));
    for (int t = 0; t < n_threads_; ++t) core_of_[static_cast<std::size_t>(t)] = t;
    if (!scheme.in_order)
      for (int t = n_threads_; t-- > 1;)
        std::swap(
            core_of_[static_cast<std::size_t>(t)],
            core_of_[Simulator::hash(7, static_cast<std::uint64_t>(t)) % static_cast<std::uint64_t>(t + 1)]);
  }

  /// The second of two runs: lines then lie where the first has left them.
  Outcome run() {
    Outcome outcome;
    double begin = 0.0;
    std::uint64_t transfers = 0, far = 0;
    for (run_ = 0; run_ < 2; ++run_) {
      begin = sim_.now();
      transfers = sim_.n_transfers();
      far = sim_.n_far();
      end_ = 0.0;
      std::vector<Simulator::Thread> threads;
      for (int t = 0; t < n_threads_; ++t) {
        threads.push_back(thread(t));
        sim_.start(threads.back(), begin);
      }
      sim_.run();
      for (const Simulator::Thread& each : threads) each.handle.destroy();
      outcome.run_ns = end_ - begin;
      outcome.before_ns = begun_ - begin;
    }
    outcome.transfers = static_cast<double>(sim_.n_transfers() - transfers) / load_.n_phases;
    outcome.far = static_cast<double>(sim_.n_far() - far) / load_.n_phases;
    double speed = 0.0, work = 0.0;
    for (int t = 0; t < n_threads_; ++t) speed += has_share(t) || load_.others_help ? 1.0 / slowness(t) : 0.0;
    for (int p = 0; p < load_.n_phases; ++p)
      for (int task = 0; task < n_tasks(); ++task) work += task_ns(p, task);
    outcome.work_ns = work / speed;
    return outcome;
  }

 private:
  using Thread = Simulator::Thread;
  int n_tasks() const { return load_.tasks_per_thread * n_threads_; }
  int n_with_shares() const { return load_.n_with_shares > 0 ? load_.n_with_shares : n_threads_; }
  bool has_share(int thread) const { return thread < n_with_shares(); }
  int first_task(int thread) const {
    return static_cast<int>(std::int64_t{n_tasks()} * std::min(thread, n_with_shares()) / n_with_shares());
  }
  double slowness(int thread) const {
    return load_.slowness.empty() ? 1.0 : load_.slowness[static_cast<std::size_t>(thread)];
  }
  double task_ns(int phase, int task) const {
    const auto x = static_cast<double>(
        Simulator::hash(static_cast<std::uint64_t>(phase), static_cast<std::uint64_t>(task)) % 1000);
    return load_.task_ns * (1.0 + load_.noise * (x / 500.0 - 1.0));
  }
  int core(int thread) const { return core_of_[static_cast<std::size_t>(thread)]; }
  int group(int thread) const { return thread / scheme_.group_size; }
  int first_of(int group) const { return std::min(group * scheme_.group_size, n_threads_); }
  Line& share(int phase, int thread) {
    return shares_[static_cast<std::size_t>(scheme_.per_phase ? phase * n_threads_ + thread : thread)];
  }
  std::uint64_t stamp(int phase) const {
    return static_cast<std::uint64_t>(run_ * load_.n_phases + phase + 1);
  }
  static std::uint64_t pack(std::uint64_t stamp, int value) {
    return stamp << 32 | static_cast<std::uint32_t>(value);
  }
  /// The first unclaimed task of a share.
  int next_of(std::uint64_t word, int phase, int owner) const {
    if (word >> 32 > stamp(phase)) return first_task(owner + 1);  // The phase is over.
    return word >> 32 == stamp(phase) ? static_cast<int>(word & 0xffffffffu) : first_task(owner);
  }
  std::uint64_t target(int phase, int n) const {
    return static_cast<std::uint64_t>(run_ * load_.n_phases + phase + 1) * static_cast<std::uint64_t>(n);
  }

  Thread set_up() {
    if (scheme_.per_phase) {
      for (int p = 0; p < load_.n_phases; ++p) {
        co_await sim_.store(core(0), phases_[static_cast<std::size_t>(p)], target(p, n_tasks()) - n_tasks());
        for (int t = 0; t < n_threads_; ++t)
          co_await sim_.store(core(0), share(p, t), pack(stamp(p), first_task(t)));
        co_await sim_.store(core(0), tasks_[static_cast<std::size_t>(p)], stamp(p));
      }
    } else {
      for (int p = 0; p < load_.n_phases; p += 8)  // So many words of a line.
        co_await sim_.store(core(0), tasks_[static_cast<std::size_t>(p)], stamp(p));
    }
    begun_ = sim_.now();
    co_await sim_.store(core(0), epoch_, static_cast<std::uint64_t>(run_) + 1);
  }

  Thread run_share(int phase, int owner, int thread) {
    Line& line = share(phase, owner);
    const int end = first_task(owner + 1);
    int done = 0;
    std::uint64_t word = co_await sim_.load(core(thread), line);
    for (;;) {
      const int first = next_of(word, phase, owner);
      if (first >= end) break;
      const auto n =
          static_cast<int>(base::tasks_at_once(static_cast<std::uint32_t>(end - first), !has_share(thread)));
      if (n == 0) break;
      const std::uint64_t seen = word;
      word = co_await sim_.update(core(thread), line, [&](std::uint64_t value) {
        return value == seen ? pack(stamp(phase), first + n) : value;
      });
      if (word != seen) continue;
      double ns = 0.0;
      for (int task = first; task < first + n; ++task) ns += task_ns(phase, task);
      co_await sim_.work(ns * slowness(thread));
      if (scheme_.per_phase)
        co_await sim_.add(core(thread), phases_[static_cast<std::size_t>(phase)], n);
      else if ((done += n, first + n == end))
        break;
      word = co_await sim_.load(core(thread), line);
    }
    if (done == 0) co_return;
    const int g = group(owner);
    const int of_group = first_task(first_of(g + 1)) - first_task(first_of(g));
    const std::uint64_t before = co_await sim_.add(core(thread), groups_[static_cast<std::size_t>(g)],
                                                   static_cast<std::uint64_t>(done));
    if (n_groups_ == 1 || before + static_cast<std::uint64_t>(done) < target(phase, of_group)) co_return;
    const std::uint64_t all = co_await sim_.add(core(thread), root_, static_cast<std::uint64_t>(of_group));
    if (all + static_cast<std::uint64_t>(of_group) < target(phase, n_tasks())) co_return;
    for (int i = 0; i < n_groups_; ++i)
      co_await sim_.store(core(thread), released_[static_cast<std::size_t>((group(thread) + i) % n_groups_)],
                          target(phase, n_tasks()));
  }

  /// Looks at the shares of `n` threads from `first` on, in a ring that begins at `start`.
  Thread steal(int phase, int first, int n, int start, int thread) {
    std::vector<Line*> lines;
    for (int i = 0; i < n; ++i) {
      const int owner = first + (start - first + i) % n;
      if (owner != thread) lines.push_back(&share(phase, owner));
    }
    co_await sim_.load_all(core(thread), lines);
    for (int i = 0; i < n; ++i) {
      const int owner = first + (start - first + i) % n;
      if (owner != thread && next_of(share(phase, owner).value, phase, owner) < first_task(owner + 1))
        co_await run_share(phase, owner, thread);
    }
  }

  Thread thread(int thread) {
    if (thread == 0) {
      co_await set_up();
    } else {
      while (co_await sim_.load(core(thread), epoch_) != static_cast<std::uint64_t>(run_) + 1)
        co_await sim_.change(core(thread), epoch_);
    }
    if (thread == load_.late_thread) co_await sim_.work(load_.late_ns);
    const int own = group(thread), first = first_of(own), n_own = first_of(own + 1) - first;
    for (int p = 0; p < load_.n_phases; ++p) {
      co_await sim_.load(core(thread), tasks_[static_cast<std::size_t>(scheme_.per_phase ? p : p / 8 * 8)]);
      Line& line = scheme_.per_phase ? phases_[static_cast<std::size_t>(p)]
                   : n_groups_ == 1  ? groups_[0]
                                     : released_[static_cast<std::size_t>(own)];
      const std::uint64_t done = target(p, n_tasks());
      if (has_share(thread)) {
        co_await run_share(p, thread, thread);
        co_await steal(p, first, n_own, thread, thread);
        if (n_groups_ > 1) {
          const double until = sim_.now() + scheme_.patience;
          while (co_await sim_.load(core(thread), line) < done && sim_.now() < until)
            co_await sim_.work(machine_.pause);
          for (int i = 1; i < n_groups_ && co_await sim_.load(core(thread), line) < done; ++i) {
            const int other = (own + i) % n_groups_;
            co_await steal(p, first_of(other), first_of(other + 1) - first_of(other), first_of(other),
                           thread);
          }
        }
      }
      if (!has_share(thread) && load_.others_help)
        co_await steal(p, 0, n_with_shares(), (thread - n_with_shares()) % n_with_shares(), thread);
      while (co_await sim_.load(core(thread), line) < done) co_await sim_.change(core(thread), line);
    }
    if (thread == 0) end_ = sim_.now();
  }

  const Machine machine_;
  const Scheme scheme_;
  const Load load_;
  const int n_threads_, n_groups_;
  Simulator sim_;
  Line epoch_, root_;
  std::vector<Line> shares_, phases_, tasks_, groups_, released_;
  std::vector<int> core_of_;  // By thread.
  int run_ = 0;
  double begun_ = 0.0, end_ = 0.0;
};

}  // namespace weft::lab
