#include "engine/batching/mask_maker.h"

#include <algorithm>
#include <system_error>

#include "base/to_size.h"

namespace weft::engine {

MaskMaker::~MaskMaker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MaskMaker::add(const Stream& stream) {
  if (!stream.needs_mask()) return;
  if (jobs_.empty()) n_masks_ = 0;
  jobs_.push_back({&stream, n_masks_, nullptr, 0});
  n_masks_ += 1 + to_size(stream.draft.tree().size());
}

void MaskMaker::start() {
  if (jobs_.empty()) return;
  masks_.assign(n_masks_ * n_words_, 0);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {  // No further thread is available: slower, with the same result.
      make_all();
      return;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    busy_ = true;
  }
  changed_.notify_all();
}

void MaskMaker::wait() {
  if (jobs_.empty() || !thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !busy_; });
}

void MaskMaker::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return busy_ || ending_; });
    if (ending_) return;
    lock.unlock();
    make_all();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void MaskMaker::make_all() noexcept {
  for (Job& job : jobs_) {
    int node = DraftTree::kRoot;
    try {
      const DraftTree& draft = job.stream->draft.tree();
      for (; node < draft.size(); ++node) {
        draft.path_to(node, path_);
        if (!path_.empty() && job.stream->ends_with(path_.back())) continue;  // Nothing follows an end.
        const std::size_t at = job.first + to_size(node + 1);
        make(*job.stream, std::span(masks_).subspan(at * n_words_, n_words_));
      }
    } catch (...) {
      job.error = std::current_exception();
      job.failed_at = node;
    }
  }
}

/// The mask of the token that follows `path_`.
void MaskMaker::make(const Stream& stream, std::span<std::uint32_t> mask) {
  if (stream.constraint() != nullptr) {
    const std::span<const Token> held = stream.held();
    behind_.assign(held.begin(), held.end());
    behind_.insert(behind_.end(), path_.begin(), path_.end());
    stream.constraint()->fill(behind_, mask);
  } else {
    std::fill(mask.begin(), mask.end(), ~std::uint32_t{0});
  }
  const bool holds_back = stream.holds_back_end(static_cast<int>(path_.size()));
  const std::span<const Token> banned = path_.empty() ? stream.banned_next() : std::span<const Token>();
  if (!holds_back && banned.empty()) return;
  if (n_vocab_ % 32 != 0) mask.back() &= (std::uint32_t{1} << n_vocab_ % 32) - 1;
  const auto is_allowed = [&](Token token) { return (mask[to_size(token) / 32] >> token % 32 & 1u) != 0; };
  const auto set = [&](Token token, bool allowed) {
    std::uint32_t& word = mask[to_size(token) / 32];
    const std::uint32_t bit = std::uint32_t{1} << token % 32;
    word = allowed ? word | bit : word & ~bit;
  };
  for (const Token token : banned) set(token, false);
  if (!holds_back) return;
  std::vector<Token> held_back;
  for (const Token token : stream.ending_tokens())
    if (is_allowed(token)) held_back.push_back(token);
  for (const Token token : held_back) set(token, false);
  // A constraint that allows nothing but the end must be able to end.
  if (std::all_of(mask.begin(), mask.end(), [](std::uint32_t word) { return word == 0; }))
    for (const Token token : held_back) set(token, true);
}

std::span<const std::uint32_t> MaskMaker::mask(const Stream& stream, int node) const {
  const auto job =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& j) { return j.stream == &stream; });
  if (job == jobs_.end()) return {};
  if (job->error && node >= job->failed_at) std::rethrow_exception(job->error);
  const std::size_t at = job->first + to_size(node + 1);
  return std::span(masks_).subspan(at * n_words_, n_words_);
}

}  // namespace weft::engine
