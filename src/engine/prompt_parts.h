#pragma once
// Prompts with embedded parts (EmbeddedPart): their checks, and how they are added to a batch.
#include <span>
#include <vector>

#include "weft/context.h"
#include "weft/embedded_part.h"

namespace weft::engine {

/// Throws Error kInvalidArgument if a token outside of parts is not in the vocabulary, or if parts are
/// invalid. Reads only constants of the context, so any thread may call it.
void check_prompt(std::span<const Token> prompt, std::span<const EmbeddedPart> parts, const Context& context);

/// Replaces the tokens of parts in a checked prompt by the parts' ids, as negative tokens. So the prefix
/// cache distinguishes images.
void fold_ids(std::span<Token> prompt, std::span<const EmbeddedPart> parts);

/// The part at this place of a prompt, or null for a token.
const EmbeddedPart* part_at(std::span<const EmbeddedPart> parts, int place);

/// A prompt that begins at position `start` of a sequence, whose earlier parts skipped `n_skipped` positions
/// (GenerateParams). Refers to its arguments.
class PlacedPrompt {
 public:
  PlacedPrompt(std::span<const Token> tokens, std::span<const EmbeddedPart> parts, SeqId seq, Pos start,
               Pos n_skipped = 0);

  /// Adds the token or the part's row at a place to a batch, with these options at its positions.
  void add(int place, Batch& batch, ItemOptions options = {}) const;
  /// Positions that parts skip up to the end of the prompt.
  Pos n_skipped() const { return skipped_.back(); }

 private:
  std::span<const Token> tokens_;
  std::span<const EmbeddedPart> parts_;
  SeqId seq_;
  Pos start_;
  std::vector<Pos> skipped_;  // Before each part, and after the last.
};

/// The axes of a token at `pos`, after parts that have skipped `n_skipped` positions.
AxisPositions axes_of_token(Pos pos, Pos n_skipped);

/// Whether parts skip positions. Tokens after them cannot be shifted over them.
bool any_skips(std::span<const EmbeddedPart> parts);

/// The number of places from `begin` that go into a batch with `n_before` items, if `n` are wanted. A
/// bidirectional part is in the batch as a whole, within the first step, or not at all. More than `n` if such
/// a part comes first and fits; 0 if it comes first and does not fit.
int whole_parts(std::span<const EmbeddedPart> parts, int begin, int n, int n_before, int n_ubatch);

}  // namespace weft::engine
