#include "backend/cpu/fuse.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/launches/attention.h"
#include "backend/cpu/launches/attention_parts.h"
#include "backend/cpu/launches/best.h"
#include "backend/cpu/launches/convolution.h"
#include "backend/cpu/launches/copy.h"
#include "backend/cpu/launches/dense_attention.h"
#include "backend/cpu/launches/matmul.h"
#include "backend/cpu/launches/order_launches.h"
#include "backend/cpu/launches/row.h"
#include "backend/cpu/launches/screen.h"
#include "backend/cpu/launches/softmax.h"
#include "backend/cpu/lone_launches.h"
#include "base/check.h"

namespace weft::cpu {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, int n_threads)
      : graph_(graph),
        n_threads_(n_threads),
        users_(graph.values().size()),
        done_(live_nodes(graph)),
        program_(graph.values().size()) {
    for (std::size_t v = 0; v < graph.values().size(); ++v)
      views_.push_back(plain_view(static_cast<ValueId>(v), graph.values()[v].shape));
    done_.flip();  // What neither the host reads nor a state keeps is not run.
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      if (done_[i]) continue;
      for (const ValueId input : graph.nodes()[i].inputs)
        users_[index(input)].push_back(static_cast<NodeId>(i));
    }
  }

  Program run() {
    for (std::size_t i = 0; i < graph_.nodes().size(); ++i)
      if (!done_[i]) add_node(static_cast<NodeId>(i));
    for (const ValueId output : graph_.outputs()) program_.keep(output);
    for (int launch = 0; launch < program_.n_launches(); ++launch)
      if (RowLaunch* const chain = chain_at(launch)) chain->settle(program_.kept());
    return program_.finish();
  }

 private:
  static constexpr int kNoLaunch = ProgramBuilder::kNoLaunch;

  void add_node(NodeId id) {
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

  // --- Views, and who reads them
  // ------------------------------------------------------------------------------

  /// Nothing to run, unless the value has to lie in memory by itself.
  void add_view(NodeId id) {
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
  bool is_strided(ValueId value) const {
    return views_[index(value)].base != value && !program_.is_alias(value);
  }

  /// Gives a value memory of its own where it has strides.
  void make_plain(ValueId value) {
    if (!is_strided(value)) return;
    add_copy(value, views_[index(value)]);
    views_[index(value)] = plain_view(value, graph_.value(value).shape);
  }

  void add_copy(ValueId value, const View& from) {
    const int launch =
        program_.add(std::make_unique<CopyLaunch>(value, from), program_.ready(from.base), true);
    program_.reads(launch, from.base);
    program_.makes(launch, value);
  }

  /// A launch that reads what its inputs are views of.
  void add_strided(NodeId id) {
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

  /// A softmax of turned rows that are turned back: along an axis of what they were before.
  bool add_softmax_across(NodeId id) {
    const Node& node = graph_.node(id);
    const NodeId back = only_user<ops::Permute>(node.output);
    if (back == kNoNode || !is_strided(node.inputs[0])) return false;
    const ValueId result = graph_.node(back).output;
    const auto& axes = get_op<ops::Permute>(graph_.node(back))->axes;
    const View x = views_[index(node.inputs[0])];
    const View plain = plain_view(result, graph_.value(result).shape);
    View out = {result, x.shape, 0, {}};
    for (std::size_t i = 0; i < static_cast<std::size_t>(x.shape.rank()); ++i)
      out.strides[static_cast<std::size_t>(axes[i])] = plain.strides[i];
    const int launch =
        program_.add(std::make_unique<SoftmaxAcrossLaunch>(graph_, x, out), program_.ready(x.base));
    program_.reads(launch, x.base);
    program_.makes(launch, result);
    views_[index(node.output)] = out;
    done_[index(id)] = done_[index(back)] = true;
    return true;
  }

  /// Launches one after another, of which the last one makes the result.
  void add_order_op(NodeId id) {
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

  // --- Row-wise nodes
  // -----------------------------------------------------------------------------------------

  void add_row_op(NodeId id, const RowOp& op) {
    const Node& node = graph_.node(id);
    const RopeEntry* rope = nullptr;
    if (const auto* rope_op = std::get_if<ops::Rope>(&op)) rope = &rope_table(*rope_op, node);
    // Any of these rows may be asked for.
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
  RowLaunch* chain_at(int launch) const {
    return launch == kNoLaunch ? nullptr : dynamic_cast<RowLaunch*>(&program_.launch(launch));
  }

  /// The chain that makes one of the inputs, if all others are there before it runs; otherwise a new one. Of
  /// a table any row may be read, so it has to be there before.
  int chain_for(const Dim& rows, std::span<const ValueId> inputs, int min_phase, ValueId table = kNoValue) {
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
  bool rows_align(const Dim& rows, std::span<const ValueId> inputs, int launch) const {
    return std::all_of(inputs.begin(), inputs.end(), [&](ValueId input) {
      if (program_.maker(input) != launch) return true;
      const Dim made = graph_.value(input).shape.row_dim();
      return made == rows;
    });
  }

  struct RopeEntry {
    const RopeTableLaunch* launch;
    int made_by;
  };

  const RopeEntry& rope_table(const ops::Rope& op, const Node& node) {
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

  // --- Products
  // -----------------------------------------------------------------------------------------------

  /// The only user of a value, if it is of type T and the value is not read by the host.
  template <typename T>
  NodeId only_user(ValueId value) const {
    if (users_[index(value)].size() != 1 || graph_.is_output(value)) return kNoNode;
    const NodeId user = users_[index(value)][0];
    return get_op<T>(graph_.node(user)) != nullptr ? user : kNoNode;
  }

  static ValueId weight_of(const Node& node) { return node.inputs[0]; }
  static ValueId x_of(const Node& node) { return node.inputs[1]; }
  static ValueId bias_of(const Node& node) {
    return get_op<ops::Matmul>(node) != nullptr && node.inputs.size() > 2 ? node.inputs[2] : kNoValue;
  }

  /// Whether two products can be one launch with a gate.
  bool pair_up(const Node& a, const Node& b) const {
    const ValueInfo& wa = graph_.value(weight_of(a));
    const ValueInfo& wb = graph_.value(weight_of(b));
    return a.op.index() == b.op.index() && x_of(a) == x_of(b) && wa.dtype == wb.dtype &&
           wa.shape == wb.shape && (get_op<ops::MatmulExperts>(a) == nullptr || a.inputs[2] == b.inputs[2]);
  }

  void add_product(NodeId id) {
    const Node& node = graph_.node(id);
    done_[index(id)] = true;
    MatmulValues values;
    values.weight = weight_of(node);
    values.bias = bias_of(node);
    values.x = x_of(node);
    values.out = node.output;
    absorb_glu(id, values);
    absorb_bias(node, values);
    absorb_activation(values);
    if (get_op<ops::Matmul>(node) != nullptr) {
      absorb_residual(id, values);
      if (const TakenNodes taken = absorb_taken(values); taken.best != kNoNode)
        return add_taken(values, taken);
      add_matmul(values);
    } else {
      add_matmul_experts(node, values);
    }
  }

  /// product + a vector, where the product has no bias of its own.
  void absorb_bias(const Node& node, MatmulValues& values) {
    if (get_op<ops::Matmul>(node) == nullptr || values.bias != kNoValue || values.gate != kNoValue) return;
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

  void absorb_glu(NodeId id, MatmulValues& values) {
    const NodeId glu = only_user<ops::Glu>(values.out);
    if (glu == kNoNode) return;
    const Node& glu_node = graph_.node(glu);
    const ValueId other_value = glu_node.inputs[glu_node.inputs[0] == values.out ? 1 : 0];
    const NodeId other = graph_.value(other_value).producer;
    if (other == kNoNode || done_[index(other)] || only_user<ops::Glu>(other_value) != glu ||
        !pair_up(graph_.node(id), graph_.node(other)))
      return;
    for (const ValueId input : graph_.node(other).inputs) make_plain(input);
    const NodeId gate = glu_node.inputs[0] == values.out ? id : other;
    const NodeId up = gate == id ? other : id;
    values.weight = weight_of(graph_.node(up));
    values.bias = bias_of(graph_.node(up));
    values.gate = weight_of(graph_.node(gate));
    values.gate_bias = bias_of(graph_.node(gate));
    values.activation = get_op<ops::Glu>(glu_node)->kind;
    values.out = glu_node.output;
    done_[index(other)] = done_[index(glu)] = true;
  }

  void absorb_activation(MatmulValues& values) {
    if (values.gate != kNoValue) return;
    const NodeId activate = only_user<ops::Activate>(values.out);
    if (activate == kNoNode) return;
    values.activation = get_op<ops::Activate>(graph_.node(activate))->kind;
    values.out = graph_.node(activate).output;
    done_[index(activate)] = true;
  }

  /// x + product, where x was there before the product.
  void absorb_residual(NodeId id, MatmulValues& values) {
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

  /// The nodes that take something of a product's rows.
  struct TakenNodes {
    NodeId best = kNoNode;
    NodeId copies = kNoNode;  ///< A get_rows.
    NodeId log_sums = kNoNode;
  };

  /// Those of a product, whose rows are capped before perhaps, where nobody else reads them; or none.
  TakenNodes absorb_taken(MatmulValues& values) {
    if (values.gate != kNoValue || values.activation != Activation::kNone || values.residual != kNoValue)
      return {};
    const NodeId cap = only_user<ops::Softcap>(values.out);
    const ValueId rows = cap != kNoNode ? graph_.node(cap).output : values.out;
    if (graph_.is_output(rows)) return {};
    TakenNodes taken;
    for (const NodeId user : users_[index(rows)]) {
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

  /// Sees to it that x stands in the form that the weight's kernels read: what makes x makes it in that form
  /// too, or a chain of rows does. Returns the first phase where it does.
  int require_form(ValueId x, Form form) {
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

  Form form_for(ValueId weight) const { return activation_form(graph_.value(weight).dtype); }

  /// When all that a product reads is there.
  int first_phase(const MatmulValues& values) {
    int phase = require_form(values.x, form_for(values.weight));
    for (const ValueId value : {values.bias, values.gate_bias, values.residual})
      if (value != kNoValue) phase = std::max(phase, program_.ready(value));
    return phase;
  }

  void read_operands(int launch, const MatmulValues& values) {
    program_.reads(launch, values.x, form_for(values.weight));
    for (const ValueId value : {values.weight, values.bias, values.gate, values.gate_bias, values.residual})
      program_.reads(launch, value);
  }

  void finish_product(int launch, const MatmulValues& values) {
    read_operands(launch, values);
    program_.makes(launch, values.out);
  }

  /// A product that leaves lists of its best, copies of some rows, and parts of their sums; and the merges.
  void add_taken(const MatmulValues& values, const TakenNodes& nodes) {
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

  void add_matmul(const MatmulValues& values) {
    const int phase = first_phase(values);
    finish_product(program_.add(std::make_unique<MatmulLaunch>(graph_, values), phase), values);
  }

  void add_matmul_experts(const Node& node, const MatmulValues& values) {
    const std::int64_t n_experts = graph_.value(values.weight).shape[0].constant();
    const ExpertGroupsLaunch* groups = nullptr;
    int made_by = kNoLaunch;
    for (int i = 0; i < program_.n_launches() && groups == nullptr; ++i) {
      const auto* candidate = dynamic_cast<const ExpertGroupsLaunch*>(&program_.launch(i));
      if (candidate == nullptr || candidate->ids() != node.inputs[2] || candidate->n_experts() != n_experts)
        continue;
      groups = candidate;
      made_by = i;
    }
    if (groups == nullptr) {
      auto made = std::make_unique<ExpertGroupsLaunch>(graph_, node.inputs[2], n_experts);
      groups = made.get();
      made_by = program_.add(std::move(made), program_.ready(node.inputs[2]), true);
      program_.reads(made_by, node.inputs[2]);
    }
    const int phase = std::max(program_.phase(made_by) + 1, require_form(values.x, form_for(values.weight)));
    const int launch = program_.add(std::make_unique<MatmulExpertsLaunch>(graph_, values, groups), phase);
    program_.reads_from(launch, made_by);
    finish_product(launch, values);
  }

  /// With an activation that follows.
  void add_convolution(const Node& node) {
    auto activation = Activation::kNone;
    ValueId out = node.output;
    if (const NodeId activate = only_user<ops::Activate>(out); activate != kNoNode) {
      activation = get_op<ops::Activate>(graph_.node(activate))->kind;
      out = graph_.node(activate).output;
      done_[index(activate)] = true;
    }
    add_simple(node, std::make_unique<ConvolutionLaunch>(graph_, node, activation, out), out);
  }

  // --- Attention
  // ----------------------------------------------------------------------------------------------

  void add_attention(const Node& node) {
    const auto in = named_inputs<ops::Attention>(node);
    int phase = 0;
    for (const ValueId input : node.inputs) phase = std::max(phase, program_.ready(input));
    SharedTiles* shared = nullptr;
    for (SharedTiles& candidate : tiles_)
      if (candidate.tiles->serves(graph_, in) && candidate.last_phase < phase) shared = &candidate;
    if (shared == nullptr)
      shared = &tiles_.emplace_back(SharedTiles{std::make_shared<AttentionTiles>(graph_, in)});
    const bool first = std::exchange(shared->last_phase, phase) < 0;
    add_simple(node, std::make_unique<AttentionLaunch>(graph_, node, shared->tiles, first));
  }

  /// Attention that is written out: its first product and what follows are left to its last one.
  bool add_attention_parts(NodeId id) {
    for (const WrittenOut& written_out : written_out_)
      if (written_out.parts.last == id) {
        add_written_out(written_out.parts, written_out.turned_keys);
        return true;
      }
    const auto only = [&](ValueId value) {
      return users_[index(value)].size() == 1 && !graph_.is_output(value) ? users_[index(value)][0] : kNoNode;
    };
    const auto parts = attention_parts(graph_, id, only);
    if (!parts) return false;
    // Keys lie row by row where what is multiplied with is turned.
    const View& turned = views_[index(parts->turned_keys)];
    if (!(turned.strides[static_cast<std::size_t>(turned.shape.rank() - 2)] == Dim(1))) return false;
    done_[index(id)] = true;
    for (const NodeId between : parts->between) done_[index(between)] = true;
    written_out_.push_back({*parts, turned});
    return true;
  }

  void add_written_out(const AttentionParts& parts, const View& turned_keys) {
    const auto rows_of = [&](ValueId value) {
      const View& view = views_[index(value)];
      if (!(view.strides[static_cast<std::size_t>(view.shape.rank() - 1)] == Dim(1))) make_plain(value);
      return with_four_axes(views_[index(value)]);
    };
    const ValueId result = graph_.node(parts.last).output;
    DenseAttentionViews views = {.q = rows_of(parts.q),
                                 .k = with_four_axes(turned_keys),
                                 .v = rows_of(parts.v),
                                 .out = with_four_axes(plain_view(result, graph_.value(result).shape))};
    views.k.shape = {views.k.shape[0], views.k.shape[1], views.k.shape[3], views.k.shape[2]};
    std::swap(views.k.strides[2], views.k.strides[3]);
    std::vector<ValueId> read = {views.q.base, views.k.base, views.v.base};
    if (parts.bias != kNoValue) {
      views.bias = views_[index(parts.bias)];
      views.mask = graph_.value(parts.bias).dtype == DType::kI32;
      read.push_back(views.bias->base);
    }
    int phase = 0;
    for (const ValueId value : read) phase = std::max(phase, program_.ready(value));
    const int launch = program_.add(std::make_unique<DenseAttentionLaunch>(parts.op, views), phase);
    for (const ValueId value : read) program_.reads(launch, value);
    program_.makes(launch, result);
    done_[index(parts.last)] = true;
  }

  /// A launch that reads all inputs of its node and makes its output.
  void add_simple(const Node& node, std::unique_ptr<Launch> made) {
    add_simple(node, std::move(made), node.output);
  }
  void add_simple(const Node& node, std::unique_ptr<Launch> made, ValueId output) {
    int phase = 0;
    for (const ValueId input : node.inputs) phase = std::max(phase, program_.ready(input));
    const int launch = program_.add(std::move(made), phase);
    for (const ValueId input : node.inputs) program_.reads(launch, input);
    program_.makes(launch, output);
  }

  const Graph& graph_;
  const int n_threads_;
  std::vector<std::vector<NodeId>> users_;  // By value.
  std::vector<bool> done_;                  // By node: part of a launch.
  std::vector<View> views_;                 // By value: itself, or what it is elements of.
  std::vector<RopeEntry> rope_tables_;
  struct WrittenOut {
    AttentionParts parts;
    View turned_keys;  // As they were when the first product was met: they may get memory of their own.
  };
  std::vector<WrittenOut> written_out_;
  /// Launches that share tiles use them in turn, in different phases.
  struct SharedTiles {
    std::shared_ptr<AttentionTiles> tiles;
    int last_phase = -1;
  };
  std::vector<SharedTiles> tiles_;
  ProgramBuilder program_;
};

}  // namespace

Program fuse(const Graph& graph, int n_threads) { return Fuser(graph, n_threads).run(); }

}  // namespace weft::cpu
