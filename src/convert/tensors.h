#pragma once
// The tensors of the result, made of views of the folder's tensors.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convert/config.h"
#include "convert/family.h"
#include "convert/folder_weights.h"
#include "convert/view.h"
#include "weft/dtype.h"

namespace weft::convert_impl {

/// The names of the number of experts.
inline const Names kExperts = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"};

struct OutTensor {
  std::string name;
  DType type = DType::kF32;
  std::vector<std::int64_t> shape;  ///< Outermost first.
  std::vector<View> views = {};     ///< Concatenated, they are its elements.
  float add = 0.0f;                 ///< Added to each value.
  /// The source has logarithms of decay rates; the result has the negative rates.
  bool decay = false;
  std::vector<float> values = {};  ///< All elements, if `views` is empty.

  std::int64_t n_columns() const { return shape.size() > 1 ? shape.back() : 1; }
  std::int64_t n_rows() const;
};

/// In the order of layers. `type` is the type of matrices. Throws Error kInvalidFile that names the tensor
/// that is unknown, missing or of a wrong shape. A note says how many layers are left out.
std::vector<OutTensor> plan_tensors(const FolderWeights& weights, const Config& config, const Family& family,
                                    DType type, std::vector<std::string>& notes);

/// Throws Error kInvalidFile if the folder's tensor has blocks and the rows of the result would split them.
void check_blocks(const OutTensor& tensor);

/// Fills in all bytes of a tensor. Throws Error kIo.
void fill_tensor(const OutTensor& tensor, std::span<std::byte> bytes);

}  // namespace weft::convert_impl
