// Sizes of the K and V cache and of the scratch of each kind of attention: the same for every instruction
// set.
#include "backend/cpu/kernels/attention_scratch.h"
#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu {

std::size_t k_page_bytes(const CacheLayout& layout) {
  return cache_page_bytes(layout.k_type, layout.n_kv_heads, layout.k_head_dim);
}

std::size_t v_page_bytes(const CacheLayout& layout) {
  return cache_page_bytes(layout.v_type, layout.n_kv_heads, layout.v_head_dim);
}

std::size_t attention_scratch_bytes(const AttentionArgs& args) {
  const CacheLayout& layout = args.layout;
  const int group = args.n_heads / layout.n_kv_heads;
  return sizeof(float) * attention_scratch(static_cast<std::size_t>(kAttentionRows * group), layout).size;
}

std::int64_t attention_pages(const AttentionTile& tile) {
  std::int64_t n = tile.n_shared;
  for (int s = 0; s < tile.n_segments; ++s) n += tile.segments[s].n_extents - tile.n_shared;
  return n;
}

std::size_t attention_partial_floats(const AttentionArgs& args, int n_rows) {
  const auto m = static_cast<std::size_t>(n_rows * (args.n_heads / args.layout.n_kv_heads));
  return attention_partial(m, static_cast<std::size_t>(args.layout.v_head_dim)).size;
}

std::size_t ragged_scratch_floats(int k_dim, int v_dim) {
  // Queries, scores and outputs, and the largest score, the sum and the limit of each row.
  return static_cast<std::size_t>(k_dim + kRaggedKeys + v_dim + 3) * kRaggedRows;
}

}  // namespace weft::cpu
