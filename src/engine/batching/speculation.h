#pragma once
// Speculative decoding: a drafter that is cheaper than the model guesses tokens, and one step checks several
// of them. Wrong guesses are dropped, so the output is the one that the model generates alone.
//
//
// Drafts are checked by drawing. The sampler draws at each drafted position from the logits there, as it
// would without a draft. The draft is right as far as the sampler drew the same tokens. A draft is a tree
// (draft_tree.h) whose branches are sequences. The branch that was right becomes the stream's sequence; no
// cells are copied.
// The length of drafts follows from measured steps. A drafted token pays while its probability of being
// right, divided by its cost in milliseconds, exceeds the tokens per millisecond of current steps. Retrying
// drafts that did not pay takes at most 1 % of the time.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/batching/draft_tree.h"
#include "weft/context.h"

namespace weft::engine {

/// The measured cost of steps: a linear fit of milliseconds over rows, with the most weight on recent steps.
class StepCost {
 public:
  void add(double rows, double ms, double tokens);
  bool known() const { return weight_ > 0.0; }
  double ms_per_row() const;
  double ms_per_step() const;  ///< Without any row.
  double tokens_per_ms() const { return ms_ > 0.0 ? tokens_ / ms_ : 0.0; }

 private:
  double weight_ = 0.0, rows_ = 0.0, ms_ = 0.0, tokens_ = 0.0;  // Decaying sums.
  double rows_squared_ = 0.0, rows_ms_ = 0.0;
};

/// The probability of being right above which a drafted token pays. 1 or more: none pays.
double least_chance(const StepCost& cost, double draft_ms_per_token);

/// A stream to draft for.
struct DraftJob {
  SeqId seq = -1;  ///< The stream's sequence; a drafter may use the id for its own cache.
  std::span<const Token> text;
  DraftTree* draft = nullptr;  ///< Begun by the caller; the drafter grows it.
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Grows the jobs' drafts. A sequence that the drafter has not computed yet gets no draft: the drafter
  /// computes it instead, in total at most `n_to_read` tokens, the shortest rest first. Returns the number of
  /// tokens so computed.
  virtual int draft(std::span<const DraftJob> jobs, int n_to_read) = 0;
  /// Keeps the first n tokens of the sequence.
  virtual void cut(SeqId, int) {}
  /// Drops all sequences.
  virtual void reset() {}
  /// Copies the first n tokens of `from` to `to`.
  virtual void copy(SeqId, SeqId, int) {}
  /// The expected acceptance rates of a stream's guesses, before one was checked.
  virtual DraftOdds first_odds() const { return {}; }
  // Expected cost in milliseconds; 0 if negligible or not known yet.
  /// Per token, if `n_jobs` computed sequences are drafted for together.
  virtual double ms_per_token(int /*n_jobs*/) const { return 0.0; }
  /// To compute the rest of one sequence and draft a token.
  virtual double ms_to_begin(SeqId, std::span<const Token>) const { return 0.0; }
};

/// Prompt lookup: guesses the tokens that followed earlier occurrences of the last few tokens.
std::unique_ptr<Drafter> make_ngram_drafter();
/// A smaller model, with all sequences in one batch: its best and second best token. Throws Error
/// kInvalidArgument if its vocabulary differs from the model's, or if it has too few sequences.
std::unique_ptr<Drafter> make_model_drafter(Context& draft, const Model& model, int n_sequences);

}  // namespace weft::engine
