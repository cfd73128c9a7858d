// Cases of attention over given keys, and of recurrent cells.
#include <cmath>

#include "backend/conformance/general_operands.h"
#include "backend/conformance/order_truth.h"

namespace weft::conformance::cases {
namespace {

using Dims = std::vector<std::int64_t>;

void attention_cases(Suite& suite) {
  if (!suite.wanted("dense_attention")) return;
  struct Sizes4 {
    std::int64_t texts, heads, groups, keys, k_dim, v_dim;
  };
  const Sizes4 all[] = {{1, 1, 1, 1, 1, 1},  {2, 3, 3, 70, 16, 16}, {1, 4, 2, 130, 8, 24},
                        {2, 8, 1, 33, 5, 3}, {1, 2, 2, 0, 4, 4},    {1, 80, 1, 65, 4, 4}};
  // Shapes of a bias: of all scores, of keys alone, of heads and rows, of one.
  for (const std::int64_t m : {0, 1, 5, 70})
    for (const Sizes4& s : all)
      for (int variant = 0; variant < 12; ++variant) {
        Case c = suite.next();
        Operands make(c, m);
        DenseCase a{
            {}, Tensor(Sizes{}), Tensor(Sizes{}), Tensor(Sizes{}), Tensor(Sizes{0}), Tensor(Sizes{0})};
        a.op.causal = variant % 3 == 1;
        if (variant % 4 == 2) a.op.softcap = 1.5f;
        if (variant % 5 == 3) a.op.scale = 0.7f;
        // Heads after rows, as projections make them.
        const auto operand = [&](std::int64_t heads, std::int64_t rows, std::int64_t columns) {
          if (variant % 2 == 0) return make.plain({s.texts, heads, rows, columns});
          return make.permuted(make.plain({s.texts, rows, heads, columns}), {0, 2, 1, 3});
        };
        const Known q = operand(s.heads, kRows, s.k_dim), k = operand(s.groups, s.keys, s.k_dim),
                    v = variant % 7 == 6 ? make.strided({s.texts, s.groups, s.keys, s.v_dim})
                                         : operand(s.groups, s.keys, s.v_dim);
        a.q = q.tensor;
        a.k = k.tensor;
        a.v = v.tensor;
        std::vector<ValueId> inputs = {q.id, k.id, v.id};
        const Dims biases[] = {{s.texts, s.heads, kRows, s.keys}, {s.keys}, {s.heads, kRows, 1}, {1}};
        if (variant >= 4) {
          const Dims& sizes = biases[variant % 4];
          a.mask = variant % 3 == 2;
          Known bias = a.mask ? make.integers(sizes, 0, 1) : make.plain(sizes);
          if (!a.mask && variant % 2 == 1)  // Some keys are out of sight.
            for (double& value : bias.tensor.values)
              if (value < -1.0) value = -std::numeric_limits<double>::infinity();
          if (!a.mask) bias.id = c.input(bias.shape, bias.tensor.values);
          a.bias = bias.tensor;
          inputs.push_back(bias.id);
          if (variant >= 8) {
            const Known sinks = make.plain({s.heads});
            a.sinks = sinks.tensor;
            inputs.push_back(sinks.id);
          }
        }
        c.expect(c.graph.add(Op(a.op), inputs, "y"), dense_attention(a).values);
        c.measure_against(0.3);
        suite.take(c, text_of(q) + " " + text_of(k) + " variant " + std::to_string(variant),
                   kProductTolerance);
      }
}

void cell_cases(Suite& suite) {
  for (const bool is_gru : {false, true})
    for (const std::int64_t t : {0, 1, 6})
      for (const std::int64_t b : {1, 3, 50})
        for (const std::int64_t h : {1, 16, 37})
          for (const int n_states : {0, 1, 2}) {
            if (!suite.wanted(is_gru ? "gru" : "lstm")) continue;
            Case c = suite.next();
            Operands make(c, t);
            const std::int64_t gates = is_gru ? 3 : 4;
            const Known x = make.plain({kRows, b, gates * h});
            CellCase a{x.tensor, c.floats({gates * h, h}, -0.5f, 0.5f), {}, {}, {}};
            std::vector<ValueId> inputs = {x.id, c.weight(DType::kF32, {gates * h, h}, a.weight)};
            if (n_states > 0) {
              const Known h0 = make.plain({b, h});
              a.h0 = h0.tensor.values;
              inputs.push_back(h0.id);
            }
            if (n_states > 1) {
              const Known last = is_gru ? make.plain({h}) : make.plain({b, h});
              (is_gru ? a.bias : a.c0) = last.tensor.values;
              inputs.push_back(last.id);
            }
            c.expect(c.graph.add(is_gru ? Op(ops::Gru{}) : Op(ops::Lstm{}), inputs, "y"),
                     is_gru ? gru(a) : lstm(a));
            suite.take(c, text_of(x) + " states " + std::to_string(n_states), kProductTolerance);
          }
}

}  // namespace

void sequence(Suite& suite) {
  attention_cases(suite);
  cell_cases(suite);
}

}  // namespace weft::conformance::cases
