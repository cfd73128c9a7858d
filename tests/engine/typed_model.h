#pragma once
// Models of any quantised types, and of the same values in F32.
#include <cmath>
#include <random>

#include "engine/model_draft.h"
#include "tensor/codec.h"

namespace weft::test {

inline std::vector<DType> quantised_types() {
  std::vector<DType> types;
  for (const DTypeInfo& type : all_dtypes())
    if (type.kind == DTypeKind::kQuantised) types.push_back(type.type);
  return types;
}

/// The golden Llama's shape, wide enough for blocks of 256, with random weights. Matrix i has type types[i %
/// n], or the same values in F32.
inline Draft wide_llama(const std::vector<DType>& types, bool in_f32) {
  constexpr std::int64_t kWidth = 256, kFfn = 512, kHead = 64, kHeads = 4, kKvHeads = 2;
  constexpr std::int64_t kOwnRows = 23;  // And then again: some types are slow to pack.
  Draft draft("llama");
  draft.set("llama.embedding_length", static_cast<std::uint32_t>(kWidth))
      .set("llama.feed_forward_length", static_cast<std::uint32_t>(kFfn))
      .set("llama.attention.key_length", static_cast<std::uint32_t>(kHead))
      .set("llama.attention.value_length", static_cast<std::uint32_t>(kHead))
      .set("llama.rope.dimension_count", static_cast<std::uint32_t>(kHead));
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::size_t n_matrices = 0;
  for (Draft::Tensor& tensor : draft.tensors) {
    if (tensor.shape.size() == 1) {
      tensor.shape = {kWidth};
      tensor.fill([] { return 1.0f; });
      continue;
    }
    const auto is = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    const std::int64_t rows = is("attn_q.")                                        ? kHeads * kHead
                              : is("attn_k.") || is("attn_v.")                     ? kKvHeads * kHead
                              : is("ffn_gate") || is("ffn_up")                     ? kFfn
                              : is("token_embd") || (is("output.") && !is("attn")) ? tensor.shape[0]
                                                                                   : kWidth;
    const std::int64_t columns = is("ffn_down") ? kFfn : kWidth;
    const DType type = types[n_matrices++ % types.size()];
    tensor.reshape({rows, columns}, in_f32 ? DType::kF32 : type);
    std::vector<float> row(static_cast<std::size_t>(columns));
    std::vector<std::byte> packed(row_bytes(type, columns));
    const std::size_t n = in_f32 ? row.size() * sizeof(float) : packed.size();
    for (std::int64_t r = 0; r < rows; ++r) {
      std::byte* const to = tensor.bytes.data() + static_cast<std::size_t>(r) * n;
      if (r >= kOwnRows) {
        std::memcpy(to, to - kOwnRows * n, n);
        continue;
      }
      for (float& value : row) value = normal(random) / std::sqrt(static_cast<float>(columns));
      pack_row(type, row, packed.data());
      unpack_row(type, packed.data(), row);
      std::memcpy(to, in_f32 ? static_cast<const void*>(row.data()) : packed.data(), n);
    }
  }
  return draft;
}

}  // namespace weft::test
