// What products swallow, and the forms in which they read their rows.
#include <algorithm>
#include <utility>

#include "backend/cpu/fuser.h"
#include "backend/cpu/launches/best.h"
#include "backend/cpu/launches/screen.h"

namespace weft::cpu {
namespace {

ValueId weight_of(const Node& node) { return node.inputs[0]; }
ValueId x_of(const Node& node) { return node.inputs[1]; }
ValueId bias_of(const Node& node) {
  return get_op<ops::Matmul>(node) != nullptr && node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
}

Form form_for(const Graph& graph, ValueId weight) { return activation_form(graph.value(weight).dtype); }

/// Whether two products can be one launch with a gate.
bool pair_up(const Graph& graph, const Node& a, const Node& b) {
  const ValueInfo& wa = graph.value(weight_of(a));
  const ValueInfo& wb = graph.value(weight_of(b));
  return a.op.index() == b.op.index() && x_of(a) == x_of(b) && wa.dtype == wb.dtype && wa.shape == wb.shape &&
         (get_op<ops::MatmulExperts>(a) == nullptr || a.inputs[2] == b.inputs[2]);
}

}  // namespace

void Fuser::add_product(NodeId id) {
  const Node& node = graph_.node(id);
  done_[index(id)] = true;
  MatmulValues values;
  values.weight = weight_of(node);
  values.bias = bias_of(node);
  values.x = x_of(node);
  values.out = node.output;
  absorb_low_rank(values.out, values.low_rank);
  absorb_glu(id, values);
  absorb_bias(node, values);
  absorb_activation(values);
  if (get_op<ops::Matmul>(node) != nullptr) {
    absorb_residual(id, values);
    if (values.low_rank.used() || values.gate_low_rank.used()) return add_adapted(values);
    if (const TakenNodes taken = absorb_taken(values); taken.best != kNoNode) return add_taken(values, taken);
    add_matmul(values);
  } else {
    add_matmul_experts(node, values);
  }
}

/// product + a vector, where the product has no bias of its own. The bias comes before what adapters add.
void Fuser::absorb_bias(const Node& node, MatmulValues& values) {
  if (get_op<ops::Matmul>(node) == nullptr || values.bias != kNoValue || values.gate != kNoValue ||
      values.low_rank.used())
    return;
  const NodeId add = only_user<ops::Add>(values.out);
  if (add == kNoNode) return;
  const ValueId vector = graph_.node(add).inputs[1];
  const ValueInfo& info = graph_.value(vector);
  if (vector == values.out || !(info.shape == Shape{graph_.value(values.out).shape.back()}) ||
      info.producer != kNoNode)
    return;
  values.bias = vector;
  values.out = graph_.node(add).output;
  done_[index(add)] = true;
}

void Fuser::absorb_glu(NodeId id, MatmulValues& values) {
  const NodeId glu = only_user<ops::Glu>(values.out);
  if (glu == kNoNode) return;
  const Node& glu_node = graph_.node(glu);
  const ValueId other_value = glu_node.inputs[glu_node.inputs[0] == values.out ? 1 : 0];
  ValueId other_product = other_value;
  LowRankValues added;
  for (const auto& [y, low_rank] : low_ranks_)
    if (low_rank.out == other_value) {
      other_product = y;
      added = low_rank.values;
    }
  const NodeId other = graph_.value(other_product).producer;
  if (other == kNoNode || done_[index(other)] || only_user<ops::Glu>(other_value) != glu ||
      !pair_up(graph_, graph_.node(id), graph_.node(other)) ||
      (added.used() && values.low_rank.used() && added.choices() != values.low_rank.choices()))
    return;
  // The other product is made at this one's place: its inputs must be ready.
  const auto is_there = [&](ValueId value) { return is_made_before(graph_, value, id); };
  if (!std::ranges::all_of(graph_.node(other).inputs, is_there) || !added.are_made_before(graph_, id)) return;
  if (added.used()) absorb_low_rank(other_product, added);
  for (const ValueId input : graph_.node(other).inputs) make_plain(input);
  const NodeId gate = glu_node.inputs[0] == values.out ? id : other;
  const NodeId up = gate == id ? other : id;
  values.weight = weight_of(graph_.node(up));
  values.bias = bias_of(graph_.node(up));
  values.gate = weight_of(graph_.node(gate));
  values.gate_bias = bias_of(graph_.node(gate));
  LowRankValues own = values.low_rank;
  values.low_rank = gate == id ? added : own;
  values.gate_low_rank = gate == id ? own : added;
  values.activation = get_op<ops::Glu>(glu_node)->kind;
  values.out = glu_node.output;
  done_[index(other)] = done_[index(glu)] = true;
}

void Fuser::absorb_activation(MatmulValues& values) {
  if (values.gate != kNoValue) return;
  const NodeId activate = only_user<ops::Activate>(values.out);
  if (activate == kNoNode) return;
  values.activation = get_op<ops::Activate>(graph_.node(activate))->kind;
  values.out = graph_.node(activate).output;
  done_[index(activate)] = true;
}

/// x + product, where x was there before the product.
void Fuser::absorb_residual(NodeId id, MatmulValues& values) {
  const NodeId add = only_user<ops::Add>(values.out);
  if (add == kNoNode) return;
  const Node& node = graph_.node(add);
  const ValueId other = node.inputs[node.inputs[0] == values.out ? 1 : 0];
  const ValueInfo& info = graph_.value(other);
  if (other == values.out || !(info.shape == graph_.value(node.output).shape) ||
      !(info.shape == graph_.value(values.out).shape) || info.shape.rank() < 2 || info.producer >= id ||
      (info.producer != kNoNode && !done_[index(info.producer)]))
    return;
  make_plain(other);
  values.residual = other;
  values.out = node.output;
  done_[index(add)] = true;
}

/// The reductions of a product, whose rows may be capped before, if they have no other readers; or none.
Fuser::TakenNodes Fuser::absorb_taken(MatmulValues& values) {
  if (values.gate != kNoValue || values.activation != Activation::kNone || values.residual != kNoValue)
    return {};
  const NodeId cap = only_user<ops::Softcap>(values.out);
  const ValueId rows = cap != kNoNode ? graph_.node(cap).output : values.out;
  if (graph_.is_output(rows)) return {};
  TakenNodes taken;
  for (const NodeId user : users(rows)) {
    const Node& node = graph_.node(user);
    NodeId* const place = get_op<ops::Best>(node) != nullptr        ? &taken.best
                          : get_op<ops::GetRows>(node) != nullptr   ? &taken.copies
                          : get_op<ops::LogSumExp>(node) != nullptr ? &taken.log_sums
                                                                    : nullptr;
    if (place == nullptr || node.inputs[0] != rows || std::exchange(*place, user) != kNoNode) return {};
    // Counts and ids are read while the product is made.
    if (node.inputs.size() > 1 && graph_.value(node.inputs[1]).producer != kNoNode) return {};
  }
  if (taken.best == kNoNode) return {};
  if (cap != kNoNode) {
    values.softcap = get_op<ops::Softcap>(graph_.node(cap))->cap;
    done_[index(cap)] = true;
  }
  values.out = graph_.node(taken.best).output;
  for (const NodeId node : {taken.best, taken.copies, taken.log_sums})
    if (node != kNoNode) done_[index(node)] = true;
  return taken;
}

/// Makes x available in the form that the weight's kernels read. The maker of x makes that form too, or a
/// chain of rows does. Returns the first phase with it.
int Fuser::require_form(ValueId x, Form form) {
  if (form == Form::kPlain) return program_.ready(x);
  const int source = program_.maker(x);
  if (program_.maker(x, form) == kNoLaunch && source != kNoLaunch &&
      program_.launch(source).make_form(form)) {
    program_.makes(source, x, form);
    program_.keep(x);  // Until its groups are whole.
  }
  if (program_.maker(x, form) == kNoLaunch) {
    const Dim rows = graph_.value(x).shape.row_dim();
    const ValueId inputs[] = {x};
    const int launch = chain_for(rows, inputs, 0);
    program_.reads(launch, x);
    chain_at(launch)->add(Quantise{form}, {x}, x);
    program_.makes(launch, x, form);
  }
  return program_.ready(x, form);
}

/// When all that a product reads is there.
int Fuser::first_phase(const MatmulValues& values) {
  int phase = require_form(values.x, form_for(graph_, values.weight));
  for (const ValueId value : {values.bias, values.gate_bias, values.residual})
    if (value != kNoValue) phase = std::max(phase, program_.ready(value));
  return phase;
}

void Fuser::read_operands(int launch, const MatmulValues& values) {
  program_.reads(launch, values.x, form_for(graph_, values.weight));
  for (const ValueId value : {values.weight, values.bias, values.gate, values.gate_bias, values.residual})
    program_.reads(launch, value);
}

void Fuser::finish_product(int launch, const MatmulValues& values) {
  read_operands(launch, values);
  program_.makes(launch, values.out);
}

/// A product that leaves lists of its best, copies of some rows, and parts of their sums; and the merges.
void Fuser::add_taken(const MatmulValues& values, const TakenNodes& nodes) {
  const Node& node = graph_.node(nodes.best);
  const auto node_or_null = [&](NodeId id) { return id != kNoNode ? &graph_.node(id) : nullptr; };
  const Node* const copies = node_or_null(nodes.copies);
  const Node* const log_sums = node_or_null(nodes.log_sums);
  const auto taken = std::make_shared<Taken>(
      Taken{BestLists(graph_, node, n_threads_), RowCopies(graph_, copies), LogSums(graph_, log_sums)});
  int phase = first_phase(values);
  const int product = program_.add(std::make_unique<MatmulLaunch>(graph_, values, taken), phase);
  read_operands(product, values);
  if (copies != nullptr) program_.makes(product, copies->output);
  int last = product;
  if (can_screen(graph_, values)) {
    auto screen = std::make_unique<ScreenLaunch>(graph_, values, node, taken, n_threads_);
    auto candidates = std::make_unique<CandidatesLaunch>(values, *screen, taken);
    const int first = program_.add(std::move(screen), phase);
    read_operands(first, values);
    last = program_.add(std::move(candidates), ++phase);
    read_operands(last, values);
    program_.reads_from(last, first);
  }
  const int merge = program_.add(std::make_unique<BestLaunch>(graph_, node, taken), phase + 1, true);
  program_.reads_from(merge, product);
  if (last != product) program_.reads_from(merge, last);
  program_.makes(merge, node.output);
  if (log_sums == nullptr) return;
  const int sum = program_.add(std::make_unique<LogSumLaunch>(graph_, *log_sums, taken),
                               program_.phase(product) + 1, true);
  program_.reads_from(sum, product);
  program_.makes(sum, log_sums->output);
}

void Fuser::add_matmul(const MatmulValues& values) {
  const int phase = first_phase(values);
  finish_product(program_.add(std::make_unique<MatmulLaunch>(graph_, values), phase), values);
}

}  // namespace weft::cpu
