#include "observe/step_log.h"

namespace weft::server {

void StepLog::add(const StepRecord& record) {
  if (also_) also_(record);
  const std::lock_guard lock(mutex_);
  steps_.push_back({++n_, record});
  if (steps_.size() > kKept) steps_.pop_front();
}

std::vector<StepLog::Numbered> StepLog::since(std::int64_t number) const {
  const std::lock_guard lock(mutex_);
  std::vector<Numbered> result;
  for (auto it = steps_.rbegin(); it != steps_.rend() && it->number > number; ++it) result.push_back(*it);
  return {result.rbegin(), result.rend()};
}

}  // namespace weft::server
