#pragma once
// Drafts in a batcher: how far it pays to write ahead of each stream, the branches that a draft takes in the
// cache, and what was learned from those that were checked.
#include <memory>
#include <span>
#include <vector>

#include "engine/batching/prefix_cache.h"
#include "engine/batching/speculation.h"
#include "engine/batching/stream.h"

namespace weft::engine {

/// What writes ahead as the parameters say; nullptr where nothing does, or the model cannot go back behind a
/// draft that was wrong.
std::unique_ptr<Drafter> make_drafter(const BatcherParams& params, const Context& context);

class Drafts {
 public:
  /// All must outlive it; without a drafter there are drafts of what constraints force only.
  Drafts(const BatcherParams& params, Drafter* drafter, PrefixCache& cache, const Context& context)
      : params_(params),
        drafter_(drafter),
        cache_(cache),
        n_vocab_(context.model().info().n_vocab),
        can_go_back_(!context.model().info().recurrent) {}

  /// Tells of a step's time: a share of it may go on trying whether drafts would pay where they did not.
  void add_step(double ms);
  /// A draft (Stream::draft) for each stream that is about to write and for which it pays; none where they
  /// are not `allowed`. A drafter reads at most `n_to_read` tokens of texts that it does not know yet;
  /// returns how many those were. A drafter that fails writes nothing, and after some times never again.
  int write(std::span<const StreamPtr> streams, const StepCost& cost, bool allowed, int n_to_read);
  /// Adds a stream's last token and the tree that stands behind it: a branch is a sequence, which shares the
  /// text, and each token belongs to all branches that go through it. All of them want logits.
  void add(Batch& batch, Stream& stream) const;
  /// What followed `node` was drawn: `right` of its guesses, or none of them (DraftTree::kNone).
  static void learn(Stream& stream, int node, int right);
  /// The stream goes on with the branch that `node` is on, as far as it is computed.
  void fold(Stream& stream, int node) const;
  /// The text has been checked: what a drafter has kept beyond its first n tokens is no longer so.
  void checked(const Stream& stream, int n) const {
    if (drafter_ != nullptr) drafter_->cut(stream.seq, n);
  }

 private:
  /// What the drafter writes behind forced tokens.
  struct Tail {
    Stream* stream;
    std::vector<Token> text;  // The stream's, with these tokens.
    DraftTree draft;
  };

  /// A stream's draft begins with what its constraint forces.
  void force(Stream& stream, const StepCost& cost);
  int ask_drafter(std::span<const StreamPtr> streams, const StepCost& cost, int n_to_read);
  static void prune(Stream& stream);
  bool tries(Stream& stream, const DraftTree& draft, const StepCost& cost);

  const BatcherParams& params_;
  Drafter* const drafter_;
  PrefixCache& cache_;
  const int n_vocab_;
  const bool can_go_back_;
  std::vector<Token> forced_;
  std::vector<DraftJob> jobs_;
  std::vector<Tail> tails_;  // Of this step; jobs point into it.
  int n_failures_ = 0;       // Of the drafter, one after another.
  struct Trial {
    const DraftTree* draft;
    double ms;
  };
  std::vector<Trial> trials_;  // Of this step.
  double ms_to_try_ = 0.0;
};

}  // namespace weft::engine
