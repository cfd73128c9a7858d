#pragma once
// A stream: one completion of one request, from its prompt to its last token.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/batching/draft_tree.h"
#include "engine/batching/stop_filter.h"
#include "weft/batcher.h"
#include "weft/context.h"
#include "weft/tokenizer.h"

namespace weft::engine {

using Clock = std::chrono::steady_clock;

struct Request {
  RequestId id = 0;
  RequestParams params;
  int n_prompt = 0;
  int max_text = 0;  ///< Tokens that each completion's text may have.
  Clock::time_point submitted;
};

class Stream {
 public:
  /// `rank` and `order` say who goes first: the lower one.
  Stream(std::shared_ptr<const Request> request, int completion, std::span<const Token> prompt,
         const Model& model, std::int64_t rank, std::int64_t order);

  const Request& request() const { return *request_; }
  const RequestParams& params() const { return request_->params; }
  bool goes_before(const Stream& other) const {
    return rank_ != other.rank_ ? rank_ < other.rank_ : order_ < other.order_;
  }
  std::pair<std::int64_t, std::int64_t> key() const { return {rank_, order_}; }

  int n_pending() const { return static_cast<int>(text.size()) - n_computed; }
  std::span<const Token> pending() const {
    return std::span(text).subspan(static_cast<std::size_t>(n_computed));
  }

  /// The steps to come compute no token beyond the first n, if there are more.
  void pause(int n) {
    if (n > n_computed && n < static_cast<int>(text.size()))
      pause_at = pause_at == 0 ? n : std::min(pause_at, n);
  }

  /// How many of the best tokens it draws from; 0: from all logits.
  int n_best() const { return params().n_logprobs >= 0 ? 0 : sampler_.n_best(); }
  /// Draws a token from an item of the last batch, its best tokens or its logits, and adds it to the text.
  /// True where the stream goes on.
  bool draw(const Context& context, int item, bool from_best);
  /// Ends the stream and lets go of what was held back.
  void finish(StopReason reason);
  bool done() const { return done_; }
  /// Whether there is anything to tell.
  bool has_output() const { return done_ || !new_text_.empty() || !new_tokens_.empty(); }
  /// Tells it. False where the receiver wants no more.
  bool deliver();

  std::vector<Token> text;       ///< The prompt and what was drawn, less what was forgotten.
  int n_computed = 0;            ///< Of text: in the cache.
  SeqId seq = -1;                ///< While it runs.
  bool shifted = false;          ///< Something was forgotten: the cache cannot be computed again from text.
  std::vector<std::byte> saved;  ///< The cache of a shifted stream that was set aside.
  int snapshot_at = 0;           ///< Tokens of the text that others may want to begin with; 0: none.
  int pause_at = 0;              ///< The next step computes no token beyond these; 0: no matter.
  DraftTree draft;               ///< Of this step ...
  std::vector<SeqId> branches;   ///< ... a sequence for each of its leaves, the stream's own first.
  DraftOdds odds;                ///< What drafts were worth lately.
  int n_until_probe = 0;         ///< Steps without a draft, before one is tried again.
  CompletionStats stats;

 private:
  bool emit(std::string_view more);

  std::shared_ptr<const Request> request_;
  int completion_;
  const Tokenizer& tokenizer_;
  std::int64_t rank_;
  std::int64_t order_;
  Sampler sampler_;
  Detokenizer detokenizer_;
  StopFilter filter_;
  std::string new_text_;
  std::vector<OutputToken> new_tokens_;
  bool done_ = false;
  StopReason stop_ = StopReason::kEnd;
};

}  // namespace weft::engine
