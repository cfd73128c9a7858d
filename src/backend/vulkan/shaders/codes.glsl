#ifndef CODES_GLSL
#define CODES_GLSL
// Four signed codes of eight bits in a word, the first in the lowest.
uint pack_codes(ivec4 c) {
  const uvec4 u = uvec4(c) & 255u;
  return u.x | u.y << 8 | u.z << 16 | u.w << 24;
}
#endif
