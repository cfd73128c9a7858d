#pragma once
// A stream: one completion of one request, from its prompt to its last token.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/to_size.h"
#include "engine/batching/banned_strings.h"
#include "engine/batching/cache_state.h"
#include "engine/batching/draft_state.h"
#include "engine/batching/prefill_stops.h"
#include "engine/batching/request.h"
#include "engine/batching/schedule.h"
#include "engine/batching/stream_output.h"
#include "engine/prompt_parts.h"
#include "engine/text_writer.h"
#include "weft/batcher.h"
#include "weft/context.h"
#include "weft/tokenizer.h"

namespace weft::engine {

/// A stream is waiting, running (it has a sequence) or done. PrefixCache assigns sequences; Admission holds
/// waiting streams. prepare() makes the tokens and the sampler when the stream first runs. Its parts
/// (`cached`, `schedule`, `stops`, `draft`) belong to the classes that change them. The model must outlive
/// it.
class Stream {
 public:
  Stream(std::shared_ptr<const Request> request, int completion, const Model& model, Schedule::Key key);

  const Request& request() const { return *request_; }
  const RequestParams& params() const { return request_->params; }
  int completion() const { return completion_; }
  const TextOrigin& origin() const { return request_->origin; }
  bool is_background() const { return params().priority <= kBackgroundPriority; }
  bool goes_before(const Stream& other) const { return schedule.key() < other.schedule.key(); }

  // --- Tokens

  /// Makes the tokens, the sampler and the constraint, once. Strong exception guarantee.
  void prepare();
  /// The prompt and the drawn tokens, without those dropped by context shifts.
  std::span<const Token> tokens() const { return writer_ ? text_ : request_->prompt; }
  /// The tokens that may come from a cache: the last one is always computed, for its logits.
  std::span<const Token> all_but_last() const { return tokens().first(tokens().size() - 1); }
  /// The same after prepare(), and empty before.
  const std::vector<Token>& text() const { return text_; }
  /// A context shift has dropped the `n` tokens after the first `keep` from the cache.
  void forget(int keep, int n);
  /// Tokens to compute before the next draw if none of them is in the cache.
  std::int64_t n_to_read() const { return std::ssize(tokens()) + std::ssize(origin().source); }
  int n_pending() const { return static_cast<int>(tokens().size()) - cached.n_computed(); }
  std::span<const Token> pending() const { return tokens().subspan(to_size(cached.n_computed())); }
  /// It computes a prompt (or lost tokens): more than the token that it has drawn last. A part's row was not
  /// drawn.
  bool is_prefilling() const {
    return cached.lacks_source() || n_pending() > 1 || is_pooled() ||
           (n_pending() == 1 && tokens().back() < 0);
  }
  /// Later steps stop after the first n tokens, if there are more.
  void pause_reading_at(int n);
  /// The next step stops where a snapshot is to be left, and nowhere else.
  void reset_stops() {
    stops.clear_next();
    for (const int n : stops.snapshots()) pause_reading_at(n);
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
    return params().prompt_logprobs && n > new_.n_prompt_found && n < stats.n_prompt;
  }
  TokenConstraint* constraint() const { return writer_ ? writer_->constraint.get() : nullptr; }
  /// The last tokens that the constraint has not accepted yet: they may begin a banned string.
  std::span<const Token> held() const { return writer_ ? writer_->banned.held() : std::span<const Token>(); }
  /// Tokens that banned strings exclude from the next draw.
  std::span<const Token> banned_next() const {
    return writer_ ? writer_->banned.banned_next() : std::span<const Token>();
  }
  /// Whether the next token, or one after a node of its draft, is drawn with a mask.
  bool needs_mask() const;
  /// Whether the token ends it.
  bool ends_with(Token token) const {
    const std::vector<Token>& ends = params().stop_tokens;
    return (!params().ignore_end && model_.tokenizer().is_end(token)) ||
           std::find(ends.begin(), ends.end(), token) != ends.end();
  }
  /// Whether the token `n_ahead` after the next one must not be one of ending_tokens().
  bool holds_back_end(int n_ahead) const {
    const bool has_ends = !params().ignore_end || !params().stop_tokens.empty();
    return has_ends && stats.n_generated + n_ahead < params().n_min;
  }
  /// The tokens for which ends_with() is true.
  std::vector<Token> ending_tokens() const;
  /// Draws a token from an item of the last batch, among the `allowed` tokens (empty: all), and appends it.
  /// It uses the item's best tokens or its logits. True if the stream continues. If a banned string was
  /// complete, tokens() ends before it, and its last tokens may be computed already. If this throws, the
  /// sampler is unusable: call fail().
  bool draw(const Context& context, int item, bool from_best, std::span<const std::uint32_t> allowed);

  /// The request wants its prompt's embedding and generates nothing.
  bool is_pooled() const { return params().pooling != Pooling::kNone; }
  /// Whether the embedding of prompt token n is still to be read.
  bool wants_embedding(int n) const {
    return (params().pooling == Pooling::kMean && n >= new_.pooled.n()) ||
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
  void fail(std::string_view why, bool not_numbers = false) noexcept;
  /// Ends it with the exception that is being handled.
  void fail_by_exception() noexcept;
  bool done() const { return ending_.done(); }
  StopReason stop() const { return ending_.reason(); }
  /// Whether a deadline has passed.
  bool is_late(Clock::time_point now) const { return now >= deadline(); }
  /// The next deadline that applies.
  Clock::time_point deadline() const;
  /// Whether there is undelivered output.
  bool has_output() const { return !ending_.delivered() && (done() || !new_.empty()); }
  /// Delivers the output. False if the receiver wants no more. Throws what the receiver throws; the output
  /// counts as delivered then.
  bool deliver();
  /// Whether its end was delivered.
  bool end_delivered() const { return ending_.delivered(); }
  bool in_outbox() const { return new_.in_outbox; }
  void set_in_outbox(bool in_outbox) { new_.in_outbox = in_outbox; }

  CompletionStats stats;
  CacheState cached;
  Schedule schedule;
  PrefillStops stops;
  DraftState draft;

 private:
  /// Turns logits into tokens and characters.
  struct Writer {
    Writer(const Request& request, int completion, const Model& model);
    Sampler sampler;
    BannedStrings banned;
    TextWriter text;
    std::unique_ptr<TokenConstraint> constraint;
  };

  OutputToken drawn(const Context& context, int item, bool from_best, Token token) const;
  bool draws_nothing(std::span<const std::uint32_t> allowed) const;
  /// Moves held tokens to the output: all, or the certain ones. False if a stop string has ended the
  /// stream.
  bool release(bool all);
  bool deliver_token(OutputToken token);
  bool drop_last(int n);

  const std::shared_ptr<const Request> request_;
  const int completion_;
  const Model& model_;
  std::unique_ptr<Writer> writer_;
  std::vector<Token> text_;
  NewOutput new_;
  Ending ending_;
};

using StreamPtr = std::shared_ptr<Stream>;

/// Whether it takes part in steps: its client has not paused it, and it does not yield to others.
inline bool goes_on(const StreamPtr& stream) { return !stream->schedule.rests(); }

}  // namespace weft::engine
