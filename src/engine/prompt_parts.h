#pragma once
// Prompts with parts that are no tokens (EmbeddedPart): what they must be, and how they come into a batch.
#include <span>
#include <vector>

#include "weft/context.h"
#include "weft/embedded_part.h"

namespace weft::engine {

/// Throws Error kInvalidArgument where a prompt's tokens are outside the vocabulary, but those in the places
/// of parts, or parts are not as they must be. Reads only what never changes of the context: any thread.
void check_prompt(std::span<const Token> prompt, std::span<const EmbeddedPart> parts, const Context& context);

/// The part that has this place of a prompt, or null where it is a token.
const EmbeddedPart* part_at(std::span<const EmbeddedPart> parts, int place);

/// A prompt that begins at position `start` of a sequence, behind what has skipped `n_skipped` positions
/// (GenerateParams). Refers to what it is given.
class PlacedPrompt {
 public:
  PlacedPrompt(std::span<const Token> tokens, std::span<const EmbeddedPart> parts, SeqId seq, Pos start,
               Pos n_skipped = 0);

  /// Adds what stands at a place to a batch.
  void add(int place, Batch& batch, bool logits) const;
  /// Of what stands behind all of it.
  Pos n_skipped() const { return skipped_.back(); }

 private:
  std::span<const Token> tokens_;
  std::span<const EmbeddedPart> parts_;
  SeqId seq_;
  Pos start_;
  std::vector<Pos> skipped_;  // Before each part, and behind the last.
};

/// Adds a token that stands at `pos`, behind so many positions that parts have skipped.
void add_token(Batch& batch, Token token, SeqId seq, bool logits, Pos pos, Pos n_skipped);

/// Whether parts skip positions: what stands behind them cannot be shifted over them.
bool any_skips(std::span<const EmbeddedPart> parts);

/// How many places from `begin` go into a batch that has `n_before` items, if `n` are wanted: a part that is
/// read both ways is in it as a whole, within the first step, or not at all. More than `n` where such a part
/// comes first and fits; 0 where it comes first and there is no room.
int whole_parts(std::span<const EmbeddedPart> parts, int begin, int n, int n_before, int n_ubatch);

}  // namespace weft::engine
