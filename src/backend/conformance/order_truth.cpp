#include "backend/conformance/order_truth.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/to_size.h"

namespace weft::conformance {
namespace {

/// A value's lines along an axis: element (outer, i, inner) is at (outer * size + i) * inner_size + inner.
struct Lines {
  std::size_t n_outer = 1, size = 1, n_inner = 1;
  Lines(const std::vector<std::size_t>& dims, std::size_t axis) : size(dims[axis]) {
    for (std::size_t i = 0; i < axis; ++i) n_outer *= dims[i];
    for (std::size_t i = axis + 1; i < dims.size(); ++i) n_inner *= dims[i];
  }
  std::size_t at(std::size_t outer, std::size_t i, std::size_t inner) const {
    return (outer * size + i) * n_inner + inner;
  }
  template <typename F>
  void for_each(F f) const {
    for (std::size_t outer = 0; outer < n_outer; ++outer)
      for (std::size_t inner = 0; inner < n_inner; ++inner) f(outer, inner);
  }
};

double wrapped(std::int64_t x) {
  return static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(x)));
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace

double int_binary(IntKind kind, double a, double b) {
  const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
  switch (kind) {
    case IntKind::kAdd:
      return wrapped(x + y);
    case IntKind::kSub:
      return wrapped(x - y);
    case IntKind::kMul:
      return wrapped(x * y);
    case IntKind::kFloorDivide:
      return y == 0 ? 0.0 : wrapped(static_cast<std::int64_t>(std::floor(a / b)));
    case IntKind::kRemainder:
      return y == 0 ? 0.0 : a - std::floor(a / b) * b;
    case IntKind::kMaximum:
      return std::max(a, b);
    case IntKind::kMinimum:
      return std::min(a, b);
    case IntKind::kAnd:
      return x != 0 && y != 0 ? 1.0 : 0.0;
    case IntKind::kOr:
      return x != 0 || y != 0 ? 1.0 : 0.0;
  }
  return 0.0;
}

double truncated(double x) {
  return std::isnan(x) ? 0.0 : std::clamp(std::trunc(x), -2147483648.0, 2147483647.0);
}

Tensor take_along(const Tensor& x, const Tensor& indices, std::size_t axis) {
  Tensor y(indices.dims);
  const Lines from(x.dims, axis), to(indices.dims, axis);
  to.for_each([&](std::size_t outer, std::size_t inner) {
    for (std::size_t i = 0; i < to.size && from.size > 0; ++i) {
      const double index =
          std::clamp(indices.values[to.at(outer, i, inner)], 0.0, static_cast<double>(from.size) - 1.0);
      y.values[to.at(outer, i, inner)] = x.values[from.at(outer, static_cast<std::size_t>(index), inner)];
    }
  });
  return y;
}

Tensor scatter(const ops::Scatter& op, const Tensor& x, const Tensor& indices, const Tensor& source) {
  Tensor y = x;
  const auto axis = to_size(op.axis);
  const Lines to(x.dims, axis), from(indices.dims, axis);
  from.for_each([&](std::size_t outer, std::size_t inner) {
    for (std::size_t i = 0; i < from.size; ++i) {
      const double index = indices.values[from.at(outer, i, inner)];
      if (index < 0.0 || index >= static_cast<double>(to.size)) continue;
      double& element = y.values[to.at(outer, static_cast<std::size_t>(index), inner)];
      element = source.values[from.at(outer, i, inner)] + (op.add ? element : 0.0);
    }
  });
  return y;
}

Tensor cumsum(const Tensor& x, std::size_t axis) {
  Tensor y = x;
  const Lines lines(x.dims, axis);
  lines.for_each([&](std::size_t outer, std::size_t inner) {
    for (std::size_t i = 1; i < lines.size; ++i)
      y.values[lines.at(outer, i, inner)] += y.values[lines.at(outer, i - 1, inner)];
  });
  return y;
}

Tensor argsort(const ops::Argsort& op, const Tensor& x) {
  Tensor y(x.dims);
  const Lines lines(x.dims, to_size(op.axis));
  lines.for_each([&](std::size_t outer, std::size_t inner) {
    const auto value = [&](std::size_t i) { return x.values[lines.at(outer, i, inner)]; };
    const auto less = [](double a, double b) { return a < b || (!std::isnan(a) && std::isnan(b)); };
    std::vector<std::size_t> order(lines.size);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return op.descending ? less(value(b), value(a)) : less(value(a), value(b));
    });
    for (std::size_t i = 0; i < lines.size; ++i)
      y.values[lines.at(outer, i, inner)] = static_cast<double>(order[i]);
  });
  return y;
}

Tensor flip(const ops::Flip& op, const Tensor& x) {
  Tensor y = x;
  for (std::size_t axis = 0; axis < x.dims.size(); ++axis) {
    if ((op.axes >> axis & 1) == 0) continue;
    const Tensor before = y;
    const Lines lines(x.dims, axis);
    lines.for_each([&](std::size_t outer, std::size_t inner) {
      for (std::size_t i = 0; i < lines.size; ++i)
        y.values[lines.at(outer, i, inner)] = before.values[lines.at(outer, lines.size - 1 - i, inner)];
    });
  }
  return y;
}

Values random(const ops::Random& op, std::int32_t counter, std::size_t n) {
  Values y;
  for (std::uint64_t block = 0; y.size() < n; ++block) {
    std::uint32_t c[4] = {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                          static_cast<std::uint32_t>(counter), 0};
    for (std::uint64_t round = 0; round < 10; ++round) {
      // The constants are the golden ratio and sqrt(3) - 1, as fractions of 2^32, and the paper's
      // multipliers.
      const std::uint64_t low = c[0] * std::uint64_t{3528531795}, high = c[2] * std::uint64_t{3449720151};
      const auto key0 = static_cast<std::uint32_t>(op.seed + round * 2654435769);
      const auto key1 = static_cast<std::uint32_t>((op.seed >> 32) + round * 3144134277);
      const std::uint32_t c0 = static_cast<std::uint32_t>(high >> 32) ^ c[1] ^ key0;
      const std::uint32_t c2 = static_cast<std::uint32_t>(low >> 32) ^ c[3] ^ key1;
      c[1] = static_cast<std::uint32_t>(high);
      c[3] = static_cast<std::uint32_t>(low);
      c[0] = c0;
      c[2] = c2;
    }
    if (op.kind == RandomKind::kUniform) {
      for (const std::uint32_t word : c) y.push_back((word / 256) / 16777216.0);
      continue;
    }
    for (const int pair : {0, 2}) {
      const double radius = std::sqrt(-2.0 * std::log((c[pair] + 1.0) / 4294967296.0));
      const double angle = 2.0 * std::numbers::pi * (c[pair + 1] / 4294967296.0);
      y.push_back(radius * std::cos(angle));
      y.push_back(radius * std::sin(angle));
    }
  }
  y.resize(n);
  return y;
}

Tensor dense_attention(const DenseCase& a) {
  const std::size_t texts = a.q.dims[0], heads = a.q.dims[1], rows = a.q.dims[2], k_dim = a.q.dims[3];
  const std::size_t groups = a.k.dims[1], keys = a.k.dims[2], v_dim = a.v.dims[3];
  const double scale =
      a.op.scale != 0.0f ? static_cast<double>(a.op.scale) : 1.0 / std::sqrt(static_cast<double>(k_dim));
  Tensor bias(std::vector<std::size_t>{texts, heads, rows, keys});
  if (!a.bias.values.empty()) bias = broadcast_to(a.bias, bias.dims);
  Tensor y(std::vector<std::size_t>{texts, heads, rows, v_dim});
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  for (std::size_t t = 0; t < texts; ++t)
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t g = h / (heads / groups);
        Values scores(keys, kNone);
        double largest = a.sinks.values.empty() ? kNone : a.sinks.values[h];
        for (std::size_t key = 0; key < (a.op.causal ? std::min(keys, r + 1) : keys); ++key) {
          double score = 0.0;
          for (std::size_t i = 0; i < k_dim; ++i)
            score += a.q.values[a.q.at({t, h, r, i})] * a.k.values[a.k.at({t, g, key, i})];
          score *= scale;
          const auto cap = static_cast<double>(a.op.softcap);
          if (cap != 0.0) score = cap * std::tanh(score / cap);
          const double own = bias.values[bias.at({t, h, r, key})];
          if (!a.mask) score += own;
          if (a.mask && !a.bias.values.empty() && own == 0.0) score = kNone;
          scores[key] = score;
          largest = std::max(largest, score);
        }
        if (largest == kNone) continue;
        double sum = a.sinks.values.empty() ? 0.0 : std::exp(a.sinks.values[h] - largest);
        for (double& score : scores) sum += score = std::exp(score - largest);
        for (std::size_t key = 0; key < keys; ++key)
          for (std::size_t i = 0; i < v_dim && scores[key] > 0.0; ++i)
            y.values[y.at({t, h, r, i})] += scores[key] / sum * a.v.values[a.v.at({t, g, key, i})];
      }
  return y;
}

namespace {

/// Calls unit(time, text, unit, sums of the gates, own output before), which gives the unit's output, for all
/// of them; returns these.
template <typename Unit>
Values run_cells(const CellCase& a, std::size_t n_gates, Unit unit) {
  const std::size_t times = a.x.dims[0], texts = a.x.dims[1], h = a.x.dims[2] / n_gates;
  Values before = a.h0.empty() ? Values(texts * h) : a.h0, all;
  for (std::size_t t = 0; t < times; ++t) {
    Values after(texts * h);
    for (std::size_t b = 0; b < texts; ++b)
      for (std::size_t u = 0; u < h; ++u) {
        Values sums(n_gates);
        for (std::size_t gate = 0; gate < n_gates; ++gate)
          for (std::size_t i = 0; i < h; ++i)
            sums[gate] += a.weight[(gate * h + u) * h + i] * before[b * h + i];
        const double* const x = a.x.values.data() + (t * texts + b) * n_gates * h + u;
        after[b * h + u] = unit(b * h + u, u, x, h, sums, before[b * h + u]);
      }
    before = after;
    all.insert(all.end(), after.begin(), after.end());
  }
  return all;
}

}  // namespace

Values lstm(const CellCase& a) {
  const std::size_t n = a.x.dims[1] * a.x.dims[2] / 4;
  Values cells = a.c0.empty() ? Values(n) : a.c0, all_cells;
  Values y = run_cells(
      a, 4, [&](std::size_t own, std::size_t, const double* x, std::size_t h, const Values& sums, double) {
        cells[own] =
            sigmoid(x[h] + sums[1]) * cells[own] + sigmoid(x[0] + sums[0]) * std::tanh(x[2 * h] + sums[2]);
        all_cells.push_back(cells[own]);
        return sigmoid(x[3 * h] + sums[3]) * std::tanh(cells[own]);
      });
  y.insert(y.end(), all_cells.begin(), all_cells.end());
  return y;
}

Values gru(const CellCase& a) {
  return run_cells(
      a, 3,
      [&](std::size_t, std::size_t unit, const double* x, std::size_t h, const Values& sums, double before) {
        const double rest = sums[2] + (a.bias.empty() ? 0.0 : a.bias[unit]);
        const double made = std::tanh(x[2 * h] + sigmoid(x[0] + sums[0]) * rest);
        const double keep = sigmoid(x[h] + sums[1]);
        return (1.0 - keep) * made + keep * before;
      });
}

}  // namespace weft::conformance
