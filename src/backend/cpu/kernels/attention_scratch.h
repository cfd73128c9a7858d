#pragma once
// How the scratch of one call of attention is divided, for its kernels and attention.cpp. Static constexpr
// arithmetic, so that no shared inline function comes of it.
#include <cstddef>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/cache_layout.h"

namespace weft::cpu {

/// V's dims and the states of query rows are padded to whole vectors of every instruction set.
inline constexpr int kAttentionPad = 16;

struct AttentionScratch {
  // In floats from the start, each a multiple of 16 (64 bytes).
  std::size_t queries;   ///< [m][k_head_dim], scaled; floats, or the operand of K's cells
  std::size_t scores;    ///< [m][64]: scores, then weights of one page
  std::size_t rounded;   ///< [m][64]: the weights as V's cells are multiplied by them, if not as floats
  std::size_t sums;      ///< [m][padded v_head_dim]: weighted V so far
  std::size_t top;       ///< [m]: largest score so far; the next five likewise per query row
  std::size_t total;     ///< sum of e^(score - top) so far
  std::size_t page_top;  ///< the same of one page
  std::size_t page_total;
  std::size_t keep;  ///< factors of a merge: of the sums so far, and of the page
  std::size_t take;
  std::size_t k_page;   ///< [k_head_dim][16] x 4: K of one page as floats
  std::size_t v_page;   ///< [64][padded v_head_dim]
  std::size_t v_words;  ///< [64] x words of a cell: V's words of one page as floats, if it has such
  std::size_t size;
};

static constexpr std::size_t attention_padded(std::size_t n) {
  return (n + kAttentionPad - 1) / kAttentionPad * kAttentionPad;
}

/// For m query rows (batch rows x heads that share a KV head).
static constexpr AttentionScratch attention_scratch(std::size_t m, const CacheLayout& layout) {
  const std::size_t rows = attention_padded(m);
  const std::size_t k_head_dim = to_size(layout.k_head_dim);
  const std::size_t v_dim = attention_padded(to_size(layout.v_head_dim));
  AttentionScratch s{};
  s.queries = 0;
  s.scores = s.queries + rows * k_head_dim;
  s.rounded = s.scores + rows * kPageCells;
  s.sums = s.rounded + rows * kPageCells / 2;
  s.top = s.sums + rows * v_dim;
  s.total = s.top + rows;
  s.page_top = s.total + rows;
  s.page_total = s.page_top + rows;
  s.keep = s.page_total + rows;
  s.take = s.keep + rows;
  s.k_page = s.take + rows;
  s.v_page = s.k_page + kPageCells * k_head_dim;
  s.v_words = s.v_page + kPageCells * v_dim;
  s.size = s.v_words + kPageCells * cache_words(layout.v_type, layout.v_head_dim);
  return s;
}

/// What one page adds up to, before it is merged: for each of m query rows.
struct AttentionPartial {
  // In floats from the start, each a multiple of 16.
  std::size_t top;     ///< [m]: largest score, -infinity where the row sees nothing
  std::size_t total;   ///< [m]: sum of e^(score - top)
  std::size_t values;  ///< [m][padded v_head_dim]: V weighted; undefined where the row sees nothing
  std::size_t size;
};
static constexpr AttentionPartial attention_partial(std::size_t m, std::size_t v_head_dim) {
  const std::size_t rows = attention_padded(m);
  return {0, rows, 2 * rows, 2 * rows + m * attention_padded(v_head_dim)};
}

}  // namespace weft::cpu
