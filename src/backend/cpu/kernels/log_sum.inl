// Sums of e^x over a row, in parts: see LogSumArgs. Needs rows.inl.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu::WEFT_CPU_ISA {

/// The part of x[0..n), n <= 16.
static inline void log_sum_part(const float* x, int n, float* largest, float* sum) {
  constexpr int kVectors = kLogSumPart / kLanes;
  const F32 lowest = broadcast(-__builtin_inff());
  alignas(64) float padded[kLogSumPart];
  if (n < kLogSumPart) {
    for (int i = 0; i < kLogSumPart; ++i) padded[i] = i < n ? x[i] : -__builtin_inff();
    x = padded;
  }
  F32 values[kVectors];
  F32 most = broadcast(-__FLT_MAX__);  // Where all are minus infinity, nothing is far below it.
  for (int i = 0; i < kVectors; ++i) {
    values[i] = min(broadcast(__FLT_MAX__), max(load(x + i * kLanes), lowest));  // NaN gives way to `lowest`.
    most = max(values[i], most);
  }
  *largest = reduce_max(most);
  const F32 top = broadcast(*largest);
  F32 total = zero();
  for (int i = 0; i < kVectors; ++i) total += exp(values[i] - top);
  *sum = reduce_add(total);
}

static void log_sum_parts(const float* x, std::int64_t n, float* largest, float* sums) {
  for (std::int64_t i = 0; i < n; i += kLogSumPart)
    log_sum_part(x + i, static_cast<int>(n - i < kLogSumPart ? n - i : kLogSumPart),
                 largest + i / kLogSumPart, sums + i / kLogSumPart);
}

static float merge_log_sums(const float* largest, const float* sums, std::int64_t n_parts) {
  const F32 lowest = broadcast(-__FLT_MAX__);
  F32 most = lowest;
  for_each_vector(n_parts, [&](std::int64_t i, auto at) {
    most = max(most, or_rest(load(largest + i, at), lowest, at));
  });
  const F32 top = broadcast(reduce_max(most));
  const double sum = sum_of(n_parts, [&](std::int64_t i, auto at) {
    return or_rest(exp(load(largest + i, at) - top) * load(sums + i, at), zero(), at);
  });
  return static_cast<float>(static_cast<double>(reduce_max(top)) + __builtin_log(sum));
}

}  // namespace weft::cpu::WEFT_CPU_ISA
