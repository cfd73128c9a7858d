#pragma once
// How well a model foretells a text: the text is cut into chunks that each begin anew, and of each the second
// half's tokens are scored, which have some text before them.
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
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
struct ChunkChoice {
  int n_ctx = 512;
  int most = 0;  ///< Chunks; below 1: all.
  int skip = 0;  ///< So many of the first.
  bool parse_special = false;
};
/// Throws UsageError where what is left of a text has fewer tokens than two chunks, or than the one that is
/// wanted.
ChunkedText cut_text(const Tokenizer& tokenizer, const std::string& text, const ChunkChoice& choice);
/// As many of the text's chunks as n_batch tokens hold stand in one batch, at least one.
int parallel_chunks(const ChunkedText& text, int n_batch);
/// Cells for so many chunks.
int cells_for(const ChunkedText& text, int n_parallel);

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

/// Throws Error kInvalidArgument where a result would take the place of a file that it is made from.
void refuse_overwriting(const std::filesystem::path& result,
                        std::initializer_list<std::filesystem::path> made_from);

}  // namespace weft::cli
