// The best values of rows: lists that values are offered to, 16 at a time. Needs matmul_vec_<isa>.h.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// Puts an entry in its place of a sorted list of n, whose last one makes room.
static void insert_best(const BestEntry& entry, int n, BestEntry* list) {
  if (!goes_before(entry, list[n - 1])) return;
  int at = n - 1;
  for (; at > 0 && goes_before(entry, list[at - 1]); --at) list[at] = list[at - 1];
  list[at] = entry;
}

/// Offers values[0..n_values), of 16, to a list of n; they have the indices from `index` on. Most values are
/// less than a list's last one, and one comparison says so for all 16.
static inline void offer_best(const float* values, int n_values, std::int32_t index, int n, BestEntry* list) {
  if (n == 0) return;
  std::uint32_t left = not_less(load_f32(values), splat(&list[n - 1].value)) & ((1u << n_values) - 1u);
  for (; left != 0; left &= left - 1) {
    const int i = __builtin_ctz(left);
    const bool is_number = values[i] == values[i];
    insert_best({is_number ? values[i] : kNoBest.value, index + i}, n, list);
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel

namespace weft::cpu::WEFT_CPU_ISA {

static void best_row(const float* x, std::int64_t n_values, int n, BestEntry* list) {
  constexpr int kStep = 16;
  std::int64_t i = 0;
  for (; i + kStep <= n_values; i += kStep)
    panel::offer_best(x + i, kStep, static_cast<std::int32_t>(i), n, list);
  if (i == n_values) return;
  float rest[kStep] = {};
  for (std::int64_t j = i; j < n_values; ++j) rest[j - i] = x[j];
  panel::offer_best(rest, static_cast<int>(n_values - i), static_cast<std::int32_t>(i), n, list);
}

}  // namespace weft::cpu::WEFT_CPU_ISA
