#pragma once
// The general ops of the graph library, and small ops of a mixture of experts. Each kernel
// has the tensors, params, constants and words of its namesake in vulkan/shaders.
#include "backend/cuda/kernels/call.h"
#include "backend/cuda/kernels/math.h"
#include "backend/gpu/elementwise.h"

namespace weft::cuda {

/// Elements of the result from elements of up to three operands, which have strides.
WEFT_KERNEL(256) elementwise(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  using Op = gpu::Elementwise;
  const Op op = static_cast<Op>(c.constant(0));
  const uint kind = c.constant(1), axes = c.constant(2);
  const bool has_scalar = c.constant(3) != 0u, scalar_first = c.constant(3) == 2u;
  const bool reads_second = !has_scalar && op >= Op::kBinary;
  uint* const result = c.at<uint>(0);
  const uint *const first_of = c.at<uint>(1), *const second_of = c.at<uint>(2),
                    *const third_of = c.at<uint>(3);
  const Walk walk{c, 0u, axes};
  for_each<256>(c, c.n_rows(), [&](uint i) {
    const auto place = [&](uint operand) { return axes > 0u ? walk.place(operand, i) : i; };
    const uint to = place(0);
    const uint first = first_of[place(1)];
    // Elements are copied as bits, whatever they are.
    if (op == Op::kCopy) {
      result[to] = first;
      return;
    }
    if (op == Op::kChoose) {
      uint other = c.param(0);
      if (!has_scalar) other = third_of[place(3)];
      if (first != 0u) other = second_of[place(2)];
      result[to] = other;
      return;
    }
    const uint second = reads_second ? second_of[place(2)] : c.param(0);
    if (op == Op::kCompareInts) {
      result[to] = holds(kind, first == second, static_cast<int>(first) < static_cast<int>(second)) ? 1u : 0u;
      return;
    }
    const float a = as_float(first), b = as_float(second);
    if (op == Op::kCompareFloats) {
      const bool ordered = !is_nan(a) && !is_nan(b);
      result[to] = (ordered ? holds(kind, a == b, a < b) : kind == 1u) ? 1u : 0u;
      return;
    }
    float y = a;
    if (op == Op::kUnary) y = unary(kind, a);
    if (op == Op::kActivate) y = activate(kind, a);
    if (op == Op::kClamp && !is_nan(a)) y = smaller(larger(a, c.param_float(0)), c.param_float(1));
    if (op == Op::kSoftcap) y = c.param_float(0) * tanhf(a / c.param_float(0));
    if (op == Op::kBinary) y = scalar_first ? binary(kind, b, a) : binary(kind, a, b);
    if (op == Op::kGlu) y = activate(kind, a) * b;
    result[to] = as_uint(y);
  });
}

/// x with other elements before and after it, along any axis.
WEFT_KERNEL(256) pad(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint axes = c.constant(0);
  const Walk walk{c, 0u, axes};
  const uint sizes = walk.n_words(1), before = sizes + axes;
  const float *const x = c.floats(0), value = c.param_float(0);
  float* const result = c.floats(1);
  for_each<256>(c, c.n_rows(), [&](uint i) {
    bool inside = true;
    uint rest = i, place = c.word(axes);
    for (uint axis = axes; axis-- > 0u;) {
      const uint size = c.word(axis);
      // Below 0 wraps to far beyond the end.
      const uint at = (axis > 0u ? rest % size : rest) - c.word(before + axis);
      rest /= size;
      inside = inside && at < c.word(sizes + axis);
      place += at * c.word(axes + 1u + axis);
    }
    result[i] = inside ? x[place] : value;
  });
}

/// Windows of a signal's rows, side by side.
WEFT_KERNEL(256) unfold(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint columns = c.param(0), width = c.param(1), rows = c.word(0);
  const float* const x = c.floats(0);
  float* const result = c.floats(1);
  for_each<256>(c, c.n_rows() * width, [&](uint i) {
    const uint in_window = i % width;
    const uint row =
        i / width * c.param(2) + in_window / columns - c.param(3);  // Before the first: far beyond the last.
    result[i] = row < rows ? x[row * columns + in_window % columns] : 0.0f;
  });
}

/// Elements to an order in which others are neighbours, by squares of 32 by 32.
WEFT_KERNEL(256) transpose(Arguments arguments) {
  constexpr uint kSide = 32, kLines = 8;
  WEFT_SHARED uint square[kSide * (kSide + 1)];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint size_to = c.word(0), size_from = c.word(1), across = c.word(2), down = c.word(3),
             inner = c.word(4);
  const uint column = thread() % kSide, line = thread() / kSide;
  for (uint tile = block().x; tile < c.n_rows(); tile += c.groups().x) {
    const uint first_to = tile % across * kSide, first_from = tile / across % down * kSide,
               other = tile / (across * down);
    uint* const to = c.at<uint>(0) + c.word(5) + other / inner * c.word(7) + other % inner * c.word(8);
    const uint* const from =
        c.at<uint>(1) + c.word(9) + other / inner * c.word(11) + other % inner * c.word(12);
    barrier();
    for (uint i = line; i < kSide; i += kLines)
      if (first_from + column < size_from && first_to + i < size_to)
        square[i * (kSide + 1u) + column] = from[first_from + column + (first_to + i) * c.word(10)];
    barrier();
    for (uint i = line; i < kSide; i += kLines)
      if (first_to + column < size_to && first_from + i < size_from)
        to[first_to + column + (first_from + i) * c.word(6)] = square[column * (kSide + 1u) + i];
  }
}

/// An element of a reduction, with the index where that counts. Kinds as in ReduceKind of graph/kinds.h.
struct Reduced {
  enum : uint { kSum, kMean, kMax, kMin, kArgmax, kProd };
  float value;
  uint place;

  WEFT_DEVICE static Reduced none(uint kind) {
    const float value = kind == kMin ? infinity() : kind == kProd ? 1.0f : kind <= kMean ? 0.0f : -infinity();
    return {value, ~0u};
  }
  /// NaN precedes all numbers.
  WEFT_DEVICE static bool goes_before(uint kind, float a, float b) {
    if (is_nan(a) || is_nan(b)) return is_nan(a) && !is_nan(b);
    return kind == kMin ? a < b : a > b;
  }
  WEFT_DEVICE void join(uint kind, Reduced other) {
    if (kind <= kMean) {
      value += other.value;
    } else if (kind == kProd) {
      value *= other.value;
    } else if (goes_before(kind, other.value, value) ||
               (other.place < place && !goes_before(kind, value, other.value))) {
      *this = other;
    }
  }
};

/// Sums, means, products, largest and smallest elements over axes. A block makes `outputs` results.
WEFT_KERNEL(128) reduce_axes(Arguments arguments) {
  constexpr uint kThreads = 128;
  WEFT_SHARED Reduced shared[kThreads];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint kind = c.constant(0), outputs = c.constant(3), lanes = kThreads / outputs;
  const Walk kept{c, 0u, c.constant(1)};
  const Walk over{c, kept.n_words(1), c.constant(2)};
  const uint n_over = c.word(over.begin + over.n_words(1));
  const uint t = thread(), lane = t / outputs, n = c.n_rows();
  const float* const x = c.floats(0);
  for (uint first = block().x * outputs; first < n; first += c.groups().x * outputs) {
    const uint result = first + t % outputs;
    Reduced mine = Reduced::none(kind);
    if (result < n) {
      const uint begin = kept.place(0, result);
      float lost = 0.0f;
      for (uint i = lane; i < n_over; i += lanes) {
        const float element = x[begin + over.place(0, i)];
        if (kind > Reduced::kMean) {
          mine.join(kind, {element, i});
          continue;
        }
        // The rounding error of a sum goes into the next addition (Kahan). After an infinity no error is
        // kept.
        const float y = element - lost, next = mine.value + y, more = (next - mine.value) - y;
        lost = is_nan(more) || is_infinite(more) ? 0.0f : more;
        mine.value = next;
      }
    }
    barrier();
    shared[t] = mine;
    for (uint half_n = lanes / 2u; half_n > 0u; half_n /= 2u) {
      barrier();
      if (lane < half_n) {
        mine.join(kind, shared[t + half_n * outputs]);
        shared[t] = mine;
      }
    }
    if (lane != 0u || result >= n) continue;
    if (kind == Reduced::kArgmax) {
      c.at<int>(1)[result] = n_over == 0u ? 0 : static_cast<int>(mine.place);
    } else {
      if (kind == Reduced::kMean)
        mine.value = n_over == 0u ? no_number() : mine.value / static_cast<float>(n_over);
      c.floats(1)[result] = mine.value;
    }
  }
}

/// e^x of a row's columns, divided by their sum.
WEFT_KERNEL(128) softmax(Arguments arguments) {
  constexpr uint kThreads = 128;
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint columns = c.word(0), t = thread();
  for (uint row = block().x; row < c.n_rows(); row += c.groups().x) {
    const float* const x = c.row(0, row, columns);
    float* const result = c.row(1, row, columns);
    float top = -infinity();
    for (uint i = t; i < columns; i += kThreads) top = larger(top, x[i]);
    top = largest_of_block<kThreads>(top);
    if (top == -infinity()) top = 0.0f;  // Of nothing but -infinity: zeros.
    float sum = 0.0f;
    for (uint i = t; i < columns; i += kThreads) sum += expf(x[i] - top);
    sum = sum_of_block<kThreads>(sum);
    for (uint i = t; i < columns; i += kThreads) result[i] = sum == 0.0f ? 0.0f : expf(x[i] - top) / sum;
  }
}

/// Means of neighbouring rows.
WEFT_KERNEL(64) ragged_mean(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint columns = c.param(0);
  const int rows = static_cast<int>(c.word(0));
  const float* const x = c.floats(0);
  for_each<64>(c, c.n_rows() * columns, [&](uint i) {
    const uint mean = i / columns, column = i % columns;
    int begin = c.ints(1)[mean], end = c.ints(2)[mean];
    begin = begin < 0 ? 0 : begin > rows ? rows : begin;
    end = end < begin ? begin : end > rows ? rows : end;
    float sum = 0.0f;
    for (int row = begin; row < end; ++row) sum += x[static_cast<uint>(row) * columns + column];
    c.floats(3)[i] = end > begin ? sum / static_cast<float>(end - begin) : 0.0f;
  });
}

/// Inputs from the host's memory to the device's.
WEFT_KERNEL(128) bring_inputs(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint pair = block().y;
  const uint* const source = c.at<uint>(2u * pair);
  uint* const target = c.at<uint>(2u * pair + 1u);
  for_each<128>(c, c.word(pair), [&](uint i) { target[i] = source[i]; });
}

/// Blocks of columns times a Hadamard matrix (ops::Hadamard).
WEFT_KERNEL(64) hadamard(Arguments arguments) {
  constexpr uint kThreads = 64, kMaxBlock = 512;  // As ops::Hadamard.
  WEFT_SHARED float values[kMaxBlock];
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint size = c.constant(0), t = thread();
  for (uint g = block().x; g < c.n_rows(); g += c.groups().x) {
    const float* const x = c.row(0, g, size);
    float* const result = c.row(1, g, size);
    barrier();
    for (uint i = t; i < size; i += kThreads) values[i] = x[i];
    for (uint width = 1; width < size; width *= 2u) {
      barrier();
      for (uint i = t; i < size / 2u; i += kThreads) {
        const uint first = hadamard_first(i, width);
        const float a = values[first], b = values[first + width];
        values[first] = a + b;
        values[first + width] = a - b;
      }
    }
    barrier();
    for (uint i = t; i < size; i += kThreads) result[i] = values[i] * hadamard_scale(size);
  }
}

/// The logarithm of the sum of e^x over a row, and the row's value at one column.
WEFT_KERNEL(128) log_sum_exp(Arguments arguments) {
  constexpr uint kThreads = 128;
  constexpr int kNoRow = -2;  // As in ops::LogSumExp.
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint columns = c.param(0), t = thread();
  const auto number = [](float x) { return is_nan(x) ? -infinity() : x; };
  const auto summand = [&](float x) { return smaller(number(x), 3.4028234664e38f); };
  for (uint row = block().x; row < c.n_rows(); row += c.groups().x) {
    const float* const x = c.row(0, row, columns);
    const int id = c.ints(1)[row];
    float top = -infinity(), sum = 0.0f;
    if (id != kNoRow) {
      for (uint i = t; i < columns; i += kThreads) top = larger(top, summand(x[i]));
      top = largest_of_block<kThreads>(top);
    }
    if (!is_infinite(top)) {
      for (uint i = t; i < columns; i += kThreads) sum += expf(summand(x[i]) - top);
      sum = sum_of_block<kThreads>(sum);
    }
    if (t != 0u) continue;
    c.floats(2)[2u * row] = sum == 0.0f ? -infinity() : top + logf(sum);
    c.floats(2)[2u * row + 1u] = id < 0 ? -infinity() : number(x[id]);
  }
}

struct Candidate {
  float value;
  uint id;
  static constexpr uint kNowhere = ~0u;
  WEFT_DEVICE static Candidate none() { return {-infinity(), kNowhere}; }
  WEFT_DEVICE bool goes_before(Candidate b) const {
    return value > b.value || (value == b.value && id < b.id);
  }
};

/// The largest of a row, largest first and lower index first among equals. A block takes a row, or `part`
/// columns of it, whose best a second launch then chooses from.
WEFT_KERNEL(256) best(Arguments arguments) {
  constexpr uint kThreads = 256;
  WEFT_SHARED Candidate shared[kThreads];
  const Call c{arguments};
  if (!c.has_work()) return;
  const bool from_parts = c.constant(2) != 0u, ids_only = c.constant(3) != 0u;
  const uint part_columns = c.constant(1), columns = c.param(0), n = c.param(1), part = block().y,
             t = thread();
  const uint begin = part * part_columns;
  const uint count = from_parts           ? columns / 2u
                     : part_columns == 0u ? columns
                                          : least(part_columns, columns - begin);
  for (uint row = block().x; row < c.n_rows(); row += c.groups().x) {
    const float* const x = c.row(0, row, columns);
    const auto candidate = [&](uint j) -> Candidate {
      if (from_parts) {
        const uint at = j / n * 2u * n + j % n;
        const float id = x[at + n];
        return id < 0.0f ? Candidate::none() : Candidate{x[at], static_cast<uint>(id)};
      }
      const float value = x[begin + j];
      return {is_nan(value) ? -infinity() : value, begin + j};
    };
    // This thread's best candidate after `last`.
    const auto next = [&](bool first, Candidate last) {
      Candidate mine = Candidate::none();
      for (uint j = t; j < count; j += kThreads) {
        const Candidate one = candidate(j);
        if (one.goes_before(mine) && (first || last.goes_before(one))) mine = one;
      }
      return mine;
    };
    const auto best_of_all = [&](Candidate mine) {
      barrier();
      shared[t] = mine;
      for (uint half_n = kThreads / 2u; half_n > 0u; half_n /= 2u) {
        barrier();
        if (t >= half_n) continue;
        if (shared[t + half_n].goes_before(mine)) mine = shared[t + half_n];
        shared[t] = mine;
      }
      barrier();
      return shared[0];
    };
    const uint wanted = c.param(2) != 0u ? static_cast<uint>(c.ints(1)[row]) : n;
    Candidate mine = Candidate::none();
    if (wanted > 0u) mine = next(true, mine);
    for (uint k = 0; k < n; ++k) {
      Candidate last = Candidate::none();
      if (k < wanted) {
        last = best_of_all(mine);
        if (mine.id == last.id && last.id != Candidate::kNowhere) mine = next(false, last);
      }
      if (t != 0u) continue;
      const uint at = row * c.groups().y + part;
      if (ids_only) {
        c.at<int>(2)[at * n + k] = static_cast<int>(last.id);
      } else {
        c.floats(2)[at * 2u * n + k] = last.value;
        c.floats(2)[at * 2u * n + n + k] =
            last.id == Candidate::kNowhere ? -1.0f : static_cast<float>(last.id);
      }
    }
  }
}

/// The weights of a row's experts, from logits and ids; or the sum of their rows with weights.
WEFT_KERNEL(64) experts(Arguments arguments) {
  const Call c{arguments};
  if (!c.has_work()) return;
  const uint n = c.param(0), k = c.param(1);
  if (c.constant(0) == 1u) {
    for_each<64>(c, c.n_rows() * n, [&](uint i) {
      const uint row = i / n;
      float sum = 0.0f;
      for (uint j = 0; j < k; ++j)
        sum = fmaf(c.floats(0)[(row * k + j) * n + i % n], c.floats(1)[row * k + j], sum);
      c.floats(2)[i] = sum;
    });
    return;
  }
  const bool chosen = c.param(2) != 0u;
  const uint count = chosen ? k : n;
  for_each<64>(c, c.n_rows(), [&](uint row) {
    const float* const x = c.row(0, row, n);
    const int* const ids = c.ints(1) + row * k;
    const auto expert = [&](uint i) { return least(static_cast<uint>(ids[i]), n - 1u); };
    float top = -infinity(), sum = 0.0f;
    for (uint i = 0; i < count; ++i) top = larger(top, x[chosen ? expert(i) : i]);
    if (top == -infinity()) top = 0.0f;  // If all are minus infinity, the weights are zeros.
    for (uint i = 0; i < count; ++i) sum += expf(x[chosen ? expert(i) : i] - top);
    const float factor = sum == 0.0f ? 0.0f : c.param_float(3) / sum;
    for (uint i = 0; i < k; ++i) c.row(2, row, k)[i] = expf(x[expert(i)] - top) * factor;
  });
}

}  // namespace weft::cuda
