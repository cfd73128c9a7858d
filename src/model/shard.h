#pragma once
// Tensor parallelism: a model's graph written for several devices that compute each layer together.
//
// Products are cut by the rows of their weights, and so by the columns of their results. Each device has a
// shard of each matrix and makes its columns of each result. It continues with them as long as columns do not
// depend on each other. Queries, keys and values are cut between KV heads, so that a device has the caches of
// its heads, and attends to them. Nodes that need whole rows (norms, the rows that a product reads) are
// computed on each device that uses their results, from all the pieces. So only pieces of rows cross between
// devices, and no sums cross devices. Each sum is computed on one device in its order, so results are
// bit-identical.
//
// Parts that cannot be sharded stay whole on one device: recurrent layers, caches of fewer than two KV heads
// or with ALiBi, tables of embeddings.
#include <string>
#include <string_view>
#include <vector>

#include "model/builder.h"

namespace weft::model {

/// A model's graph for devices of these shares; at least two, one of them above 0. Nodes of device i have
/// NodeTag::shard i, and a name that ends in "#i"; so do the states that are its part of one. Nodes without a
/// shard are on the first device with a share.
ModelGraph shard(const ModelGraph& whole, const std::vector<double>& shares);

/// A name without its "#i".
std::string_view whole_name(std::string_view name);
/// The first device with a share.
std::size_t first_with_share(const std::vector<double>& shares);

}  // namespace weft::model
