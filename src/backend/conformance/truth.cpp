#include "backend/conformance/truth.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/to_size.h"

namespace weft::conformance {
namespace {

/// Turns the pairs of each head by angle(pair).
template <typename Angle>
void turn(const ops::Rope& op, double* head, double magnitude, Angle angle) {
  const int half = op.n_rot / 2;
  for (int i = 0; i < half; ++i) {
    double& a = head[op.neox ? i : 2 * i];
    double& b = head[op.neox ? i + half : 2 * i + 1];
    const double c = std::cos(angle(i)) * magnitude, s = std::sin(angle(i)) * magnitude;
    const double turned = a * c - b * s;
    b = b * c + a * s;
    a = turned;
  }
}

/// Radians per position (arXiv 2309.00071, section 3.2: "NTK-by-parts").
double frequency(const ops::Rope& op, int pair, const Values& factors) {
  double extrapolated = std::pow(static_cast<double>(op.freq_base), -2.0 * pair / op.n_rot);
  if (!factors.empty()) extrapolated /= factors[to_size(pair)];
  const double interpolated = extrapolated * op.freq_scale;
  if (op.ext_factor == 0.0f) return interpolated;
  // The pair that turns `turns` times over the original context.
  const auto pair_of = [&](double turns) {
    return op.n_rot / 2.0 * std::log(op.n_ctx_orig / (2.0 * std::numbers::pi * turns)) /
           std::log(op.freq_base);
  };
  const double low = std::max(std::floor(pair_of(op.beta_fast)), 0.0);
  const double high = std::min(std::ceil(pair_of(op.beta_slow)), op.n_rot - 1.0);
  const double ramp = std::clamp((pair - low) / std::max(high - low, 0.001), 0.0, 1.0);
  const double keep = (1.0 - ramp) * op.ext_factor;
  return interpolated * (1.0 - keep) + extrapolated * keep;
}

}  // namespace

double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::kNone:
      return x;
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kGeluQuick:
      return x / (1.0 + std::exp(-1.702 * x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kReluSquared:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kSoftplus:
      return x > 0.0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
  return x;
}

std::string parameter_text(const Op& op) {
  constexpr const char* kActivations[] = {" none",       " silu", " gelu",  " gelu_erf",
                                          " gelu_quick", " relu", " relu2", " softplus"};
  if (const auto* activation = std::get_if<ops::Activate>(&op))
    return kActivations[static_cast<int>(activation->kind)];
  if (const auto* gate = std::get_if<ops::Glu>(&op)) return kActivations[static_cast<int>(gate->kind)];
  if (const auto* cap = std::get_if<ops::Softcap>(&op)) return " cap " + std::to_string(cap->cap);
  return "";
}

Values binary(const Op& op, const Values& a, const Values& b) {
  Values y = a;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double other = b[i % b.size()];
    y[i] = std::holds_alternative<ops::Add>(op) ? y[i] + other : y[i] * other;
  }
  return y;
}

Values unary(const Op& op, const Values& a) {
  Values y = a;
  for (double& v : y) {
    if (const auto* scale = std::get_if<ops::Scale>(&op)) v *= static_cast<double>(scale->factor);
    if (const auto* cap = std::get_if<ops::Softcap>(&op)) v = cap->cap * std::tanh(v / cap->cap);
    if (const auto* activation = std::get_if<ops::Activate>(&op)) v = activate(activation->kind, v);
  }
  return y;
}

Values softmax(const Values& x, std::size_t columns) {
  Values y = x;
  for (std::size_t begin = 0; begin < y.size(); begin += columns) {
    const std::span<double> row(y.data() + begin, columns);
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (double& v : row) sum += v = std::isinf(v) && v < 0.0 ? 0.0 : std::exp(v - largest);
    for (double& v : row) v = sum == 0.0 ? 0.0 : v / sum;
  }
  return y;
}

Values glu(const ops::Glu& op, const Values& gate, const Values& up) {
  Values y = gate;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = activate(op.kind, gate[i]) * up[i];
  return y;
}

Values norm(const ops::Norm& op, const Values& x, std::size_t group, const Values& weight,
            const Values& bias) {
  Values y = x;
  for (std::size_t begin = 0; begin < y.size(); begin += group) {
    double mean = 0.0, squares = 0.0;
    if (op.kind == NormKind::kLayer)
      for (std::size_t i = 0; i < group; ++i) mean += x[begin + i] / static_cast<double>(group);
    for (std::size_t i = 0; i < group; ++i) squares += (x[begin + i] - mean) * (x[begin + i] - mean);
    const auto eps = static_cast<double>(op.eps);
    const double scale = op.kind == NormKind::kL2
                             ? 1.0 / std::max(std::sqrt(squares), eps)
                             : 1.0 / std::sqrt(squares / static_cast<double>(group) + eps);
    for (std::size_t i = 0; i < group; ++i)
      y[begin + i] =
          (x[begin + i] - mean) * scale * (weight.empty() ? 1.0 : weight[i]) + (bias.empty() ? 0.0 : bias[i]);
  }
  return y;
}

Values matmul(const Values& weight, const Values& x, std::size_t columns, const Values& bias) {
  const std::size_t outputs = weight.size() / columns, rows = x.size() / columns;
  Values y(rows * outputs);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < outputs; ++o) {
      double sum = bias.empty() ? 0.0 : bias[o];
      for (std::size_t i = 0; i < columns; ++i) sum += weight[o * columns + i] * x[r * columns + i];
      y[r * outputs + o] = sum;
    }
  return y;
}

Values matmul_experts(const Values& weight, const Values& x, const Indices& ids, const ExpertShape& shape) {
  const auto columns = to_size(shape.columns), outputs = to_size(shape.outputs);
  Values y;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::size_t row = shape.x_of_each ? i : i / to_size(shape.k);
    const auto expert = weight.begin() + static_cast<std::ptrdiff_t>(to_size(ids[i]) * outputs * columns);
    const auto from = x.begin() + static_cast<std::ptrdiff_t>(row * columns);
    const Values part = matmul({expert, expert + static_cast<std::ptrdiff_t>(outputs * columns)},
                               {from, from + static_cast<std::ptrdiff_t>(columns)}, columns, {});
    y.insert(y.end(), part.begin(), part.end());
  }
  return y;
}

Values best(const Values& x, std::size_t columns, std::size_t n, const Indices& counts) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  Values y;
  for (std::size_t r = 0; r < x.size() / columns; ++r) {
    const auto value = [&](std::size_t i) {
      return std::isnan(x[r * columns + i]) ? kLowest : x[r * columns + i];
    };
    std::vector<std::size_t> order(columns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return value(a) > value(b); });
    const std::size_t wanted = counts.empty() ? n : to_size(counts[r]);
    for (std::size_t i = 0; i < n; ++i) y.push_back(i < wanted ? value(order[i]) : kLowest);
    for (std::size_t i = 0; i < n; ++i) y.push_back(i < wanted ? static_cast<double>(order[i]) : -1.0);
  }
  return y;
}

Values log_sum_exp(const Values& x, std::size_t columns, const Indices& ids) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  Values y;
  for (std::size_t r = 0; r < ids.size(); ++r) {
    const double* const row = x.data() + r * columns;
    double largest = kLowest, sum = 0.0;
    const auto value = [&](std::size_t i) {
      return std::isnan(row[i]) ? kLowest : std::min(row[i], kLargest);
    };
    for (std::size_t i = 0; i < columns; ++i) largest = std::max(largest, value(i));
    for (std::size_t i = 0; i < columns && largest > kLowest; ++i) sum += std::exp(value(i) - largest);
    const bool wanted = ids[r] != ops::LogSumExp::kNoRow && largest > kLowest;
    y.push_back(wanted ? largest + std::log(sum) : kLowest);
    const double at = ids[r] >= 0 ? row[ids[r]] : kLowest;
    y.push_back(std::isnan(at) ? kLowest : at);
  }
  return y;
}

Indices top_k(const Values& x, std::size_t columns, std::size_t k) {
  Indices result;
  for (std::size_t begin = 0; begin < x.size(); begin += columns) {
    const auto value = [&](std::int32_t i) {
      const double own = x[begin + to_size(i)];
      return std::isnan(own) ? -std::numeric_limits<double>::infinity() : own;
    };
    Indices order(columns);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return value(a) > value(b); });
    result.insert(result.end(), order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k));
  }
  return result;
}

Values expert_weights(const ops::ExpertWeights& op, const Values& logits, std::size_t columns,
                      const Indices& ids, std::size_t k) {
  Values y;
  for (std::size_t row = 0; row < logits.size() / columns; ++row) {
    double all = 0.0, chosen = 0.0;
    for (std::size_t i = 0; i < columns; ++i) all += std::exp(logits[row * columns + i]);
    for (std::size_t j = 0; j < k; ++j) chosen += std::exp(logits[row * columns + to_size(ids[row * k + j])]);
    const double sum = op.normalise ? chosen : all;
    for (std::size_t j = 0; j < k; ++j) {
      const double own = std::exp(logits[row * columns + to_size(ids[row * k + j])]);
      y.push_back(sum == 0.0 ? 0.0 : own / sum * static_cast<double>(op.scale));
    }
  }
  return y;
}

Values hadamard(const ops::Hadamard& op, const Values& x) {
  const auto block = to_size(op.block);
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t begin = i / block * block;
    for (std::size_t j = 0; j < block; ++j)
      y[i] += (std::popcount((i - begin) & j) % 2 == 0 ? 1.0 : -1.0) * x[begin + j];
    y[i] /= std::sqrt(static_cast<double>(block));
  }
  return y;
}

Values rope(const ops::Rope& op, const Values& x, std::size_t columns, const Indices& positions,
            const Values& factors) {
  Values y = x;
  double magnitude = op.attn_factor;
  if (op.ext_factor != 0.0f) magnitude *= 1.0 - 0.1 * std::log(op.freq_scale);
  for (std::size_t at = 0; at < y.size(); at += to_size(op.head_dim))
    turn(op, y.data() + at, magnitude,
         [&](int pair) { return positions[at / columns] * frequency(op, pair, factors); });
  return y;
}

void move_cells(const ops::MoveCells& op, Values& cache, std::size_t width, const Indices& from,
                const Indices& to, const Indices& deltas) {
  for (std::size_t m = 0; m < from.size(); ++m) {
    const auto source = cache.begin() + static_cast<std::ptrdiff_t>(to_size(from[m]) * width);
    Values cell(source, source + static_cast<std::ptrdiff_t>(width));
    if (op.hadamard > 0) cell = hadamard({op.hadamard}, cell);
    if (op.rope.n_rot > 0)
      for (std::size_t at = 0; at < width; at += to_size(op.rope.head_dim))
        turn(op.rope, cell.data() + at, 1.0,
             [&](int pair) { return deltas[m] * frequency(op.rope, pair, {}); });
    if (op.hadamard > 0) cell = hadamard({op.hadamard}, cell);
    std::copy(cell.begin(), cell.end(), cache.begin() + static_cast<std::ptrdiff_t>(to_size(to[m]) * width));
  }
}

Values attention(const AttentionCase& a) {
  const auto heads = to_size(a.op.n_heads), kv_heads = to_size(a.n_kv_heads);
  const auto k_dim = to_size(a.k_dim), v_dim = to_size(a.v_dim);
  Values y(a.positions.size() * heads * v_dim);
  for (std::size_t r = 0; r < a.positions.size(); ++r) {
    std::vector<std::size_t> cells;
    std::vector<double> distances;
    const auto sequence = to_size(a.sequences[r]);
    for (std::size_t e = 0; e < to_size(a.counts[sequence]); ++e) {
      const Extent& extent = a.extents[sequence * to_size(a.width) + e];
      std::uint64_t mask = extent.mask;
      if (a.hidden_first[r] >= 0)
        for (auto h = to_size(a.hidden_first[r]); a.hidden[h].row == static_cast<std::int32_t>(r); ++h)
          if (a.hidden[h].page == extent.page) mask &= ~a.hidden[h].mask;
      for (int lane = 0; lane < kPageCells; ++lane) {
        const std::int32_t position = extent.position(lane);
        if ((mask >> lane & 1) == 0 || position >= a.ends[r]) continue;
        const std::int32_t own = a.positions[r];
        if (a.op.window > 0 &&
            (a.op.chunked ? position < own / a.op.window * a.op.window : position <= own - a.op.window))
          continue;
        distances.push_back(std::abs(own - position));
        cells.push_back(to_size(extent.page) * kPageCells + to_size(lane));
      }
    }
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t kv = h / (heads / kv_heads);
      // ALiBi's slopes: a geometric series. Heads above a power of two have every second element of a series
      // twice as fine.
      const std::size_t power = std::bit_floor(heads);
      const double exponent = h < power
                                  ? static_cast<double>(h + 1) / static_cast<double>(power)
                                  : static_cast<double>(2 * (h - power) + 1) / static_cast<double>(2 * power);
      const double slope = a.op.alibi == 0.0f ? 0.0 : std::pow(2.0, -a.op.alibi * exponent);
      Values weights;
      double sum = 0.0;
      for (std::size_t i_cell = 0; i_cell < cells.size(); ++i_cell) {
        const std::size_t cell = cells[i_cell];
        double score = 0.0;
        for (std::size_t i = 0; i < k_dim; ++i)
          score += a.q[(r * heads + h) * k_dim + i] * a.k[(cell * kv_heads + kv) * k_dim + i];
        score *= static_cast<double>(a.op.scale);
        if (a.op.softcap != 0.0f) score = a.op.softcap * std::tanh(score / a.op.softcap);
        score -= slope * distances[i_cell];
        if (!a.distance_bias.empty())
          score += a.distance_bias[h * a.n_distances +
                                   std::min(static_cast<std::size_t>(distances[i_cell]), a.n_distances - 1)];
        weights.push_back(std::exp(score));
        sum += weights.back();
      }
      if (!a.sinks.empty()) sum += std::exp(a.sinks[h]);
      for (std::size_t c = 0; c < cells.size(); ++c)
        for (std::size_t i = 0; i < v_dim; ++i)
          y[(r * heads + h) * v_dim + i] += weights[c] / sum * a.v[(cells[c] * kv_heads + kv) * v_dim + i];
    }
  }
  return y;
}

Values short_conv(ConvCase& a) {
  const std::size_t d = a.columns, before = a.taps - 1;
  Values y(a.x.size());
  for (std::size_t r = 0; r < a.from.size(); ++r) {
    Values inputs(a.taps * d);  // Oldest first.
    if (a.from[r] >= 0) {
      const auto slot = a.state.begin() + static_cast<std::ptrdiff_t>(to_size(a.from[r]) * before * d);
      std::copy_n(slot, before * d, inputs.begin());
    }
    std::copy_n(a.x.begin() + static_cast<std::ptrdiff_t>(r * d), d,
                inputs.begin() + static_cast<std::ptrdiff_t>(before * d));
    for (std::size_t j = 0; j < d; ++j) {
      double sum = a.bias.empty() ? 0.0 : a.bias[j];
      for (std::size_t tap = 0; tap < a.taps; ++tap) sum += a.weight[j * a.taps + tap] * inputs[tap * d + j];
      y[r * d + j] = sum;
    }
    std::copy(inputs.begin() + static_cast<std::ptrdiff_t>(d), inputs.end(),
              a.state.begin() + static_cast<std::ptrdiff_t>(to_size(a.to[r]) * before * d));
  }
  return y;
}

Values selective_scan(ScanCase& a) {
  const std::size_t d = a.columns, n = a.n_state, e = a.heads > 0 ? a.heads : d;
  Values y(a.x.size());
  for (std::size_t r = 0; r < a.from.size(); ++r) {
    Values state(n * d);
    if (a.from[r] >= 0)
      std::copy_n(a.state.begin() + static_cast<std::ptrdiff_t>(to_size(a.from[r]) * n * d), n * d,
                  state.begin());
    for (std::size_t j = 0; j < d; ++j) {
      const std::size_t head = j / (d / e), group = head / (e / a.groups);
      const double x = a.x[r * d + j], dt = a.dt[r * e + head];
      double sum = a.skip[head] * x;
      for (std::size_t i = 0; i < n; ++i) {
        const double decay = std::exp(dt * (a.heads > 0 ? a.a[head] : a.a[j * n + i]));
        double& h = state[i * d + j];
        h = decay * h + dt * a.b[(r * a.groups + group) * n + i] * x;
        sum += a.c[(r * a.groups + group) * n + i] * h;
      }
      y[r * d + j] = sum;
    }
    std::copy(state.begin(), state.end(),
              a.state.begin() + static_cast<std::ptrdiff_t>(to_size(a.to[r]) * n * d));
  }
  return y;
}

Values delta_rule(DeltaCase& a) {
  const std::size_t d_k = a.keys, d_v = a.columns, size = a.heads * d_k * d_v;
  Values y(a.v.size());
  for (std::size_t r = 0; r < a.from.size(); ++r) {
    Values all(size);
    if (a.from[r] >= 0)
      std::copy_n(a.state.begin() + static_cast<std::ptrdiff_t>(to_size(a.from[r]) * size), size,
                  all.begin());
    for (std::size_t h = 0; h < a.heads; ++h) {
      const std::size_t group = a.tiled ? h % a.groups : h / (a.heads / a.groups);
      const std::size_t at = r * a.heads + h;
      const double* const q = a.q.data() + (r * a.groups + group) * d_k;
      const double* const k = a.k.data() + (r * a.groups + group) * d_k;
      for (std::size_t j = 0; j < d_v; ++j) {
        const auto state = [&](std::size_t i) -> double& { return all[(h * d_k + i) * d_v + j]; };
        const auto decay = [&](std::size_t i) { return a.own_decays ? a.decay[at * d_k + i] : a.decay[at]; };
        const double v = a.v[at * d_v + j];
        double held = 0.0, sum = 0.0;
        for (std::size_t i = 0; i < d_k; ++i)
          held += a.removed.empty() ? k[i] * decay(i) * state(i) : a.removed[at * d_k + i] * state(i);
        for (std::size_t i = 0; i < d_k; ++i) {
          const std::size_t of_row = at * d_k + i;
          state(i) *= decay(i);
          if (a.removed.empty()) {
            state(i) += k[i] * a.beta[at] * (v - held);
          } else {
            state(i) += k[i] * v - a.beta[of_row] * a.removed[of_row] * held;
          }
          sum += q[i] * state(i);
        }
        y[at * d_v + j] = sum;
      }
    }
    std::copy(all.begin(), all.end(), a.state.begin() + static_cast<std::ptrdiff_t>(to_size(a.to[r]) * size));
  }
  return y;
}

}  // namespace weft::conformance
