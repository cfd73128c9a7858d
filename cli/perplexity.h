#pragma once
// How well a model foretells a text: the text is cut into chunks that each begin anew, and of each the second
// half's tokens are scored, which have some text before them.
#include <functional>
#include <span>
#include <vector>

#include "interrupt.h"
#include "weft/context.h"

namespace weft::cli {

/// Chunks of so many tokens, one behind another; what is left at the end is not read.
struct ChunkedText {
  int n_ctx = 0;
  std::vector<Token> tokens;
  /// Takes the place of each chunk's first token when it is read, where the tokenizer adds one to texts.
  Token bos = kNoToken;

  int n_chunks() const { return static_cast<int>(tokens.size()) / n_ctx; }
  int n_scored() const { return n_ctx - 1 - n_ctx / 2; }  ///< Of a chunk.
  /// Chunk c's token that the row i < n_scored() foretells.
  Token next(int c, int i) const { return tokens[static_cast<std::size_t>(c * n_ctx + n_ctx / 2 + i + 1)]; }
};
/// Throws UsageError where a text has fewer tokens than two chunks, or than the one that is wanted.
/// most_chunks < 1: all.
ChunkedText cut_text(const Tokenizer& tokenizer, const std::string& text, int n_ctx, int most_chunks);

struct ScoredRow {
  int chunk = 0;
  Token next = kNoToken;
  double log_probability = 0.0;        ///< Of `next`.
  std::span<const float> logits = {};  ///< Empty unless they are wanted.
};

/// Reads chunk after chunk, as many at once as the context has sequences, and tells of each row in the text's
/// order. The context must have n_ctx cells for each of them. Throws Error kCancelled after Ctrl-C.
void score_chunks(Context& context, const ChunkedText& text, bool want_logits,
                  const InterruptGuard& interrupt, const std::function<void(const ScoredRow&)>& on_row);

}  // namespace weft::cli
