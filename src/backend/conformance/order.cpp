// Cases of ops that count, move, order and draw elements.
#include <algorithm>
#include <cmath>

#include "backend/conformance/general_operands.h"
#include "backend/conformance/order_truth.h"
#include "base/enumerators.h"
#include "base/to_size.h"

namespace weft::conformance::cases {
namespace {

using Dims = std::vector<std::int64_t>;

const Dims kShapes[] = {{kRows, 5}, {3, kRows, 4}, {2, 3, kRows, 2}, {kRows}, {4, kRows}};

std::string along(std::size_t axis) { return " along " + std::to_string(axis); }

void made_cases(Suite& suite) {
  for (const std::int64_t m : {0, 1, 7}) {
    for (const DType dtype : {DType::kI32, DType::kF32})
      for (const std::int64_t step : {1, -3, 0}) {
        if (!suite.wanted("arange")) continue;
        Case c = suite.next();
        const Dim n = c.rows(m);
        Values truth;
        for (std::int64_t i = 0; i < 2 * m; ++i) truth.push_back(static_cast<double>(m + 5 + i * step));
        c.expect(c.graph.add(ops::Arange{2 * n, n + 5, step, dtype}, {}, "y"), std::move(truth));
        suite.take(c, std::to_string(2 * m) + " by " + std::to_string(step), 0.0);
      }
    for (const RandomKind kind : base::enumerators<RandomKind>())
      for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{0xfedcba9876543210}}) {
        if (!suite.wanted("random")) continue;
        Case c = suite.next();
        const std::int32_t counter = c.integer(-3, 1 << 30);
        const ops::Random op{kind, seed, {c.rows(m), 331}};
        const ValueId at = c.input({1}, Indices{counter});
        // Both compute in double and round, so they give the same float except at a few edges.
        c.expect(c.graph.add(op, {at}, "y"), as_floats(random(op, counter, to_size(m * 331))));
        suite.take(c, std::string(kind == RandomKind::kUniform ? "uniform " : "normal ") + std::to_string(m),
                   kind == RandomKind::kUniform ? 0.0 : 1e-8);
      }
  }
}

void number_cases(Suite& suite) {
  for (const std::int64_t m : {0, 1, 19})
    for (const Dims& shape : kShapes)
      for (const bool strided : {false, true}) {
        if (suite.wanted("cast")) {
          Case c = suite.next();
          Operands make(c, m);
          const Known x = strided ? make.strided(shape) : make.edgy(shape);
          Values truth = x.tensor.values;
          for (double& value : truth) value = truncated(value * (strided ? 1.0 : 1e8));
          const ValueId large = strided ? x.id : c.graph.add(ops::Scale{1e8f}, {x.id}, "large");
          if (!strided)
            for (std::size_t i = 0; i < truth.size(); ++i)
              truth[i] = truncated(static_cast<double>(static_cast<float>(x.tensor.values[i]) * 1e8f));
          c.expect(c.graph.add(ops::Cast{DType::kI32}, {large}, "y"), std::move(truth));
          suite.take(c, text_of(x) + (strided ? " strided" : ""), 0.0);
        }
        if (suite.wanted("cast")) {
          Case c = suite.next();
          Operands make(c, m);
          const Known x = make.integers(shape, -(1 << 24), 1 << 24);
          c.expect(c.graph.add(ops::Cast{DType::kF32}, {x.id}, "y"), x.tensor.values);
          suite.take(c, text_of(x) + " to f32", 0.0);
        }
      }
  const std::pair<Dims, Dims> pairs[] = {
      {{kRows, 70}, {kRows, 70}}, {{kRows, 1}, {70}}, {{3, 1}, {kRows, 1, 4}}, {{}, {kRows}}};
  for (const IntKind kind : base::enumerators<IntKind>())
    for (const std::int64_t m : {0, 1, 9})
      for (const auto& [a_sizes, b_sizes] : pairs)
        for (const int range : {3, 2147483647}) {
          if (!suite.wanted("int_binary")) continue;
          Case c = suite.next();
          Operands make(c, m);
          const Known a = make.integers(a_sizes, -range, range), b = make.integers(b_sizes, -range, range);
          const Sizes dims = broadcast_dims({a.tensor, b.tensor});
          const Tensor x = broadcast_to(a.tensor, dims), y = broadcast_to(b.tensor, dims);
          Values truth(x.values.size());
          for (std::size_t i = 0; i < truth.size(); ++i)
            truth[i] = int_binary(kind, x.values[i], y.values[i]);
          c.expect(c.graph.add(ops::IntBinary{kind}, {a.id, b.id}, "y"), std::move(truth));
          suite.take(c, text_of(a) + " " + text_of(b) + " kind " + std::to_string(static_cast<int>(kind)),
                     0.0);
        }
  for (const IntKind kind : base::enumerators<IntKind>())
    for (const bool first : {false, true}) {
      if (!suite.wanted("int_binary")) continue;
      Case c = suite.next();
      Operands make(c, 6);
      const Known x = make.integers({kRows, 33}, -4, 4);
      const ops::IntBinary op{kind, -3, first};
      Values truth = x.tensor.values;
      for (double& value : truth)
        value = first ? int_binary(op.kind, -3.0, value) : int_binary(op.kind, value, -3.0);
      c.expect(c.graph.add(op, {x.id}, "y"), std::move(truth));
      suite.take(c, "scalar kind " + std::to_string(static_cast<int>(kind)) + (first ? " first" : ""), 0.0);
    }
}

/// Indices, some out of range: made by a node, as what the host gives is checked before.
Known computed_indices(Case& c, Operands& make, const Dims& sizes, std::int64_t end) {
  const auto most = static_cast<std::int32_t>(end);
  Known indices = make.integers(sizes, -1, most);
  indices.id = c.graph.add(ops::IntBinary{IntKind::kAdd, 0}, {indices.id}, "indices");
  return indices;
}

void gather_cases(Suite& suite) {
  for (const std::int64_t m : {0, 1, 40})
    for (const Dims& shape : kShapes)
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        for (const bool strided : {false, true})
          for (const std::int64_t n : {1, 23}) {
            Dims taken = shape;
            taken[axis] = n;
            const std::int64_t size = shape[axis] == kRows ? m : shape[axis];
            const auto operand = [&](Operands& make, const Dims& sizes) {
              return strided ? make.strided(sizes) : make.plain(sizes);
            };
            const std::string what = along(axis) + ", " + std::to_string(n) + (strided ? " strided" : "");
            if (suite.wanted("take_along")) {
              Case c = suite.next();
              Operands make(c, m);
              const Known x = operand(make, shape), indices = computed_indices(c, make, taken, size);
              c.expect(c.graph.add(ops::TakeAlong{static_cast<int>(axis)}, {x.id, indices.id}, "y"),
                       take_along(x.tensor, indices.tensor, axis).values);
              suite.take(c, text_of(x) + what, 0.0);
            }
            for (const bool add : {false, true}) {
              if (!suite.wanted("scatter")) continue;
              Case c = suite.next();
              Operands make(c, m);
              const Known x = operand(make, shape), indices = computed_indices(c, make, taken, size),
                          source = operand(make, taken);
              const ops::Scatter op{static_cast<int>(axis), add};
              c.expect(c.graph.add(op, {x.id, indices.id, source.id}, "y"),
                       scatter(op, x.tensor, indices.tensor, source.tensor).values);
              suite.take(c, text_of(x) + what + (add ? " add" : ""), add ? kFloatTolerance : 0.0);
            }
          }
  // One index for a row of neighbours, and whole numbers.
  for (const std::int64_t m : {0, 1, 30})
    for (const bool whole : {false, true})
      for (const bool add : {false, true}) {
        Case c = suite.next();
        Operands make(c, m);
        const auto operand = [&](const Dims& sizes) {
          return whole ? make.integers(sizes, -1000, 1000) : make.plain(sizes);
        };
        const Known x = operand({9, 37}), source = operand({kRows, 37});
        const Known rows = computed_indices(c, make, {kRows, 1}, 9);
        const Shape all = source.shape;
        Known indices = {c.graph.add(ops::BroadcastTo{all}, {rows.id}, "all"), all,
                         broadcast_to(rows.tensor, source.tensor.dims)};
        if (suite.wanted("scatter")) {
          const ops::Scatter op{0, add};
          c.expect(c.graph.add(op, {x.id, indices.id, source.id}, "y"),
                   scatter(op, x.tensor, indices.tensor, source.tensor).values);
          suite.take(c, std::string("rows") + (whole ? " i32" : "") + (add ? " add" : ""),
                     add && !whole ? kFloatTolerance : 0.0);
        } else if (suite.wanted("take_along")) {
          c.expect(c.graph.add(ops::TakeAlong{0}, {x.id, indices.id}, "y"),
                   take_along(x.tensor, indices.tensor, 0).values);
          suite.take(c, std::string("rows") + (whole ? " i32" : ""), 0.0);
        }
      }
}

void order_cases(Suite& suite) {
  const Dims shapes[] = {{kRows, 5}, {3, kRows, 4}, {kRows, 70}, {kRows}};
  const Dims long_shapes[] = {{2, kRows}, {kRows, 3}, {kRows}};
  for (const std::int64_t m : {0, 1, 41, 1500, 5000})
    for (const Dims& shape : m < 1000 ? std::span<const Dims>(shapes) : std::span<const Dims>(long_shapes))
      for (std::size_t axis = 0; axis < shape.size(); ++axis)
        for (const int variant : {0, 1, 2}) {  // Edges, whole numbers, strides.
          const auto operand = [&](Operands& make) {
            return variant == 0   ? make.edgy(shape, false)
                   : variant == 1 ? make.integers(shape, -50, 50)
                                  : make.strided(shape);
          };
          const std::string what = along(axis) + (variant == 0   ? " edges"
                                                  : variant == 1 ? " i32"
                                                                 : " strided");
          if (suite.wanted("cumsum")) {
            Case c = suite.next();
            Operands make(c, m);
            const Known x = operand(make);
            c.expect(c.graph.add(ops::Cumsum{static_cast<int>(axis)}, {x.id}, "y"),
                     cumsum(x.tensor, axis).values);
            suite.take(c, text_of(x) + what, variant == 1 ? 0.0 : kFloatTolerance);
          }
          for (const bool descending : {false, true}) {
            if (!suite.wanted("argsort")) continue;
            Case c = suite.next();
            Operands make(c, m);
            const Known x = operand(make);
            const ops::Argsort op{static_cast<int>(axis), descending};
            c.expect(c.graph.add(op, {x.id}, "y"), argsort(op, x.tensor).values);
            suite.take(c, text_of(x) + what + (descending ? " descending" : ""), 0.0);
          }
        }
}

void flip_cases(Suite& suite) {
  if (!suite.wanted("flip")) return;
  for (const std::int64_t m : {0, 1, 12})
    for (const Dims& shape : kShapes)
      for (std::uint32_t axes = 0; axes < (1u << shape.size()); ++axes)
        for (const int variant : {0, 1, 2, 3}) {  // As it is, of a view, read by ops.
          Case c = suite.next();
          Operands make(c, m);
          const Known x = variant == 1 ? make.strided(shape) : make.plain(shape);
          const ops::Flip op{axes};
          Tensor truth = flip(op, x.tensor);
          if (variant < 2) {
            c.expect(c.graph.add(op, {x.id}, "y"), truth.values);
          } else {
            const ValueId turned = c.graph.add(op, {x.id}, "turned");
            if (variant == 2) {
              const Known other = make.plain(shape);
              for (std::size_t i = 0; i < truth.values.size(); ++i) truth.values[i] += other.tensor.values[i];
              c.expect(c.graph.add(ops::Add{}, {turned, other.id}, "sum"), truth.values);
            } else {
              const ops::Reduce sum{ReduceKind::kArgmax, 1u, false};
              c.expect(c.graph.add(sum, {turned}, "places"), reduce(sum, truth).values);
            }
            c.expect(c.graph.add(op, {turned}, "y"), x.tensor.values);
          }
          suite.take(c, text_of(x) + " axes " + std::to_string(axes), variant == 2 ? kFloatTolerance : 0.0);
        }
}

}  // namespace

void order(Suite& suite) {
  made_cases(suite);
  number_cases(suite);
  gather_cases(suite);
  order_cases(suite);
  flip_cases(suite);
}

}  // namespace weft::conformance::cases
