#pragma once
// Which type each matrix of a model gets. THE table of mixes is in mixes.cpp.
#include <cstdint>
#include <optional>
#include <string_view>

#include "weft/quantize.h"

namespace weft::quantize_impl {

/// What mixes know of a model.
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

/// The one to take for rows that are no multiple of a type's block: one of smaller blocks that loses no more,
/// so types of one and two bits become much larger.
DType fallback(DType type);

/// Whether it is multiplied with for the logits: the output matrix, or the embeddings of a tied model.
bool is_output(std::string_view name, const ModelShape& shape);
bool is_embedding(std::string_view name);

}  // namespace weft::quantize_impl
