#pragma once
// The nodes without a launch of their own, because another launch computes them, too. Bits stay the same:
// only the place of a value between launches differs.
#include <vector>

#include "base/to_size.h"
#include "weft/graph.h"

namespace weft::gpu {

/// Whether a node multiplies codes (blocks.glsl) instead of floats.
bool multiplies_codes(const Graph& graph, const Node& node, bool byte_dots);

/// The continuation of a product's last workgroup in a step of one row, instead of separate phases. (Steps
/// with many rows have many workgroups for it.)
struct RowTail {
  NodeId own_norm = kNoNode;  ///< A norm of the product ...
  NodeId sum = kNoNode;       ///< ... and the addition of it to another row: both or none.
  NodeId norm = kNoNode;      ///< The norm of that sum, or of the product.
  bool is_empty() const { return own_norm == kNoNode && norm == kNoNode; }
};

class Fusion {
 public:
  /// `live` as live_nodes() says. Products of quantised weights are such of codes where there are
  /// `byte_dots`. Without `tails` no product has one.
  Fusion(const Graph& graph, const std::vector<bool>& live, bool byte_dots, bool tails = true);

  /// The product whose launch includes this addition to it; kNoNode: the addition has its own launch.
  NodeId product_of(NodeId addition) const { return product_of_[index(addition)]; }
  /// Whether a product is left to the addition that alone reads it.
  bool is_added_to(NodeId product) const { return is_added_to_[index(product)]; }

  /// What the launch of this product, or of this addition to one, makes of its row as well.
  const RowTail& tail(NodeId product) const { return tail_[index(product)]; }
  /// Whether a node is in the tail of another, and has a launch of its own for steps of more rows alone.
  bool is_in_tail(NodeId node) const { return tail_of_[index(node)] != kNoNode; }

  /// The rope whose launch includes this store of its result; kNoNode: the store has its own launch.
  NodeId rope_of(NodeId store) const { return rope_of_[index(store)]; }
  /// Whether a rope is left to the store that alone reads it.
  bool is_stored(NodeId rope) const { return is_stored_[index(rope)]; }

  /// Whether who makes a value makes codes of it, too: its node is one that can, and a product wants them.
  bool makes_codes(ValueId value) const { return makes_codes_[index(value)]; }
  /// Whether its floats have a reader.
  bool makes_floats(ValueId value) const { return makes_floats_[index(value)]; }

 private:
  /// Notes a node of the continuation of a product.
  void find_tail(const Graph& graph, NodeId id, const std::vector<int>& n_readers);
  static std::size_t index(std::int64_t i) { return to_size(i); }
  std::vector<NodeId> product_of_;  // By node.
  std::vector<bool> is_added_to_;
  std::vector<RowTail> tail_;
  std::vector<NodeId> tail_of_;
  std::vector<NodeId> rope_of_;
  std::vector<bool> is_stored_;
  std::vector<bool> makes_codes_, makes_floats_;  // By value.
};

}  // namespace weft::gpu
