// Ruling out rows of a tall matrix by the high bits of their codes, where only the best rows of a product are
// wanted. Needs panel_codes.inl.
//
// A code is 16 h + 4 m + l; the panel's records have h, its low planes m and l. The open rest is 0..15. With
// its middle in its place, a sum is off by at most 7.5 for each |q|, so for a row
//
//   sum = sum over blocks of d s (16 h + 7.5 - zero) . q      bound = sum over blocks of |d| s 7.5 |q|
//
// m makes that 1.5. A bound also has room for the rounding of all these sums and of the product itself.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

constexpr int tall_layout() {
  int index = 0;
  while (!kPanelLayouts[index].tall) ++index;
  return index;
}
/// The layout of all tall matrices.
using Tall = Traits<tall_layout()>;
static_assert(Tall::kLayout.base == Plane::kNibbles && Tall::kScales == ScaleKind::kHalf && kLowPlanes == 2);

/// Bits of codes that are looked at together.
enum class Bits { kHigh, kMiddle, kHighAndMiddle };
constexpr int max_code(Bits bits) { return bits == Bits::kHigh ? 15 : bits == Bits::kMiddle ? 3 : 63; }
/// What a code is the multiple of.
constexpr float unit_of(Bits bits) { return bits == Bits::kHigh ? 16.0f : 4.0f; }
/// What they leave open, to both sides.
constexpr float open_of(Bits bits) { return bits == Bits::kHigh ? 7.5f : 1.5f; }

template <Bits kBits, int j>
static inline Codes bits_of(const std::byte* record, const std::byte* middle) {
  constexpr int kDown = j < 4 ? 0 : 4;
  if constexpr (kBits == Bits::kHigh) return shifted_bits<kDown, 15>(load_codes(record + 64 * (j % 4)));
  const Codes pairs = load_codes(middle + 64 * (j / 4));
  if constexpr (kBits == Bits::kMiddle) return shifted_bits<2 * (j % 4), 3>(pairs);
  const Codes high = shifted_bits<kDown - 2, 15 << 2>(load_codes(record + 64 * (j % 4)));
  return or_shifted_bits<2 * (j % 4), 3>(high, pairs);
}

/// Each float operation that leads to a sum or a product adds an error of at most 2^-24 of numbers below 360
/// |q|. There are at most six a block.
inline constexpr float kRoundingOfBlock = 0x1p-12f;
static inline float rounding_of(std::int64_t n_blocks) {
  return kRoundingOfBlock * static_cast<float>(n_blocks);
}

/// `middle` is the value assumed for the open bits, less the value assumed before.
static void screen_factors(Bits bits, float middle, const std::byte* x, std::int64_t n_blocks,
                           ScreenFactors* factors) {
  const float open = open_of(bits) + rounding_of(n_blocks);
  for (std::int64_t b = 0; b < n_blocks; ++b) {
    const auto* const g = reinterpret_cast<const Q8Group*>(x) + b;
    int magnitude = 0;
    for (const std::int8_t q : g->q) magnitude += q < 0 ? -q : q;
    factors[b] = {unit_of(bits) * g->scale, middle * g->scaled_sum,
                  open * g->scale * static_cast<float>(magnitude)};
  }
}

template <Bits kBits, int kHalf, int kColumns>
static inline __attribute__((always_inline)) void add_bits(const std::byte* record, const std::byte* middle,
                                                           const std::byte* const (&q)[kColumns],
                                                           Ints (&products)[kColumns]) {
  constexpr int j = 4 * kHalf;
  const Codes codes[4] = {bits_of<kBits, j>(record, middle), bits_of<kBits, j + 1>(record, middle),
                          bits_of<kBits, j + 2>(record, middle), bits_of<kBits, j + 3>(record, middle)};
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; ++c)
    products[c] =
        dot<max_code(kBits)>(products[c], codes, reinterpret_cast<const std::int8_t*>(q[c]) + 16 * kHalf);
}

/// Adds the contribution of these bits of a panel to sums_of[c][16]; bounds_of[c][16] becomes the bound that
/// is left. `middle` is the panel's first low plane, for bits that are stored there.
template <Bits kBits, int kColumns>
static void screen_panel(const std::byte* panel, const std::byte* middle, std::int64_t n_blocks,
                         const std::byte* const* x, const ScreenFactors* const* all_factors, float* sums_of,
                         float* bounds_of) {
  const std::byte* q[kColumns];
  const ScreenFactors* factors[kColumns];
  Floats sums[kColumns], bounds[kColumns];
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; ++c) {
    q[c] = x[c];
    factors[c] = all_factors[c];
    sums[c] = load_f32(sums_of + kPanelRows * c);
    bounds[c] = zero_floats();
  }
#pragma GCC unroll 1
  for (std::int64_t left = n_blocks; left > 0; --left) {
    if constexpr (kBits != Bits::kMiddle)
      prefetch<kQuantisedAhead, Tall::kRecordBytes, kColumns, Tall::kStreamed>(panel);
    Ints products[kColumns];
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) products[c] = zero_ints();
    add_bits<kBits, 0, kColumns>(panel, middle, q, products);
    add_bits<kBits, 1, kColumns>(panel, middle, q, products);
    if constexpr (kColumns == 1) keep_order_of_reads();
    const Floats d = load_f16(panel + Tall::kCodeBytes), size = absolute(d);
#pragma GCC unroll 2
    for (int c = 0; c < kColumns; ++c) {
      const Floats numbers = to_floats(products[c]);
      sums[c] = multiply_add(d, multiply_add(numbers, splat(&factors[c]->factor), splat(&factors[c]->offset)),
                             sums[c]);
      bounds[c] = multiply_add(size, splat(&factors[c]->bound), bounds[c]);
      q[c] += sizeof(Q8Group);
      ++factors[c];
    }
    panel += Tall::kRecordBytes;
    if constexpr (kBits != Bits::kHigh) middle += plane_bytes(Plane::kPairs);
  }
#pragma GCC unroll 2
  for (int c = 0; c < kColumns; ++c) {
    store_f32(sums_of + kPanelRows * c, sums[c]);
    store_f32(bounds_of + kPanelRows * c, bounds[c]);
  }
}

using ScreenPanel = decltype(&screen_panel<Bits::kHigh, 1>);
template <Bits kBits>
static ScreenPanel screen_of(int n_columns) {
  constexpr ScreenPanel kByColumns[kScreenColumns] = {screen_panel<kBits, 1>, screen_panel<kBits, 2>};
  return kByColumns[n_columns - 1];
}

/// Asks for what Bits::kMiddle of a panel reads.
static inline void fetch_middle(const std::byte* panel, const std::byte* middle, std::int64_t n_blocks) {
  for (std::int64_t b = 0; b < n_blocks; ++b) {
    __builtin_prefetch(panel + b * Tall::kRecordBytes + Tall::kCodeBytes, 0, 2);
    __builtin_prefetch(middle + b * plane_bytes(Plane::kPairs), 0, 2);
    __builtin_prefetch(middle + b * plane_bytes(Plane::kPairs) + 64, 0, 2);
  }
}

static inline std::int64_t n_blocks_of(const PackedMatrix& weight) {
  return (weight.columns + kBlockColumns - 1) / kBlockColumns;
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel

namespace weft::cpu::WEFT_CPU_ISA {

static void screen(const ScreenArgs& args, Range panels, Range columns, const BestArgs& best,
                   std::byte* scratch) {
  using namespace panel;
  const PackedMatrix& weight = *args.weight;
  const std::int64_t n_blocks = n_blocks_of(weight);
  const int n_columns = static_cast<int>(columns.end - columns.begin);
  const Bits bits = args.deep ? Bits::kHighAndMiddle : Bits::kHigh;
  const ScreenPanel screen_panel =
      args.deep ? screen_of<Bits::kHighAndMiddle>(n_columns) : screen_of<Bits::kHigh>(n_columns);
  const std::byte* x[kScreenColumns];
  const ScreenFactors* factors[kScreenColumns];
  for (int c = 0; c < n_columns; ++c) {
    x[c] = args.x + static_cast<std::size_t>(columns.begin + c) * args.x_row_bytes;
    auto* const own = reinterpret_cast<ScreenFactors*>(scratch) + c * n_blocks;
    screen_factors(bits, open_of(bits) - static_cast<float>(Tall::kLayout.zero), x[c], n_blocks, own);
    factors[c] = own;
  }
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    alignas(64) float sums[kScreenColumns * kPanelRows] = {}, bounds[kScreenColumns * kPanelRows];
    screen_panel(panel_of(weight, p), low_of(weight, 0, p), n_blocks, x, factors, sums, bounds);
    const std::int64_t row = p * kPanelRows;
    const std::int64_t n_rows = weight.rows - row < kPanelRows ? weight.rows - row : kPanelRows;
    for (int c = 0; c < n_columns; ++c) {
      const std::int64_t column = columns.begin + c;
      store_f32(args.sums + column * args.stride + row, load_f32(sums + kPanelRows * c));
      store_f32(args.bounds + column * args.stride + row, load_f32(bounds + kPanelRows * c));
      offer_best(sums + kPanelRows * c, static_cast<int>(n_rows), static_cast<std::int32_t>(row),
                 wanted_best(best.counts, column, best.n), best.lists + column * best.n);
    }
  }
}

static int find_candidates(const ScreenArgs& args, Range panels, std::int64_t column, float least,
                           std::int32_t* found) {
  using namespace panel;
  const float* const sums = args.sums + column * args.stride;
  const float* const bounds = args.bounds + column * args.stride;
  const Floats threshold = splat(least);
  int n = 0;
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    const Floats most = add(load_f32(sums + p * kPanelRows), load_f32(bounds + p * kPanelRows));
    if (not_less(most, threshold) != 0) found[n++] = static_cast<std::int32_t>(p);
  }
  return n;
}

static int sift_candidates(const ScreenArgs& args, std::int64_t column, float least, std::int32_t* found,
                           int n, std::byte* scratch) {
  using namespace panel;
  const PackedMatrix& weight = *args.weight;
  const std::int64_t n_blocks = n_blocks_of(weight);
  const std::byte* const x = args.x + static_cast<std::size_t>(column) * args.x_row_bytes;
  auto* const factors = reinterpret_cast<ScreenFactors*>(scratch);
  const ScreenFactors* const all_factors = factors;
  screen_factors(Bits::kMiddle, open_of(Bits::kMiddle) - open_of(Bits::kHigh), x, n_blocks, factors);
  const Floats threshold = splat(least);
  const auto fetch = [&](int i) {
    if (i < n) fetch_middle(panel_of(weight, found[i]), low_of(weight, 0, found[i]), n_blocks);
  };
  fetch(0);
  fetch(1);
  int n_left = 0;
  for (int i = 0; i < n; ++i) {
    fetch(i + 2);
    const std::int64_t p = found[i];
    alignas(64) float sums[kPanelRows], bounds[kPanelRows];
    store_f32(sums, load_f32(args.sums + column * args.stride + p * kPanelRows));
    screen_panel<Bits::kMiddle, 1>(panel_of(weight, p), low_of(weight, 0, p), n_blocks, &x, &all_factors,
                                   sums, bounds);
    if (not_less(add(load_f32(sums), load_f32(bounds)), threshold) != 0)
      found[n_left++] = static_cast<std::int32_t>(p);
  }
  return n_left;
}

}  // namespace weft::cpu::WEFT_CPU_ISA
