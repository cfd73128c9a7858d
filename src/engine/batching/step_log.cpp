#include "engine/batching/step_log.h"

namespace weft::engine {

void StepLog::begin_step() {
  begin_ = Clock::now();
  decode_begin_ = decode_end_ = {};
  decode_ms_ = 0.0;
  n_generated_ = counters_.n_generated_tokens;
  n_drafted_ = counters_.n_drafted_tokens;
  n_accepted_ = counters_.n_accepted_tokens;
}

void StepLog::begin_decode() { decode_begin_ = Clock::now(); }

double StepLog::end_decode() {
  decode_end_ = Clock::now();
  decode_ms_ = ms_between(decode_begin_, decode_end_);
  counters_.decode_seconds += decode_ms_ / 1e3;
  return decode_ms_;
}

void StepLog::end_step(const StepBatch& batch, int n_source, double source_ms, bool failed) {
  const auto end = Clock::now();
  const double ms = ms_between(begin_, end);
  counters_.decode_seconds += source_ms / 1e3;
  counters_.host_seconds += (ms - (decode_ms_ + source_ms)) / 1e3;
  counters_.step.add(ms);
  if (!on_step_ || (batch.size() + n_source == 0 && !failed)) return;
  if (decode_begin_ == Clock::time_point{}) decode_begin_ = decode_end_ = end;
  tell({.begin = begin_,
        .end = end,
        .host_before_ms = ms_between(begin_, decode_begin_) - source_ms,
        .decode_ms = ms_between(decode_begin_, decode_end_) + source_ms,
        .host_after_ms = ms_between(decode_end_, end),
        .n_streams = static_cast<int>(batch.shares.size()),
        .n_rows = batch.size() + n_source,
        .n_prompt = batch.n_prompt() + n_source,
        .n_generated = static_cast<int>(counters_.n_generated_tokens - n_generated_),
        .n_drafted = static_cast<int>(counters_.n_drafted_tokens - n_drafted_),
        .n_accepted = static_cast<int>(counters_.n_accepted_tokens - n_accepted_),
        .failed = failed});
}

void StepLog::tell(const StepRecord& record) const noexcept {
  try {
    on_step_(record);
  } catch (...) {  // A throwing callback must not affect streams.
  }
}

}  // namespace weft::engine
