// Steps that overlap, where a context's devices can be at two batches (Context::begin): those that run are
// two groups, and while devices are at the later layers of one group's batch the host is at the first layers
// of the other's. A group's tokens are drawn when the other one's batch has been begun.
#include <algorithm>

#include "engine/batching/batcher_impl.h"

namespace weft {
namespace {

using engine::Stream;
using engine::StreamPtr;

/// Fewer rows than half of these cost a CPU as much as twice as many.
constexpr int kLeastToOverlap = 8;

/// What is known of a stream when its batch is begun must be enough until that is read. Masks are made for
/// one batch at a time.
bool can_fly(const Stream& stream) {
  return !stream.paused && !stream.is_suspect && !stream.lacks_source && stream.params().parts.empty() &&
         stream.constraint() == nullptr && !stream.holds_back_end(0) &&
         std::ssize(stream.text) < stream.request().max_text;
}

}  // namespace

bool Batcher::Impl::may_overlap() const {
  return static_cast<int>(running.size()) >= kLeastToOverlap && crowded_out == nullptr &&
         context.overlaps() &&
         std::ranges::all_of(running, [](const StreamPtr& stream) { return can_fly(*stream); });
}

void Batcher::Impl::choose_turn() {
  turn.clear();
  // Those that are left out now go with the next batch: no more than half can be in flight then.
  const std::size_t n_most = overlapping ? (running.size() + 1) / 2 : running.size();
  for (const StreamPtr& stream : running)
    if (stream->n_in_flight == 0 && turn.size() < n_most) turn.push_back(stream);
}

DecodeStatus Batcher::Impl::decode() {
  if (!overlapping) return context.decode(batch);
  DecodeStatus status = batch.size() > 0 ? context.begin(batch) : context.finish();
  if (status == DecodeStatus::kCacheFull && flight.any) {
    // What is on its way is read first: it may make room.
    clear_batch();
    status = context.finish();
  }
  if (status == DecodeStatus::kOk) exchange_flight();
  if (status == DecodeStatus::kCancelled) give_up_unsound("the step was cancelled");
  return status;
}

void Batcher::Impl::exchange_flight() {
  for (const Share& share : flight.shares)
    if (share.stream != nullptr) share.stream->n_in_flight = 0;
  for (const Share& share : shares) share.stream->n_in_flight = share.n;
  std::swap(batch, flight.batch);
  std::swap(shares, flight.shares);
  std::swap(n_decoding, flight.n_decoding);
  std::erase_if(shares, [](const Share& share) { return share.stream == nullptr; });
  flight.any = flight.batch.size() > 0;
}

void Batcher::Impl::land() {
  if (!flight.any) return;
  const auto begin = engine::Clock::now();
  clear_batch();
  if (context.finish() == DecodeStatus::kOk) {
    exchange_flight();
    read_all(engine::ms_between(begin, engine::Clock::now()));
  } else {
    give_up_unsound("the step was cancelled");
  }
  clear_batch();
}

void Batcher::Impl::leave_flight(Stream& stream) {
  if (std::exchange(stream.n_in_flight, 0) == 0) return;
  for (Share& share : flight.shares)
    if (share.stream == &stream) share.stream = nullptr;
}

void Batcher::Impl::drop_flight() noexcept {
  if (!std::exchange(flight.any, false)) return;
  context.drop_begun();
  flight.batch.clear();
  flight.shares.clear();
}

bool Batcher::Impl::take_back(Stream& stream) {
  if (std::exchange(stream.n_in_flight, 0) == 0) return true;
  if (!context.can_cut(stream.seq, stream.n_computed)) return false;
  context.remove(stream.seq, stream.n_computed);
  return true;
}

}  // namespace weft
