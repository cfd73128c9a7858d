#pragma once
// Elements of stored rows (tensor/codec_blocks.h has the layouts). The elements of 16 columns are scale *
// code - m, with codes of eight bits.
#include "backend/cuda/kernels/thread.h"

namespace weft::cuda {

#define STORED_TYPE(name, number) WEFT_CONSTANT uint name = number;
#include "backend/gpu/stored_types.inc"
#undef STORED_TYPE

using Bytes = const std::uint8_t*;

WEFT_DEVICE uint half_at(Bytes at) { return at[0] | static_cast<uint>(at[1]) << 8; }
/// Four bytes at an even address.
WEFT_DEVICE uint word_at(Bytes at) { return half_at(at) | half_at(at + 2) << 16; }

WEFT_DEVICE float f16_of(uint bits) {
  const uint sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  if (rest >= 0x7c00u) return as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  if (rest >= 0x0400u) return as_float(sign | ((rest << 13) + 0x38000000u));
  const float small = static_cast<float>(rest) * 5.9604644775390625e-8f;  // In units of 2^-24.
  return as_float(sign | as_uint(small));
}
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

/// Sixteen elements: scale * code - m.
struct Codes16 {
  std::int8_t codes[16];
  float scale = 0.0f, m = 0.0f;
};

WEFT_DEVICE float e4m3(uint code) { return code == 0x7fu ? 0.0f : f16_of((code & 0x7fu) << 7) * 128.0f; }
/// All eight signs of seven: the number of negative values is even.
WEFT_DEVICE uint all_signs(uint seven) { return seven | (bit_count(seven) & 1u) << 7; }
WEFT_DEVICE int with_sign(int value, uint signs, uint i) { return (signs >> i & 1u) != 0u ? -value : value; }
WEFT_DEVICE std::int8_t as_code(int value) { return static_cast<std::int8_t>(value); }

/// Where grids begin in the table of them, as in gpu/grids.cpp.
struct Grids {
  static constexpr uint kIQ1 = 0, kIQ2XXS = 2048, kIQ2XS = 2304, kIQ2S = 2816, kIQ3XXS = 3840, kIQ3S = 4096;
};

/// Types of one to three bits, and NVFP4.
WEFT_DEVICE void small_codes16(uint type, const std::uint16_t* grids, Bytes row, uint chunk, Codes16& out) {
  const auto nibble = [](Bytes at, uint i) { return static_cast<uint>(at[i / 2u]) >> (i % 2u * 4u) & 15u; };
  if (type == kNVFP4) {
    const Bytes block = row + std::uint64_t{chunk >> 2} * 36u;
    const uint s = chunk & 3u;
    out.scale = e4m3(block[s]);
    for (uint i = 0; i < 16u; ++i)
      out.codes[i] = as_code(mxfp4_value(block[4u + 8u * s + i % 8u] >> (i / 8u * 4u) & 15u));
    return;
  }
  if (type == kQ1_0) {
    const Bytes block = row + std::uint64_t{chunk >> 3} * 18u;
    out.scale = f16_at(block);
    const uint bits = half_at(block + 2u + 2u * (chunk & 7u));
    for (uint i = 0; i < 16u; ++i) out.codes[i] = as_code(with_sign(-1, bits, i));
    return;
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
    constexpr std::uint8_t kPowers[5] = {1, 3, 9, 27, 81};
    out.scale = f16_at(block + 52);
    for (uint i = 0; i < 16u; ++i) {
      const uint column = s * 16u + i;
      const uint n = column < 160u ? 32u : column < 240u ? 16u : 4u;
      const uint begin = column < 160u ? 0u : column < 240u ? 160u : 240u;
      const uint bytes = column < 160u ? 0u : column < 240u ? 32u : 48u;
      const uint in_run = column - begin;
      out.codes[i] =
          as_code(static_cast<int>((block[bytes + in_run % n] * kPowers[in_run / n] & 255u) * 3u >> 8) - 1);
    }
    return;
  }
  if (type == kTQ2_0) {
    out.scale = f16_at(block + 64);
    for (uint i = 0; i < 16u; ++i)
      out.codes[i] =
          as_code(static_cast<int>(block[s / 8u * 32u + (s & 1u) * 16u + i] >> (pair % 4u * 2u) & 3u) - 1);
    return;
  }
  // Eight values of iq1, times eight and with the eighth.
  const auto put_shifted = [&](uint entry, bool down, uint at) {
    const uint levels = grids[Grids::kIQ1 + entry];
    for (uint i = 0; i < 8u; ++i)
      out.codes[at + i] = as_code(8 * (static_cast<int>(levels >> (2u * i) & 3u) - 1) + (down ? -1 : 1));
  };
  if (type == kIQ1_S) {
    const uint high = half_at(block + 34u + 2u * pair);
    out.scale = f16_at(block) * 0.125f * static_cast<float>(2u * (high >> 12 & 7u) + 1u);
    for (uint e = 0; e < 2u; ++e) {
      const uint g = first + e;
      put_shifted(block[2u + 4u * pair + g] | (high >> (3u * g) & 7u) << 8, high >> 15 != 0u, 8u * e);
    }
    return;
  }
  if (type == kIQ1_M) {
    uint d = 0;
    for (uint i = 0; i < 4u; ++i) d |= half_at(block + 48u + 2u * i) >> 12 << (4u * i);
    const uint own = half_at(block + 48u + s / 4u * 2u) >> (s % 4u * 3u) & 7u;
    out.scale = f16_of(d) * 0.125f * static_cast<float>(2u * own + 1u);
    for (uint e = 0; e < 2u; ++e) {
      const uint g = 2u * s + e, high = nibble(block + 32, g);
      put_shifted(block[g] | (high & 7u) << 8, (high & 8u) != 0u, 8u * e);
    }
    return;
  }
  const float d = f16_at(block);
  // Eight values of iq2.
  const auto put_signed = [&](uint grid, uint entry, uint signs, uint at) {
    constexpr std::uint8_t kLevels[4] = {8, 25, 43, 0};
    const uint levels = grids[grid + entry];
    for (uint i = 0; i < 8u; ++i)
      out.codes[at + i] = as_code(with_sign(kLevels[levels >> (2u * i) & 3u], signs, i));
  };
  if (type == kIQ2_XXS) {
    const Bytes words = block + 2u + 8u * pair;
    const uint signs = word_at(words + 4);
    out.scale = d * 0.125f * static_cast<float>(2u * (signs >> 28) + 1u);
    for (uint e = 0; e < 2u; ++e)
      put_signed(Grids::kIQ2XXS, words[first + e], all_signs(signs >> (7u * (first + e)) & 127u), 8u * e);
  } else if (type == kIQ2_XS) {
    out.scale = d * 0.125f * static_cast<float>(2u * nibble(block + 66, s) + 1u);
    for (uint e = 0; e < 2u; ++e) {
      const uint both = half_at(block + 2u + 4u * s + 2u * e);
      put_signed(Grids::kIQ2XS, both & 511u, all_signs(both >> 9), 8u * e);
    }
  } else if (type == kIQ2_S) {
    out.scale = d * 0.125f * static_cast<float>(2u * nibble(block + 74, s) + 1u);
    const uint high = block[66u + pair];
    for (uint e = 0; e < 2u; ++e) {
      const uint g = 2u * s + e;
      put_signed(Grids::kIQ2S, block[2u + g] | (high >> (2u * (first + e)) & 3u) << 8, block[34u + g],
                 8u * e);
    }
  } else if (type == kIQ3_XXS) {
    constexpr std::uint8_t kLevels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
    const uint signs = word_at(block + 66u + 4u * pair);
    out.scale = d * 0.25f * static_cast<float>(2u * (signs >> 28) + 1u);
    for (uint i = 0; i < 16u; ++i) {
      const uint levels = grids[Grids::kIQ3XXS + block[2u + 4u * s + i / 4u]];
      const uint eight = all_signs(signs >> (7u * (first + i / 8u)) & 127u);
      out.codes[i] = as_code(with_sign(kLevels[levels >> (3u * (i % 4u)) & 7u], eight, i % 8u));
    }
  } else {  // iq3_s
    out.scale = d * static_cast<float>(2u * nibble(block + 106, pair) + 1u);
    const uint high = block[66u + pair] >> (2u * first);
    for (uint i = 0; i < 16u; ++i) {
      const uint levels = grids[Grids::kIQ3S + (block[2u + 4u * s + i / 4u] | (high >> (i / 4u) & 1u) << 8)];
      const uint eight = block[74u + 2u * s + i / 8u];
      out.codes[i] =
          as_code(with_sign(2 * static_cast<int>(levels >> (3u * (i % 4u)) & 7u) + 1, eight, i % 8u));
    }
  }
}

WEFT_DEVICE float scale6(Bytes at, uint i) {
  return static_cast<float>(i < 4u ? at[i] & 63u
                                   : (at[i + 4u] & 15u) | static_cast<uint>(at[i - 4u]) >> 6 << 4);
}
WEFT_DEVICE float min6(Bytes at, uint i) {
  return static_cast<float>(i < 4u ? at[i + 4u] & 63u
                                   : static_cast<uint>(at[i + 4u]) >> 4 | static_cast<uint>(at[i]) >> 6 << 4);
}

/// Elements [16 chunk, 16 chunk + 16) of a row of a quantised type.
WEFT_DEVICE void codes16(uint type, const std::uint16_t* grids, Bytes row, uint chunk, Codes16& out) {
  out.m = 0.0f;
  if (type > kIQ4_XS) return small_codes16(type, grids, row, chunk, out);
  if (type <= kMXFP4) {  // Blocks of 32: the lower, then the upper nibbles.
    const uint upper = chunk & 1u;
    const uint block_bytes = type == kMXFP4 ? 17u : small_block_bytes(type);
    const Bytes block = row + std::uint64_t{chunk >> 1} * block_bytes;
    if (type == kMXFP4) {
      const uint e = block[0];
      out.scale = as_float(e < 2u ? 0x00200000u << e : (e - 1u) << 23);
    } else {
      out.scale = f16_at(block);
    }
    if (type == kQ4_1 || type == kQ5_1) out.m = -f16_at(block + 2);
    if (type == kQ8_0) {
      for (uint i = 0; i < 16u; ++i) out.codes[i] = static_cast<std::int8_t>(block[2u + 16u * upper + i]);
      return;
    }
    const uint high = type == kQ5_0   ? half_at(block + 2u + 2u * upper)
                      : type == kQ5_1 ? half_at(block + 4u + 2u * upper)
                                      : 0u;
    const Bytes data = block + block_bytes - 16u;
    for (uint i = 0; i < 16u; ++i) {
      const uint nibble = data[i] >> (upper * 4u) & 15u, code = nibble | (high >> i & 1u) << 4;
      out.codes[i] = as_code(type == kIQ4_NL  ? iq4_value(nibble)
                             : type == kMXFP4 ? mxfp4_value(nibble)
                             : type == kQ4_0  ? static_cast<int>(code) - 8
                             : type == kQ5_0  ? static_cast<int>(code) - 16
                                              : static_cast<int>(code));
    }
    return;
  }
  // Blocks of 256, of sub-blocks of 16 or 32.
  const uint s = chunk & 15u;
  const uint block_bytes = type == kQ2_K   ? 84u
                           : type == kQ3_K ? 110u
                           : type == kQ4_K ? 144u
                           : type == kQ5_K ? 176u
                           : type == kQ6_K ? 210u
                                           : 136u;
  const Bytes block = row + std::uint64_t{chunk >> 4} * block_bytes;
  const uint odd = (s & 1u) * 16u, pair = s >> 1;  // The second half of 32 bytes; which 32 elements.
  Bytes low = block, high = block;
  uint low_shift = pair % 2u * 4u, high_shift = pair, high_mask = 0u, low_mask = 15u, high_to = 4u;
  int centre = 0;
  if (type == kQ2_K) {
    const uint both = block[s];
    out.scale = f16_at(block + 80) * static_cast<float>(both & 15u);
    out.m = f16_at(block + 82) * static_cast<float>(both >> 4);
    low = block + 16u + s / 8u * 32u + odd;
    low_shift = pair % 4u * 2u, low_mask = 3u;
  } else if (type == kQ3_K) {
    const uint bits4 = block[96u + s % 8u] >> (s / 8u * 4u) & 15u,
               bits2 = block[104u + s % 4u] >> (s / 4u * 2u) & 3u;
    out.scale = f16_at(block + 108) * (static_cast<float>(bits4 | bits2 << 4) - 32.0f);
    low = block + 32u + s / 8u * 32u + odd;
    low_shift = pair % 4u * 2u, low_mask = 3u;
    high = block + odd;
    high_mask = 1u, high_to = 2u, centre = 4;
  } else if (type == kQ4_K || type == kQ5_K) {
    out.scale = f16_at(block) * scale6(block + 4, pair);
    out.m = f16_at(block + 2) * min6(block + 4, pair);
    low = block + (type == kQ4_K ? 16u : 48u) + pair / 2u * 32u + odd;
    high = block + 16u + odd;
    high_mask = type == kQ5_K ? 1u : 0u;
  } else if (type == kQ6_K) {
    out.scale = f16_at(block + 208) * static_cast<float>(static_cast<std::int8_t>(block[192u + s]));
    low = block + s / 8u * 64u + s % 4u * 16u;
    low_shift = s / 4u % 2u * 4u;
    high = block + 128u + s / 8u * 32u + odd;
    high_shift = pair % 4u * 2u, high_mask = 3u, centre = 32;
  } else {  // iq4_xs
    const uint bits2 = block[2u + pair / 4u] >> (pair % 4u * 2u) & 3u;
    const uint bits4 = block[4u + pair / 2u] >> (pair % 2u * 4u) & 15u;
    out.scale = f16_at(block) * (static_cast<float>(bits4 | bits2 << 4) - 32.0f);
    low = block + 8u + pair * 16u;
    low_shift = (s & 1u) * 4u;
  }
  for (uint i = 0; i < 16u; ++i) {
    uint code = low[i] >> low_shift & low_mask;
    if (type == kIQ4_XS) {
      out.codes[i] = as_code(iq4_value(code));
      continue;
    }
    if (high_mask != 0u) code |= (high[i] >> high_shift & high_mask) << high_to;
    out.codes[i] = as_code(static_cast<int>(code) - centre);
  }
}

/// Whether a type has more than codes and scales: values are scale * code - m.
WEFT_DEVICE bool has_min(uint type) {
  return type == kQ4_1 || type == kQ5_1 || type == kQ2_K || type == kQ4_K || type == kQ5_K;
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
  codes16(type, grids, row, chunk, codes);
  const bool minus = has_min(type);
  for (uint i = 0; i < 16u; ++i) {
    const float value = codes.scale * static_cast<float>(codes.codes[i]);
    v[i] = minus ? value - codes.m : value;
  }
}

}  // namespace weft::cuda
