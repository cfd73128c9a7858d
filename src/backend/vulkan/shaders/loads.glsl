// Bytes of stored rows. With NARROW single bytes and halves are loaded as what they are; without, they are cut out of
// 32-bit words, which every driver knows. The bits are the same. Memory of tensors is a multiple of 16 bytes.
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quads { uvec4 q[]; };
#ifdef NARROW
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
layout(buffer_reference, std430, buffer_reference_align = 1) buffer Bytes { uint8_t b[]; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer Halves { uint16_t h[]; };
uint byte_at(uint64_t at) { return uint(Bytes(at).b[0]); }
uint half_at(uint64_t at) { return uint(Halves(at).h[0]); }
#else
uint byte_at(uint64_t at) { return Words(at & ~uint64_t(3)).w[0] >> ((uint(at) & 3u) * 8u) & 255u; }
uint half_at(uint64_t at) { return Words(at & ~uint64_t(3)).w[0] >> ((uint(at) & 2u) * 8u) & 0xffffu; }
#endif
// Of two bytes, at an even address, as all halves.
float f16_at(uint64_t at) { return unpackHalf2x16(half_at(at)).x; }

// Sixteen bytes at a multiple of `alignment`: one load, four, or five of the words that they lie in. (Eight of halves
// are slower.)
uvec4 bytes16(uint64_t at, uint alignment) {
  if (alignment % 16u == 0u) return Quads(at).q[0];
  Words w = Words(at & ~uint64_t(3));
  const uvec4 low = uvec4(w.w[0], w.w[1], w.w[2], w.w[3]);
  if (alignment % 4u == 0u) return low;
  // Nothing past the bytes is read: where they are whole words, the fourth comes again and is shifted away.
  const uint shift = (uint(at) & 3u) * 8u;
  const uvec4 high = uvec4(low.yzw, w.w[shift == 0u ? 3 : 4]);
  return low >> shift | high << 1 << (31u - shift);
}
