#pragma once
// What a model's tokens cost, in the terms of weft/cluster.h.
#include "model/builder.h"
#include "weft/cluster.h"

namespace weft::engine {

/// By the file's tensors, without the extra work of nodes that compute layers together. Throws Error
/// kUnsupported for files without a decoder-only language model.
ModelWork work_of(const FileInfo& file);
/// Adds that, as it is in the model's graph for two devices.
void add_exchanges(ModelWork& work, const model::ModelGraph& two);

}  // namespace weft::engine
