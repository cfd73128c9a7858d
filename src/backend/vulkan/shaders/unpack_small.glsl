// As unpack.glsl, of weights of one to three bits and of NVFP4. Grids are read from memory: as constants they would be
// copied into every shader, which some drivers take minutes to compile.
// Where grids begin in the device's table of them, as in grids.cpp.
const uint kIQ1Grid = 0, kIQ2XXSGrid = 2048, kIQ2XSGrid = 2304, kIQ2SGrid = 2816, kIQ3XXSGrid = 3840, kIQ3SGrid = 4096;
uint grid_entry(uint grid, uint i) { return half_at(push.grids + (grid + i) * 2u); }
const int kIQ2Levels[4] = int[](8, 25, 43, 0);
const int kIQ3XXSLevels[8] = int[](4, 12, 20, 28, 36, 44, 52, 62);

// Four bytes at an even address.
uint word_at(uint64_t at) { return half_at(at) | half_at(at + 2u) << 16; }
uint nibble_at(uint64_t at, uint i) { return byte_at(at + i / 2u) >> (i % 2u * 4u) & 15u; }
// All eight signs of seven: the number of negative values is even.
uint all_signs(uint seven) { return seven | (uint(bitCount(seven)) & 1u) << 7; }
float e4m3(uint code) { return code == 0x7fu ? 0.0 : unpackHalf2x16((code & 0x7fu) << 7).x * 128.0; }

// Four of an entry's values of two bits, from its value `first` on.
ivec4 levels2(uint entry, uint first) { return ivec4(uvec4(entry, entry >> 2, entry >> 4, entry >> 6) >> (2u * first) & 3u); }
ivec4 levels3(uint entry) { return ivec4(uvec4(entry, entry >> 3, entry >> 6, entry >> 9) & 7u); }
ivec4 with_signs(ivec4 values, uint signs) {
  return values * (1 - 2 * ivec4(uvec4(signs, signs >> 1, signs >> 2, signs >> 3) & 1u));
}

// Eight values of iq1, times eight and with the eighth.
void put_shifted(uint entry, bool down, uint at, inout uvec4 codes) {
  const uint levels = grid_entry(kIQ1Grid, entry);
  for (uint half_of = 0; half_of < 2u; ++half_of)
    codes[at + half_of] = pack_codes(8 * (levels2(levels, 4u * half_of) - 1) + (down ? -1 : 1));
}
// Eight values of iq2.
void put_signed(uint entry, uint signs, uint at, inout uvec4 codes) {
  for (uint half_of = 0; half_of < 2u; ++half_of) {
    const ivec4 c = levels2(entry, 4u * half_of);
    const ivec4 values = ivec4(kIQ2Levels[c.x], kIQ2Levels[c.y], kIQ2Levels[c.z], kIQ2Levels[c.w]);
    codes[at + half_of] = pack_codes(with_signs(values, signs >> (4u * half_of)));
  }
}

// A digit to the base 3 comes out at the top of a product.
int ternary_at(uint64_t block, uint column) {
  const uint n = column < 160u ? 32u : column < 240u ? 16u : 4u;
  const uint begin = column < 160u ? 0u : column < 240u ? 160u : 240u;
  const uint bytes = column < 160u ? 0u : column < 240u ? 32u : 48u;
  const uint power[5] = uint[](1u, 3u, 9u, 27u, 81u);
  const uint in_run = column - begin;
  return int((byte_at(block + bytes + in_run % n) * power[in_run / n] & 255u) * 3u >> 8) - 1;
}

void small_codes16(uint type, uint64_t row, uint chunk, out uvec4 codes, out float scale) {
  codes = uvec4(0);
  if (type == kNVFP4) {
    const uint64_t block = row + uint64_t(chunk >> 2) * 36u;
    const uint s = chunk & 3u;
    scale = e4m3(byte_at(block + s));
    for (uint i = 0; i < 4u; ++i)
      codes[i] = table_codes(word_at(block + 4u + 8u * s + i % 2u * 4u), i / 2u * 4u, true);
    return;
  }
  if (type == kQ1_0) {
    const uint64_t block = row + uint64_t(chunk >> 3) * 18u;
    scale = f16_at(block);
    const uint bits = half_at(block + 2u + 2u * (chunk & 7u));
    for (uint i = 0; i < 4u; ++i) codes[i] = pack_codes(with_signs(ivec4(-1), bits >> (4u * i)));
    return;
  }
  const uint s = chunk & 15u, pair = s >> 1, first = (s & 1u) * 2u;  // The first of the pair's four groups of eight.
  const uint block_bytes = type == kTQ1_0 ? 54u : type == kTQ2_0 ? 66u : type == kIQ1_S ? 50u : type == kIQ1_M ? 56u
                           : type == kIQ2_XXS ? 66u : type == kIQ2_XS ? 74u : type == kIQ2_S ? 82u
                           : type == kIQ3_XXS ? 98u : 110u;
  const uint64_t block = row + uint64_t(chunk >> 4) * block_bytes;
  if (type == kTQ1_0) {
    scale = f16_at(block + 52u);
    for (uint i = 0; i < 4u; ++i) {
      const uint c = s * 16u + i * 4u;
      codes[i] = pack_codes(ivec4(ternary_at(block, c), ternary_at(block, c + 1u), ternary_at(block, c + 2u),
                                  ternary_at(block, c + 3u)));
    }
    return;
  }
  if (type == kTQ2_0) {
    scale = f16_at(block + 64u);
    for (uint i = 0; i < 4u; ++i) {
      const uint word = word_at(block + s / 8u * 32u + (s & 1u) * 16u + i * 4u) >> (pair % 4u * 2u);
      codes[i] = pack_codes(ivec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 3u) - 1);
    }
    return;
  }
  if (type == kIQ1_S) {
    const uint high = half_at(block + 34u + 2u * pair);
    scale = f16_at(block) * 0.125 * float(2u * (high >> 12 & 7u) + 1u);
    for (uint e = 0; e < 2u; ++e) {
      const uint g = first + e;
      put_shifted(byte_at(block + 2u + 4u * pair + g) | (high >> (3u * g) & 7u) << 8, high >> 15 != 0u, 2u * e, codes);
    }
    return;
  }
  if (type == kIQ1_M) {
    uint d = 0;
    for (uint i = 0; i < 4u; ++i) d |= half_at(block + 48u + 2u * i) >> 12 << (4u * i);
    const uint own = half_at(block + 48u + s / 4u * 2u) >> (s % 4u * 3u) & 7u;
    scale = unpackHalf2x16(d).x * 0.125 * float(2u * own + 1u);
    for (uint e = 0; e < 2u; ++e) {
      const uint g = 2u * s + e, high = nibble_at(block + 32u, g);
      put_shifted(byte_at(block + g) | (high & 7u) << 8, (high & 8u) != 0u, 2u * e, codes);
    }
    return;
  }
  const float d = f16_at(block);
  if (type == kIQ2_XXS) {
    const uint64_t words = block + 2u + 8u * pair;
    const uint signs = word_at(words + 4u);
    scale = d * 0.125 * float(2u * (signs >> 28) + 1u);
    for (uint e = 0; e < 2u; ++e)
      put_signed(grid_entry(kIQ2XXSGrid, byte_at(words + first + e)), all_signs(signs >> (7u * (first + e)) & 127u),
                 2u * e, codes);
  } else if (type == kIQ2_XS) {
    scale = d * 0.125 * float(2u * nibble_at(block + 66u, s) + 1u);
    for (uint e = 0; e < 2u; ++e) {
      const uint both = half_at(block + 2u + 4u * s + 2u * e);
      put_signed(grid_entry(kIQ2XSGrid, both & 511u), all_signs(both >> 9), 2u * e, codes);
    }
  } else if (type == kIQ2_S) {
    scale = d * 0.125 * float(2u * nibble_at(block + 74u, s) + 1u);
    const uint high = byte_at(block + 66u + pair);
    for (uint e = 0; e < 2u; ++e) {
      const uint g = 2u * s + e;
      const uint entry = byte_at(block + 2u + g) | (high >> (2u * (first + e)) & 3u) << 8;
      put_signed(grid_entry(kIQ2SGrid, entry), byte_at(block + 34u + g), 2u * e, codes);
    }
  } else if (type == kIQ3_XXS) {
    const uint signs = word_at(block + 66u + 4u * pair);
    scale = d * 0.25 * float(2u * (signs >> 28) + 1u);
    for (uint i = 0; i < 4u; ++i) {
      const ivec4 c = levels3(grid_entry(kIQ3XXSGrid, byte_at(block + 2u + 4u * s + i)));
      const ivec4 values = ivec4(kIQ3XXSLevels[c.x], kIQ3XXSLevels[c.y], kIQ3XXSLevels[c.z], kIQ3XXSLevels[c.w]);
      const uint eight = all_signs(signs >> (7u * (first + i / 2u)) & 127u);
      codes[i] = pack_codes(with_signs(values, eight >> (i % 2u * 4u)));
    }
  } else {  // iq3_s
    scale = d * float(2u * nibble_at(block + 106u, pair) + 1u);
    const uint high = byte_at(block + 66u + pair) >> (2u * first);
    for (uint i = 0; i < 4u; ++i) {
      const uint entry = byte_at(block + 2u + 4u * s + i) | (high >> i & 1u) << 8;
      const uint eight = byte_at(block + 74u + 2u * s + i / 2u);
      codes[i] = pack_codes(with_signs(2 * levels3(grid_entry(kIQ3SGrid, entry)) + 1, eight >> (i % 2u * 4u)));
    }
  }
}
