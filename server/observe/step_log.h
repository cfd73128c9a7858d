#pragma once
// The last steps of a model's batcher, for the live page, and all of them for a trace.
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/batcher.h"

namespace weft::server {

/// Any number of threads.
class StepLog {
 public:
  /// `also` gets every step too, on the batcher's thread. It may be null.
  explicit StepLog(std::function<void(const StepRecord&)> also) : also_(std::move(also)) {}

  void add(const StepRecord& record);
  struct Numbered {
    std::int64_t number = 0;
    StepRecord record;
  };
  /// The steps after this number, as far as they are kept.
  std::vector<Numbered> since(std::int64_t number) const;

 private:
  const std::function<void(const StepRecord&)> also_;
  static constexpr std::size_t kKept = 1024;
  mutable std::mutex mutex_;
  std::deque<Numbered> steps_;
  std::int64_t n_ = 0;
};

}  // namespace weft::server
