// Micro-kernels of matrix products over panels of super-blocks: 256 columns, whose groups have scales that
// are codes themselves. Needs panel_codes.inl, rows.inl (activations) and WEFT_CPU_ISA.
#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/packed_layout.h"

namespace weft::cpu::WEFT_CPU_ISA::panel {

/// Factors of a super-block's activations in addition to its codes, for blocks i and i + 1: mins, or the
/// scales times the codes' zero.
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

/// Expands odd scales to bytes, as other kinds have them; kVectors vectors of nibbles.
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

/// out[c][16] = a panel times the kQ8Wide rows x[c], of a layout whose super-blocks have one scale: the sum
/// of a group is an integer.
template <int kLayoutIndex, int kColumns, bool kUnpacked = false>
static void multiply_flat_blocks(const std::byte* panel, LowPlanes, std::int64_t n_super_blocks,
                                 const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex, kUnpacked>;
  static_assert(offsetof(Q8Wide, q) == 0 && T::kScales == ScaleKind::kSuperFlat);
  const std::byte* x[kColumns];
  Floats total[kColumns];
#pragma GCC unroll 16
  for (int c = 0; c < kColumns; ++c) {
    x[c] = rows[c];
    total[c] = kUnpacked ? load_f32(out + 16 * c) : zero_floats();
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

/// out[c][16] = a panel times the kQ8Wide rows x[c]. The layout's scales are so small that the sum of a
/// group, and of its mins, is an integer. add_scaled_pairs applies the scales where they cost least.
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
template <int kLayoutIndex, int kColumns, bool kUnpacked = false>
static void multiply_super_blocks(const std::byte* panel, LowPlanes, std::int64_t n_super_blocks,
                                  const std::byte* const* rows, float* out) {
  using T = Traits<kLayoutIndex, kUnpacked>;
  static_assert(offsetof(Q8Wide, q) == 0);
  // A machine that multiplies signed codes has subtracted this zero already.
  constexpr bool kSubtracted = kSubtractsZero<T::kMaxCode>;
  // With odd scales, zeros are integers in the sums, so that small values lose no precision.
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
    if constexpr (!kUnpacked)
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

}  // namespace weft::cpu::WEFT_CPU_ISA::panel
