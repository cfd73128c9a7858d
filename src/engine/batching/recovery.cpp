#include "engine/batching/recovery.h"

#include <cstddef>
#include <exception>
#include <utility>

namespace weft::engine {
namespace {

/// Steps that may fail one after another before each stream is tried alone.
constexpr int kFailuresTogether = 2;

}  // namespace

void Recovery::step_failed(std::string_view why, const StepBatch& batch, bool results_unsure) noexcept {
  ++counters_.n_failed_steps;
  live_.tell_all();  // Tokens drawn before the failure are valid.
  if (suspend_if_lost(why)) return;
  ++n_failures_;
  if (n_failures_ >= kFailuresTogether) blame(why, batch);
  recover(why, results_unsure);
}

bool Recovery::other_failed(std::string_view why, bool results_unsure) noexcept {
  if (suspend_if_lost(why)) return true;
  recover(why, results_unsure);
  return false;
}

void Recovery::recover(std::string_view why, bool results_unsure) noexcept {
  try {
    if (!results_unsure && !cache_.is_broken()) return evict_damaged(why);
  } catch (const std::exception&) {  // Everything is recomputed then.
  }
  rebuild(why);
}

/// If only one stream took part in the step, it fails. Otherwise all streams of the step run alone from now
/// on.
void Recovery::blame(std::string_view why, const StepBatch& batch) noexcept {
  const std::vector<Share>& shares = batch.shares;
  if (shares.size() == 1 && flights_.empty()) return shares.front().stream->fail(why);
  for (const Share& share : shares) share.stream->schedule.set_suspect(true);
  flights_.for_each_stream([](Stream& stream) { stream.schedule.set_suspect(true); });
  if (!shares.empty() || !flights_.empty()) return;
  StreamPtr stream = live_.concerned();
  if (stream == nullptr && !live_.running().empty()) stream = live_.running().front();
  if (stream != nullptr) stream->fail(why);
}

void Recovery::evict_damaged(std::string_view why) {
  live_.drop_branches();
  flights_.drop();
  for (std::size_t i = live_.running().size(); i-- > 0;) {
    const StreamPtr stream = live_.running()[i];
    if (take_back(*stream) && context_.cache().intact(stream->cached.seq())) continue;
    if (stream->cached.shifted()) {
      stream->fail(why);
    } else {
      live_.wait_again(stream);
    }
  }
  cache_.evict_damaged();
  live_.drop_done();
  live_.drop_done_waiting();
}

bool Recovery::take_back(Stream& stream) {
  CacheState& cached = stream.cached;
  if (!cached.land()) return true;
  if (!context_.cache().can_cut(cached.seq(), cached.n_computed())) return false;
  context_.cache().remove(cached.seq(), cached.n_computed());
  return true;
}

void Recovery::rebuild(std::string_view why) noexcept {
  ++counters_.n_rebuilt;
  flights_.drop();
  live_.give_up_sequences();
  for (const StreamPtr& stream : live_.running())
    if (stream->cached.shifted()) stream->fail(why);
  try {
    cache_.reset();
  } catch (const std::exception& error) {
    live_.fail_all(error.what());
  }
  live_.drop_done();
  live_.drop_done_waiting();
  live_.all_wait_again();
}

// --- Lost devices

bool Recovery::suspend_if_lost(std::string_view why) noexcept {
  try {
    suspended_ = suspended_ || (devices_lost_ && devices_lost_());
  } catch (...) {  // Treat it as any other failure.
  }
  if (suspended_) rebuild(why);
  return suspended_;
}

void Recovery::begin_renewal() noexcept {
  if (!std::exchange(suspended_, true)) rebuild("the devices that had its cells are lost");
}

void Recovery::renewed() {
  cache_.reset();
  n_failures_ = 0;
  suspended_ = false;
}

}  // namespace weft::engine
