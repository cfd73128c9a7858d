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
  std::vector<Token> prompt;  ///< What its texts begin with: where they are about a source, the first token.
  int max_text = 0;           ///< Tokens that each completion's text may have.
  Pos n_skipped = 0;          ///< Positions that the prompt's parts have skipped.
  Clock::time_point submitted;
};

/// A stream waits, runs (it has a sequence) or is done; PrefixCache gives and takes sequences, Admission
/// keeps those that wait. What it needs to run (its text, its sampler) is made by prepare(), when it runs
/// first.
class Stream {
 public:
  /// `rank` and `order` say who goes first: the lower one.
  Stream(std::shared_ptr<const Request> request, int completion, const Model& model, std::int64_t rank,
         std::int64_t order);

  const Request& request() const { return *request_; }
  const RequestParams& params() const { return request_->params; }
  int completion() const { return completion_; }
  const TextOrigin& origin() const { return request_->origin; }
  bool goes_before(const Stream& other) const { return key() < other.key(); }
  std::pair<std::int64_t, std::int64_t> key() const { return {rank_, order_}; }

  // --- The text

  /// Makes the text, the sampler and the constraint, once. Throws what these throw: nothing has changed then.
  void prepare();
  /// The prompt and what was drawn, less what was forgotten: `text`, once it was prepared.
  std::span<const Token> tokens() const { return writer_ ? text : request_->prompt; }
  /// Tokens that it reads before it can go on, if nothing of them is in the cache.
  std::int64_t n_to_read() const { return std::ssize(tokens()) + std::ssize(origin().source); }
  int n_pending() const { return static_cast<int>(tokens().size()) - n_computed; }
  std::span<const Token> pending() const { return tokens().subspan(static_cast<std::size_t>(n_computed)); }
  /// It reads a prompt (or what it lost): more than the one token that it has drawn last. A part's row was
  /// not drawn.
  bool is_prefilling() const {
    return lacks_source || n_pending() > 1 || is_pooled() || (n_pending() == 1 && tokens().back() < 0);
  }

  /// The steps to come compute no token beyond the first n, if there are more.
  void pause_reading_at(int n) {
    // Not within what is read both ways: that is computed in one step.
    const EmbeddedPart* const part = part_at(params().parts, n);
    if (part != nullptr && part->both_ways && n > part->first) return;
    if (n > n_computed && n < static_cast<int>(tokens().size()))
      pause_at = pause_at == 0 ? n : std::min(pause_at, n);
  }

  // --- Drawing

  /// How many of the best tokens do for its draw, and for what is told of them; 0: all logits are needed.
  int n_best() const;
  /// Whether something of each token of the prompt is still to be told: it is read from its beginning then.
  bool wants_prompt() const { return wants_prompt(stats.n_prompt - 1) || params().pooling == Pooling::kMean; }
  /// Whether it may begin with a cached prefix.
  bool reuses_prefix() const { return params().reuse_prefix && !wants_prompt(); }
  /// Whether that of token n of the text is.
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
  /// Whether its next token but `n_ahead` must be none that ends it.
  bool holds_back_end(int n_ahead) const {
    return !params().ignore_end && stats.n_generated + n_ahead < params().n_min;
  }
  std::span<const Token> end_tokens() const { return model_.tokenizer().end_tokens(); }
  /// Draws a token from an item of the last batch, its best tokens or its logits, of those that are `allowed`
  /// (empty: all), and adds it to the text. True where the stream goes on. Where this throws the sampler is
  /// of no more use: fail().
  bool draw(const Context& context, int item, bool from_best, std::span<const std::uint32_t> allowed);

  /// Nothing is written: its prompt's embedding is wanted.
  bool is_pooled() const { return params().pooling != Pooling::kNone; }
  /// Whether the embedding of token n of the prompt is still to be read.
  bool wants_embedding(int n) const {
    return (params().pooling == Pooling::kMean && n >= n_pooled_) ||
           (params().pooling == Pooling::kLast && n == stats.n_prompt - 1);
  }
  /// An item of the last batch has the next embedding that is wanted.
  void pool(std::span<const float> embedding);

  /// An item of the last batch has the logits of the next prompt token that is to be told.
  void read_prompt(const Context& context, int item, bool from_best);

  // --- Its end

  /// Ends the stream and lets go of what was held back.
  void finish(StopReason reason) noexcept;
  /// Ends it with kError.
  void fail(std::string_view why) noexcept;
  /// Ends it with the exception that is being handled.
  void fail_by_exception() noexcept;
  bool done() const { return done_; }
  StopReason stop() const { return stop_; }
  /// What is missed by now, if anything is.
  bool is_late(Clock::time_point now) const { return now >= deadline(); }
  /// The next of its deadlines that still counts.
  Clock::time_point deadline() const;
  /// Whether there is something to tell that was not told yet.
  bool has_output() const {
    return !told_end_ && (done_ || !new_text_.empty() || !new_tokens_.empty() || !new_prompt_.empty());
  }
  /// Tells it. False where the receiver wants no more. Throws what the receiver throws; it was told then.
  bool deliver();
  bool told_end() const { return told_end_; }

  std::vector<Token> text;       ///< Once prepared: the prompt and what was drawn, less what was forgotten.
  int n_computed = 0;            ///< Of text: in the cache.
  int n_reached = 0;             ///< What n_computed was at most: what it computes below is done again.
  SeqId seq = -1;                ///< While it runs.
  int n_in_flight = 0;           ///< Items that it has in a batch that was begun, and is not read yet.
  bool lacks_source = false;     ///< While it runs: its text is about a source that is not read yet.
  bool knows_source = false;     ///< It has had its source before.
  bool shifted = false;          ///< Something was forgotten: the cache cannot be computed again from text.
  std::vector<std::byte> saved;  ///< The cache of a shifted stream that was preempted.
  int snapshot_at = 0;           ///< Tokens of the text that others may want to begin with; 0: none.
  int pause_at = 0;              ///< The next step computes no token beyond these; 0: no matter.
  std::optional<Clock::time_point> paused;  ///< By its reader, since then.
  std::int64_t served_at = 0;               ///< The step that took some of its prompt last.
  int n_passed = 0;                         ///< Those that were let in before it though it waited longer.
  bool is_suspect = false;                  ///< It was in a batch that failed again when it was retried.
  bool in_outbox = false;
  DraftTree draft;              ///< Of this step ...
  std::vector<SeqId> branches;  ///< ... a sequence for each of its leaves, the stream's own first.
  int n_forced = 0;             ///< Of the draft: its first nodes, which the constraint forces.
  double forced_right = 1.0;    ///< The chance lately that such a one was drawn.
  DraftOdds odds;               ///< What drafts were worth lately.
  int n_until_probe = 0;        ///< Steps without a draft, before one is tried again.
  CompletionStats stats;
  Clock::time_point last_token;  ///< When it drew one.

 private:
  /// What turns logits into text.
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
  int n_prompt_told_ = 0;       // The prompt's last token whose logprob was found; the first one has none.
  std::vector<double> pooled_;  // The sum of embeddings so far ...
  int n_pooled_ = 0;            // ... and of how many.
  bool done_ = false;
  bool told_end_ = false;
  StopReason stop_ = StopReason::kEnd;
  std::string error_;
  bool not_numbers_ = false;
};

using StreamPtr = std::shared_ptr<Stream>;

/// Whether its reader lets it go on.
inline bool goes_on(const StreamPtr& stream) { return !stream->paused; }

}  // namespace weft::engine
