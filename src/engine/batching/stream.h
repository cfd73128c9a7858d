#pragma once
// A stream: one completion of one request, from its prompt to its last token.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/batching/draft_tree.h"
#include "engine/batching/text_origin.h"
#include "engine/prompt_parts.h"
#include "engine/text_writer.h"
#include "weft/batcher.h"
#include "weft/context.h"
#include "weft/tokenizer.h"

namespace weft::engine {

using Clock = std::chrono::steady_clock;

inline double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

struct Request {
  RequestId id = 0;
  RequestParams params;
  TextOrigin origin;
  std::vector<Token> prompt;  ///< The prompt; for encoder-decoder models, the decoder's first token.
  int max_text = 0;           ///< Maximum tokens of prompt and completion together.
  Pos n_skipped = 0;          ///< Positions that the prompt's parts skip.
  Clock::time_point submitted;
};

/// A stream is waiting, running (it has a sequence) or done. PrefixCache assigns sequences; Admission holds
/// waiting streams. prepare() makes the tokens and the sampler when the stream first runs.
class Stream {
 public:
  /// The stream with the lower `rank`, then `order`, goes first.
  Stream(std::shared_ptr<const Request> request, int completion, const Model& model, std::int64_t rank,
         std::int64_t order);

  const Request& request() const { return *request_; }
  const RequestParams& params() const { return request_->params; }
  int completion() const { return completion_; }
  const TextOrigin& origin() const { return request_->origin; }
  bool goes_before(const Stream& other) const { return key() < other.key(); }
  std::pair<std::int64_t, std::int64_t> key() const { return {rank_, order_}; }

  // --- Tokens

  /// Makes the tokens, the sampler and the constraint, once. Strong exception guarantee.
  void prepare();
  /// The prompt and the drawn tokens, without those dropped by context shifts. Equals `text` after prepare().
  std::span<const Token> tokens() const { return writer_ ? text : request_->prompt; }
  /// Tokens to compute before the next draw if none of them is in the cache.
  std::int64_t n_to_read() const { return std::ssize(tokens()) + std::ssize(origin().source); }
  int n_pending() const { return static_cast<int>(tokens().size()) - n_computed; }
  std::span<const Token> pending() const { return tokens().subspan(static_cast<std::size_t>(n_computed)); }
  /// It computes a prompt (or lost tokens): more than the token that it has drawn last. A part's row was not
  /// drawn.
  bool is_prefilling() const {
    return lacks_source || n_pending() > 1 || is_pooled() || (n_pending() == 1 && tokens().back() < 0);
  }

  /// Later steps stop after the first n tokens, if there are more.
  void pause_reading_at(int n) {
    // Not inside a bidirectional part: it is computed in one step.
    const EmbeddedPart* const part = part_at(params().parts, n);
    if (part != nullptr && part->both_ways && n > part->first) return;
    if (n > n_computed && n < static_cast<int>(tokens().size()))
      pause_at = pause_at == 0 ? n : std::min(pause_at, n);
  }

  // --- Drawing

  /// How many of the best tokens suffice for drawing and for the reported logprobs. 0: all logits are needed.
  int n_best() const;
  /// Whether the logprob or embedding of each prompt token is still to be reported. The prompt is computed
  /// from its start then.
  bool wants_prompt() const { return wants_prompt(stats.n_prompt - 1) || params().pooling == Pooling::kMean; }
  /// Whether it may begin with a cached prefix.
  bool reuses_prefix() const { return params().reuse_prefix && !wants_prompt(); }
  /// Whether the logprob of token n is still to be reported.
  bool wants_prompt(int n) const {
    return params().prompt_logprobs && n > n_prompt_told_ && n < stats.n_prompt;
  }
  TokenConstraint* constraint() const { return constraint_.get(); }
  /// Whether the token ends it.
  bool ends_with(Token token) const {
    const std::vector<Token>& stops = params().stop_tokens;
    return (!params().ignore_end && model_.tokenizer().is_end(token)) ||
           std::find(stops.begin(), stops.end(), token) != stops.end();
  }
  /// Whether the token `n_ahead` after the next one must not be one of ending_tokens().
  bool holds_back_end(int n_ahead) const {
    const bool has_ends = !params().ignore_end || !params().stop_tokens.empty();
    return has_ends && stats.n_generated + n_ahead < params().n_min;
  }
  /// The tokens for which ends_with() is true.
  std::vector<Token> ending_tokens() const;
  /// Draws a token from an item of the last batch, among the `allowed` tokens (empty: all), and appends it.
  /// It uses the item's best tokens or its logits. True if the stream continues. If this throws, the sampler
  /// is unusable: call fail().
  bool draw(const Context& context, int item, bool from_best, std::span<const std::uint32_t> allowed);

  /// The request wants its prompt's embedding and generates nothing.
  bool is_pooled() const { return params().pooling != Pooling::kNone; }
  /// Whether the embedding of prompt token n is still to be read.
  bool wants_embedding(int n) const {
    return (params().pooling == Pooling::kMean && n >= n_pooled_) ||
           (params().pooling == Pooling::kLast && n == stats.n_prompt - 1);
  }
  /// Adds the next wanted embedding, read from an item of the last batch.
  void pool(std::span<const float> embedding);

  /// Reads the logprob of the next prompt token from an item of the last batch.
  void read_prompt(const Context& context, int item, bool from_best);

  // --- Its end

  /// Ends the stream and delivers the characters that were held back.
  void finish(StopReason reason) noexcept;
  /// Ends it with kError.
  void fail(std::string_view why) noexcept;
  /// Ends it with the exception that is being handled.
  void fail_by_exception() noexcept;
  bool done() const { return done_; }
  StopReason stop() const { return stop_; }
  /// Whether a deadline has passed.
  bool is_late(Clock::time_point now) const { return now >= deadline(); }
  /// The next deadline that applies.
  Clock::time_point deadline() const;
  /// Whether there is undelivered output.
  bool has_output() const {
    return !told_end_ && (done_ || !new_text_.empty() || !new_tokens_.empty() || !new_prompt_.empty());
  }
  /// Delivers the output. False if the receiver wants no more. Throws what the receiver throws; the output
  /// counts as delivered then.
  bool deliver();
  bool told_end() const { return told_end_; }

  std::vector<Token> text;    ///< After prepare(): the prompt and the drawn tokens, without dropped ones.
  int n_computed = 0;         ///< Tokens of `text` in the cache.
  int n_reached = 0;          ///< The largest n_computed so far: tokens below it are recomputed.
  SeqId seq = -1;             ///< While it runs.
  int n_in_flight = 0;        ///< Its items in a batch that was started and is not read yet.
  bool lacks_source = false;  ///< While it runs: its source is not encoded yet.
  bool knows_source = false;  ///< It had its source before.
  bool shifted = false;       ///< A context shift dropped tokens: the cache cannot be recomputed from `text`.
  std::vector<std::byte> saved;             ///< The cache of a shifted stream that was preempted.
  int snapshot_at = 0;                      ///< Length of a prefix that others may share; 0: none.
  int pause_at = 0;                         ///< The next step stops after this many tokens; 0: no limit.
  std::optional<Clock::time_point> paused;  ///< Since when its reader pauses it.
  std::int64_t served_at = 0;               ///< The last step that computed a part of its prompt.
  int n_passed = 0;                         ///< Streams that passed it in the queue.
  bool is_suspect = false;                  ///< It was in a batch that failed repeatedly.
  bool in_outbox = false;
  DraftTree draft;              ///< Of this step ...
  std::vector<SeqId> branches;  ///< ... a sequence for each of its leaves, the stream's own first.
  int n_forced = 0;             ///< The draft's first nodes, which the constraint forces.
  double forced_right = 1.0;    ///< Recent probability that a forced token was drawn.
  DraftOdds odds;               ///< Recent acceptance rates of drafts.
  int n_until_probe = 0;        ///< Steps until a draft is tried again.
  CompletionStats stats;
  Clock::time_point last_token;  ///< When it drew its last token.

 private:
  /// Turns logits into tokens and characters.
  struct Writer {
    Writer(const Request& request, int completion, const Model& model);
    Sampler sampler;
    TextWriter text;
  };

  OutputToken drawn(const Context& context, int item, bool from_best, Token token) const;

  std::shared_ptr<const Request> request_;
  int completion_;
  const Model& model_;
  std::int64_t rank_;
  std::int64_t order_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<TokenConstraint> constraint_;
  std::string new_text_;
  std::vector<OutputToken> new_tokens_;
  std::vector<OutputToken> new_prompt_;
  int n_prompt_told_ = 0;       // The last prompt token whose logprob was found; the first token has none.
  std::vector<double> pooled_;  // The sum of embeddings so far ...
  int n_pooled_ = 0;            // ... and of how many.
  bool done_ = false;
  bool told_end_ = false;
  StopReason stop_ = StopReason::kEnd;
  std::string error_;
  bool not_numbers_ = false;
};

using StreamPtr = std::shared_ptr<Stream>;

/// Whether its reader has not paused it.
inline bool goes_on(const StreamPtr& stream) { return !stream->paused; }

}  // namespace weft::engine
