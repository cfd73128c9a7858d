// Cases of products with matrices, of experts too, and what chooses and sums those.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/conformance/case.h"
#include "base/to_size.h"

namespace weft::conformance::cases {
namespace {

/// Stacks with different numbers of experts, whose rows have the same ids. If one has fewer experts than a
/// step has rows, the data prepared from its ids is not valid for the others.
void stacks_of_two_sizes(Suite& suite) {
  if (!suite.wanted("matmul_experts")) return;
  const std::int64_t m = 60, k = 2, o = 11, i = 45, as_many = m * k + 1;
  for (const auto& stacks : {std::pair{std::int64_t{3}, as_many}, {as_many, 3}, {9, 3}}) {
    Case c = suite.next();
    const Values x = c.floats({m, i});
    Indices ids(to_size(m * k));
    for (auto& id : ids) id = c.integer(0, 2);
    const ValueId in = c.input({c.rows(m), i}, x), chosen = c.input({c.rows(m), k}, ids);
    for (const std::int64_t e : {stacks.first, stacks.second}) {
      Values weight = c.floats({e, o, i});
      const ValueId w = c.weight(DType::kF32, {e, o, i}, weight);
      c.expect(c.graph.add(ops::MatmulExperts{}, {w, in, chosen}, "of " + std::to_string(e)),
               matmul_experts(weight, x, ids, {e, o, i, k, false}));
    }
    suite.take(c, "stacks of " + text({stacks.first, stacks.second}), kProductTolerance);
  }
}

}  // namespace

void products(Suite& suite) {
  for (const DType type : kWeightTypes) {
    const std::int64_t block = info(type).block_elements;
    const double tolerance =
        info(type).kind == DTypeKind::kQuantised ? kQuantisedTolerance : kProductTolerance;
    for (const std::int64_t m : {0, 1, 3, 4, 5, 16, 33})
      for (const auto& [o, i] :
           {std::pair{std::int64_t{1}, block}, std::pair{std::int64_t{19}, block == 1 ? 45 : block},
            std::pair{std::int64_t{64}, block == 1 ? 300 : 2 * block}}) {
        if (!suite.wanted("matmul")) continue;
        Case c = suite.next();
        Values weight = c.floats({o, i}), bias = c.floats({o});
        const Values x = c.floats({m, i});
        const ValueId w = c.weight(type, {o, i}, weight);
        const ValueId b = m % 2 == 1 ? c.weight(DType::kF32, {o}, bias) : kNoValue;
        if (b == kNoValue) bias.clear();
        c.expect(c.graph.add(ops::Matmul{}, {w, c.input({c.rows(m), i}, x), b}, "y"),
                 matmul(weight, x, to_size(i), bias));
        c.measure_against(std::sqrt(static_cast<double>(i)) * mean_size(weight) * mean_size(x));
        suite.take(c, std::string(info(type).name) + " " + text({o, i}) + " rows " + std::to_string(m),
                   tolerance);
      }
    for (const std::int64_t m : {0, 1, 6})
      for (const bool each : {false, true}) {
        if (!suite.wanted("matmul_experts")) continue;
        Case c = suite.next();
        const std::int64_t e = 5, k = 3, o = 11, i = block == 1 ? 45 : block;
        Values weight = c.floats({e, o, i});
        const Values x = c.floats(each ? Shape{m, k, i} : Shape{m, i});
        Indices ids(to_size(m * k));
        for (auto& id : ids) id = c.integer(0, static_cast<std::int32_t>(e) - 1);
        const ValueId w = c.weight(type, {e, o, i}, weight);
        const Dim rows = c.rows(m);
        const ValueId in = c.input(each ? Shape{rows, k, i} : Shape{rows, i}, x);
        c.expect(c.graph.add(ops::MatmulExperts{}, {w, in, c.input({rows, k}, ids)}, "y"),
                 matmul_experts(weight, x, ids, {e, o, i, k, each}));
        suite.take(
            c,
            std::string(info(type).name) + (each ? " x of each" : " x of all") + " rows " + std::to_string(m),
            tolerance);
      }
  }
}

void experts(Suite& suite) {
  stacks_of_two_sizes(suite);
  for (const std::int64_t m : {0, 1, 6})
    for (const std::int64_t e : {4, 60})
      for (const std::int64_t k : {1, 4}) {
        const std::string where = text({m, e}) + " k " + std::to_string(k);
        Case ids_case = suite.next();
        Values logits = ids_case.floats({m, e});
        if (!logits.empty()) logits.back() = logits[logits.size() - 2];  // Two equals.
        if (m > 1) std::fill_n(logits.begin(), e, -std::numeric_limits<double>::infinity());
        const Indices ids = top_k(logits, to_size(e), to_size(k));
        if (suite.wanted("top_k")) {
          Case& c = ids_case;
          c.expect(c.graph.add(ops::TopK{static_cast<int>(k)}, {c.input({c.rows(m), e}, logits)}, "y"),
                   Values(ids.begin(), ids.end()));
          suite.take(c, where, 0.0);
          Case without = suite.next();  // Rows with only NaN, with some, and with infinities.
          constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
          Values x = without.floats({m, e}, -2.0f, 2.0f);
          for (std::size_t i = 0; i < x.size(); ++i) {
            const auto row = static_cast<std::int64_t>(i) / e;
            if (row % 3 == 0 || without.integer(0, 2) == 0) x[i] = kNan;
            if (row % 3 == 2 && without.integer(0, 1) == 0)
              x[i] = (i % 2 == 0 ? 1.0 : -1.0) * std::numeric_limits<double>::infinity();
          }
          const Indices best = top_k(x, to_size(e), to_size(k));
          const ValueId in = without.input({without.rows(m), e}, x);
          without.expect(without.graph.add(ops::TopK{static_cast<int>(k)}, {in}, "y"),
                         Values(best.begin(), best.end()));
          suite.take(without, where + " with NaN", 0.0);
        }
        for (const bool normalise : {false, true}) {
          if (!suite.wanted("expert_weights")) continue;
          Case c = suite.next();
          const ops::ExpertWeights op{normalise, normalise ? 1.0f : 2.5f};
          const ValueId x = c.input({c.rows(m), e}, logits), chosen = c.input({c.rows(m), k}, ids);
          c.expect(c.graph.add(op, {x, chosen}, "y"),
                   expert_weights(op, logits, to_size(e), ids, to_size(k)));
          suite.take(c, where + (normalise ? " normalised" : ""), kFloatTolerance);
        }
        if (suite.wanted("sum_experts")) {
          Case c = suite.next();
          const Values x = c.floats({m, k, e}), w = c.floats({m, k});
          Values truth(to_size(m * e));
          for (std::size_t i = 0; i < x.size(); ++i) {
            const std::size_t row = i / to_size(k * e), column = i % to_size(e);
            truth[row * to_size(e) + column] += x[i] * w[i / to_size(e)];
          }
          const ValueId in = c.input({c.rows(m), k, e}, x), weights = c.input({c.rows(m), k}, w);
          c.expect(c.graph.add(ops::SumExperts{}, {in, weights}, "y"), std::move(truth));
          suite.take(c, where, kFloatTolerance);
        }
      }
}

}  // namespace weft::conformance::cases
