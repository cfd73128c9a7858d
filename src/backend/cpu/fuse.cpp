#include "backend/cpu/fuse.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/cpu/fuser.h"
#include "backend/cpu/launches/convolution.h"
#include "backend/cpu/launches/copy.h"
#include "backend/cpu/launches/order_launches.h"
#include "backend/cpu/lone_launches.h"
#include "base/check.h"

namespace weft::cpu {

Fuser::Fuser(const Graph& graph, int n_threads)
    : graph_(graph),
      n_threads_(n_threads),
      done_(live_nodes(graph)),
      first_user_(graph.values().size() + 1),
      program_(graph.values().size()) {
  views_.reserve(graph.values().size());
  for (std::size_t v = 0; v < graph.values().size(); ++v)
    views_.push_back(plain_view(static_cast<ValueId>(v), graph.values()[v].shape));
  done_.flip();  // What neither the host reads nor a state keeps is not run.
  const auto for_each_use = [&](auto f) {
    for (std::size_t i = 0; i < graph.nodes().size(); ++i)
      if (!done_[i])
        for (const ValueId input : graph.nodes()[i].inputs) f(static_cast<NodeId>(i), index(input));
  };
  for_each_use([&](NodeId, std::size_t input) { ++first_user_[input + 1]; });
  std::partial_sum(first_user_.begin(), first_user_.end(), first_user_.begin());
  users_.resize(first_user_.back());
  std::vector<std::size_t> next(first_user_.begin(), first_user_.end() - 1);
  for_each_use([&](NodeId user, std::size_t input) { users_[next[input]++] = user; });
}

Program Fuser::run() {
  find_adapters();
  for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
    if (!done_[i]) add_node(static_cast<NodeId>(i));
  for (const ValueId output : graph_.outputs()) program_.keep(output);
  for (int launch = 0; launch < program_.n_launches(); ++launch)
    if (RowLaunch* const chain = chain_at(launch)) chain->settle(program_.kept());
  return program_.finish();
}

void Fuser::add_node(NodeId id) {
  const Node& node = graph_.node(id);
  program_.enter_layer(node.tag.layer);
  if (is_view(node.op)) return add_view(id);
  if (is_order_op(node.op)) return add_order_op(id);
  if (get_op<ops::BatchMatmul>(node) != nullptr && add_attention_parts(id)) return;
  const bool strided = reads_strides(node) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                                          [&](ValueId input) { return is_strided(input); });
  const auto row_op = as_row_op(graph_, node);
  if (reads_strides(node) && (strided || !row_op)) return add_strided(id);
  if (get_op<ops::Softmax>(node) != nullptr && add_softmax_across(id)) return;
  for (const ValueId input : node.inputs) make_plain(input);
  if (row_op) return add_row_op(id, *row_op);
  if (get_op<ops::Matmul>(node) != nullptr || get_op<ops::MatmulExperts>(node) != nullptr)
    return add_product(id);
  if (get_op<ops::Conv2d>(node) != nullptr || get_op<ops::ConvTranspose2d>(node) != nullptr) {
    add_convolution(node);
  } else if (std::unique_ptr<Launch> launch = make_plain_launch(graph_, node)) {
    add_simple(node, std::move(launch));
  } else {
    WEFT_CHECK(get_op<ops::Attention>(node) != nullptr);
    add_attention(node);
  }
  done_[index(id)] = true;
}

/// Nothing to run, unless the value needs its own memory.
void Fuser::add_view(NodeId id) {
  const Node& node = graph_.node(id);
  const View& input = views_[index(node.inputs[0])];
  const auto view = apply_view(node.op, input, graph_.value(node.output).shape);
  if (!view || graph_.is_output(node.output)) {
    add_copy(node.output, view ? *view : input);
  } else {
    views_[index(node.output)] = *view;
    if (is_contiguous(*view)) program_.alias(node.output, view->base);
  }
  done_[index(id)] = true;
}

/// Whether a value is elements of another that do not begin its memory, row after row.
bool Fuser::is_strided(ValueId value) const {
  return views_[index(value)].base != value && !program_.is_alias(value);
}

/// Gives a value memory of its own where it has strides.
void Fuser::make_plain(ValueId value) {
  if (!is_strided(value)) return;
  add_copy(value, views_[index(value)]);
  views_[index(value)] = plain_view(value, graph_.value(value).shape);
}

void Fuser::add_copy(ValueId value, const View& from) {
  const int launch = program_.add(std::make_unique<CopyLaunch>(value, from), program_.ready(from.base), true);
  program_.reads(launch, from.base);
  program_.makes(launch, value);
}

/// A launch that reads what its inputs are views of.
void Fuser::add_strided(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<View> inputs;
  int phase = 0;
  for (const ValueId input : node.inputs) {
    inputs.push_back(views_[index(input)]);
    phase = std::max(phase, program_.ready(inputs.back().base));
  }
  const bool may_follow = get_op<ops::BatchMatmul>(node) == nullptr;
  const int launch = program_.add(make_strided_launch(graph_, node, inputs), phase, may_follow);
  for (const View& input : inputs) program_.reads(launch, input.base);
  program_.makes(launch, node.output);
  done_[index(id)] = true;
}

void Fuser::add_row_op(NodeId id, const RowOp& op) {
  const Node& node = graph_.node(id);
  const RopeEntry* rope = nullptr;
  if (const auto* rope_op = std::get_if<ops::Rope>(&op)) rope = &rope_table(*rope_op, node);
  // Any of these rows may be requested.
  const bool any = std::holds_alternative<ops::GetRows>(op) || std::holds_alternative<ops::Unfold>(op);
  const int launch =
      chain_for(row_domain(graph_, node), node.inputs,
                rope != nullptr ? program_.phase(rope->made_by) + 1 : 0, any ? node.inputs[0] : kNoValue);
  for (const ValueId input : node.inputs) program_.reads(launch, input);
  if (rope != nullptr) program_.reads_from(launch, rope->made_by);
  chain_at(launch)->add(op, node.inputs, node.output, rope != nullptr ? rope->launch : nullptr);
  program_.makes(launch, node.output);
  if (std::holds_alternative<ops::StoreCache>(op)) program_.keep(node.output);
  done_[index(id)] = true;
}

/// Null for launches that no row-wise node can join.
RowLaunch* Fuser::chain_at(int launch) const {
  return launch == kNoLaunch ? nullptr : dynamic_cast<RowLaunch*>(&program_.launch(launch));
}

/// The chain that makes one of the inputs, if all others are there before it runs; otherwise a new one. Any
/// row of a table may be read, so it has to be made before.
int Fuser::chain_for(const Dim& rows, std::span<const ValueId> inputs, int min_phase, ValueId table) {
  int phase = min_phase;
  for (const ValueId input : inputs) phase = std::max(phase, program_.ready(input));
  for (const ValueId input : inputs) {
    const int launch = program_.maker(input);
    const RowLaunch* const chain = chain_at(launch);
    if (chain == nullptr || !(chain->rows() == rows) || program_.phase(launch) < min_phase) continue;

    const bool others_ready = std::all_of(inputs.begin(), inputs.end(), [&](ValueId other) {
      return (program_.maker(other) == launch && other != table) ||
             program_.ready(other) <= program_.phase(launch);
    });
    if (others_ready && rows_align(rows, inputs, launch)) return launch;
  }
  return program_.add(std::make_unique<RowLaunch>(graph_, rows), phase, true);
}

/// A value made by the chain can only be read there by the row that makes it.
bool Fuser::rows_align(const Dim& rows, std::span<const ValueId> inputs, int launch) const {
  return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
    if (program_.maker(input) != launch) return true;
    const Dim made = graph_.value(input).shape.row_dim();
    return made == rows;
  });
}

const Fuser::RopeEntry& Fuser::rope_table(const ops::Rope& op, const Node& node) {
  const ValueId positions = node.inputs[1];
  const ValueId factors = node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
  for (const RopeEntry& table : rope_tables_)
    if (table.launch->serves(op, positions, factors)) return table;
  const Dim rows = graph_.value(positions).shape[0];
  auto table = std::make_unique<RopeTableLaunch>(op, positions, factors, rows, rows.value(graph_.bounds()));
  const RopeTableLaunch* const pointer = table.get();
  const int launch = program_.add(std::move(table), program_.ready(positions));
  program_.reads(launch, positions);
  program_.reads(launch, factors);
  return rope_tables_.emplace_back(RopeEntry{pointer, launch});
}

/// Launches one after another, of which the last one makes the result.
void Fuser::add_order_op(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<View> inputs;
  int phase = 0, before = kNoLaunch;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!can_read(node.op, i, views_[index(node.inputs[i])])) make_plain(node.inputs[i]);
    inputs.push_back(views_[index(node.inputs[i])]);
    phase = std::max(phase, program_.ready(inputs.back().base));
  }
  for (std::unique_ptr<Launch>& made : order_launches(graph_, node, inputs)) {
    const int launch = program_.add(std::move(made), phase++);
    for (const View& input : inputs) program_.reads(launch, input.base);
    if (before != kNoLaunch) program_.reads_from(launch, before);
    before = launch;
  }
  program_.makes(before, node.output);
  done_[index(id)] = true;
}

/// With an activation that follows.
void Fuser::add_convolution(const Node& node) {
  auto activation = Activation::kNone;
  ValueId out = node.output;
  if (const NodeId activate = only_user<ops::Activate>(out); activate != kNoNode) {
    activation = get_op<ops::Activate>(graph_.node(activate))->kind;
    out = graph_.node(activate).output;
    done_[index(activate)] = true;
  }
  add_simple(node, std::make_unique<ConvolutionLaunch>(graph_, node, activation, out), out);
}

/// A launch that reads all inputs of its node and makes its output.
void Fuser::add_simple(const Node& node, std::unique_ptr<Launch> made) {
  add_simple(node, std::move(made), node.output);
}
void Fuser::add_simple(const Node& node, std::unique_ptr<Launch> made, ValueId output) {
  int phase = 0;
  for (const ValueId input : node.inputs) phase = std::max(phase, program_.ready(input));
  const int launch = program_.add(std::move(made), phase);
  for (const ValueId input : node.inputs) program_.reads(launch, input);
  program_.makes(launch, output);
}

Program fuse(const Graph& graph, int n_threads) { return Fuser(graph, n_threads).run(); }

}  // namespace weft::cpu
