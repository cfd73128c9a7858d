#pragma once
// Builds the batch of a step: decoding streams with their drafts, then as many prompt tokens as the step's
// time allows.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/batching/drafts.h"
#include "engine/batching/mask_maker.h"
#include "engine/batching/step_batch.h"
#include "engine/batching/step_pace.h"
#include "engine/batching/stream.h"

namespace weft::engine {

/// Used by one thread.
class BatchBuilder {
 public:
  /// The arguments must outlive it. `masks` receives the streams of the batch that need masks.
  BatchBuilder(const Context& context, const StepPace& pace, const Drafts& drafts, MaskMaker& masks)
      : context_(context), pace_(pace), drafts_(drafts), masks_(masks) {}

  /// Builds the batch of step number `step` for the streams of `turn`, a part of the `running` ones. It
  /// computes fewer prompt tokens by the `n_read_by_drafter` tokens that the drafter has computed in this
  /// step. Throws only for lack of memory.
  void build(StepBatch& batch, std::span<const StreamPtr> running, std::span<const StreamPtr> turn,
             std::int64_t step, int n_read_by_drafter);
  /// Whether a stream waits for a step of its own.
  bool any_crowded_out() const { return crowded_out_ != nullptr; }

 private:
  void add_drafts(StepBatch& batch) const;
  void add_prompts(StepBatch& batch, std::int64_t step, int n_read_by_drafter);
  /// The tokens of a stream's prompt that the next step may compute, at most `n_most`. Adds to
  /// `n_whole_rows` the tokens that need complete rows of logits.
  int n_to_compute(const Stream& stream, int n_most, int& n_whole_rows) const;
  void add_prompt(StepBatch& batch, Stream& stream, int n) const;
  /// The options of an item from which the stream's next token, or a token after a draft, is drawn.
  ItemOptions for_drawing(const Stream& stream) const;
  bool finds_logprobs(const Stream& stream) const;
  /// The options of the item before prompt token `next`, whose logprob is reported.
  ItemOptions for_prompt(const Stream& stream, int next) const;
  /// The options of a decoding stream's last token.
  ItemOptions of_last(const Stream& stream) const;

  const Context& context_;
  const StepPace& pace_;
  const Drafts& drafts_;
  MaskMaker& masks_;
  std::vector<Stream*> reading_;  // Streams of this step that read a prompt.
  /// A stream whose next part must be computed in one step and did not fit into the last one. It gets the
  /// next step alone. Only an address: the stream may be gone.
  const Stream* crowded_out_ = nullptr;
};

}  // namespace weft::engine
