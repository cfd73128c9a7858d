#pragma once
// Converts image encoders to files of their own ("mmproj"), next to the language model's file.
#include <string>
#include <string_view>
#include <vector>

#include "convert/config.h"
#include "convert/folder_weights.h"
#include "convert/tensors.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// Sets the keys of a folder's image encoder and returns its tensors. The language model's are skipped.
/// `json`: config.json. `pictures`: preprocessor_config.json. `type`: of matrices. Throws Error kUnsupported
/// where the class has no encoder that weft reads, kInvalidFile.
std::vector<OutTensor> plan_vision(const FolderWeights& weights, const Json& json, const Json& pictures,
                                   std::string_view class_name, DType type, GgufWriter& file);

}  // namespace weft::convert_impl
