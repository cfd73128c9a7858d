#pragma once
// Elements of stored rows (tensor/codec_blocks.h has the layouts). The elements of 16 columns are scale *
// code - m, with codes of eight bits.
#include "backend/cuda/kernels/thread.h"

namespace weft::cuda {

#define STORED_TYPE(name, number) WEFT_CONSTANT uint name = number;
#include "backend/gpu/stored_types.inc"
#undef STORED_TYPE

using Bytes = const std::uint8_t*;

/// Two and four bytes at an even address.
WEFT_DEVICE uint half_at(Bytes at) { return *reinterpret_cast<const std::uint16_t*>(at); }
WEFT_DEVICE uint word_at(Bytes at) { return half_at(at) | half_at(at + 2) << 16; }

#ifdef __CUDACC__
WEFT_DEVICE float f16_of(uint bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}
#else
WEFT_DEVICE float f16_of(uint bits) {
  const uint sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400u) return as_float(sign | ((rest << 13) + 0x38000000u));
  const float small = static_cast<float>(rest) * 5.9604644775390625e-8f;  // In units of 2^-24.
  return as_float(sign | as_uint(small));
}
#endif
WEFT_DEVICE float f16_at(Bytes at) { return f16_of(half_at(at)); }

WEFT_DEVICE float float_at(uint type, Bytes row, uint i) {
  if (type == kF32) return reinterpret_cast<const float*>(row)[i];
  const uint bits = reinterpret_cast<const std::uint16_t*>(row)[i];
  return type == kF16 ? f16_of(bits) : as_float(bits << 16);
}

WEFT_DEVICE int iq4_value(uint code) {
  constexpr std::int8_t kValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                       1,    13,   25,  38,  53,  69,  89,  113};
  return kValues[code];
}
WEFT_DEVICE int mxfp4_value(uint code) {
  constexpr std::int8_t kValues[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return kValues[code];
}

/// Bytes of a block of 32 elements of the quantised types of caches.
WEFT_DEVICE uint small_block_bytes(uint type) {
  return type == kQ8_0 ? 34u : type == kQ4_1 ? 20u : type == kQ5_0 ? 22u : type == kQ5_1 ? 24u : 18u;
}
/// One element of a row of a cache: of floats, or of a quantised type with such blocks.
WEFT_DEVICE float cached_at(uint type, Bytes row, uint i) {
  if (type <= kBF16) return float_at(type, row, i);
  const uint j = i % 32u;
  const Bytes block = row + std::uint64_t{i / 32u} * small_block_bytes(type);
  const float scale = f16_at(block);
  if (type == kQ8_0) return scale * static_cast<float>(static_cast<std::int8_t>(block[2u + j]));
  uint code = block[small_block_bytes(type) - 16u + j % 16u] >> (j / 16u * 4u) & 15u;
  if (type == kIQ4_NL) return scale * static_cast<float>(iq4_value(code));
  if (type == kQ5_0 || type == kQ5_1)
    code |= (block[(type == kQ5_1 ? 4u : 2u) + j / 8u] >> (j % 8u) & 1u) << 4;
  if (type == kQ4_1 || type == kQ5_1) return scale * static_cast<float>(code) + f16_at(block + 2);
  return scale * (static_cast<float>(code) - (type == kQ4_0 ? 8.0f : 16.0f));
}

WEFT_CONSTANT uint kAnyType = ~0u;

/// Sum + the products of x with elements [first, first + n) of a row of a cache, in their order.
WEFT_DEVICE float dot_cached(uint type, Bytes row, uint first, uint n, const float* x, float sum) {
  if ((type == kF16 || type == kBF16) && first % 8u == 0u && n % 8u == 0u &&
      reinterpret_cast<std::uint64_t>(row) % 16u == 0u) {
    const Words4* const eights = reinterpret_cast<const Words4*>(row) + first / 8u;
    for (uint i = 0; i < n; i += 8u) {
      const Words4 eight = eights[i / 8u];
      WEFT_UNROLL
      for (uint w = 0; w < 4u; ++w) {
        const uint low = eight.words[w] & 0xffffu, high = eight.words[w] >> 16;
        sum = fmaf(x[i + 2u * w], type == kF16 ? f16_of(low) : as_float(low << 16), sum);
        sum = fmaf(x[i + 2u * w + 1u], type == kF16 ? f16_of(high) : as_float(high << 16), sum);
      }
    }
    return sum;
  }
  for (uint i = 0; i < n; ++i) sum = fmaf(x[i], cached_at(type, row, first + i), sum);
  return sum;
}

/// Sixteen elements: scale * code - m. The first code is in the lowest byte of the first word.
struct Codes16 {
  uint words[4];
  float scale, m;
};

WEFT_DEVICE uint pack_codes(int a, int b, int c, int d) {
  return (static_cast<uint>(a) & 255u) | (static_cast<uint>(b) & 255u) << 8 |
         (static_cast<uint>(c) & 255u) << 16 | static_cast<uint>(d) << 24;
}
/// Bytes below 2 * half_range become bytes from -half_range on; half_range is a power of two below 128.
WEFT_DEVICE uint centred(uint word, uint half_range) {
  const uint flipped = word ^ half_range * 0x01010101u;
  // What has the half's bit now is negative: the bits above it are set.
  return flipped | (flipped & half_range * 0x01010101u) / half_range * (256u - 2u * half_range);
}
/// The lowest four bits of a mask, as the bits worth 16 of four bytes.
WEFT_DEVICE uint fifth_bits(uint mask) {
  return (mask & 1u) << 4 | (mask & 2u) << 11 | (mask & 4u) << 18 | (mask & 8u) << 25;
}
template <typename Value>
WEFT_DEVICE uint by_table(uint word, uint shift, Value value) {
  return pack_codes(value(word >> shift & 15u), value(word >> (shift + 8u) & 15u),
                    value(word >> (shift + 16u) & 15u), value(word >> (shift + 24u) & 15u));
}
/// Sixteen bytes, at an address that is a multiple of kAlignment (2, 4 or 16; 1 for any).
template <uint kAlignment>
WEFT_DEVICE void load16(Bytes at, uint (&words)[4]) {
  if constexpr (kAlignment == 16u) {
    const Words4 all = *reinterpret_cast<const Words4*>(at);
    for (uint i = 0; i < 4u; ++i) words[i] = all.words[i];
  } else {
    for (uint i = 0; i < 4u; ++i) {
      if constexpr (kAlignment == 4u) {
        words[i] = reinterpret_cast<const uint*>(at)[i];
      } else if constexpr (kAlignment == 2u) {
        words[i] = word_at(at + 4u * i);
      } else {
        const Bytes four = at + 4u * i;
        words[i] = pack_codes(four[0], four[1], four[2], four[3]);
      }
    }
  }
}

WEFT_DEVICE float e4m3(uint code) { return code == 0x7fu ? 0.0f : f16_of((code & 0x7fu) << 7) * 128.0f; }
/// All eight signs of seven: the number of negative values is even.
WEFT_DEVICE uint all_signs(uint seven) { return seven | (bit_count(seven) & 1u) << 7; }
WEFT_DEVICE int with_sign(int value, uint signs, uint i) { return (signs >> i & 1u) != 0u ? -value : value; }

/// Where grids begin in the table of them, as in gpu/grids.cpp.
struct Grids {
  static constexpr uint kIQ1 = 0, kIQ2XXS = 2048, kIQ2XS = 2304, kIQ2S = 2816, kIQ3XXS = 3840, kIQ3S = 4096;
};

/// Types of one to three bits, and NVFP4.
WEFT_DEVICE void small_codes16(uint type, const std::uint16_t* grids, Bytes row, uint chunk, Codes16& out) {
  const auto nibble = [](Bytes at, uint i) { return static_cast<uint>(at[i / 2u]) >> (i % 2u * 4u) & 15u; };
  // Four codes at a time.
  const auto put = [&](auto code) {
    for (uint i = 0; i < 4u; ++i)
      out.words[i] = pack_codes(code(4u * i), code(4u * i + 1u), code(4u * i + 2u), code(4u * i + 3u));
  };
  if (type == kNVFP4) {
    const Bytes block = row + std::uint64_t{chunk >> 2} * 36u;
    const uint s = chunk & 3u;
    out.scale = e4m3(block[s]);
    return put([&](uint i) { return mxfp4_value(block[4u + 8u * s + i % 8u] >> (i / 8u * 4u) & 15u); });
  }
  if (type == kQ1_0) {
    const Bytes block = row + std::uint64_t{chunk >> 3} * 18u;
    out.scale = f16_at(block);
    const uint bits = half_at(block + 2u + 2u * (chunk & 7u));
    return put([&](uint i) { return with_sign(-1, bits, i); });
  }
  const uint s = chunk & 15u, pair = s >> 1,
             first = (s & 1u) * 2u;  // The first of the pair's four groups of eight.
  const uint block_bytes = type == kTQ1_0     ? 54u
                           : type == kTQ2_0   ? 66u
                           : type == kIQ1_S   ? 50u
                           : type == kIQ1_M   ? 56u
                           : type == kIQ2_XXS ? 66u
                           : type == kIQ2_XS  ? 74u
                           : type == kIQ2_S   ? 82u
                           : type == kIQ3_XXS ? 98u
                                              : 110u;
  const Bytes block = row + std::uint64_t{chunk >> 4} * block_bytes;
  if (type == kTQ1_0) {  // A digit to the base 3 comes out at the top of a product.
    out.scale = f16_at(block + 52);
    return put([&](uint i) {
      constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
      const uint column = s * 16u + i;
      const uint n = column < 160u ? 32u : column < 240u ? 16u : 4u;
      const uint begin = column < 160u ? 0u : column < 240u ? 160u : 240u;
      const uint bytes = column < 160u ? 0u : column < 240u ? 32u : 48u;
      const uint in_run = column - begin;
      return static_cast<int>((block[bytes + in_run % n] * kPowers[in_run / n] & 255u) * 3u >> 8) - 1;
    });
  }
  if (type == kTQ2_0) {
    out.scale = f16_at(block + 64);
    return put([&](uint i) {
      return static_cast<int>(block[s / 8u * 32u + (s & 1u) * 16u + i] >> (pair % 4u * 2u) & 3u) - 1;
    });
  }
  // Values of iq1, times eight and with the eighth.
  const auto shifted = [&](uint entry, bool down, uint i) {
    return 8 * (static_cast<int>(static_cast<uint>(grids[Grids::kIQ1 + entry]) >> (2u * i) & 3u) - 1) +
           (down ? -1 : 1);
  };
  if (type == kIQ1_S) {
    const uint high = half_at(block + 34u + 2u * pair);
    out.scale = f16_at(block) * 0.125f * static_cast<float>(2u * (high >> 12 & 7u) + 1u);
    return put([&](uint i) {
      const uint g = first + i / 8u;
      return shifted(block[2u + 4u * pair + g] | (high >> (3u * g) & 7u) << 8, high >> 15 != 0u, i % 8u);
    });
  }
  if (type == kIQ1_M) {
    uint d = 0;
    for (uint i = 0; i < 4u; ++i) d |= half_at(block + 48u + 2u * i) >> 12 << (4u * i);
    const uint own = half_at(block + 48u + s / 4u * 2u) >> (s % 4u * 3u) & 7u;
    out.scale = f16_of(d) * 0.125f * static_cast<float>(2u * own + 1u);
    return put([&](uint i) {
      const uint g = 2u * s + i / 8u, high = nibble(block + 32, g);
      return shifted(block[g] | (high & 7u) << 8, (high & 8u) != 0u, i % 8u);
    });
  }
  const float d = f16_at(block);
  // A value of iq2.
  const auto level2 = [&](uint grid, uint entry, uint signs, uint i) {
    constexpr std::uint8_t kLevels[4] = {8, 25, 43, 0};
    return with_sign(kLevels[static_cast<uint>(grids[grid + entry]) >> (2u * i) & 3u], signs, i);
  };
  if (type == kIQ2_XXS) {
    const Bytes words = block + 2u + 8u * pair;
    const uint signs = word_at(words + 4);
    out.scale = d * 0.125f * static_cast<float>(2u * (signs >> 28) + 1u);
    return put([&](uint i) {
      const uint e = first + i / 8u;
      return level2(Grids::kIQ2XXS, words[e], all_signs(signs >> (7u * e) & 127u), i % 8u);
    });
  }
  if (type == kIQ2_XS) {
    out.scale = d * 0.125f * static_cast<float>(2u * nibble(block + 66, s) + 1u);
    return put([&](uint i) {
      const uint both = half_at(block + 2u + 4u * s + 2u * (i / 8u));
      return level2(Grids::kIQ2XS, both & 511u, all_signs(both >> 9), i % 8u);
    });
  }
  if (type == kIQ2_S) {
    out.scale = d * 0.125f * static_cast<float>(2u * nibble(block + 74, s) + 1u);
    const uint high = block[66u + pair];
    return put([&](uint i) {
      const uint e = i / 8u, g = 2u * s + e;
      return level2(Grids::kIQ2S, block[2u + g] | (high >> (2u * (first + e)) & 3u) << 8, block[34u + g],
                    i % 8u);
    });
  }
  if (type == kIQ3_XXS) {
    const uint signs = word_at(block + 66u + 4u * pair);
    out.scale = d * 0.25f * static_cast<float>(2u * (signs >> 28) + 1u);
    return put([&](uint i) {
      constexpr std::uint8_t kLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
      const uint levels = grids[Grids::kIQ3XXS + block[2u + 4u * s + i / 4u]];
      const uint eight = all_signs(signs >> (7u * (first + i / 8u)) & 127u);
      return with_sign(kLevels[levels >> (3u * (i % 4u)) & 7u], eight, i % 8u);
    });
  }
  out.scale = d * static_cast<float>(2u * nibble(block + 106, pair) + 1u);  // iq3_s
  const uint high = static_cast<uint>(block[66u + pair]) >> (2u * first);
  put([&](uint i) {
    const uint levels = grids[Grids::kIQ3S + (block[2u + 4u * s + i / 4u] | (high >> (i / 4u) & 1u) << 8)];
    return with_sign(2 * static_cast<int>(levels >> (3u * (i % 4u)) & 7u) + 1, block[74u + 2u * s + i / 8u],
                     i % 8u);
  });
}

WEFT_DEVICE float scale6(Bytes at, uint i) {
  return static_cast<float>(i < 4u ? at[i] & 63u
                                   : (at[i + 4u] & 15u) | static_cast<uint>(at[i - 4u]) >> 6 << 4);
}
WEFT_DEVICE float min6(Bytes at, uint i) {
  return static_cast<float>(i < 4u ? at[i + 4u] & 63u
                                   : static_cast<uint>(at[i + 4u]) >> 4 | static_cast<uint>(at[i]) >> 6 << 4);
}

/// Blocks of 32: the lower, then the upper nibbles.
template <uint kType>
WEFT_DEVICE void codes16_of_32(Bytes row, uint chunk, Codes16& out) {
  constexpr uint kBytes = kType == kMXFP4  ? 17u
                          : kType == kQ8_0 ? 34u
                          : kType == kQ4_1 ? 20u
                          : kType == kQ5_0 ? 22u
                          : kType == kQ5_1 ? 24u
                                           : 18u;
  constexpr uint kAlignment = kBytes % 4u == 0u ? 4u : kBytes % 2u == 0u ? 2u : 1u;
  const uint upper = chunk & 1u;
  const Bytes block = row + std::uint64_t{chunk >> 1} * kBytes;
  if constexpr (kType == kMXFP4) {
    const uint e = block[0];
    out.scale = as_float(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
  } else {
    out.scale = f16_at(block);
  }
  out.m = kType == kQ4_1 || kType == kQ5_1 ? -f16_at(block + 2) : 0.0f;
  if constexpr (kType == kQ8_0) return load16<kAlignment>(block + 2u + 16u * upper, out.words);
  const uint high = kType == kQ5_0   ? half_at(block + 2u + 2u * upper)
                    : kType == kQ5_1 ? half_at(block + 4u + 2u * upper)
                                     : 0u;
  load16<kAlignment>(block + kBytes - 16u, out.words);
  for (uint i = 0; i < 4u; ++i) {
    const uint word = out.words[i];
    uint codes = word >> (upper * 4u) & 0x0f0f0f0fu;
    if constexpr (kType == kQ5_0 || kType == kQ5_1) codes |= fifth_bits(high >> (i * 4u));
    if constexpr (kType == kQ4_0) codes = centred(codes, 8u);
    if constexpr (kType == kQ5_0) codes = centred(codes, 16u);
    if constexpr (kType == kIQ4_NL) codes = by_table(word, upper * 4u, iq4_value);
    if constexpr (kType == kMXFP4) codes = by_table(word, upper * 4u, mxfp4_value);
    out.words[i] = codes;
  }
}

/// Blocks of 256, of sub-blocks of 16 or 32.
template <uint kType>
WEFT_DEVICE void codes16_of_256(Bytes row, uint chunk, Codes16& out) {
  constexpr uint kBytes = kType == kQ2_K   ? 84u
                          : kType == kQ3_K ? 110u
                          : kType == kQ4_K ? 144u
                          : kType == kQ5_K ? 176u
                          : kType == kQ6_K ? 210u
                                           : 136u;
  constexpr uint kAlignment = kType == kQ4_K || kType == kQ5_K ? 16u : kBytes % 4u == 0u ? 4u : 2u;
  const uint s = chunk & 15u;
  const Bytes block = row + std::uint64_t{chunk >> 4} * kBytes;
  const uint odd = (s & 1u) * 16u, pair = s >> 1;  // The second half of 32 bytes; which 32 elements.
  out.m = 0.0f;
  if constexpr (kType == kQ2_K) {
    const uint both = block[s];
    out.scale = f16_at(block + 80) * static_cast<float>(both & 15u);
    out.m = f16_at(block + 82) * static_cast<float>(both >> 4);
    load16<kAlignment>(block + 16u + s / 8u * 32u + odd, out.words);
    for (uint& word : out.words) word = word >> (pair % 4u * 2u) & 0x03030303u;
  } else if constexpr (kType == kQ3_K) {
    const uint bits4 = static_cast<uint>(block[96u + s % 8u]) >> (s / 8u * 4u) & 15u;
    const uint bits2 = static_cast<uint>(block[104u + s % 4u]) >> (s / 4u * 2u) & 3u;
    out.scale = f16_at(block + 108) * (static_cast<float>(bits4 | bits2 << 4) - 32.0f);
    uint high[4];
    load16<kAlignment>(block + 32u + s / 8u * 32u + odd, out.words);
    load16<kAlignment>(block + odd, high);
    for (uint i = 0; i < 4u; ++i)
      out.words[i] = centred(
          (out.words[i] >> (pair % 4u * 2u) & 0x03030303u) | (high[i] >> pair & 0x01010101u) << 2, 4u);
  } else if constexpr (kType == kQ4_K || kType == kQ5_K) {
    out.scale = f16_at(block) * scale6(block + 4, pair);
    out.m = f16_at(block + 2) * min6(block + 4, pair);
    load16<kAlignment>(block + (kType == kQ4_K ? 16u : 48u) + pair / 2u * 32u + odd, out.words);
    for (uint& word : out.words) word = word >> (pair % 2u * 4u) & 0x0f0f0f0fu;
    if constexpr (kType == kQ5_K) {
      uint high[4];
      load16<kAlignment>(block + 16u + odd, high);
      for (uint i = 0; i < 4u; ++i) out.words[i] |= (high[i] >> pair & 0x01010101u) << 4;
    }
  } else if constexpr (kType == kQ6_K) {
    out.scale = f16_at(block + 208) * static_cast<float>(static_cast<std::int8_t>(block[192u + s]));
    uint high[4];
    load16<kAlignment>(block + s / 8u * 64u + s % 4u * 16u, out.words);
    load16<kAlignment>(block + 128u + s / 8u * 32u + odd, high);
    for (uint i = 0; i < 4u; ++i)
      out.words[i] = centred((out.words[i] >> (s / 4u % 2u * 4u) & 0x0f0f0f0fu) |
                                 (high[i] >> (pair % 4u * 2u) & 0x03030303u) << 4,
                             32u);
  } else {  // iq4_xs
    const uint bits2 = static_cast<uint>(block[2u + pair / 4u]) >> (pair % 4u * 2u) & 3u;
    const uint bits4 = static_cast<uint>(block[4u + pair / 2u]) >> (pair % 2u * 4u) & 15u;
    out.scale = f16_at(block) * (static_cast<float>(bits4 | bits2 << 4) - 32.0f);
    load16<kAlignment>(block + 8u + pair * 16u, out.words);
    for (uint& word : out.words) word = by_table(word, (s & 1u) * 4u, iq4_value);
  }
}

/// Elements [16 chunk, 16 chunk + 16) of a row of a quantised type.
template <uint kType>
WEFT_DEVICE void codes16(uint type, const std::uint16_t* grids, Bytes row, uint chunk, Codes16& out) {
  if constexpr (kType >= kQ4_0 && kType <= kMXFP4) {
    codes16_of_32<kType>(row, chunk, out);
  } else if constexpr (kType >= kQ2_K && kType <= kIQ4_XS) {
    codes16_of_256<kType>(row, chunk, out);
  } else {
    switch (type) {
#define ONE(kOne) \
  case kOne:      \
    return codes16<kOne>(kOne, grids, row, chunk, out);
      ONE(kQ4_0)
      ONE(kQ4_1)
      ONE(kQ5_0)
      ONE(kQ5_1)
      ONE(kQ8_0)
      ONE(kIQ4_NL)
      ONE(kMXFP4)
      ONE(kQ2_K)
      ONE(kQ3_K)
      ONE(kQ4_K)
      ONE(kQ5_K)
      ONE(kQ6_K)
      ONE(kIQ4_XS)
#undef ONE
      default:
        out.m = 0.0f;
        small_codes16(type, grids, row, chunk, out);
    }
  }
}

/// Whether a type has more than codes and scales: values are scale * code - m.
WEFT_DEVICE constexpr bool has_min(uint type) {
  return type == kQ4_1 || type == kQ5_1 || type == kQ2_K || type == kQ4_K || type == kQ5_K;
}
/// Whether the halves of 32 columns have scales of their own.
WEFT_DEVICE constexpr bool has_two_scales(uint type) {
  return type == kQ2_K || type == kQ3_K || type == kQ6_K || type == kNVFP4 || type == kIQ1_M ||
         type == kIQ2_XS || type == kIQ2_S;
}

/// Elements [16 chunk, 16 chunk + 16) of a row of `columns`; zeros past its end.
WEFT_DEVICE void unpack16(uint type, const std::uint16_t* grids, Bytes row, uint chunk, uint columns,
                          float (&v)[16]) {
  if (type <= kBF16) {
    for (uint i = 0; i < 16u; ++i) {
      const uint at = chunk * 16u + i;
      v[i] = at < columns ? float_at(type, row, at) : 0.0f;
    }
    return;
  }
  Codes16 codes;
  codes16<kAnyType>(type, grids, row, chunk, codes);
  const bool minus = has_min(type);
  for (uint i = 0; i < 16u; ++i) {
    const float value =
        codes.scale * static_cast<float>(static_cast<std::int8_t>(codes.words[i / 4u] >> (i % 4u * 8u)));
    v[i] = minus ? value - codes.m : value;
  }
}

}  // namespace weft::cuda
