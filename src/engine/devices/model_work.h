#pragma once
// The cost of a model's tokens, in the terms of weft/cluster.h.
#include "model/builder.h"
#include "weft/cluster.h"

namespace weft::engine {

/// From the file's tensors, without the extra work of nodes that compute layers together. Throws Error
/// kUnsupported for files without a decoder-only language model.
ModelWork work_of(const FileInfo& file);
/// Adds that extra work, taken from the model's graph for two devices.
void add_exchanges(ModelWork& work, const model::ModelGraph& two);

}  // namespace weft::engine
