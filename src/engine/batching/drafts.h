#pragma once
// Drafts in a batcher: how long a draft of each stream pays, the sequences of its branches, and the
// acceptance rates learned from checked drafts.
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/batching/prefix_cache.h"
#include "engine/batching/speculation.h"
#include "engine/batching/stream.h"

namespace weft::engine {

/// The drafter that the parameters select. nullptr if they select none, or if the model cannot drop rejected
/// tokens from its cache.
std::unique_ptr<Drafter> make_drafter(const BatcherParams& params, const Context& context);

class Drafts {
 public:
  /// All arguments must outlive it. Without a drafter, only tokens that constraints force are drafted.
  Drafts(const BatcherParams& params, Drafter* drafter, PrefixCache& cache, const Context& context)
      : params_(params),
        drafter_(drafter),
        cache_(cache),
        n_vocab_(context.model().info().n_vocab),
        can_go_back_(context.cache().cuts_back()),
        recurrent_(context.model().info().recurrent),
        n_states_(n_states(context, params)) {}

  /// Reports a step's time. A share of it may be spent on trying drafts where they did not pay before.
  void add_step(double ms);
  /// Writes a draft (DraftState::tree) for each decoding stream for which it pays; none if drafts are not
  /// `allowed`. A drafter computes at most `n_to_read` tokens that it has not seen yet; returns their number.
  /// A drafter that fails writes nothing, and is disabled after several failures.
  int write(std::span<const StreamPtr> streams, const StepCost& cost, bool allowed, int n_to_read);
  /// Adds a stream's last token and its draft to the batch. A branch is a sequence that shares the stream's
  /// cells. Each token belongs to all branches that contain it. All have these options.
  void add(Batch& batch, Stream& stream, const ItemOptions& options) const;
  /// The stream continues with the branch that contains `node`, as far as it is computed.
  void fold(Stream& stream, int node) const;
  /// The draft has been checked: the drafter's tokens after the first n are invalid.
  void checked(const Stream& stream, int n) const {
    if (drafter_ != nullptr) drafter_->cut(stream.cached.seq(), n);
  }

 private:
  /// A drafter's guesses after forced tokens.
  struct Tail {
    Stream* stream;
    std::vector<Token> text;  // The stream's tokens and the forced ones.
    DraftTree draft;
  };

  /// The most tokens of a stream's draft: no more than the stream may still generate. With recurrent layers
  /// its share of the kept states bounds them, too.
  int most_ahead(const Stream& stream) const;
  /// Begins a stream's draft with the tokens that its constraint forces.
  void force(Stream& stream, const StepCost& cost);
  int ask_drafter(std::span<const StreamPtr> streams, const StepCost& cost, int n_to_read);
  /// The states that models with recurrent layers keep, of the model or its draft model. Nothing for others.
  static std::optional<int> n_states(const Context& context, const BatcherParams& params);
  static void prune(Stream& stream);
  bool tries(Stream& stream, const DraftTree& draft, const StepCost& cost);

  const BatcherParams& params_;
  Drafter* const drafter_;
  PrefixCache& cache_;
  const int n_vocab_;
  const bool can_go_back_;
  const bool recurrent_;
  const std::optional<int> n_states_;  // ContextParams::state_rewind of recurrent models.
  int n_decoding_ = 0;                 // Streams of this step that share these states.
  std::vector<Token> forced_;
  std::vector<DraftJob> jobs_;
  std::vector<Tail> tails_;  // Of this step; jobs_ points into it.
  int n_failures_ = 0;       // Consecutive failures of the drafter.
  struct Trial {
    const DraftTree* draft;
    double ms;
  };
  std::vector<Trial> trials_;  // Of this step.
  double ms_to_try_ = 0.0;
};

}  // namespace weft::engine
