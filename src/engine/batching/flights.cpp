#include "engine/batching/flights.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace weft::engine {
namespace {

/// Rows of a group: fewer cost a CPU nearly as much. (2, 4 and 8 rows of a model of 94 MB: 4.5, 5.2 and 9.0
/// ms.)
constexpr int kLeastRows = 4;

bool takes_part(const StreamPtr& stream) { return !stream->schedule.yields(); }

/// A stream can be in flight if its next batch does not depend on results of the current one. Masks are made
/// for one batch at a time.
bool can_fly(const Stream& stream) {
  return !stream.schedule.paused() && !stream.schedule.is_suspect() && !stream.cached.lacks_source() &&
         stream.params().parts.empty() && stream.constraint() == nullptr && !stream.holds_back_end(0) &&
         std::ssize(stream.text()) < stream.request().max_text;
}

}  // namespace

Flights::Flights(BatchRunner& runner, int n_running) : runner_(runner) { turn_.reserve(to_size(n_running)); }

std::size_t Flights::count_groups(std::span<const StreamPtr> running) const {
  const auto grounded = [](const StreamPtr& stream) { return takes_part(stream) && !can_fly(*stream); };
  if (std::ranges::any_of(running, grounded)) return 1;
  const auto n = to_size(std::ranges::count_if(running, takes_part));
  return std::clamp<std::size_t>(n / kLeastRows, 1, to_size(runner_.n_at_once()));
}

void Flights::choose_turn(std::span<const StreamPtr> running) {
  turn_.clear();
  // Streams left out now take part in the next batches, so groups have equal sizes.
  const auto share = [](std::size_t n, std::size_t of) { return (n + of - 1) / of; };
  const auto is_free = [](const StreamPtr& stream) {
    return takes_part(stream) && stream->cached.n_in_flight() == 0;
  };
  const auto n_parts = to_size(std::ranges::count_if(running, takes_part));
  const auto n_free = to_size(std::ranges::count_if(running, is_free));
  const std::size_t n_most = std::min(share(n_parts, n_groups_), share(n_free, n_groups_ - flights_.size()));
  for (const StreamPtr& stream : running)
    if (is_free(stream) && turn_.size() < n_most) turn_.push_back(stream);
}

DecodeStatus Flights::decode(StepBatch& batch) {
  if (n_groups_ == 1) return runner_.decode(batch.items);
  flights_.reserve(n_groups_);
  const bool begins = !batch.empty();
  const DecodeStatus status = begins ? runner_.begin(batch.items) : DecodeStatus::kOk;
  if (begins && status == DecodeStatus::kOk) take_off(batch);
  // Batches in flight are read before room is made: their streams may end and free cells.
  const bool lacks_room = status == DecodeStatus::kCacheFull && !flights_.empty();
  if (lacks_room || (status == DecodeStatus::kOk && (!begins || flights_.size() == n_groups_)))
    return receive(batch);
  return status;
}

void Flights::take_off(StepBatch& batch) noexcept {
  for (const Share& share : batch.shares) share.stream->cached.start(share.n);
  flights_.push_back(std::exchange(batch, {}));
}

DecodeStatus Flights::receive(StepBatch& batch) {
  batch.clear();
  const DecodeStatus status = runner_.finish();
  if (status != DecodeStatus::kOk) return status;
  batch = std::move(flights_.front());
  flights_.erase(flights_.begin());
  batch.drop_left();
  for (const Share& share : batch.shares) share.stream->cached.land();
  return status;
}

void Flights::leave(Stream& stream) {
  if (!stream.cached.land()) return;
  for (StepBatch& flight : flights_) flight.leave(stream);
}

void Flights::drop() noexcept {
  if (flights_.empty()) return;
  runner_.drop_begun();
  flights_.clear();
}

void Flights::for_each_stream(const std::function<void(Stream&)>& f) const {
  for (const StepBatch& flight : flights_)
    for (const Share& share : flight.shares)
      if (share.stream != nullptr) f(*share.stream);
}

}  // namespace weft::engine
