#include "models/embedding_service.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "weft/batcher.h"
#include "weft/error.h"

namespace weft::server {
namespace {

constexpr double kRetryMs = 1000.0;

/// What goes wrong in telling one client must not end the others' thread.
void tell(const EmbeddingRequest& request, std::vector<float> values,
          const std::exception_ptr& error) noexcept try {
  request.done(std::move(values), error);
} catch (...) {
}

}  // namespace

EmbeddingService::EmbeddingService(Embedder embedder, int n_waiting)
    : embedder_(std::move(embedder)),
      max_tokens_(embedder_.max_tokens()),
      dimensions_(embedder_.dimensions()),
      n_scores_(embedder_.n_scores()),
      n_waiting_most_(n_waiting),
      thread_([this] { work(); }) {}

EmbeddingService::~EmbeddingService() { shutdown(); }

void EmbeddingService::submit(EmbeddingRequest request) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) throw Error(ErrorCode::kUnavailable, "the server is going down");
    if (n_waiting_most_ > 0 && waiting_.size() >= static_cast<std::size_t>(n_waiting_most_))
      throw OverloadedError(std::to_string(waiting_.size()) +
                                " requests wait already, which is as many as may; come back later",
                            kRetryMs);
    waiting_.push_back({std::move(request), 0, {}});
  }
  changed_.notify_all();
}

void EmbeddingService::drain(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, at_most, [&] { return waiting_.empty() || stopped_; });
}

void EmbeddingService::shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

// Each request gets the same number of tokens, in turns: the ones in front get what others leave.
std::vector<EmbeddingService::Share> EmbeddingService::next_step() {
  std::vector<Share> shares;
  const EmbeddingRequest& first = waiting_.front().request;
  for (Waiting& waiting : waiting_)
    if (waiting.request.scores == first.scores && waiting.request.pooling == first.pooling)
      shares.push_back({&waiting, 0});
  std::size_t n_tokens = 0;
  for (bool more = true; more;) {
    more = false;
    for (Share& share : shares) {
      const std::vector<TokenPair>& texts = share.waiting->request.texts;
      const std::size_t next = share.waiting->n_read + share.n_texts;
      if (next == texts.size()) continue;
      if (n_tokens > 0 && n_tokens + texts[next].tokens.size() > Embedder::kTokensOfStep) continue;
      n_tokens += texts[next].tokens.size();
      ++share.n_texts;
      more = true;
    }
  }
  std::erase_if(shares, [](const Share& share) { return share.n_texts == 0; });
  return shares;
}

void EmbeddingService::compute(const std::vector<Share>& shares) {
  std::vector<TextTokens> texts;
  for (const Share& share : shares)
    for (std::size_t i = 0; i < share.n_texts; ++i) {
      const TokenPair& text = share.waiting->request.texts[share.waiting->n_read + i];
      texts.push_back({text.tokens, text.second});
    }
  const EmbeddingRequest& first = shares.front().waiting->request;
  const std::vector<float> values =
      first.scores ? embedder_.score(texts) : embedder_.embed(texts, first.pooling);
  const auto n_columns = static_cast<std::size_t>(first.scores ? n_scores_ : dimensions_);
  auto from = values.begin();
  for (const Share& share : shares) {
    const auto end = from + static_cast<std::ptrdiff_t>(share.n_texts * n_columns);
    share.waiting->values.insert(share.waiting->values.end(), from, end);
    from = end;
  }
}

void EmbeddingService::end_those_read(std::exception_ptr error, const std::vector<Share>& shares) {
  std::vector<Waiting> ended, abandoned;
  {
    const std::lock_guard lock(mutex_);
    for (const Share& share : shares)
      share.waiting->n_read =
          error == nullptr ? share.waiting->n_read + share.n_texts : share.waiting->request.texts.size();
    // Who got a share goes behind those that did not.
    std::deque<Waiting> others, served;
    for (Waiting& waiting : waiting_) {
      const bool got = std::ranges::any_of(shares, [&](const Share& s) { return s.waiting == &waiting; });
      if (waiting.n_read == waiting.request.texts.size()) {
        ended.push_back(std::move(waiting));
      } else if (waiting.request.is_abandoned && waiting.request.is_abandoned()) {
        abandoned.push_back(std::move(waiting));
      } else {
        (got ? served : others).push_back(std::move(waiting));
      }
    }
    waiting_ = std::move(others);
    std::ranges::move(served, std::back_inserter(waiting_));
  }
  changed_.notify_all();
  for (Waiting& waiting : ended) tell(waiting.request, std::move(waiting.values), error);
  const auto cancelled = std::make_exception_ptr(Error(ErrorCode::kCancelled, "nobody waits for it"));
  for (Waiting& waiting : abandoned) tell(waiting.request, {}, cancelled);
}

void EmbeddingService::work() {
  for (;;) {
    std::vector<Share> shares;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
      if (stopped_) break;
      shares = next_step();
    }
    std::exception_ptr error;
    try {
      compute(shares);
    } catch (...) {
      error = std::current_exception();
    }
    end_those_read(error, shares);
  }
  const std::exception_ptr error =
      std::make_exception_ptr(Error(ErrorCode::kUnavailable, "the server is going down"));
  for (Waiting& waiting : waiting_) tell(waiting.request, {}, error);
  waiting_.clear();
}

}  // namespace weft::server
