#include "backend/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "backend/conformance_truth.h"
#include "graph/extent.h"
#include "tensor/codec.h"

namespace weft {
namespace {

using conformance::Values;

constexpr DType kWeightTypes[] = {DType::kF32,    DType::kF16,   DType::kBF16, DType::kQ4_0,
                                  DType::kQ4_1,   DType::kQ5_0,  DType::kQ5_1, DType::kQ8_0,
                                  DType::kIQ4_NL, DType::kMXFP4, DType::kQ2_K, DType::kQ3_K,
                                  DType::kQ4_K,   DType::kQ5_K,  DType::kQ6_K, DType::kIQ4_XS};
constexpr DType kFloatTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
constexpr DType kCacheTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};

constexpr double kFloatTolerance = 2e-6;    ///< Sums and elementary functions in float.
constexpr double kProductTolerance = 1e-5;  ///< Long sums.
constexpr double kQuantisedTolerance =
    2e-2;                                 ///< Products whose activations a device may quantise to eight bits.
constexpr double kHalfTolerance = 2e-3;   ///< What was kept as f16 ...
constexpr double kBrainTolerance = 1e-2;  ///< ... or bf16, perhaps multiplied by numbers of that type.
constexpr double kCacheTolerance = 1.5e-1;  ///< ... or in four bits.

double stored_tolerance(DType type) {
  switch (type) {
    case DType::kF32:
      return kProductTolerance;
    case DType::kF16:
      return kHalfTolerance;
    case DType::kBF16:
      return kBrainTolerance;
    case DType::kQ8_0:
      return kQuantisedTolerance;
    default:
      return kCacheTolerance;
  }
}

std::string text(const Shape& shape) {
  std::string result = "{";
  for (int i = 0; i < shape.rank(); ++i) result += (i > 0 ? "," : "") + std::to_string(shape[i].factor);
  return result + "}";
}

/// The root of the mean square.
double mean_size(const Values& values) {
  double squares = 0.0;
  for (const double v : values) squares += v * v;
  return values.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(values.size()));
}

/// A graph of one node (and what it needs), its inputs, and what must come out.
class Case {
 public:
  Case(Device& device, std::uint64_t seed) : device_(device), random_(seed) {}

  Values floats(const Shape& shape, float low = -2.0f, float high = 2.0f) {
    std::uniform_real_distribution<float> draw(low, high);
    Values values(static_cast<std::size_t>(shape.elements({})));
    for (double& v : values) v = static_cast<double>(draw(random_));
    return values;
  }
  std::int32_t integer(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(random_);
  }

  /// The number of rows is a symbol, as in models: the step gives it, the bound is one more.
  Dim rows(std::int64_t n) {
    for (std::size_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i] == n) return Dim(1, static_cast<SymbolId>(i));
    symbols_.push_back(n);
    return Dim(1, graph.add_symbol("n" + std::to_string(n), 0, n + 1));
  }

  ValueId input(const Shape& shape, const Values& values) {
    const ValueId id = graph.add_input(next_name(), DType::kF32, shape);
    std::vector<float> data(values.begin(), values.end());
    host_data_.push_back({id, to_bytes(std::span<const float>(data))});
    return id;
  }
  ValueId input(const Shape& shape, const std::vector<std::int32_t>& values) {
    const ValueId id = graph.add_input(next_name(), DType::kI32, shape);
    host_data_.push_back({id, to_bytes(std::span<const std::int32_t>(values))});
    return id;
  }
  /// Packs the values and leaves in them what is stored.
  ValueId weight(DType type, const Shape& shape, Values& values) {
    const ValueId id = graph.add_weight(next_name(), type, shape);
    weights_.push_back({id, pack(type, shape.columns(), values)});
    return id;
  }
  ValueId state(DType type, const Shape& shape, CacheRole role, Values& values) {
    const ValueId id = graph.add_state(next_name(), type, shape);
    const std::int64_t cell = shape[1].factor * shape[2].factor;
    states_.push_back(
        {id, role, pack(type, shape[2].factor, values), row_bytes(type, cell), shape[0].factor});
    return id;
  }

  /// Compares a value that is an output, or the state that it stands for.
  void expect(ValueId value, Values truth) {
    graph.add_output(value);
    outputs_.push_back({value, std::move(truth)});
  }
  void expect_state(ValueId state, ValueId last, Values truth) {
    state_truths_.push_back({state, last, std::move(truth)});
  }

  /// How large results are at least taken to be, each of them: a sum may come out small beside its terms.
  void measure_against(double magnitude) { magnitude_ = magnitude; }

  ConformanceCase run(std::string what, double tolerance) {
    ConformanceCase result{std::string(name(graph.nodes().back().op)), std::move(what), true, 0.0, tolerance};
    for (const Node& node : graph.nodes())
      if (!device_.supports(graph, node)) result.supported = false;
    if (result.supported) result.error = error_of_run();
    return result;
  }

  Graph graph;

 private:
  struct Bytes {
    ValueId value;
    std::vector<std::byte> bytes;
  };
  struct State {
    ValueId value;
    CacheRole role;
    std::vector<std::byte> bytes;
    std::size_t cell_bytes;
    std::int64_t n_cells;
  };
  struct Truth {
    ValueId value;
    Values values;
  };
  struct StateTruth {
    ValueId state;
    ValueId last;
    Values values;
  };

  std::string next_name() { return "v" + std::to_string(n_names_++); }

  template <typename T>
  static std::vector<std::byte> to_bytes(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
  }

  static std::vector<std::byte> pack(DType type, std::int64_t columns, Values& values) {
    const std::size_t n = row_bytes(type, columns), rows = values.size() / static_cast<std::size_t>(columns);
    std::vector<std::byte> packed(n * rows);
    std::vector<float> row(static_cast<std::size_t>(columns));
    for (std::size_t r = 0; r < rows; ++r) {
      double* const from = values.data() + r * row.size();
      std::transform(from, from + row.size(), row.begin(), [](double v) { return static_cast<float>(v); });
      pack_row(type, row, packed.data() + r * n);
      unpack_row(type, packed.data() + r * n, row);
      std::copy(row.begin(), row.end(), from);
    }
    return packed;
  }

  static std::vector<std::int32_t> all_cells(std::int64_t n) {
    std::vector<std::int32_t> cells(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<std::int32_t>(i);
    return cells;
  }

  std::vector<std::int64_t> dims(ValueId value) const {
    return graph.value(value).shape.dims(graph.bounds());
  }

  double error_of_run() {
    std::vector<std::unique_ptr<DeviceTensor>> tensors;
    Bindings bindings(graph.values().size(), nullptr);
    const auto bind = [&](ValueId value, std::unique_ptr<DeviceTensor> tensor) {
      bindings[static_cast<std::size_t>(value)] = tensor.get();
      tensors.push_back(std::move(tensor));
    };
    for (const Bytes& weight : weights_)
      bind(weight.value,
           device_.create_weight(graph.value(weight.value).dtype, dims(weight.value), {weight.bytes, {}}));
    for (const State& state : states_) {
      bind(state.value, device_.create_state(graph.value(state.value).dtype, dims(state.value)));
      device_.write_cells(*tensors.back(), state.role, all_cells(state.n_cells), state.bytes);
    }
    for (const Bytes& input : host_data_) {
      bind(input.value, device_.create_host_tensor(graph.value(input.value).dtype, dims(input.value)));
      std::copy(input.bytes.begin(), input.bytes.end(), tensors.back()->host().begin());
    }
    for (const Truth& output : outputs_)
      bind(output.value, device_.create_host_tensor(graph.value(output.value).dtype, dims(output.value)));
    const auto plan = device_.compile(graph, bindings, {});
    plan->submit(symbols_, bindings, {});
    plan->wait();

    Values got, truth;
    for (const Truth& output : outputs_) {
      const auto bytes = bindings[static_cast<std::size_t>(output.value)]->host();
      for (std::size_t i = 0; i < output.values.size(); ++i) {
        float value = 0.0f;
        std::int32_t index = 0;
        if (graph.value(output.value).dtype == DType::kI32) {
          std::memcpy(&index, bytes.data() + i * 4, 4);
          value = static_cast<float>(index);
        } else {
          std::memcpy(&value, bytes.data() + i * 4, 4);
        }
        got.push_back(static_cast<double>(value));
      }
      truth.insert(truth.end(), output.values.begin(), output.values.end());
    }
    for (const StateTruth& expected : state_truths_) {
      const auto found = std::find_if(states_.begin(), states_.end(),
                                      [&](const State& s) { return s.value == expected.state; });
      std::vector<std::byte> bytes(found->bytes.size());
      device_.read_cells(*bindings[static_cast<std::size_t>(expected.state)], found->role,
                         all_cells(found->n_cells), bytes);
      const DType type = graph.value(expected.state).dtype;
      std::vector<float> values(expected.values.size());
      unpack_row(type, bytes.data(), values);
      got.insert(got.end(), values.begin(), values.end());
      truth.insert(truth.end(), expected.values.begin(), expected.values.end());
    }
    double difference = 0.0, norm = 0.0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      if (std::isinf(truth[i])) {
        if (got[i] != truth[i]) return std::numeric_limits<double>::infinity();
        continue;
      }
      difference += (got[i] - truth[i]) * (got[i] - truth[i]);
      norm += truth[i] * truth[i];
    }
    if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
    norm = std::max(norm, magnitude_ * magnitude_ * static_cast<double>(truth.size()));
    return difference == 0.0 ? 0.0 : std::sqrt(difference / std::max(norm, 1e-30));
  }

  Device& device_;
  double magnitude_ = 0.0;
  std::mt19937_64 random_;
  int n_names_ = 0;
  std::vector<std::int64_t> symbols_;
  std::vector<Bytes> host_data_, weights_;
  std::vector<State> states_;
  std::vector<Truth> outputs_;
  std::vector<StateTruth> state_truths_;
};

class Suite {
 public:
  Suite(Device& device, const ConformanceOptions& options) : device_(device), options_(options) {}

  std::vector<ConformanceCase> run() {
    elementwise();
    norms();
    get_rows();
    products();
    ropes();
    caches();
    attention();
    recurrent();
    best();
    experts();
    return std::move(results_);
  }

 private:
  Case next() { return {device_, options_.seed + ++n_cases_}; }
  bool wanted(std::string_view op) const { return options_.only.empty() || options_.only == op; }
  void take(Case& c, std::string what, double tolerance) {
    results_.push_back(c.run(std::move(what), tolerance));
    if (options_.progress) options_.progress(results_.back());
  }

  void elementwise() {
    for (const std::int64_t m : {0, 1, 3, 17})
      for (const std::int64_t d : {1, 5, 64, 300}) {
        const Shape fixed = {m, d};
        const std::string where = text(fixed);
        for (const bool vector : {false, true}) {
          for (const Op& op : {Op(ops::Add{}), Op(ops::Mul{})}) {
            if (!wanted(name(op))) continue;
            Case c = next();
            const Shape shape = {c.rows(m), d};
            const Values a = c.floats(fixed);
            Values b = c.floats(vector ? Shape{d} : fixed);
            const ValueId x = c.input(shape, a);
            const ValueId other = vector ? c.weight(DType::kF32, {d}, b) : c.input(shape, b);
            c.expect(c.graph.add(op, {x, other}, "y"), conformance::binary(op, a, b));
            take(c, where + (vector ? " + {d}" : ""), kFloatTolerance);
          }
        }
        std::vector<Op> unary = {ops::Scale{-0.37f}, ops::Softcap{1.5f}, ops::Softcap{30.0f}};
        for (int kind = 0; kind <= static_cast<int>(Activation::kSoftplus); ++kind)
          unary.emplace_back(ops::Activate{static_cast<Activation>(kind)});
        for (const Op& op : unary) {
          if (!wanted(name(op))) continue;
          Case c = next();
          const Values a = c.floats(fixed, -8.0f, 8.0f);
          c.expect(c.graph.add(op, {c.input({c.rows(m), d}, a)}, "y"), conformance::unary(op, a));
          take(c, where + conformance::parameter_text(op), kFloatTolerance);
        }
        for (int kind = 0; kind <= static_cast<int>(Activation::kSoftplus) && wanted("glu"); ++kind) {
          Case c = next();
          const ops::Glu op{static_cast<Activation>(kind)};
          const Values a = c.floats(fixed, -8.0f, 8.0f), b = c.floats(fixed);
          const Shape shape = {c.rows(m), d};
          const ValueId gate = c.input(shape, a), up = c.input(shape, b);
          c.expect(c.graph.add(op, {gate, up}, "y"), conformance::glu(op, a, b));
          take(c, where + conformance::parameter_text(op), kFloatTolerance);
        }
        for (const std::size_t n : {1, 3}) {
          if (!wanted("concat")) break;
          Case c = next();
          // Widths d, 2 d, 3 d.
          std::vector<ValueId> parts;
          Values truth;
          std::vector<Values> values;
          for (std::size_t i = 0; i < n; ++i) {
            const auto width = d * static_cast<std::int64_t>(i + 1);
            values.push_back(c.floats({m, width}));
            parts.push_back(c.input({c.rows(m), width}, values.back()));
          }
          for (std::int64_t row = 0; row < m; ++row)
            for (std::size_t i = 0; i < n; ++i) {
              const auto width = d * static_cast<std::int64_t>(i + 1);
              const auto from = values[i].begin() + row * width;
              truth.insert(truth.end(), from, from + width);
            }
          c.expect(c.graph.add(ops::Concat{}, parts, "y"), truth);
          take(c, where + " of " + std::to_string(n), 0.0);
        }
        if (wanted("override")) {
          Case c = next();
          const Shape shape = {c.rows(m), d};
          const Values a = c.floats(fixed), b = c.floats(fixed);
          std::vector<std::int32_t> use(static_cast<std::size_t>(m));
          for (auto& u : use) u = c.integer(0, 1);
          Values truth = a;
          for (std::size_t i = 0; i < truth.size(); ++i)
            if (use[i / static_cast<std::size_t>(d)] != 0) truth[i] = b[i];
          const ValueId x = c.input(shape, a), rows = c.input(shape, b), uses = c.input({c.rows(m)}, use);
          c.expect(c.graph.add(ops::Override{}, {x, rows, uses}, "y"), std::move(truth));
          take(c, where, 0.0);
        }
      }
  }

  void norms() {
    if (!wanted("norm")) return;
    for (const NormKind kind : {NormKind::kRms, NormKind::kLayer})
      for (const std::int64_t m : {0, 1, 5})
        for (const std::int64_t group : {1, 7, 64, 300})
          for (const std::int64_t n_groups : {1, 3})
            for (const int n_vectors : {0, 1, 2}) {
              Case c = next();
              const ops::Norm op{kind, 1e-5f, n_groups == 1 ? 0 : group};
              const Values x = c.floats({m, group * n_groups}, -1.0f, 3.0f);
              Values weight = c.floats({group}), bias = c.floats({group});
              const ValueId in = c.input({c.rows(m), group * n_groups}, x);
              const ValueId w = n_vectors > 0 ? c.weight(DType::kF32, {group}, weight) : kNoValue;
              const ValueId b = n_vectors > 1 ? c.weight(DType::kF32, {group}, bias) : kNoValue;
              if (n_vectors < 1) weight.clear();
              if (n_vectors < 2) bias.clear();
              c.expect(c.graph.add(op, {in, w, b}, "y"),
                       conformance::norm(op, x, static_cast<std::size_t>(group), weight, bias));
              // A group of one element is its own mean: all that is left is rounding.
              take(c,
                   text({m, group * n_groups}) + (kind == NormKind::kRms ? " rms" : " layer") +
                       " groups of " + std::to_string(group) + " vectors " + std::to_string(n_vectors),
                   group == 1 ? 1e-3 : kFloatTolerance);
            }
  }

  void get_rows() {
    if (!wanted("get_rows")) return;
    for (const DType type : kWeightTypes)
      for (const std::int64_t m : {0, 1, 7}) {
        const std::int64_t block = info(type).block_elements;
        for (const std::int64_t d : {block, block == 1 ? 37 : 2 * block}) {
          Case c = next();
          Values table = c.floats({9, d});
          const ValueId weight = c.weight(type, {9, d}, table);
          std::vector<std::int32_t> ids(static_cast<std::size_t>(m));
          Values truth;
          for (auto& id : ids) {
            id = c.integer(0, 8);
            truth.insert(truth.end(), table.begin() + id * d, table.begin() + (id + 1) * d);
          }
          c.expect(c.graph.add(ops::GetRows{}, {weight, c.input({c.rows(m)}, ids)}, "y"), std::move(truth));
          take(c, std::string(info(type).name) + " {9," + std::to_string(d) + "} rows " + std::to_string(m),
               1e-6);
        }
      }
  }

  void products() {
    for (const DType type : kWeightTypes) {
      const std::int64_t block = info(type).block_elements;
      const double tolerance =
          info(type).kind == DTypeKind::kQuantised ? kQuantisedTolerance : kProductTolerance;
      for (const std::int64_t m : {0, 1, 3, 4, 5, 16, 33})
        for (const auto& [o, i] :
             {std::pair{std::int64_t{1}, block}, std::pair{std::int64_t{19}, block == 1 ? 45 : block},
              std::pair{std::int64_t{64}, block == 1 ? 300 : 2 * block}}) {
          if (!wanted("matmul")) continue;
          Case c = next();
          Values weight = c.floats({o, i}), bias = c.floats({o});
          const Values x = c.floats({m, i});
          const ValueId w = c.weight(type, {o, i}, weight);
          const ValueId b = m % 2 == 1 ? c.weight(DType::kF32, {o}, bias) : kNoValue;
          if (b == kNoValue) bias.clear();
          c.expect(c.graph.add(ops::Matmul{}, {w, c.input({c.rows(m), i}, x), b}, "y"),
                   conformance::matmul(weight, x, static_cast<std::size_t>(i), bias));
          c.measure_against(std::sqrt(static_cast<double>(i)) * mean_size(weight) * mean_size(x));
          take(c, std::string(info(type).name) + " " + text({o, i}) + " rows " + std::to_string(m),
               tolerance);
        }
      for (const std::int64_t m : {0, 1, 6})
        for (const bool each : {false, true}) {
          if (!wanted("matmul_experts")) continue;
          Case c = next();
          const std::int64_t e = 5, k = 3, o = 11, i = block == 1 ? 45 : block;
          Values weight = c.floats({e, o, i});
          const Values x = c.floats(each ? Shape{m, k, i} : Shape{m, i});
          std::vector<std::int32_t> ids(static_cast<std::size_t>(m * k));
          for (auto& id : ids) id = c.integer(0, static_cast<std::int32_t>(e) - 1);
          const ValueId w = c.weight(type, {e, o, i}, weight);
          const Dim rows = c.rows(m);
          const ValueId in = c.input(each ? Shape{rows, k, i} : Shape{rows, i}, x);
          c.expect(c.graph.add(ops::MatmulExperts{}, {w, in, c.input({rows, k}, ids)}, "y"),
                   conformance::matmul_experts(weight, x, ids, {e, o, i, k, each}));
          take(c,
               std::string(info(type).name) + (each ? " x of each" : " x of all") + " rows " +
                   std::to_string(m),
               tolerance);
        }
    }
  }

  void ropes() {
    if (!wanted("rope")) return;
    for (const bool neox : {false, true})
      for (const std::int64_t m : {0, 1, 5})
        for (const int n_rot : {8, 24, 32})
          for (const int scaling : {0, 1, 2, 3}) {
            Case c = next();
            ops::Rope op{.head_dim = 32, .n_rot = n_rot, .neox = neox};
            if (scaling == 1) op.freq_scale = 0.25f;
            if (scaling == 2) {
              op = {32, n_rot, neox, 1e6f, 0.125f, 1.0f, 0.9f, 32.0f, 1.0f, 4096};
            }
            Values factors = c.floats({n_rot / 2}, 0.5f, 8.0f);
            const Values x = c.floats({m, 96});
            std::vector<std::int32_t> positions(static_cast<std::size_t>(m));
            for (auto& p : positions) p = c.integer(0, 200000);
            const ValueId in = c.input({c.rows(m), 96}, x), at = c.input({c.rows(m)}, positions);
            const ValueId f = scaling == 3 ? c.weight(DType::kF32, {n_rot / 2}, factors) : kNoValue;
            if (f == kNoValue) factors.clear();
            c.expect(c.graph.add(op, {in, at, f}, "y"), conformance::rope(op, x, 96, positions, factors));
            take(c,
                 text({m, 96}) + (neox ? " neox" : " pairs") + " n_rot " + std::to_string(n_rot) +
                     (scaling == 0   ? ""
                      : scaling == 1 ? " linear"
                      : scaling == 2 ? " yarn"
                                     : " factors"),
                 kFloatTolerance);
          }
  }

  void caches() {
    const std::int64_t cells = 128, heads = 2, head_dim = 32, width = heads * head_dim;
    for (const DType type : kCacheTypes)
      for (const CacheRole role : {CacheRole::kKeys, CacheRole::kValues})
        for (const std::int64_t m : {0, 1, 9}) {
          const std::string where = std::string(info(type).name) +
                                    (role == CacheRole::kKeys ? " keys" : " values") + " rows " +
                                    std::to_string(m);
          if (wanted("store_cache")) {
            Case c = next();
            Values cache = c.floats({cells, heads, head_dim});
            const Values x = c.floats({m, width});
            const ValueId state = c.state(type, {cells, heads, head_dim}, role, cache);
            std::vector<std::int32_t> to;
            for (std::int64_t r = 0; r < m; ++r)
              to.push_back(static_cast<std::int32_t>((r * 37 + 5) % cells));
            for (std::int64_t r = 0; r < m; ++r)
              std::copy_n(x.begin() + r * width, width,
                          cache.begin() + to[static_cast<std::size_t>(r)] * width);
            const ValueId rows = c.input({c.rows(m), width}, x);
            const ValueId last =
                c.graph.add(ops::StoreCache{role}, {state, rows, c.input({c.rows(m)}, to)}, "y");
            c.expect_state(state, last, std::move(cache));
            take(c, where, stored_tolerance(type));
          }
          for (const int kind : {0, 1, 2}) {  // Copies, pairs, halves.
            if (!wanted("move_cells") || (kind > 0 && role == CacheRole::kValues)) continue;
            Case c = next();
            Values cache = c.floats({cells, heads, head_dim});
            const ValueId state = c.state(type, {cells, heads, head_dim}, role, cache);
            ops::MoveCells op{role, {}};
            if (kind > 0) op.rope = {.head_dim = head_dim, .n_rot = 16, .neox = kind == 2};
            std::vector<std::int32_t> from, to, deltas;
            for (std::int64_t r = 0; r < m; ++r) {
              // Some moves read what an earlier one wrote, some stay in place, some turn nothing.
              from.push_back(r > 0 && r % 3 == 0 ? to.back() : c.integer(0, 127));
              to.push_back(r % 4 == 1 ? from.back() : c.integer(0, 127));
              deltas.push_back(r % 3 == 1 ? 0 : c.integer(-70000, 70000));
            }
            conformance::move_cells(op, cache, static_cast<std::size_t>(width), from, to, deltas);
            const Dim n = c.rows(m);
            const ValueId last = c.graph.add(
                op, {state, c.input({n}, from), c.input({n}, to), kind > 0 ? c.input({n}, deltas) : kNoValue},
                "y");
            c.expect_state(state, last, std::move(cache));
            take(c,
                 where + (kind == 0   ? " copied"
                          : kind == 1 ? " turned"
                                      : " turned neox"),
                 stored_tolerance(type));
          }
        }
  }

  void attention() {
    if (!wanted("attention")) return;
    for (const DType type : kCacheTypes)
      for (const int variant : {0, 1, 2, 3, 4, 5})
        for (const std::int64_t m : {0, 1, 7}) {
          Case c = next();
          conformance::AttentionCase a;
          a.op = {.n_heads = 6, .scale = 0.18f};
          a.n_kv_heads = variant == 1 ? 6 : 2;
          a.k_dim = variant == 2 ? 64 : 32;
          a.v_dim = variant == 2 ? 96 : 32;
          if (variant == 3) a.op.softcap = 5.0f;
          if (variant == 4) a.op.window = 50;
          const std::int64_t n_cells = 5 * kPageCells;
          a.k = c.floats({n_cells, a.n_kv_heads * a.k_dim});
          a.v = c.floats({n_cells, a.n_kv_heads * a.v_dim});
          a.q = c.floats({m, a.op.n_heads * a.k_dim});
          const ValueId k = c.state(type, {n_cells, a.n_kv_heads, a.k_dim}, CacheRole::kKeys, a.k);
          const ValueId v = c.state(type, {n_cells, a.n_kv_heads, a.v_dim}, CacheRole::kValues, a.v);
          // Two sequences over the same pool: of whole pages, and of a part of one and a page that is
          // divided.
          const std::uint64_t all = ~std::uint64_t{0};
          a.extents = {Extent{all, 3, 0, 1, 0},         Extent{all, 0, 64, 1, 0},
                       Extent{0x3ffffff, 4, 128, 1, 0}, Extent{0xff00ff0f, 3, 0, 1, 0},
                       Extent{all, 1, 64, 2, 0},        Extent{}};
          a.width = 3;
          a.counts = {3, 2};
          a.hidden.clear();
          for (std::int64_t r = 0; r < m; ++r) {
            a.sequences.push_back(r % 3 == 1 ? 1 : 0);
            a.positions.push_back(r == 0 ? 5 : c.integer(0, 153));
            a.ends.push_back(variant == 5 && r == 2 ? 0 : a.positions.back() + 1);
            a.hidden_first.push_back(-1);
            if (variant == 5 && r % 2 == 0) {
              a.hidden_first.back() = static_cast<std::int32_t>(a.hidden.size());
              a.hidden.push_back({static_cast<std::int32_t>(r), 3, 0xf0f0f0f0f0ull});
              a.hidden.push_back({static_cast<std::int32_t>(r), 0, 0x1ull << 40});
            }
          }
          a.hidden.emplace_back();
          const auto words = [](const auto& list) {
            std::vector<std::int32_t> result(list.size() * sizeof(list[0]) / 4);
            if (!list.empty()) std::memcpy(result.data(), list.data(), result.size() * 4);
            return result;
          };
          const Dim n = c.rows(m);
          const ValueId q = c.input({n, a.op.n_heads * a.k_dim}, a.q);
          const ValueId positions = c.input({n}, a.positions), sequences = c.input({n}, a.sequences);
          const ValueId extents = c.input({2, a.width, kExtentWords}, words(a.extents));
          const ValueId counts = c.input({2}, a.counts), ends = c.input({n}, a.ends);
          const ValueId first = c.input({n}, a.hidden_first);
          const ValueId hidden =
              c.input({static_cast<std::int64_t>(a.hidden.size()), kHiddenWords}, words(a.hidden));
          c.expect(
              c.graph.add(a.op, {q, k, v, positions, sequences, extents, counts, ends, first, hidden}, "y"),
              conformance::attention(a));
          constexpr const char* kVariants[] = {"grouped", "all heads", "K 64 V 96",
                                               "softcap", "window",    "hidden"};
          take(c, std::string(info(type).name) + " " + kVariants[variant] + " rows " + std::to_string(m),
               info(type).kind == DTypeKind::kQuantised ? kQuantisedTolerance
               : type == DType::kF32                    ? kProductTolerance
               : type == DType::kF16                    ? kHalfTolerance
                                                        : kBrainTolerance);
        }
  }

  void recurrent() {
    const std::int64_t slots = 6;
    for (const std::int64_t m : {0, 1, 5})
      for (const std::int64_t d : {3, 70}) {
        // Rows of one text, one after another, and one that begins anew.
        std::vector<std::int32_t> from, to;
        for (std::int32_t r = 0; r < m; ++r) {
          from.push_back(r == 3 ? -1 : r == 0 ? 5 : r - 1);
          to.push_back(r);
        }
        for (const bool bias : {false, true}) {
          if (!wanted("short_conv")) continue;
          Case c = next();
          const std::int64_t taps = 4;
          conformance::ConvCase a{static_cast<std::size_t>(d),
                                  static_cast<std::size_t>(taps),
                                  c.floats({slots, taps - 1, d}),
                                  c.floats({m, d}),
                                  c.floats({d, taps}),
                                  bias ? c.floats({d}) : Values{},
                                  from,
                                  to};
          const ValueId state = c.state(DType::kF32, {slots, taps - 1, d}, CacheRole::kSlots, a.state);
          const Dim n = c.rows(m);
          const ValueId x = c.input({n, d}, a.x), w = c.weight(DType::kF32, {d, taps}, a.weight);
          const ValueId f = c.input({n}, from), t = c.input({n}, to);
          const ValueId b = bias ? c.weight(DType::kF32, {d}, a.bias) : kNoValue;
          const ValueId y = c.graph.add(ops::ShortConv{}, {state, x, w, f, t, b}, "y");
          c.expect(y, conformance::short_conv(a));
          c.expect_state(state, y, a.state);
          take(c, text({m, d}) + (bias ? " bias" : ""), kProductTolerance);
        }
        for (const bool heads : {false, true}) {
          if (!wanted("selective_scan")) continue;
          Case c = next();
          const std::int64_t n_state = 5, columns = heads ? 4 * d : d, e = heads ? 4 : columns,
                             groups = heads ? 2 : 1;
          conformance::ScanCase a;
          a.columns = static_cast<std::size_t>(columns);
          a.n_state = n_state;
          a.heads = heads ? 4 : 0;
          a.groups = static_cast<std::size_t>(groups);
          a.state = c.floats({slots, n_state, columns});
          a.x = c.floats({m, columns});
          a.dt = c.floats({m, e}, 0.01f, 1.0f);
          a.b = c.floats({m, groups * n_state});
          a.c = c.floats({m, groups * n_state});
          a.a = c.floats(heads ? Shape{e} : Shape{columns, n_state}, -2.0f, -0.1f);
          a.skip = c.floats({e});
          a.from = from;
          a.to = to;
          const ValueId state = c.state(DType::kF32, {slots, n_state, columns}, CacheRole::kSlots, a.state);
          const Dim n = c.rows(m);
          const ValueId x = c.input({n, columns}, a.x), dt = c.input({n, e}, a.dt);
          const ValueId b = c.input({n, groups * n_state}, a.b), cc = c.input({n, groups * n_state}, a.c);
          const ValueId w = c.weight(DType::kF32, heads ? Shape{e} : Shape{columns, n_state}, a.a);
          const ValueId skip = c.weight(DType::kF32, {e}, a.skip);
          const ValueId f = c.input({n}, from), t = c.input({n}, to);
          const ValueId y = c.graph.add(ops::SelectiveScan{}, {state, x, dt, b, cc, w, skip, f, t}, "y");
          c.expect(y, conformance::selective_scan(a));
          c.expect_state(state, y, a.state);
          take(c, text({m, columns}) + (heads ? " heads" : ""), kProductTolerance);
        }
      }
  }

  void best() {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    for (const std::int64_t m : {0, 1, 5})
      for (const std::int64_t d : {1, 7, 16, 50, 700})
        for (const int n : {1, 2, 40})
          for (const bool counted : {false, true}) {
            if (n > d || !wanted("best")) continue;
            Case c = next();
            Values x = c.floats({m, d});
            // Equals, what is no number and what is infinite, each row in its own way.
            for (std::size_t i = 0; i < x.size(); ++i) {
              const std::int32_t draw = c.integer(0, 19);
              if (draw < 8) x[i] = std::round(x[i]);
              if (draw == 8) x[i] = kNan;
              if (draw == 9) x[i] = -kInf;
              if (draw == 10 && d > 16) x[i] = kInf;
            }
            if (m > 1) std::fill_n(x.begin(), d, kNan);
            std::vector<std::int32_t> counts(counted ? static_cast<std::size_t>(m) : 0);
            for (std::int32_t& count : counts) count = c.integer(0, n);
            const ValueId in = c.input({c.rows(m), d}, x);
            const ValueId of_rows = counted ? c.input({c.rows(m)}, counts) : kNoValue;
            c.expect(c.graph.add(ops::Best{n}, {in, of_rows}, "y"),
                     conformance::best(x, static_cast<std::size_t>(d), static_cast<std::size_t>(n), counts));
            take(c, text({m, d}) + " n " + std::to_string(n) + (counted ? " counted" : ""), 0.0);
          }
  }

  void experts() {
    for (const std::int64_t m : {0, 1, 6})
      for (const std::int64_t e : {4, 60})
        for (const std::int64_t k : {1, 4}) {
          const std::string where = text({m, e}) + " k " + std::to_string(k);
          Case ids_case = next();
          Values logits = ids_case.floats({m, e});
          if (!logits.empty()) logits.back() = logits[logits.size() - 2];  // Two equals.
          const std::vector<std::int32_t> ids =
              conformance::top_k(logits, static_cast<std::size_t>(e), static_cast<std::size_t>(k));
          if (wanted("top_k")) {
            Case& c = ids_case;
            c.expect(c.graph.add(ops::TopK{static_cast<int>(k)}, {c.input({c.rows(m), e}, logits)}, "y"),
                     Values(ids.begin(), ids.end()));
            take(c, where, 0.0);
          }
          for (const bool normalise : {false, true}) {
            if (!wanted("expert_weights")) continue;
            Case c = next();
            const ops::ExpertWeights op{normalise, normalise ? 1.0f : 2.5f};
            const ValueId x = c.input({c.rows(m), e}, logits), chosen = c.input({c.rows(m), k}, ids);
            c.expect(c.graph.add(op, {x, chosen}, "y"),
                     conformance::expert_weights(op, logits, static_cast<std::size_t>(e), ids,
                                                 static_cast<std::size_t>(k)));
            take(c, where + (normalise ? " normalised" : ""), kFloatTolerance);
          }
          if (wanted("sum_experts")) {
            Case c = next();
            const Values x = c.floats({m, k, e}), w = c.floats({m, k});
            Values truth(static_cast<std::size_t>(m * e));
            for (std::size_t i = 0; i < x.size(); ++i) {
              const std::size_t row = i / static_cast<std::size_t>(k * e),
                                column = i % static_cast<std::size_t>(e);
              truth[row * static_cast<std::size_t>(e) + column] += x[i] * w[i / static_cast<std::size_t>(e)];
            }
            const ValueId in = c.input({c.rows(m), k, e}, x), weights = c.input({c.rows(m), k}, w);
            c.expect(c.graph.add(ops::SumExperts{}, {in, weights}, "y"), std::move(truth));
            take(c, where, kFloatTolerance);
          }
        }
  }

  Device& device_;
  const ConformanceOptions& options_;
  std::uint64_t n_cases_ = 0;
  std::vector<ConformanceCase> results_;
};

}  // namespace

std::vector<ConformanceCase> check_conformance(Device& device, const ConformanceOptions& options) {
  return Suite(device, options).run();
}

}  // namespace weft
