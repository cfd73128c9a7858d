// The codes of packed panels: what a layout means for the arithmetic, how far ahead panels are fetched, and
// how codes become dot products. Needs matmul_vec_<isa>.h and WEFT_CPU_ISA.
//
// One column is left to the hardware's prefetching, and two where codes are one plane. Hardware prefetching
// needs a panel to be read in the order of its addresses. With scales read before the codes in front of them,
// Q8_0 had three quarters of the speed. More columns are not left to it. All lines of a panel are fetched or
// none, and of a gated product sixteen panels of one matrix precede those of the other (labs/matmul_lab).
// AVX2 needs twice as many instructions for each line. There, records of codes and 16-bit floats are always
// fetched (kAlwaysFetches). Low planes and F32 are left to the hardware (with one column F32 fetched ahead
// had five sixths of the speed).
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// With a few columns each line of a panel takes so much work that the processor does not see far enough
/// ahead to keep memory busy. So this prefetches the line kAhead bytes after `p` into the second-level cache.
/// In the first level, its few misses in flight would be the limit. All lines must be fetched: otherwise the
/// missing ones cost more than the others save. Up to kStreamed columns the hardware's own prefetching is the
/// best there is.
template <int kAhead, int kBytes, int kColumns, int kStreamed = 1>
static inline __attribute__((always_inline)) void prefetch(const std::byte* p) {
  if constexpr (kColumns <= kStreamed) return;
  for (int line = 0; line < kBytes; line += 64) __builtin_prefetch(p + kAhead + line, 0, 2);
}
/// The best distances of those measured. On Zen 3, with 20 GB/s per core, Q4_0 had six sevenths of the speed
/// with 3 KiB and with 8 KiB. On Zen 4, with 30 GB/s, BF16 of 12 bits was as slow with 2 KiB as without.
inline constexpr int kQuantisedAhead = kAlwaysFetches ? 2048 : 8192;
inline constexpr int kFloatsAhead = kAlwaysFetches ? 2048 : 6144;

/// Keeps the order of addresses where the hardware prefetches. If scales, eight lines ahead, are read first,
/// its prefetching has three quarters of the speed. Compilers would move them up.
static inline __attribute__((always_inline)) void keep_order_of_reads() { asm volatile("" ::: "memory"); }

/// Keeps one register: distances from it are part of instructions. Otherwise g++ 12 keeps an index for each
/// distance, which are more than there are registers. Super-blocks with a scale for each 16 columns would
/// have 32 to 38 more loads a block (Q6_K: 2 to 5 % of the time). With fewer distances this costs more than
/// it saves.
static inline __attribute__((always_inline)) void keep_address(const std::byte*& p) { asm("" : "+r"(p)); }

constexpr int largest_entry(const PanelLayout& layout) {
  int largest = 0;
  for (const std::uint8_t entry : layout.table.of) largest = entry > largest ? entry : largest;
  return largest;
}

constexpr int seven_minus_log2(int n) { return n <= 1 ? 7 : seven_minus_log2(n / 2) - 1; }

/// What a layout means for the arithmetic; of unpacked panels (unpacked.inl), too.
template <int kLayoutIndex, bool kIsUnpacked = false>
struct Traits {
  static constexpr PanelLayout kLayout = kPanelLayouts[kLayoutIndex];
  static constexpr bool kUnpacked = kIsUnpacked;
  static constexpr bool kTall = kLayout.tall && !kUnpacked;  ///< With low planes.
  static constexpr ScaleKind kScales = kLayout.scales;
  static constexpr bool kTable = kLayout.table.of[0] != 0;
  /// With mins as floats. Those of kSuper16Min are whole numbers (multiply_scaled_blocks).
  static constexpr bool kMin = kScales == ScaleKind::kHalfMin || kScales == ScaleKind::kSuperMin;
  static constexpr bool kTwoHalves = kScales == ScaleKind::kSuper16 || kScales == ScaleKind::kSuperE4M3;
  static constexpr int kBaseBits = plane_bits(kLayout.base);
  static constexpr int kBaseBytes = plane_bytes(kLayout.base);
  static constexpr int kCodeBytes = kUnpacked ? plane_bytes(Plane::kBytes) : code_bytes(kLayout);
  static constexpr int kRecordBytes = record_bytes(kLayout) - code_bytes(kLayout) + kCodeBytes;
  static constexpr int kFactorBytes = factor_bytes(kScales);
  static constexpr int kHeaderBytes = header_bytes(kLayout);
  static constexpr int kLargestEntry = largest_entry(kLayout);
  static constexpr int kMaxCode =
      kTable ? (kLargestEntry > 63   ? 255
                : kLargestEntry > 31 ? 63
                                     : 31)
             : (1 << (kBaseBits + plane_bits(kLayout.extra) + low_bits(kLayout))) - 1;
  /// Columns up to which the hardware's prefetching has to help: panels are read in order.
  static constexpr int kInOrder = kLayout.extra == Plane::kNone && !kTall &&
                                          (kLayout.base == Plane::kNibbles || kLayout.base == Plane::kBytes)
                                      ? 2
                                      : 1;
  /// Columns up to which it does best alone.
  static constexpr int kStreamed = kUnpacked ? kTileColumns : kAlwaysFetches ? 0 : kInOrder;
  static constexpr int kStartShift = seven_minus_log2(kLayout.zero);
  /// Whether codes are multiplied without their zero, whose products are whole numbers of the sums.
  static constexpr bool kCentred = ByTurns::kCentres && kLayout.zero > 0 &&
                                   kScales != ScaleKind::kSuperFlat &&
                                   (kScales != ScaleKind::kSuper || kLayout.odd);
};

using LowPlanes = const std::byte* const (&)[kLowPlanes];

/// What the low planes of a tall matrix have for half a record. The pairs of four groups share a byte: groups
/// 0 and 2, and groups 1 and 3, are nibbles together.
struct LowNibbles {
  Codes even, odd;
};
template <class T, int kHalf>
static inline __attribute__((always_inline)) LowNibbles low_nibbles(LowPlanes low) {
  if constexpr (!T::kTall) return LowNibbles{};
  const Codes upper = load_codes(low[0] + 64 * kHalf), lower = load_codes(low[1] + 64 * kHalf);
  return {merged_bits<-2, 0, 0xcc>(upper, lower), merged_bits<0, 2, 0xcc>(upper, lower)};
}
/// Codes of columns 4j .. 4j+3 (of eight such groups) of a record; of a tall matrix with the nibbles that the
/// low planes have for its half.
template <class T, int j>
static inline __attribute__((always_inline)) Codes codes_of(const std::byte* record, Codes table,
                                                            const LowNibbles& low) {
  Codes c;
  if constexpr (T::kTall) {
    return merged_bits<j / 4 == 0 ? -4 : 0, j % 4 < 2 ? 0 : 4, 0xf0>(load_codes(record + 64 * (j % 4)),
                                                                     j % 2 == 0 ? low.even : low.odd);
  } else if constexpr (T::kUnpacked) {
    return load_codes(record + 64 * j);
  } else if constexpr (T::kLayout.base == Plane::kBytes) {
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

/// Adds the products of half a record (16 columns) to the sums of all columns, whose activations there begin
/// at q[c] + at. `low` are the record's low planes, of a tall matrix.
template <class T, int kHalf, int kColumns>
static inline __attribute__((always_inline)) void add_half(const std::byte* record, Codes table,
                                                           const std::byte* const (&q)[kColumns],
                                                           std::ptrdiff_t at, Ints (&sums)[kColumns],
                                                           LowPlanes low = {}) {
  constexpr int j = 4 * kHalf;
  const LowNibbles nibbles = low_nibbles<T, kHalf>(low);
  const Codes codes[4] = {
      codes_of<T, j>(record, table, nibbles), codes_of<T, j + 1>(record, table, nibbles),
      codes_of<T, j + 2>(record, table, nibbles), codes_of<T, j + 3>(record, table, nibbles)};
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    const std::byte* from = q[c] + at;
    if constexpr (T::kTwoHalves) keep_address(from);
    sums[c] = dot<T::kMaxCode>(sums[c], codes, reinterpret_cast<const std::int8_t*>(from) + 16 * kHalf);
  }
}

/// The same for few registers: codes of four columns, from group j of a record to before kEnd, are multiplied
/// at once.
template <class T, int kFirst, int j, int kEnd, class Turns, int kColumns>
static inline __attribute__((always_inline)) void add_by_turns(const std::byte* record, Codes table,
                                                               const std::byte* const (&q)[kColumns],
                                                               std::ptrdiff_t at,
                                                               typename Turns::Products (&products)[kColumns],
                                                               Ints (&sums)[kColumns], Turns& turns,
                                                               LowPlanes low, LowNibbles nibbles) {
  if constexpr (j % 4 == 0) nibbles = low_nibbles<T, j / 4>(low);
  const Codes codes = codes_of<T, j>(record, table, nibbles);
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
    add_by_turns<T, kFirst, j + 1, kEnd>(record, table, q, at, products, sums, turns, low, nibbles);
}

/// Adds the products of groups [kFirst, kEnd) of a record, all eight or one half, to the sums of all columns.
template <class T, int kFirst, int kEnd, int kColumns, class Turns = ByTurns>
static inline __attribute__((always_inline)) void add_record(const std::byte* record, Codes table,
                                                             const std::byte* const (&q)[kColumns],
                                                             std::ptrdiff_t at, Ints (&sums)[kColumns],
                                                             LowPlanes low = {}) {
#if defined(WEFT_COLUMNS_IN_PAIRS)
  if constexpr (T::kUnpacked) return add_unpacked<kFirst, kEnd>(record, q, at, sums);
#endif
  if constexpr (Turns::kWanted) {
    typename Turns::Products products[kColumns];
#pragma GCC unroll 16
    for (int c = 0; c < kColumns; ++c) products[c] = Turns::template begin<T::kMaxCode>(sums[c]);
    Turns turns;
    add_by_turns<T, kFirst, kFirst, kEnd>(record, table, q, at, products, sums, turns, low, LowNibbles{});
  } else {
    if constexpr (kFirst < 4) add_half<T, 0, kColumns>(record, table, q, at, sums, low);
    if constexpr (kEnd > 4) add_half<T, 1, kColumns>(record, table, q, at, sums, low);
  }
}

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
