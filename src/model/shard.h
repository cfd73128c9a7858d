#pragma once
// Tensor parallelism: a model's graph written for several devices that compute each layer together.
//
// Products are cut by the rows of their weights, and so by the columns of their results: each device has a
// shard of each matrix, makes its columns of each result, and goes on with them as far as columns do not
// depend on one another. Queries, keys and values are cut between KV heads, so that a device has the caches
// of its heads, and attends to them. What needs whole rows is computed on each device that goes on with it,
// from all the pieces: a norm, the rows that a product reads. So what crosses between devices are pieces of
// rows, and nothing is added up across devices: all sums are those of one device, in its order, and the bits
// are too.
//
// What cannot be cut stays whole, on one device: recurrent layers, caches of fewer than two KV heads or with
// ALiBi, tables of embeddings.
#include <string>
#include <string_view>
#include <vector>

#include "model/builder.h"

namespace weft::model {

/// A model's graph for devices of these shares; at least two, one of them above 0. Nodes of device i have
/// NodeTag::shard i, and a name that ends in "#i"; so do the states that are its part of one. Nodes without
/// are those of the first device with a share.
ModelGraph shard(const ModelGraph& whole, const std::vector<double>& shares);

/// A name without its "#i".
std::string_view whole_name(std::string_view name);
/// The first device with a share.
std::size_t first_with_share(const std::vector<double>& shares);

}  // namespace weft::model
