// Cases of ops over rows of several sequences.
#include <algorithm>
#include <cmath>

#include "backend/conformance/case.h"
#include "base/to_size.h"

namespace weft::conformance::cases {
namespace {

/// Pairs of indices for m rows or means of n rows: whole sequences, only the rows before, none, and some past
/// the existing rows.
struct Pairs {
  Indices begins, ends;
};
Pairs pairs(Case& c, std::int64_t m, std::int64_t n, bool in_order) {
  Pairs p;
  const auto last = static_cast<std::int32_t>(n);
  std::int32_t begin = 0, end = 0;
  for (std::int64_t i = 0; i < m; ++i) {
    if (i == 0 || c.integer(0, 9) == 0) {
      begin = c.integer(-2, last);
      end = in_order ? begin : c.integer(-2, last + 3);
    }
    if (in_order) end = std::min(end + 1, last + 2);
    p.begins.push_back(begin);
    p.ends.push_back(end);
  }
  return p;
}

/// The rows that a pair means, of n.
std::pair<std::size_t, std::size_t> rows_of(const Pairs& p, std::size_t i, std::int64_t n) {
  const auto at = [&](std::int32_t index) { return to_size(std::clamp<std::int64_t>(index, 0, n)); };
  return {at(p.begins[i]), std::max(at(p.begins[i]), at(p.ends[i]))};
}

void one_attention(Suite& suite, const ops::RaggedAttention& op, std::int64_t m, std::int64_t n,
                   std::int64_t d, std::int64_t e, std::int64_t kv_heads, bool in_order) {
  Case c = suite.next();
  const auto heads = static_cast<std::int64_t>(op.n_heads);
  const Values q = c.floats({m, heads * d}), k = c.floats({n, kv_heads * d}), v = c.floats({n, kv_heads * e});
  const Pairs p = pairs(c, m, n, in_order);
  const double scale =
      op.scale != 0.0f ? static_cast<double>(op.scale) : 1.0 / std::sqrt(static_cast<double>(d));
  Values truth(to_size(m * heads * e));
  for (std::size_t row = 0; row < to_size(m); ++row)
    for (std::size_t h = 0; h < to_size(heads); ++h) {
      const auto at = [](std::size_t r, std::size_t head, std::int64_t n_heads, std::int64_t dim) {
        return (r * to_size(n_heads) + head) * to_size(dim);
      };
      const std::size_t kv = h / to_size(heads / kv_heads);
      const auto [begin, end] = rows_of(p, row, n);
      Values weights;
      for (std::size_t key = begin; key < end; ++key) {
        double dot = 0.0;
        for (std::size_t i = 0; i < to_size(d); ++i)
          dot += q[at(row, h, heads, d) + i] * k[at(key, kv, kv_heads, d) + i];
        weights.push_back(dot * scale);
      }
      if (weights.empty()) continue;
      weights = softmax(weights, weights.size());
      for (std::size_t key = begin; key < end; ++key)
        for (std::size_t i = 0; i < to_size(e); ++i)
          truth[at(row, h, heads, e) + i] += weights[key - begin] * v[at(key, kv, kv_heads, e) + i];
    }
  const Dim rows = c.rows(m), keys = c.rows(n);
  const ops::RaggedAttention::Inputs in = {
      .q = c.input({rows, heads * d}, q),
      .k = c.input({keys, kv_heads * d}, k),
      .v = c.input({keys, kv_heads * e}, v),
      .begins = c.input({rows}, p.begins),
      .ends = c.input({rows}, p.ends),
  };
  c.expect(c.graph.add(op, in, "y"), std::move(truth));
  suite.take(c,
             text({m, n}) + " heads " + std::to_string(heads) + "/" + std::to_string(kv_heads) + " of " +
                 text({d, e}) + (in_order ? " in order" : ""),
             kProductTolerance);
}

void one_unfold(Suite& suite, const ops::Unfold& op, std::int64_t t, std::int64_t columns) {
  Case c = suite.next();
  const Values x = c.floats({t, columns});
  Values truth;
  const std::int64_t rows = (t + 2 * op.padding - op.kernel) / op.stride + 1;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t j = 0; j < op.kernel; ++j) {
      const std::int64_t from = row * op.stride + j - op.padding;
      for (std::int64_t i = 0; i < columns; ++i)
        truth.push_back(from >= 0 && from < t ? x[to_size(from * columns + i)] : 0.0);
    }
  c.expect(c.graph.add(op, {c.input({c.rows(t), columns}, x)}, "y"), std::move(truth));
  suite.take(c,
             text({t, columns}) + " by " + std::to_string(op.kernel) + " each " + std::to_string(op.stride) +
                 " padded " + std::to_string(op.padding),
             0.0);
}

void one_store(Suite& suite, std::int64_t m, std::int64_t columns) {
  constexpr std::int64_t kRows = 150;
  Case c = suite.next();
  Values state = c.floats({kRows, 1, columns});
  const Values x = c.floats({m, columns});
  const ValueId cache = c.state(DType::kF32, {kRows, 1, columns}, CacheRole::kSlots, state);
  Indices to;
  for (std::int64_t row = 0; row < m; ++row) {
    to.push_back(static_cast<std::int32_t>((7 * row + 3) % kRows));
    std::copy_n(x.begin() + row * columns, columns, state.begin() + to.back() * columns);
  }
  const ValueId rows = c.input({c.rows(m), columns}, x);
  const ValueId last =
      c.graph.add(ops::StoreCache{CacheRole::kSlots}, {cache, rows, c.input({c.rows(m)}, to)}, "y");
  c.expect_state(cache, last, std::move(state));
  suite.take(c, text({m, columns}) + " plain", 0.0);
}

}  // namespace

void ragged(Suite& suite) {
  for (const std::int64_t t : {1, 2, 9, 100})
    for (const ops::Unfold& op : {ops::Unfold{1, 1, 0}, ops::Unfold{3, 1, 1}, ops::Unfold{3, 2, 1},
                                  ops::Unfold{4, 3, 2}, ops::Unfold{7, 2, 5}})
      if (suite.wanted("unfold") && t + 2 * op.padding >= op.kernel) one_unfold(suite, op, t, 5);
  for (const std::int64_t m : {0, 1, 40})
    if (suite.wanted("store_cache")) one_store(suite, m, 37);
  for (const std::int64_t m : {0, 1, 3, 40, 100, 130})
    for (const std::int64_t n : {0, 1, 5, 63, 64, 200})
      for (const bool in_order : {false, true}) {
        if (suite.wanted("ragged_attention")) {
          one_attention(suite, {.n_heads = 2}, m, n, 32, 32, 2, in_order);
          one_attention(suite, {.n_heads = 4, .scale = 0.3f}, m, n, 5, 7, 2, in_order);
          one_attention(suite, {.n_heads = 3}, m, n, 64, 17, 1, in_order);
        }
        if (!suite.wanted("ragged_mean")) continue;
        Case c = suite.next();
        constexpr std::int64_t kColumns = 37;
        const Values x = c.floats({n, kColumns});
        const Pairs p = pairs(c, m, n, in_order);
        Values truth(to_size(m * kColumns));
        for (std::size_t i = 0; i < to_size(m); ++i) {
          const auto [begin, end] = rows_of(p, i, n);
          for (std::size_t row = begin; row < end; ++row)
            for (std::size_t j = 0; j < kColumns; ++j)
              truth[i * kColumns + j] += x[row * kColumns + j] / static_cast<double>(end - begin);
        }
        const Dim means = c.rows(m), rows = c.rows(n);
        const ValueId in = c.input({rows, kColumns}, x);
        const ValueId begins = c.input({means}, p.begins), ends = c.input({means}, p.ends);
        c.expect(c.graph.add(ops::RaggedMean{}, {in, begins, ends}, "y"), std::move(truth));
        suite.take(c, text({m, n}) + (in_order ? " in order" : ""), kFloatTolerance);
      }
}

}  // namespace weft::conformance::cases
