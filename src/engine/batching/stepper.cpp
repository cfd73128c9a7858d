#include "engine/batching/stepper.h"

#include <utility>

#include "engine/batching/service_order.h"

namespace weft::engine {

Stepper::Stepper(Context& context, const BatcherParams& params, Drafter* drafter, PrefixCache& cache,
                 Flights& flights, LiveStreams& live, BatcherStats& counters)
    : flights_(flights),
      live_(live),
      recovery_(context, cache, flights, live, counters),
      log_(params.on_step, counters),
      pace_(params, context.params().n_ubatch),
      drafts_(params, drafter, cache, context),
      masks_(context.model().info().n_vocab),
      sources_(cache, live, pace_),
      builder_(context, pace_, drafts_, masks_),
      reader_(context, cache, live, pace_, drafts_, masks_, counters) {}

void Stepper::step() {
  log_.begin_step();
  ++number_;
  batch_.clear();
  live_.set_concerned(nullptr);
  sources_.begin_step();
  reader_.clear_unsure();
  bool failed = false;
  try {
    compute();
    recovery_.step_succeeded();
  } catch (...) {
    failed = true;
    recovery_.step_failed(what_is_thrown(), batch_, reader_.is_unsure());
  }
  flights_.end_turn();  // Until here, the turn keeps the streams of the batch alive.
  log_.end_step(batch_, sources_.n(), sources_.ms(), failed);
}

void Stepper::compute() {
  live_.drop_branches();  // Left over from a failed step.
  land(count_groups() - 1);
  live_.admit(number_);
  while (live_.background_holds_room()) {
    land();
    live_.preempt_background();
    live_.admit(number_);
  }
  if (const std::vector<StreamPtr> full = live_.full(); !full.empty()) {
    land();
    live_.shift_or_end(full);
  }
  flights_.set_groups(count_groups());  // Counts the newly admitted streams, too.
  land(flights_.n_groups() - 1);
  bool drafts_allowed =
      flights_.n_groups() == 1 && !builder_.any_crowded_out() && tried_alone(live_.running()) == nullptr;
  int n_read_by_drafter = 0;
  DecodeStatus status = sources_.read(number_) ? DecodeStatus::kCacheFull : DecodeStatus::kCancelled;
  while (status == DecodeStatus::kCacheFull) {
    const auto n_running = static_cast<int>(live_.running().size());
    const int n_to_read = n_read_by_drafter == 0 ? pace_.prompt_budget(n_running) : 0;
    n_read_by_drafter += drafts_.write(live_.running(), pace_.cost(), drafts_allowed, n_to_read);
    live_.drop_done();
    flights_.choose_turn(live_.running());
    builder_.build(batch_, live_.running(), flights_.turn(), number_, n_read_by_drafter);
    if (batch_.empty() && flights_.empty()) return;
    status = decode();
    if (status != DecodeStatus::kCacheFull) return;
    // Idle sequences are evicted first, then the drafts of this step dropped. After that, streams are.
    live_.drop_branches();
    if (live_.evict_idle() || std::exchange(drafts_allowed, false)) continue;
    live_.make_room();
  }
}

DecodeStatus Stepper::decode() {
  DecodeStatus status = DecodeStatus::kOk;
  log_.begin_decode();
  masks_.start();
  try {
    status = flights_.decode(batch_);
    // An overlapping batch that was cancelled leaves the others undefined.
    if (status == DecodeStatus::kCancelled && flights_.n_groups() > 1)
      recovery_.evict_damaged("the step was cancelled");
  } catch (...) {
    masks_.wait();
    log_.decode_failed();
    throw;
  }
  masks_.wait();
  const double ms = log_.end_decode();
  if (status == DecodeStatus::kOk) reader_.read(batch_, ms);
  return status;
}

std::size_t Stepper::count_groups() const {
  return builder_.any_crowded_out() ? 1 : flights_.count_groups(live_.running());
}

void Stepper::land(std::size_t n_left) {
  while (flights_.size() > n_left) {
    const auto begin = Clock::now();
    if (flights_.receive(batch_) == DecodeStatus::kOk) {
      reader_.read(batch_, ms_between(begin, Clock::now()));
    } else {
      recovery_.evict_damaged("the step was cancelled");
    }
    batch_.clear();
  }
}

}  // namespace weft::engine
