// Overlapping steps, for contexts whose devices can work on several batches (Context::begin). The running
// streams are divided into groups. While devices compute the later layers of some groups' batches, the host
// computes the first layers of another one. A group's tokens are drawn after the batches of all other groups
// have started.
#include <algorithm>

#include "engine/batching/batcher_impl.h"

namespace weft {
namespace {

using engine::Stream;
using engine::StreamPtr;

/// Rows of a group: fewer cost a CPU nearly as much. (2, 4 and 8 rows of a model of 94 MB: 4.5, 5.2 and 9.0
/// ms.)
constexpr int kLeastRows = 4;

/// A stream can be in flight if its next batch does not depend on results of the current one. Masks are made
/// for one batch at a time.
bool can_fly(const Stream& stream) {
  return !stream.paused && !stream.is_suspect && !stream.lacks_source && stream.params().parts.empty() &&
         stream.constraint() == nullptr && !stream.holds_back_end(0) &&
         std::ssize(stream.text) < stream.request().max_text;
}

}  // namespace

std::size_t Batcher::Impl::count_groups() const {
  if (crowded_out != nullptr ||
      !std::ranges::all_of(running, [](const StreamPtr& stream) { return can_fly(*stream); }))
    return 1;
  return std::clamp<std::size_t>(running.size() / kLeastRows, 1,
                                 static_cast<std::size_t>(context.n_at_once()));
}

void Batcher::Impl::choose_turn() {
  turn.clear();
  // Streams left out now take part in the next batches, so groups have equal sizes.
  const auto share = [](std::size_t n, std::size_t of) { return (n + of - 1) / of; };
  const auto n_free = static_cast<std::size_t>(
      std::ranges::count(running, 0, [](const StreamPtr& stream) { return stream->n_in_flight; }));
  const std::size_t n_most =
      std::min(share(running.size(), n_groups), share(n_free, n_groups - flights.size()));
  for (const StreamPtr& stream : running)
    if (stream->n_in_flight == 0 && turn.size() < n_most) turn.push_back(stream);
}

DecodeStatus Batcher::Impl::decode() {
  if (n_groups == 1) return context.decode(batch);
  flights.reserve(n_groups);
  const bool begins = batch.size() > 0;
  DecodeStatus status = begins ? context.begin(batch) : DecodeStatus::kOk;
  if (begins && status == DecodeStatus::kOk) take_off();
  // Batches in flight are read before room is made: their streams may end and free cells.
  const bool lacks_room = status == DecodeStatus::kCacheFull && !flights.empty();
  if (lacks_room || (status == DecodeStatus::kOk && (!begins || flights.size() == n_groups)))
    status = receive();
  if (status == DecodeStatus::kCancelled) give_up_unsound("the step was cancelled");
  return status;
}

void Batcher::Impl::take_off() noexcept {
  for (const Share& share : shares) share.stream->n_in_flight = share.n;
  flights.push_back({std::exchange(batch, {}), std::exchange(shares, {}), std::exchange(n_decoding, 0)});
}

DecodeStatus Batcher::Impl::receive() {
  clear_batch();
  const DecodeStatus status = context.finish();
  if (status != DecodeStatus::kOk) return status;
  batch = std::move(flights.front().batch);
  shares = std::move(flights.front().shares);
  n_decoding = flights.front().n_decoding;
  flights.erase(flights.begin());
  std::erase_if(shares, [](const Share& share) { return share.stream == nullptr; });
  for (const Share& share : shares) share.stream->n_in_flight = 0;
  return status;
}

void Batcher::Impl::land(std::size_t n_left) {
  while (flights.size() > n_left) {
    const auto begin = engine::Clock::now();
    if (receive() == DecodeStatus::kOk) {
      read_all(engine::ms_between(begin, engine::Clock::now()));
    } else {
      give_up_unsound("the step was cancelled");
    }
    clear_batch();
  }
}

void Batcher::Impl::leave_flight(Stream& stream) {
  if (std::exchange(stream.n_in_flight, 0) == 0) return;
  for (Flight& flight : flights)
    for (Share& share : flight.shares)
      if (share.stream == &stream) share.stream = nullptr;
}

void Batcher::Impl::drop_flights() noexcept {
  if (flights.empty()) return;
  context.drop_begun();
  flights.clear();
}

bool Batcher::Impl::take_back(Stream& stream) {
  if (std::exchange(stream.n_in_flight, 0) == 0) return true;
  if (!context.can_cut(stream.seq, stream.n_computed)) return false;
  context.remove(stream.seq, stream.n_computed);
  return true;
}

}  // namespace weft
