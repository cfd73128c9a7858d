#pragma once
// From nodes to launches (fuse.h): its state, and the functions that its files share. The file fuse.cpp
// iterates over the nodes, and handles views and rows. fuse_products.cpp fuses nodes into products,
// fuse_experts.cpp into products of experts. fuse_attention.cpp handles attention, and recognises attention
// written as other ops.
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/launches/attention.h"
#include "backend/cpu/launches/attention_parts.h"
#include "backend/cpu/launches/low_rank.h"
#include "backend/cpu/launches/matmul.h"
#include "backend/cpu/launches/row.h"
#include "backend/cpu/program.h"
#include "backend/views.h"

namespace weft::cpu {

class Fuser {
 public:
  /// The graph must outlive it.
  Fuser(const Graph& graph, int n_threads);
  Program run();

 private:
  static constexpr int kNoLaunch = ProgramBuilder::kNoLaunch;

  void add_node(NodeId id);

  // Views, and who reads them.
  void add_view(NodeId id);
  bool is_strided(ValueId value) const;
  void make_plain(ValueId value);
  void add_copy(ValueId value, const View& from);
  void add_strided(NodeId id);

  // Row-wise nodes.
  struct RopeEntry {
    const RopeTableLaunch* launch;
    int made_by;
  };
  void add_row_op(NodeId id, const RowOp& op);
  RowLaunch* chain_at(int launch) const;
  int chain_for(const Dim& rows, std::span<const ValueId> inputs, int min_phase, ValueId table = kNoValue);
  bool rows_align(const Dim& rows, std::span<const ValueId> inputs, int launch) const;
  const RopeEntry& rope_table(const ops::Rope& op, const Node& node);

  // Launches of their own.
  void add_order_op(NodeId id);
  void add_convolution(const Node& node);
  void add_simple(const Node& node, std::unique_ptr<Launch> made);
  void add_simple(const Node& node, std::unique_ptr<Launch> made, ValueId output);

  // Products.
  /// The nodes that take something of a product's rows.
  struct TakenNodes {
    NodeId best = kNoNode;
    NodeId copies = kNoNode;  ///< A get_rows.
    NodeId log_sums = kNoNode;
  };
  void add_product(NodeId id);
  void absorb_bias(const Node& node, MatmulValues& values);
  void absorb_glu(NodeId id, MatmulValues& values);
  void absorb_activation(MatmulValues& values);
  void absorb_residual(NodeId id, MatmulValues& values);
  TakenNodes absorb_taken(MatmulValues& values);
  int require_form(ValueId x, Form form);
  int first_phase(const MatmulValues& values);
  void read_operands(int launch, const MatmulValues& values);
  void finish_product(int launch, const MatmulValues& values);
  void add_taken(const MatmulValues& values, const TakenNodes& nodes);
  void add_matmul(const MatmulValues& values);

  // Experts.
  struct ExpertGroups {
    const ExpertGroupsLaunch* launch = nullptr;
    int made_by = kNoLaunch;
  };
  struct Uses {
    const UsesLaunch* launch = nullptr;
    int made_by = kNoLaunch;
  };
  ExpertGroups expert_groups(ValueId ids, ValueId weight);
  void add_matmul_experts(const Node& node, const MatmulValues& values);
  void find_adapters();
  void absorb_low_rank(ValueId& out, LowRankValues& values);
  Uses uses_of(const LowRankValues& values);
  int add_low_rank(const LowRankValues& values, const Uses& uses);
  void add_adapted(const MatmulValues& values);

  // Attention.
  void add_attention(const Node& node);
  bool add_attention_parts(NodeId id);
  void add_written_out(const AttentionParts& parts, const View& turned_keys);
  bool add_softmax_across(NodeId id);

  /// The nodes that read a value and are run.
  std::span<const NodeId> users(ValueId value) const {
    const std::size_t begin = first_user_[index(value)];
    return {users_.data() + begin, first_user_[index(value) + 1] - begin};
  }
  /// The only one, if the value is not read by the host.
  NodeId only_user(ValueId value) const {
    return users(value).size() == 1 && !graph_.is_output(value) ? users(value)[0] : kNoNode;
  }
  /// ... and if it is of type T.
  template <typename T>
  NodeId only_user(ValueId value) const {
    const NodeId user = only_user(value);
    return user != kNoNode && get_op<T>(graph_.node(user)) != nullptr ? user : kNoNode;
  }

  const Graph& graph_;
  const int n_threads_;
  std::vector<bool> done_;               // By node: part of a launch.
  std::vector<NodeId> users_;            // Those of the first value, of the next, ...
  std::vector<std::size_t> first_user_;  // By value, and the end.
  std::vector<View> views_;              // By value: itself, or the value whose elements it views.
  std::vector<RopeEntry> rope_tables_;
  struct WrittenOut {
    AttentionParts parts;
    View turned_keys;  // As they were when the first product was met: they may get memory of their own.
  };
  std::vector<WrittenOut> written_out_;
  std::map<ValueId, LowRank> low_ranks_;  // By the products that something is added to.
  /// Launches that share tiles use them in turn, in different phases.
  struct SharedTiles {
    std::shared_ptr<AttentionTiles> tiles;
    int last_phase = -1;
  };
  std::vector<SharedTiles> tiles_;
  ProgramBuilder program_;
};

}  // namespace weft::cpu
