#pragma once
// Perplexity: a document is cut into independent chunks, and the tokens of each chunk's second half are
// scored, which have enough context.
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "terminal/interrupt.h"
#include "weft/context.h"

namespace weft::cli {

/// Consecutive chunks of n_ctx tokens; an incomplete last chunk is not used.
struct ChunkedText {
  int n_ctx = 0;
  std::vector<Token> tokens;
  /// Replaces each chunk's first token during evaluation, if the tokenizer adds a BOS token.
  Token bos = kNoToken;

  int n_chunks() const { return static_cast<int>(tokens.size()) / n_ctx; }
  int n_scored() const { return n_ctx - 1 - n_ctx / 2; }  ///< Of a chunk.
  /// Chunk c's token that row i < n_scored() predicts.
  Token next(int c, int i) const { return tokens[to_size(c * n_ctx + n_ctx / 2 + i + 1)]; }
};
struct ChunkChoice {
  int n_ctx = 512;
  int most = 0;  ///< Chunks; below 1: all.
  int skip = 0;  ///< Number of chunks to skip.
  bool parse_special = false;
};
/// Throws UsageError if fewer tokens are left than two chunks have, or than the single wanted chunk has.
ChunkedText cut_text(const Tokenizer& tokenizer, const std::string& text, const ChunkChoice& choice);
/// How many chunks fit into a batch of n_batch tokens, at least 1.
int parallel_chunks(const ChunkedText& text, int n_batch);
/// Cells for n_parallel chunks.
int cells_for(const ChunkedText& text, int n_parallel);

struct ScoredRow {
  int chunk = 0;
  Token next = kNoToken;
  double log_probability = 0.0;        ///< Of `next`.
  std::span<const float> logits = {};  ///< Empty unless `want_logits`.
};

/// Evaluates all chunks, as many at once as the context has sequences, and calls `on_row` for each row in the
/// document's order. The context must have n_ctx cells for each of them. Throws Error kCancelled after
/// Ctrl-C.
void score_chunks(Context& context, const ChunkedText& text, bool want_logits,
                  const InterruptGuard& interrupt, const std::function<void(const ScoredRow&)>& on_row);

/// Throws Error kInvalidArgument if a result would overwrite one of its input files.
void refuse_overwriting(const std::filesystem::path& result,
                        std::initializer_list<std::filesystem::path> made_from);

}  // namespace weft::cli
