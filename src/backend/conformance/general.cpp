// Cases of ops over values of any rank: shapes that broadcast, operands with strides, elements that are
// infinite or no numbers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/conformance/general_operands.h"
#include "base/enumerators.h"
#include "base/to_size.h"

namespace weft::conformance::cases {
namespace {

struct Pair {
  std::vector<std::int64_t> a, b;
};
const Pair kPairs[] = {
    {{kRows, 5}, {kRows, 5}},
    {{kRows, 70}, {70}},
    {{5}, {kRows, 5}},
    {{kRows, 1}, {kRows, 70}},
    {{kRows, 700}, {kRows, 1}},
    {{kRows, 1, 3}, {1, 4, 1}},
    {{2, kRows, 3, 4}, {kRows, 1, 4}},
    {{1}, {1}},
    {{}, {3}},
    {{kRows}, {kRows}},
    {{33}, {33}},
    {{4, kRows}, {kRows}},
};

/// Runs a case for each pair of shapes, plain and strided.
template <typename F>
void for_each_pair(Suite& suite, std::string_view op, F run) {
  if (!suite.wanted(op)) return;
  for (const std::int64_t m : {0, 1, 19})
    for (const Pair& pair : kPairs)
      for (const bool strided : {false, true}) {
        Case c = suite.next();
        Operands make(c, m);
        const Known a = strided ? make.strided(pair.a) : make.edgy(pair.a);
        const Known b = strided ? make.strided(pair.b) : make.edgy(pair.b);
        run(c, make, a, b, text_of(a) + " " + text_of(b) + (strided ? " strided" : ""));
      }
}

template <typename F>
Values map(const Known& a, const Known& b, F f) {
  const Sizes dims = broadcast_dims({a.tensor, b.tensor});
  const Tensor x = broadcast_to(a.tensor, dims), y = broadcast_to(b.tensor, dims);
  Values result(x.values.size());
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = f(x.values[i], y.values[i]);
  return as_floats(std::move(result));
}

void unary_cases(Suite& suite) {
  const std::vector<std::int64_t> shapes[] = {{kRows, 67}, {kRows, 2, 5}, {kRows}, {}, {3, kRows}};
  for (const std::int64_t m : {0, 1, 9})
    for (const auto& shape : shapes)
      for (const int variant : {0, 1, 2}) {
        const auto make = [&](Case& c) {
          Operands operands(c, m);
          return variant == 0   ? operands.plain(shape)
                 : variant == 1 ? operands.edgy(shape)
                                : operands.strided(shape);
        };
        const char* const how = variant == 0 ? "" : variant == 1 ? " edges" : " strided";
        for (const UnaryKind kind : base::enumerators<UnaryKind>()) {
          if (!suite.wanted("unary")) break;
          Case c = suite.next();
          const Known x = make(c);
          Values truth = x.tensor.values;
          for (double& value : truth) value = unary(kind, value);
          c.expect(c.graph.add(ops::Unary{kind}, {x.id}, "y"), as_floats(std::move(truth)));
          suite.take(c, text_of(x) + " kind " + std::to_string(static_cast<int>(kind)) + how,
                     kFloatTolerance);
        }
        for (const Op& op :
             {Op(ops::Scale{-0.37f}), Op(ops::Softcap{1.5f}), Op(ops::Activate{Activation::kGeluErf})}) {
          if (!suite.wanted(to_string(op)) || variant == 1) continue;
          Case c = suite.next();
          const Known x = make(c);
          c.expect(c.graph.add(op, std::vector{x.id}, "y"), conformance::unary(op, x.tensor.values));
          suite.take(c, text_of(x) + how, kFloatTolerance);
        }
        if (suite.wanted("softmax") && !shape.empty() && variant != 1) {
          Case c = suite.next();
          const Known x = make(c);
          c.expect(c.graph.add(ops::Softmax{}, {x.id}, "y"), softmax(x.tensor.values, x.tensor.dims.back()));
          suite.take(c, text_of(x) + how, kFloatTolerance);
        }
        if (!suite.wanted("clamp")) continue;
        Case c = suite.next();
        const Known x = make(c);
        Values truth = x.tensor.values;
        for (double& value : truth) value = std::isnan(value) ? value : std::clamp(value, -0.75, 1.5);
        c.expect(c.graph.add(ops::Clamp{-0.75f, 1.5f}, {x.id}, "y"), std::move(truth));
        suite.take(c, text_of(x) + how, 0.0);
      }
}

void binary_cases(Suite& suite) {
  for (const bool product : {false, true})
    for_each_pair(suite, product ? "mul" : "add",
                  [&](Case& c, Operands&, const Known& a, const Known& b, std::string what) {
                    c.expect(
                        c.graph.add(product ? Op(ops::Mul{}) : Op(ops::Add{}), std::vector{a.id, b.id}, "y"),
                        map(a, b, [&](double x, double y) { return product ? x * y : x + y; }));
                    suite.take(c, std::move(what), kFloatTolerance);
                  });
  for (const BinaryKind kind : base::enumerators<BinaryKind>()) {
    if (kind == BinaryKind::kAdd || kind == BinaryKind::kMul) continue;  // ops::Add and ops::Mul.
    for_each_pair(suite, "binary", [&](Case& c, Operands&, const Known& a, const Known& b, std::string what) {
      c.expect(c.graph.add(ops::Binary{kind}, {a.id, b.id}, "y"),
               map(a, b, [&](double x, double y) { return binary(kind, x, y); }));
      suite.take(c, what + " kind " + std::to_string(static_cast<int>(kind)), kFloatTolerance);
    });
  }
  for (const bool first : {false, true})
    for (const BinaryKind kind : base::enumerators<BinaryKind>())
      for (const bool strided : {false, true}) {
        if (!suite.wanted("binary")) continue;
        Case c = suite.next();
        Operands make(c, 7);
        const ops::Binary op{kind, 1.7f, first};
        const Known x = strided ? make.strided({kRows, 41}) : make.edgy({kRows, 41});
        Values truth = x.tensor.values;
        const auto scalar = static_cast<double>(op.scalar);
        for (double& value : truth)
          value = first ? binary(op.kind, scalar, value) : binary(op.kind, value, scalar);
        c.expect(c.graph.add(op, {x.id}, "y"), as_floats(std::move(truth)));
        suite.take(c, "scalar kind " + std::to_string(static_cast<int>(kind)) + (first ? " first" : ""),
                   kFloatTolerance);
      }
}

void choice_cases(Suite& suite) {
  for (const CompareKind kind : base::enumerators<CompareKind>()) {
    const ops::Compare op{kind};
    const auto holds = [&](double x, double y) { return compare(op.kind, x, y) ? 1.0 : 0.0; };
    for_each_pair(
        suite, "compare", [&](Case& c, Operands& make, const Known& a, const Known& b, std::string what) {
          const bool of_floats = c.integer(0, 1) == 0;
          const auto sizes = [](const Known& x) {
            std::vector<std::int64_t> result;
            for (int i = 0; i < x.shape.rank(); ++i)
              result.push_back(x.shape[i].is_constant() ? x.shape[i].constant() : kRows);
            return result;
          };
          const Known x = of_floats ? a : make.integers(sizes(a), -2, 2),
                      y = of_floats ? b : make.integers(sizes(b), -2, 2);
          c.expect(c.graph.add(op, {x.id, y.id}, "y"), map(x, y, holds));
          suite.take(c, what + (of_floats ? "" : " i32") + " kind " + std::to_string(static_cast<int>(kind)),
                     0.0);
        });
    for (const bool of_floats : {false, true}) {
      if (!suite.wanted("compare")) continue;
      Case c = suite.next();
      Operands make(c, 5);
      const ops::Compare scalar{op.kind, of_floats ? 0.5f : 1.0f};
      const Known x = of_floats ? make.edgy({kRows, 23}) : make.integers({kRows, 23}, -1, 3);
      Values truth = x.tensor.values;
      for (double& value : truth) value = holds(value, static_cast<double>(scalar.scalar));
      c.expect(c.graph.add(scalar, {x.id}, "y"), std::move(truth));
      suite.take(
          c, std::string(of_floats ? "" : "i32 ") + "scalar kind " + std::to_string(static_cast<int>(kind)),
          0.0);
    }
  }
  struct Triple {
    std::vector<std::int64_t> condition, a, b;
  };
  const Triple triples[] = {{{kRows, 6}, {kRows, 6}, {kRows, 6}}, {{kRows, 1}, {kRows, 70}, {70}},
                            {{5}, {kRows, 1}, {kRows, 5}},        {{3, 1, 4}, {kRows, 1}, {}},
                            {{kRows}, {kRows}, {kRows}},          {{}, {2}, {1}}};
  for (const std::int64_t m : {0, 1, 19})
    for (const Triple& triple : triples)
      for (const int variant : {0, 1, 2}) {  // Edges, a scalar, strides.
        if (!suite.wanted("where")) continue;
        Case c = suite.next();
        Operands make(c, m);
        const auto operand = [&](const std::vector<std::int64_t>& sizes) {
          return variant == 2 ? make.strided(sizes) : make.edgy(sizes);
        };
        const Known condition = make.integers(triple.condition, 0, 1), a = operand(triple.a),
                    b = operand(triple.b);
        const bool scalar = variant == 1;
        std::vector<Tensor> all = {condition.tensor, a.tensor};
        std::vector<ValueId> inputs = {condition.id, a.id};
        if (!scalar) {
          all.push_back(b.tensor);
          inputs.push_back(b.id);
        }
        const Sizes dims = broadcast_dims(all);
        const Tensor use = broadcast_to(condition.tensor, dims), x = broadcast_to(a.tensor, dims);
        const Tensor y = scalar ? Tensor(dims) : broadcast_to(b.tensor, dims);
        Values truth = x.values;
        for (std::size_t i = 0; i < truth.size(); ++i)
          if (use.values[i] == 0.0) truth[i] = scalar ? -0.25 : y.values[i];
        c.expect(c.graph.add(Op(ops::Where{-0.25f}), inputs, "y"), std::move(truth));
        suite.take(c,
                   text_of(condition) + " " + text_of(a) + " " + (scalar ? "scalar" : text_of(b)) +
                       (variant == 2 ? " strided" : ""),
                   0.0);
      }
}

void reduce_cases(Suite& suite) {
  if (!suite.wanted("reduce")) return;
  const std::vector<std::int64_t> shapes[] = {{kRows, 37}, {3, kRows, 40}, {2, 5, kRows, 3},
                                              {kRows},     {700, 3},       {}};
  for (const std::int64_t m : {0, 1, 65})
    for (const auto& shape : shapes)
      for (std::uint32_t axes = 0; axes < (1u << shape.size()); ++axes)
        for (const ReduceKind kind : base::enumerators<ReduceKind>())
          for (const int variant : {0, 1, 2}) {
            Case c = suite.next();
            Operands make(c, m);
            // Parts of a product that are infinite or 0 would make it depend on its order.
            const float most = kind == ReduceKind::kProd ? 2.0f : 60.0f;
            const Known x = variant == 0   ? make.plain(shape)
                            : variant == 1 ? make.edgy(shape, false, most)
                                           : make.strided(shape);
            const ops::Reduce op{kind, axes, variant == 2};
            c.expect(c.graph.add(op, {x.id}, "y"), as_floats(reduce(op, x.tensor).values));
            c.measure_against(1.0);  // Sums may come out near zero.
            suite.take(
                c,
                text_of(x) + " axes " + std::to_string(axes) + " kind " +
                    std::to_string(static_cast<int>(kind)) +
                    (variant == 0   ? ""
                     : variant == 1 ? " edges"
                                    : " strided"),
                op.kind == ReduceKind::kSum || op.kind == ReduceKind::kMean || op.kind == ReduceKind::kProd
                    ? kProductTolerance
                    : 0.0);
          }
}

void batch_matmul_cases(Suite& suite) {
  if (!suite.wanted("batch_matmul")) return;
  const std::int64_t m_of[] = {0, 1, 2, 7, 30, 250};
  for (const std::int64_t m : m_of)
    for (const auto& [k, n] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {0, 3}, {45, 33}, {200, 17}, {400, 150}})
      for (const int variant : {0, 1, 2, 3}) {
        Case c = suite.next();
        Operands make(c, m);
        const std::vector<std::int64_t> batch_a = variant < 2    ? std::vector<std::int64_t>{}
                                                  : variant == 2 ? std::vector<std::int64_t>{2, 1}
                                                                 : std::vector<std::int64_t>{3};
        const std::vector<std::int64_t> batch_b =
            variant == 2 ? std::vector<std::int64_t>{3} : std::vector<std::int64_t>{};
        std::vector<std::int64_t> a = batch_a, b = batch_b;
        a.insert(a.end(), {kRows, k});
        b.insert(b.end(), {k, n});
        const Known left = variant == 0 ? make.plain(a) : make.strided(a);
        const Known right = variant == 0 ? make.plain(b) : make.strided(b);
        c.expect(c.graph.add(ops::BatchMatmul{}, {left.id, right.id}, "y"),
                 batch_matmul(left.tensor, right.tensor).values);
        c.measure_against(std::sqrt(static_cast<double>(k)));
        suite.take(c, text_of(left) + " " + text_of(right) + (variant == 0 ? "" : " strided"),
                   kProductTolerance);
      }
  // Scores of tokens with each other: columns that a step says.
  for (const std::int64_t m : m_of) {
    Case c = suite.next();
    Operands make(c, m);
    const Known q = make.plain({kRows, 2, 24}), k = make.plain({kRows, 2, 24});
    const Known left = make.permuted(q, {1, 0, 2}), right = make.permuted(k, {1, 2, 0});
    c.expect(c.graph.add(ops::BatchMatmul{}, {left.id, right.id}, "y"),
             batch_matmul(left.tensor, right.tensor).values);
    c.measure_against(5.0);
    suite.take(c, text_of(left) + " " + text_of(right) + " scores", kProductTolerance);
  }
}

void join_cases(Suite& suite) {
  const std::vector<std::int64_t> shapes[] = {{kRows, 3}, {2, kRows, 5}, {2, 3, 4, kRows}, {6}, {kRows, 1}};
  for (const std::int64_t m : {0, 1, 40})
    for (const auto& shape : shapes)
      for (const bool strided : {false, true}) {
        for (std::size_t axis = 0; axis < shape.size() && suite.wanted("concat"); ++axis) {
          Case c = suite.next();
          Operands make(c, m);
          std::vector<Tensor> parts;
          std::vector<ValueId> ids;
          for (const std::int64_t size : {shape[axis], std::int64_t{1}, std::int64_t{4}}) {
            std::vector<std::int64_t> sizes = shape;
            sizes[axis] = size;
            const Known part = strided ? make.strided(sizes) : make.plain(sizes);
            parts.push_back(part.tensor);
            ids.push_back(part.id);
          }
          c.expect(c.graph.add(Op(ops::Concat{static_cast<int>(axis)}), ids, "y"),
                   concat(parts, axis).values);
          suite.take(c,
                     std::to_string(shape.size()) + " axes, along " + std::to_string(axis) + ", m " +
                         std::to_string(m) + (strided ? " strided" : ""),
                     0.0);
        }
        if (!suite.wanted("pad")) continue;
        Case c = suite.next();
        Operands make(c, m);
        const Known x = strided ? make.strided(shape) : make.plain(shape);
        ops::Pad op;
        op.value = strided ? 0.0f : -1.5f;
        for (std::size_t i = 0; i < shape.size(); ++i) {
          op.before[i] = c.integer(0, 2);
          op.after[i] = c.integer(0, 3);
        }
        c.expect(c.graph.add(op, {x.id}, "y"), pad(op, x.tensor).values);
        suite.take(c, text_of(x) + (strided ? " strided" : ""), 0.0);
      }
}

/// A random view of x, of the kind asked for where it can be: 0 reshape, 1 permute, 2 slice, 3 broadcast_to.
Known random_view(Case& c, Operands& make, const Known& x, int kind) {
  const auto rank = static_cast<std::int32_t>(x.tensor.dims.size());
  const auto any_axis = [&] { return to_size(c.integer(0, rank - 1)); };
  if (kind == 1) {
    Sizes axes(x.tensor.dims.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    for (int i = 0; i < 3; ++i) std::swap(axes[any_axis()], axes[any_axis()]);
    return make.permuted(x, axes);
  }
  const std::vector<Dim> all = Operands::dims_of(x);
  if (kind == 2 && std::any_of(all.begin(), all.end(), [](const Dim& dim) { return dim.is_constant(); })) {
    std::size_t axis = any_axis();
    while (!x.shape[static_cast<int>(axis)].is_constant()) axis = (axis + 1) % x.tensor.dims.size();
    const auto size = static_cast<std::int32_t>(x.tensor.dims[axis]);
    const std::int32_t begin = c.integer(0, size), end = c.integer(begin, size);
    return make.sliced(x, axis, begin, end, c.integer(1, 3));
  }
  if (kind == 3 && rank < Shape::kMaxRank)
    return make.repeated(x, to_size(c.integer(0, rank)), c.integer(1, 3));
  // Two neighbours become one, or an axis of constant size two.
  std::vector<Dim> dims = Operands::dims_of(x);
  Sizes sizes = x.tensor.dims;
  const std::size_t axis = any_axis();
  const auto place = static_cast<std::ptrdiff_t>(axis);
  if (axis + 1 < sizes.size()) {
    dims[axis] = dims[axis] * dims[axis + 1];
    sizes[axis] *= sizes[axis + 1];
    dims.erase(dims.begin() + place + 1);
    sizes.erase(sizes.begin() + place + 1);
  } else {
    const std::int64_t factor = dims[axis].is_constant() && sizes[axis] % 2 == 0 ? 2 : 1;
    dims.insert(dims.begin() + place, Dim(factor));
    sizes.insert(sizes.begin() + place, to_size(factor));
    dims[axis + 1] = dims[axis + 1] / factor;
    sizes[axis + 1] /= to_size(factor);
    if (dims.size() > Shape::kMaxRank) {  // Back again, as one.
      dims.erase(dims.begin() + place);
      sizes.erase(sizes.begin() + place);
      dims[axis] = dims[axis] * factor;
      sizes[axis] *= to_size(factor);
    }
  }
  return make.reshaped(x, dims, sizes);
}

void view_cases(Suite& suite) {
  constexpr std::string_view kNames[] = {"reshape", "permute", "slice", "broadcast_to"};
  for (int kind = 0; kind < 4; ++kind)
    for (int i = 0; i < 60; ++i) {
      if (!suite.wanted(kNames[kind])) continue;
      Case c = suite.next();
      const std::int64_t m = i % 5 == 0 ? 0 : i % 5 == 1 ? 1 : 23;
      Operands make(c, m);
      const bool whole = i % 3 == 0;
      Known x = whole        ? make.integers({kRows, 6, 4}, -9, 9)
                : i % 3 == 1 ? make.plain({kRows, 6, 4})
                             : make.plain({20, kRows, 3});
      if (!whole && i % 2 == 0) x = {c.graph.add(ops::Scale{1.0f}, {x.id}, "scaled"), x.shape, x.tensor};
      for (int before = i % 4; before > 0; --before) {
        x = random_view(c, make, x, c.integer(0, 3));
        if (x.tensor.dims.size() == 1) break;
      }
      const int before_last = static_cast<int>(c.graph.nodes().size());
      x = random_view(c, make, x, kind);
      std::string what = to_string(x.shape, c.graph.symbols()) + " behind " + std::to_string(before_last);
      c.expect(x.id, x.tensor.values);
      suite.take(c, std::move(what), 0.0);
    }
  // Ops that read rows meet views: as they lie, and as copies.
  for (const std::int64_t m : {1, 18})
    for (const bool strided : {false, true}) {
      const auto halves = [&](Case& c, Operands& make) {
        Known x = make.plain({kRows, 48});
        x.id = c.graph.add(ops::Scale{1.0f}, {x.id}, "scaled");
        if (strided) return make.sliced(x, 1, 16, 48, 1);
        return make.reshaped(x, {x.shape[0] * 2, Dim(24)}, {x.tensor.dims[0] * 2, 24});
      };
      const auto columns = [](const Known& x) { return x.tensor.dims.back(); };
      const char* const how = strided ? "strided view" : "contiguous view";
      if (suite.wanted("norm")) {
        Case c = suite.next();
        Operands make(c, m);
        const Known x = halves(c, make);
        const ops::Norm op{NormKind::kRms, 1e-5f};
        c.expect(c.graph.add(op, {x.id}, "y"), norm(op, x.tensor.values, columns(x), {}, {}));
        suite.take(c, how, kFloatTolerance);
      }
      for (const DType type : {DType::kF32, DType::kQ8_0}) {
        if (!suite.wanted("add") || (!strided && type == DType::kQ8_0)) continue;
        // A product of a view, and a view that is added to it.
        Case c = suite.next();
        Operands make(c, m);
        const Known x = halves(c, make);
        Values weight =
            c.floats({static_cast<std::int64_t>(columns(x)), static_cast<std::int64_t>(columns(x))});
        const ValueId w = c.weight(
            type, {static_cast<std::int64_t>(columns(x)), static_cast<std::int64_t>(columns(x))}, weight);
        const ValueId product = c.graph.add(ops::Matmul{}, {w, x.id}, "product");
        Values truth = matmul(weight, x.tensor.values, columns(x), {});
        for (std::size_t i = 0; i < truth.size(); ++i) truth[i] += x.tensor.values[i];
        c.expect(c.graph.add(ops::Add{}, {product, x.id}, "y"), std::move(truth));
        suite.take(c, std::string(how) + " and its product with " + std::string(info(type).name),
                   type == DType::kF32 ? kProductTolerance : kQuantisedTolerance);
      }
    }
}

}  // namespace

void general(Suite& suite) {
  unary_cases(suite);
  binary_cases(suite);
  choice_cases(suite);
  reduce_cases(suite);
  batch_matmul_cases(suite);
  join_cases(suite);
  view_cases(suite);
}

}  // namespace weft::conformance::cases
