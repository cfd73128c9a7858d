#pragma once
// Speculation: tokens written ahead by something cheaper than the model, so that one step can check several.
// What the model would not have written is thrown away; what remains is what it would have written alone.
//
// How much pays is measured: a further drafted token is worth its row of a step as long as the chance that it
// is right, per millisecond that it costs, beats what steps bring at present.
//
// Drafts are checked by drawing. The sampler draws at each drafted place with the logits there, as it would
// have done without a draft, and the draft is right as far as it drew the same: equal tokens, not only equal
// chances. A draft is a tree (draft_tree.h) whose branches are sequences; the branch that was right becomes
// the text, no bytes move. How much pays follows from measured steps: a drafted token is worth its row while
// its chance to be right, per millisecond that it costs, beats what steps bring at present. Trying again
// where drafts did not pay has 1 % of the time.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/batching/draft_tree.h"
#include "weft/context.h"

namespace weft::engine {

/// What steps cost, learned from them: milliseconds as a line over rows, the last steps counting most.
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

/// The chance of being right that makes a drafted token worth its row. 1 and more: none is.
double least_chance(const StepCost& cost, double draft_ms_per_token);

/// A text that wants a draft.
struct DraftJob {
  SeqId seq = -1;  ///< The text's sequence; a drafter may keep something under it.
  std::span<const Token> text;
  DraftTree* draft = nullptr;  ///< Begun; grows as far as it is worth it.
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Grows the jobs' drafts. Those whose texts it has yet to read go on reading instead: all together at most
  /// `n_to_read` tokens, the shortest rest first, and get a draft once they have done so.
  /// Returns how many it has read so.
  virtual int draft(std::span<const DraftJob> jobs, int n_to_read) = 0;
  /// Of the sequence's text only the first n tokens still stand.
  virtual void cut(SeqId, int) {}
  /// No text stands any more.
  virtual void reset() {}
  /// `to` begins as `from` does, for n tokens.
  virtual void copy(SeqId, SeqId, int) {}
  // What it is expected to take; 0 where that is nothing to speak of, or not known yet.
  /// Per token, where `n_jobs` texts that it has followed are drafted together.
  virtual double ms_per_token(int /*n_jobs*/) const { return 0.0; }
  /// To follow a text to its end, alone, and draft a token.
  virtual double ms_to_begin(SeqId, std::span<const Token>) const { return 0.0; }
};

/// What followed the last few tokens the last times that they stood in the text.
std::unique_ptr<Drafter> make_ngram_drafter();
/// A smaller model, all texts in one batch: its best token, and the next best beside it. Throws Error
/// kInvalidArgument where its vocabulary is another one than the model's, or it has too few sequences.
std::unique_ptr<Drafter> make_model_drafter(Context& draft, const Model& model, int n_sequences);

}  // namespace weft::engine
