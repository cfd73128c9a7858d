// Micro-kernels of matrix products over packed panels: 16 rows x up to kTileColumns columns, instantiated for
// each layout and number of columns. Needs matmul_vec_<isa>.h, rows.inl (activations) and WEFT_CPU_ISA.
//
// A column's result is the same whatever tile it falls into: integer sums are exact, and its float sums
// follow the blocks of the panel.
//
// One column is left to the hardware's prefetching, and two where codes are one plane. It wants a panel read
// in the order of its addresses: with scales before the codes in front of them, Q8_0 came at three quarters
// of the speed. More columns are not left to it; all lines of a panel are fetched or none, and of a gated
// product sixteen panels of one matrix go before those of the other. labs/matmul_lab shows each. AVX2 has
// twice as many instructions for each line: there, no codes are left to the hardware alone (kAlwaysFetches),
// but floats are (with one column F32 fetched ahead came at five sixths of the speed, F16 as fast).
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// With a few columns there is so much to do for each line of a panel that the processor does not see far
/// enough ahead to keep memory busy: fetches what lies that far behind `p` into the second-level cache (into
/// the first, its few misses in flight would be the limit). All lines, or those left out cost more than the
/// others save. Up to kStreamed columns the hardware's own prefetching is the best there is.
template <int kAhead, int kBytes, int kColumns, int kStreamed = 1>
static inline __attribute__((always_inline)) void prefetch(const std::byte* p) {
  if constexpr (kColumns <= kStreamed) return;
  for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(p + kAhead + line, 0, 2);
}
/// The best distances of those measured.
inline constexpr int kQuantisedAhead = 8192;
inline constexpr int kFloatsAhead = 6144;

/// What the hardware fetches is read in the order of its addresses: its prefetching follows a stream whose
/// scales, eight lines ahead, are read first at three quarters of the speed. Compilers would move them up.
static inline __attribute__((always_inline)) void keep_order_of_reads() { asm volatile("" ::: "memory"); }

/// One register, and what lies at a distance from it is part of an instruction. Left to itself, g++ 12 keeps
/// an index for each distance, which are more than there are registers: of super-blocks with a scale for each
/// 16 columns, 32 to 38 loads a block go there (Q6_K: 2 to 5 % of the time). Where there are fewer it costs
/// more than it saves.
static inline __attribute__((always_inline)) void keep_address(const std::byte*& p) { asm("" : "+r"(p)); }

constexpr int largest_entry(const PanelLayout& layout) {
  int largest = 0;
  for (const std::uint8_t entry : layout.table.of) largest = entry > largest ? entry : largest;
  return largest;
}

constexpr int seven_minus_log2(int n) { return n <= 1 ? 7 : seven_minus_log2(n / 2) - 1; }

/// What a layout means for the arithmetic.
template <int kLayoutIndex>
struct Traits {
  static constexpr PanelLayout kLayout = kPanelLayouts[kLayoutIndex];
  static constexpr ScaleKind kScales = kLayout.scales;
  static constexpr bool kTable = kLayout.table.of[0] != 0;
  static constexpr bool kMin = kScales == ScaleKind::kHalfMin || kScales == ScaleKind::kSuperMin;
  static constexpr bool kTwoHalves = kScales == ScaleKind::kSuper16 || kScales == ScaleKind::kSuperE4M3;
  static constexpr int kBaseBits = plane_bits(kLayout.base);
  static constexpr int kBaseBytes = plane_bytes(kLayout.base);
  static constexpr int kCodeBytes = code_bytes(kLayout);
  static constexpr int kRecordBytes = record_bytes(kLayout);
  static constexpr int kFactorBytes = factor_bytes(kScales);
  static constexpr int kHeaderBytes = header_bytes(kLayout);
  static constexpr int kLargestEntry = largest_entry(kLayout);
  static constexpr int kMaxCode =
      kTable ? (kLargestEntry > 63   ? 255
                : kLargestEntry > 31 ? 63
                                     : 31)
             : (1 << (kBaseBits + plane_bits(kLayout.extra) + low_bits(kLayout))) - 1;
  /// Columns up to which the hardware's prefetching has to help: panels are read in order.
  static constexpr int kInOrder = kLayout.extra == Plane::kNone && !kLayout.tall &&
                                          (kLayout.base == Plane::kNibbles || kLayout.base == Plane::kBytes)
                                      ? 2
                                      : 1;
  /// Columns up to which it does best alone.
  static constexpr int kStreamed = kAlwaysFetches ? 0 : kInOrder;
  static constexpr int kStartShift = seven_minus_log2(kLayout.zero);
  /// Whether codes are multiplied without their zero, whose products are whole numbers of the sums.
  static constexpr bool kCentred = ByTurns::kCentres && kLayout.zero > 0 &&
                                   kScales != ScaleKind::kSuperFlat &&
                                   (kScales != ScaleKind::kSuper || kLayout.odd);
};

/// Codes of columns 4j .. 4j+3 (of eight such groups) of a record.
template <class T, int j>
static inline __attribute__((always_inline)) Codes codes_of(const std::byte* record, Codes table) {
  Codes c;
  if constexpr (T::kLayout.base == Plane::kBytes) {
    c = load_codes(record + 64 * j);
  } else if constexpr (T::kLayout.base == Plane::kNibbles) {
    c = shifted_bits < j<4 ? 0 : 4, 15>(load_codes(record + 64 * (j % 4)));
  } else if constexpr (T::kLayout.base == Plane::kBits) {
    c = shifted_bits<j, 1>(load_codes(record));
  } else {
    static_assert(T::kLayout.base == Plane::kPairs);
    c = shifted_bits<2 * (j % 4), 3>(load_codes(record + 64 * (j / 4)));
  }
  const std::byte* const extra = record + T::kBaseBytes;
  if constexpr (T::kLayout.extra == Plane::kBits) {
    c = or_shifted_bits<j - T::kBaseBits, 1 << T::kBaseBits>(c, load_codes(extra));
  } else if constexpr (T::kLayout.extra == Plane::kPairs) {
    c = or_shifted_bits<2 * (j % 4) - T::kBaseBits, 3 << T::kBaseBits>(c, load_codes(extra + 64 * (j / 4)));
  }
  if constexpr (T::kTable) c = look_up(table, c);
  return c;
}

using LowPlanes = const std::byte* const (&)[kLowPlanes];

/// A tall matrix's codes of half a record: their high nibbles are there, `low` has the pairs below them.
template <int kHalf>
static inline __attribute__((always_inline)) void tall_codes(const std::byte* record, LowPlanes low,
                                                             Codes (&codes)[4]) {
  // The pairs of four groups share a byte: those of groups 0 and 2, and of 1 and 3, are nibbles at once.
  const Codes upper = load_codes(low[0] + 64 * kHalf), lower = load_codes(low[1] + 64 * kHalf);
  const Codes even = merged_bits<-2, 0, 0xcc>(upper, lower), odd = merged_bits<0, 2, 0xcc>(upper, lower);
  constexpr int kUp = kHalf == 0 ? -4 : 0;
  codes[0] = merged_bits<kUp, 0, 0xf0>(load_codes(record), even);
  codes[1] = merged_bits<kUp, 0, 0xf0>(load_codes(record + 64), odd);
  codes[2] = merged_bits<kUp, 4, 0xf0>(load_codes(record + 128), even);
  codes[3] = merged_bits<kUp, 4, 0xf0>(load_codes(record + 192), odd);
}

/// Adds the products of half a record (16 columns) to the sums of all columns, whose activations there begin
/// at q[c] + at. `low` are the record's low planes, of a tall matrix.
template <class T, int kHalf, int kColumns>
static inline __attribute__((always_inline)) void add_half(const std::byte* record, Codes table,
                                                           const std::byte* const (&q)[kColumns],
                                                           std::ptrdiff_t at, Ints (&sums)[kColumns],
                                                           LowPlanes low = {}) {
  constexpr int j = 4 * kHalf;
  Codes codes[4];
  if constexpr (T::kLayout.tall) {
    tall_codes<kHalf>(record, low, codes);
  } else {
    codes[0] = codes_of<T, j>(record, table);
    codes[1] = codes_of<T, j + 1>(record, table);
    codes[2] = codes_of<T, j + 2>(record, table);
    codes[3] = codes_of<T, j + 3>(record, table);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    const std::byte* from = q[c] + at;
    if constexpr (T::kTwoHalves) keep_address(from);
    sums[c] = dot<T::kMaxCode>(sums[c], codes, reinterpret_cast<const std::int8_t*>(from) + 16 * kHalf);
  }
}

/// The same where registers are few: codes of four columns, from group j of a record to before kEnd, are
/// multiplied as soon as they are there.
template <class T, int kFirst, int j, int kEnd, class Turns, int kColumns>
static inline __attribute__((always_inline)) void add_by_turns(const std::byte* record, Codes table,
                                                               const std::byte* const (&q)[kColumns],
                                                               std::ptrdiff_t at,
                                                               typename Turns::Products (&products)[kColumns],
                                                               Ints (&sums)[kColumns], Turns& turns) {
  const Codes codes = codes_of<T, j>(record, table);
  const std::int8_t* from[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) from[c] = reinterpret_cast<const std::int8_t*>(q[c] + at);
  turns.template add<T, kFirst, j, kEnd>(products, codes, from);
  if constexpr (j + 1 == kEnd || (j + 1) % Turns::template kGroups<T::kMaxCode> == 0) {
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = Turns::template end<T::kMaxCode>(sums[c], products[c]);
      products[c] = Turns::template begin<T::kMaxCode>(sums[c]);
    }
  }
  if constexpr (j + 1 < kEnd)
    add_by_turns<T, kFirst, j + 1, kEnd>(record, table, q, at, products, sums, turns);
}

/// Adds the products of groups [kFirst, kEnd) of a record, all eight or one half, to the sums of all columns.
template <class T, int kFirst, int kEnd, int kColumns, class Turns = ByTurns>
static inline __attribute__((always_inline)) void add_record(const std::byte* record, Codes table,
                                                             const std::byte* const (&q)[kColumns],
                                                             std::ptrdiff_t at, Ints (&sums)[kColumns],
                                                             LowPlanes low = {}) {
  if constexpr (Turns::kWanted && !T::kLayout.tall) {
    typename Turns::Products products[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) products[c] = Turns::template begin<T::kMaxCode>(sums[c]);
    Turns turns;
    add_by_turns<T, kFirst, kFirst, kEnd>(record, table, q, at, products, sums, turns);
  } else {
    if constexpr (kFirst < 4) add_half<T, 0, kColumns>(record, table, q, at, sums, low);
    if constexpr (kEnd > 4) add_half<T, 1, kColumns>(record, table, q, at, sums, low);
  }
}

/// out[c][16] = a panel times the kQ8 rows x[c].
template <int kLayoutIndex, int kColumns>
static void multiply_blocks(const std::byte* panel, LowPlanes low_planes, std::int64_t n_blocks,
                            const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex>;
  static_assert(offsetof(Q8Group, q) == 0);
  const std::byte* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    total[c] = zero_floats();
  }
  Codes table{};
  if constexpr (T::kTable) table = load_table(kPanelLayouts[kLayoutIndex].table.of);
  constexpr bool kTall = T::kLayout.tall;
  const std::byte* low[kLowPlanes] = {low_planes[0], low_planes[1]};

  std::ptrdiff_t group = 0;
#pragma GCC unroll 1
  for (std::int64_t left = n_blocks; left > 0; --left) {
    prefetch<kQuantisedAhead, T::kRecordBytes, kColumns, T::kStreamed>(panel);
    if constexpr (kTall)
      for (const std::byte* plane : low) prefetch<kQuantisedAhead / 2, 128, kColumns>(plane);
    Floats scale{}, min{};
    const auto load_scales = [&] {
      const std::byte* const scales = panel + T::kCodeBytes;
      if constexpr (T::kScales == ScaleKind::kHalf || T::kMin) scale = load_f16(scales);
      if constexpr (T::kMin) min = load_f16(scales + 32);
      if constexpr (T::kScales == ScaleKind::kExponent) scale = load_exponents(scales);
    };
    if constexpr (kColumns > T::kInOrder) load_scales();
    Ints sums[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
      sums[c] = T::kMin || T::kCentred ? zero_ints() : start<T::kStartShift, T::kMaxCode>(&g->offset);
    }
    add_record<T, 0, 8, kColumns>(panel, table, x, group, sums, low);
    if constexpr (kTall)
      for (const std::byte*& plane : low) plane += plane_bytes(Plane::kPairs);
    if constexpr (kColumns <= T::kInOrder) {
      keep_order_of_reads();
      load_scales();
    }
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) {
      const auto* g = reinterpret_cast<const Q8Group*>(x[c] + group);
      total[c] = multiply_add(to_floats(sums[c]), mul(scale, splat(&g->scale)), total[c]);
      if constexpr (T::kMin) total[c] = multiply_add(min, splat(&g->scaled_sum), total[c]);
    }
    panel += T::kRecordBytes;
    group += static_cast<std::ptrdiff_t>(sizeof(Q8Group));
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

/// What a super-block's activations are multiplied by beside its codes, of blocks i and i + 1: mins, or the
/// scales that the codes' zero has.
template <class T>
static inline Pairs zero_factors(const std::byte* scales, int i) {
  if constexpr (T::kScales == ScaleKind::kSuperMin) {
    return i == 0 ? pairs_of_bits<0, 63>(load_codes(scales)) : pairs_of_bits<8, 63>(load_codes(scales));
  } else {
    static_assert(T::kScales == ScaleKind::kSuper);
    return load_i8_pairs(scales + 16 * i);
  }
}

/// 64 times the same byte.
template <int kByte>
struct SameBytes {
  std::int8_t bytes[64];
  constexpr SameBytes() : bytes() {
    for (std::int8_t& b : bytes) b = static_cast<std::int8_t>(kByte);
  }
};
template <int kByte>
static const std::byte* same_bytes() {
  alignas(64) static constexpr SameBytes<kByte> kBytes;
  return reinterpret_cast<const std::byte*>(kBytes.bytes);
}

/// For load_i8_pairs: pairs of which `which` is the number, and the other 0.
template <int kNumber>
static const std::byte* one_of_two(int which) {
  struct Bytes {
    std::int8_t bytes[48];
    constexpr Bytes() : bytes() {
      for (int i = 0; i < 48; ++i) bytes[i] = static_cast<std::int8_t>(i / 16 == 1 ? 0 : kNumber);
    }
  };
  alignas(16) static constexpr Bytes kBytes;
  return reinterpret_cast<const std::byte*>(kBytes.bytes) + 16 * which;
}

/// Odd scales become bytes, as other kinds have them; so many vectors of nibbles.
template <int kVectors>
static inline void expand_odd_scales(const std::byte* nibbles, std::byte* scales) {
  const Codes ones = load_codes(same_bytes<1>());
  for (int i = 0; i < kVectors; ++i) {
    const Codes both = load_codes(nibbles + 64 * i);
    store_codes(scales + 128 * i, or_shifted_bits<-1, 30>(ones, both));
    store_codes(scales + 128 * i + 64, or_shifted_bits<3, 30>(ones, both));
  }
}

/// Sixteen floats of 4 + 3 bits times 2^-8: as halves, their bits lie seven places higher.
static inline Floats load_e4m3(const std::byte* p) {
  std::uint16_t halves[kPanelRows];
  for (int i = 0; i < kPanelRows; ++i)
    halves[i] = static_cast<std::uint16_t>(static_cast<std::uint16_t>(p[i]) << 7);
  return load_f16(halves);
}

/// out[c][16] = a panel times the kQ8Wide rows x[c], of a layout whose super-blocks have one scale: what
/// comes of a group is a whole number.
template <int kLayoutIndex, int kColumns>
static void multiply_flat_blocks(const std::byte* panel, LowPlanes, std::int64_t n_super_blocks,
                                 const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex>;
  static_assert(offsetof(Q8Wide, q) == 0 && T::kScales == ScaleKind::kSuperFlat);
  const std::byte* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    total[c] = zero_floats();
  }
  Codes table{};
  if constexpr (T::kTable) table = load_table(kPanelLayouts[kLayoutIndex].table.of);
  const Pairs zeros = load_i8_pairs(same_bytes<-T::kLayout.zero>());
#pragma GCC unroll 1
  for (std::int64_t left = n_super_blocks; left > 0; --left) {
    const Floats d = load_f16(panel);
    panel += T::kHeaderBytes;
#pragma GCC unroll 1
    for (int groups = T::kLayout.super_blocks / kWideBlocks; groups > 0; --groups) {
      Ints sums[kColumns];
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        sums[c] = dot_pairs(zero_ints(), zeros, x[c] + offsetof(Q8Wide, block_sums));
        sums[c] = dot_pairs(sums[c], zeros, x[c] + offsetof(Q8Wide, block_sums) + 4);
      }
#pragma GCC unroll 1
      for (int i = 0; i < kWideBlocks; ++i) {
        prefetch<kQuantisedAhead, T::kRecordBytes, kColumns, T::kStreamed>(panel);
        add_record<T, 0, 8, kColumns>(panel, table, x, kBlockColumns * i, sums);
        panel += T::kRecordBytes;
      }
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        const auto* group = reinterpret_cast<const Q8Wide*>(x[c]);
        total[c] = multiply_add(mul(to_floats(sums[c]), d), splat(&group->scale), total[c]);
        x[c] += sizeof(Q8Wide);
      }
    }
  }
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

/// out[c][16] = a panel times the kQ8Wide rows x[c], of a layout whose scales are so small that what comes of
/// a group, and of its mins, is a whole number: add_scaled_pairs has the scales where they cost least.
template <int kLayoutIndex, int kColumns>
static void multiply_scaled_blocks(const std::byte* panel, LowPlanes, std::int64_t n_super_blocks,
                                   const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex>;
  static_assert(offsetof(Q8Wide, q) == 0 && T::kScales == ScaleKind::kSuper16Min);
  static_assert(T::kLayout.base == Plane::kPairs && T::kLayout.extra == Plane::kNone);
  const std::byte* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    total[c] = zero_floats();
  }
#pragma GCC unroll 1
  for (std::int64_t left = n_super_blocks; left > 0; --left) {
    prefetch<kQuantisedAhead, T::kHeaderBytes, kColumns, T::kStreamed>(panel);
    const std::byte* const factors = panel;
    const std::byte* scales = panel + T::kFactorBytes;
    panel += T::kHeaderBytes;
#pragma GCC unroll 1
    for (int groups = T::kLayout.super_blocks / kWideBlocks; groups > 0; --groups) {
      Ints sums[kColumns];
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) sums[c] = zero_ints();
#pragma GCC unroll 1
      for (int i = 0; i < kWideBlocks; ++i) {
        prefetch<kQuantisedAhead, T::kRecordBytes, kColumns, T::kStreamed>(panel);
        for (int half = 0; half < 2; ++half)
          add_scaled_pairs(panel + 64 * half, scales + kPanelRows * (2 * i + half), x,
                           kBlockColumns * i + 16 * half, sums);
        panel += T::kRecordBytes;
      }
      Floats part[kColumns];
      const Floats d = load_f16(factors);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        part[c] = mul(to_floats(sums[c]), d);
        sums[c] = zero_ints();
      }
#pragma GCC unroll 4
      for (int i = 0; i < kWideBlocks; ++i) {
        const Pairs mins = load_high_nibble_pairs(scales + 2 * kPanelRows * i);
#pragma GCC unroll 8
        for (int c = 0; c < kColumns; ++c)
          sums[c] = dot_pairs(sums[c], mins, x[c] + offsetof(Q8Wide, sums) + 4 * i);
      }
      scales += 2 * kPanelRows * kWideBlocks;
      const Floats min = load_f16(factors + 2 * kPanelRows);
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) {
        part[c] = multiply_add(to_floats(sums[c]), min, part[c]);
        const auto* group = reinterpret_cast<const Q8Wide*>(x[c]);
        total[c] = multiply_add(part[c], splat(&group->scale), total[c]);
        x[c] += sizeof(Q8Wide);
      }
    }
  }
#pragma GCC unroll 8
  for (int c = 0; c < kColumns; ++c) store_f32(out + 16 * c, total[c]);
}

/// out[c][16] = a panel times the kQ8Wide rows x[c]. The activations' scale is applied once a group, which is
/// one multiply-add less a block.
template <int kLayoutIndex, int kColumns>
static void multiply_super_blocks(const std::byte* panel, LowPlanes, std::int64_t n_super_blocks,
                                  const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex>;
  static_assert(offsetof(Q8Wide, q) == 0);
  // A machine that multiplies signed codes has subtracted this zero already.
  constexpr bool kSubtracted = kSubtractsZero<T::kMaxCode>;
  // Of odd scales, zeros are whole numbers in the sums, so that nothing is lost where values are small beside
  // them.
  constexpr bool kZerosInSums = T::kLayout.odd && !T::kTwoHalves && !kSubtracted && !T::kCentred;
  constexpr bool kOffset = T::kMin || (!T::kTwoHalves && !T::kLayout.odd && !kSubtracted);
  constexpr bool kSixBits = T::kScales == ScaleKind::kSuperMin;
  constexpr bool kFloatScales = T::kScales == ScaleKind::kSuperE4M3;
  constexpr int kOddVectors = T::kLayout.odd ? kSuperBlocks * scale_bytes(T::kLayout) / 64 : 0;
  alignas(64) std::byte block_scales[kSixBits ? 128 : kOddVectors > 0 ? 128 * kOddVectors : 1];
  const std::byte* x[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    store_f32(out + 16 * c, zero_floats());  // The totals stay there: registers are short.
  }
  Codes table{};
  if constexpr (T::kTable) table = load_table(kPanelLayouts[kLayoutIndex].table.of);

#pragma GCC unroll 1
  for (std::int64_t left = n_super_blocks; left > 0; --left) {
    prefetch<kQuantisedAhead, T::kHeaderBytes, kColumns, T::kStreamed>(panel);
    Floats d = splat(T::kLayout.unit);
    if constexpr (!kFloatScales) d = T::kLayout.unit == 1.0f ? load_f16(panel) : mul(load_f16(panel), d);
    Floats zero_factor{};
    if constexpr (kOffset) zero_factor = T::kMin ? load_f16(panel + 32) : mul(d, splat(-T::kLayout.zero));
    const std::byte* scales = panel + T::kFactorBytes;
    const std::byte* mins = scales + sizeof(Codes);
    if constexpr (kSixBits) {  // Scales become bytes, as other kinds have them.
      const Codes low = load_codes(scales);
      const Codes first = load_codes(mins), second = load_codes(mins + sizeof(Codes));
      store_codes(block_scales, or_shifted_bits<2, 0x30>(shifted_bits<0, 15>(low), first));
      store_codes(block_scales + sizeof(Codes), or_shifted_bits<2, 0x30>(shifted_bits<4, 15>(low), second));
      scales = block_scales;
    }
    if constexpr (kOddVectors > 0) {
      expand_odd_scales<kOddVectors>(scales, block_scales);
      scales = block_scales;
    }
    panel += T::kHeaderBytes;
#pragma GCC unroll 1
    for (int left_groups = T::kLayout.super_blocks / kWideBlocks; left_groups > 0; --left_groups) {
      Floats part[kColumns];
      if constexpr (kOffset) {
        Ints sums[kColumns];
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sums[c] = zero_ints();
#pragma GCC unroll 16
        for (int i = 0; i < kWideBlocks; i += 2) {
          const Pairs factors = zero_factors<T>(kSixBits ? mins : scales, i);
#pragma GCC unroll 16
          for (int c = 0; c < kColumns; ++c)
            sums[c] = dot_pairs(sums[c], factors, x[c] + offsetof(Q8Wide, block_sums) + 2 * i);
        }
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) part[c] = mul(to_floats(sums[c]), zero_factor);
        mins += sizeof(Codes);
      } else {
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) part[c] = zero_floats();
      }

#pragma GCC unroll 1
      for (int i = 0; i < kWideBlocks; ++i) {
        prefetch<kQuantisedAhead, T::kRecordBytes, kColumns, T::kStreamed>(panel);
        const std::ptrdiff_t at = kBlockColumns * i;
        Ints sums[kColumns];
        const auto begin = [&](int half) {
#pragma GCC unroll 16
          for (int c = 0; c < kColumns; ++c) {
            const auto* offsets = reinterpret_cast<const std::int32_t*>(x[c] + offsetof(Q8Wide, offsets));
            if constexpr (kZerosInSums) {
              const std::byte* const pair = x[c] + offsetof(Q8Wide, block_sums) + 4 * (i / 2);
              sums[c] = dot_pairs(zero_ints(), load_i8_pairs(one_of_two<-T::kLayout.zero>(i % 2)), pair);
            } else {
              sums[c] = T::kTwoHalves && !T::kCentred
                            ? start<T::kStartShift, T::kMaxCode>(offsets + 2 * i + half)
                            : zero_ints();
            }
          }
        };
        const auto end = [&](Floats scale) {
          const Floats factor = mul(d, scale);
#pragma GCC unroll 16
          for (int c = 0; c < kColumns; ++c) part[c] = multiply_add(to_floats(sums[c]), factor, part[c]);
          scales += kPanelRows;
        };
        begin(0);
        add_record<T, 0, T::kTwoHalves ? 4 : 8, kColumns>(panel, table, x, at, sums);
        if constexpr (T::kTwoHalves) {
          const auto load_scale = [&] { return kFloatScales ? load_e4m3(scales) : load_i8(scales); };
          end(load_scale());
          begin(1);
          add_record<T, 4, 8, kColumns>(panel, table, x, at, sums);
          end(load_scale());
        } else {
          end(T::kMin ? load_u8(scales) : load_i8(scales));
        }
        panel += T::kRecordBytes;
      }
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) {
        const auto* group = reinterpret_cast<const Q8Wide*>(x[c]);
        store_f32(out + 16 * c, multiply_add(part[c], splat(&group->scale), load_f32(out + 16 * c)));
        x[c] += sizeof(Q8Wide);
      }
    }
  }
}

/// Where the columns' results of one panel lie behind those of another.
inline constexpr int kTile = kTileColumns * kPanelRows;

/// out[p][c][16] = panels of floats, `panel_bytes` apart, times the float rows x[c]. Each record has a sum of
/// its own, which is added to the total: errors grow with 32 + K / 32 terms, not with K.
template <int kLayoutIndex, int kColumns, int kPanels, bool kFetch = true>
static inline __attribute__((always_inline)) void multiply_float_panels(const std::byte* panel,
                                                                        std::int64_t panel_bytes,
                                                                        std::int64_t n_values,
                                                                        const std::byte* const* rows,
                                                                        float* out) {
  using T = Traits<kLayoutIndex>;
  constexpr int kStep = T::kLayout.element_bytes * kPanelRows;
  const float* x[kColumns];
  Floats total[kPanels][kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) x[c] = reinterpret_cast<const float*>(rows[c]);
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) total[p][c] = zero_floats();
  for (std::int64_t begin = 0; begin < n_values; begin += kBlockColumns) {
    const std::int64_t end = begin + kBlockColumns < n_values ? begin + kBlockColumns : n_values;
    Floats sums[kPanels][kColumns];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) sums[p][c] = zero_floats();
#pragma GCC unroll 4
    for (std::int64_t k = begin; k < end; ++k) {
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) {
        const std::byte* const at = panel + p * panel_bytes;
        if constexpr (kFetch)
          if (k * kStep % 64 == 0) prefetch<kFloatsAhead, 64, kPanels * kColumns>(at);
        Floats w;
        if constexpr (T::kLayout.dtype == DType::kF32) w = load_f32(at);
        if constexpr (T::kLayout.dtype == DType::kF16) w = load_f16(at);
        if constexpr (T::kLayout.dtype == DType::kBF16) w = load_bf16(at);
#pragma GCC unroll 16
        for (int c = 0; c < kColumns; ++c) sums[p][c] = multiply_add(w, splat(x[c] + k), sums[p][c]);
      }
      panel += kStep;
    }
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
      for (int c = 0; c < kColumns; ++c) total[p][c] = add(total[p][c], sums[p][c]);
  }
#pragma GCC unroll 16
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) store_f32(out + p * kTile + 16 * c, total[p][c]);
}

template <int kLayoutIndex, int kColumns>
static void multiply_floats(const std::byte* panel, LowPlanes, std::int64_t n_values,
                            const std::byte* const* rows, float* out) {
  multiply_float_panels<kLayoutIndex, kColumns, 1>(panel, 0, n_values, rows, out);
}

/// A column's sums are a chain of additions, each of which waits for the one before. In a short panel (of the
/// second matrix of a low-rank product) nothing else is to be done meanwhile, so several go side by side.
/// They are over so soon that what they asked for would hold up what they read: they ask for nothing.
inline constexpr std::int64_t kShortPanel = 128;  ///< Columns of the matrix.
inline constexpr int kSumsSideBySide = kRegisters * kLanes / kPanelRows / 4;
template <int kColumns>
inline constexpr int kShortPanels = kColumns <= kSumsSideBySide ? kSumsSideBySide / kColumns : 1;

template <int kLayoutIndex, int kColumns>
static void multiply_short_panels(const std::byte* panel, std::int64_t panel_bytes, std::int64_t n_panels,
                                  std::int64_t n_values, const std::byte* const* rows, float* out) {
  constexpr int kPanels = kShortPanels<kColumns>;
  for (; n_panels >= kPanels; n_panels -= kPanels) {
    multiply_float_panels<kLayoutIndex, kColumns, kPanels, false>(panel, panel_bytes, n_values, rows, out);
    panel += kPanels * panel_bytes;
    out += kPanels * kTile;
  }
  for (; n_panels > 0; --n_panels) {
    multiply_float_panels<kLayoutIndex, kColumns, 1, false>(panel, panel_bytes, n_values, rows, out);
    panel += panel_bytes;
    out += kTile;
  }
}

using Multiply = void (*)(const std::byte* panel, LowPlanes low, std::int64_t n, const std::byte* const* rows,
                          float* out);

/// The micro-kernels of a layout, by number of columns; their n counts so many values.
using MultiplyShort = void (*)(const std::byte* panel, std::int64_t panel_bytes, std::int64_t n_panels,
                               std::int64_t n, const std::byte* const* rows, float* out);
struct MultiplyTable {
  Multiply by_columns[kTileColumns];
  MultiplyShort short_by_columns[kTileColumns];  ///< Null where one panel at a time is as well.
  int n_values;
};
template <int kLayoutIndex, int kColumns>
constexpr void fill(MultiplyTable& table) {
  constexpr PanelLayout kLayout = kPanelLayouts[kLayoutIndex];
  if constexpr (kLayout.element_bytes > 0) {
    table.n_values = 1;
    table.by_columns[kColumns - 1] = multiply_floats<kLayoutIndex, kColumns>;
    if constexpr (kShortPanels<kColumns> > 1)
      table.short_by_columns[kColumns - 1] = multiply_short_panels<kLayoutIndex, kColumns>;
  } else if constexpr (kLayout.scales == ScaleKind::kSuperFlat) {
    table.n_values = unit_columns(kLayout);
    table.by_columns[kColumns - 1] = multiply_flat_blocks<kLayoutIndex, kColumns>;
  } else if constexpr (kLayout.scales == ScaleKind::kSuper16Min) {
    table.n_values = unit_columns(kLayout);
    table.by_columns[kColumns - 1] = multiply_scaled_blocks<kLayoutIndex, kColumns>;
  } else if constexpr (has_super_blocks(kLayout.scales)) {
    table.n_values = unit_columns(kLayout);
    table.by_columns[kColumns - 1] = multiply_super_blocks<kLayoutIndex, kColumns>;
  } else {
    table.n_values = kBlockColumns;
    table.by_columns[kColumns - 1] = multiply_blocks<kLayoutIndex, kColumns>;
  }
  if constexpr (kColumns > kFewestColumns) fill<kLayoutIndex, kColumns - 1>(table);
}
struct AllTables {
  MultiplyTable of[kNumPanelLayouts];
};
template <int kLayoutIndex>
constexpr void fill_all(AllTables& tables) {
  fill<kLayoutIndex, kTileColumns>(tables.of[kLayoutIndex]);
  if constexpr (kLayoutIndex > 0) fill_all<kLayoutIndex - 1>(tables);
}
constexpr AllTables all_tables() {
  AllTables tables{};
  fill_all<kNumPanelLayouts - 1>(tables);
  return tables;
}
static constexpr AllTables kMultiply = all_tables();

template <int kColumns>
constexpr void fill_compact(MultiplyTable& table) {
  table.by_columns[kColumns - 1] = multiply_compact<kColumns>;
  if constexpr (kColumns > kFewestColumns) fill_compact<kColumns - 1>(table);
}
constexpr MultiplyTable compact_table() {
  MultiplyTable table{.n_values = 1};
  fill_compact<kTileColumns>(table);
  return table;
}
static constexpr MultiplyTable kMultiplyCompact = compact_table();

static const MultiplyTable* multiply_table(const PackedMatrix& matrix) {
  if (matrix.compact) return &kMultiplyCompact;
  for (int i = 0; i < kNumPanelLayouts; ++i) {
    const PanelLayout& layout = kPanelLayouts[i];
    if (layout.dtype == matrix.dtype && layout.tall == (matrix.low_bytes > 0)) return &kMultiply.of[i];
  }
  return nullptr;
}

/// With few columns a matrix and its gate are two streams from memory, and each change from one to the other
/// costs some of its accesses: so many panels of one go before those of the other, or of what is added.
inline constexpr int kGatedPanels = 16;
/// With many columns, a tile's activations stay in the first-level cache while so many panels pass by.
inline constexpr int kTilePanels = 8;

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
