// Sizes of the K and V cache and of attention's scratch: the same for every instruction set.
#include "backend/cpu/attention_scratch.h"
#include "backend/cpu/kernels.h"

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
  return sizeof(float) * attention_scratch(static_cast<std::size_t>(kAttentionRows * group),
                                           static_cast<std::size_t>(layout.k_head_dim),
                                           static_cast<std::size_t>(layout.v_head_dim))
                             .size;
}

}  // namespace weft::cpu
