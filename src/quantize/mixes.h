#pragma once
// Chooses the type of each matrix of a model. THE table of mixes is in mixes.cpp.
#include <cstdint>
#include <optional>
#include <string_view>

#include "weft/quantize.h"

namespace weft::quantize_impl {

/// The facts about a model that the presets use.
struct ModelShape {
  int n_layers = 0;
  int n_heads_of_kv_head = 1;  ///< Query heads that share a head of keys and values.
  int n_experts = 0;
  bool tied = false;  ///< The table of embeddings is the head as well.
};

/// Whether a tensor is a matrix that products read, and may be packed.
bool is_quantizable(std::string_view name, std::size_t rank);

/// The type for a matrix; `important` says whether its columns' importances are known.
DType type_of(const QuantizeMix& mix, const ModelShape& shape, std::string_view name, bool important);

/// The replacement for rows that are not a multiple of the type's block. It has smaller blocks and loses no
/// more, so types of one and two bits become much larger.
DType fallback(DType type);

/// Whether the tensor is the output head: the output matrix, or the embeddings of a tied model.
bool is_output(std::string_view name, const ModelShape& shape);
bool is_embedding(std::string_view name);

}  // namespace weft::quantize_impl
