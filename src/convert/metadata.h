#pragma once
// Translates config.json to GGUF's keys.
#include "convert/config.h"
#include "convert/family.h"
#include "convert/modules.h"
#include "convert/tensors.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// Sets the architecture's keys. Throws Error kInvalidFile for fields that are missing or have another type.
void add_metadata(const Modules& modules, const Config& config, const Family& family,
                  const FolderWeights& weights, const std::vector<OutTensor>& tensors, GgufWriter& file);

}  // namespace weft::convert_impl
