// Blocks of products of codes: what 32 columns add is a product of integers, exact, times the scales.
#extension GL_EXT_spirv_intrinsics : require
#include "blocks.glsl"

// OpSDot of four bytes in a word (SPV_KHR_integer_dot_product).
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_of_bytes(uint a, uint b, spirv_literal int packed_4x8);

int dot16(uvec4 a, uvec4 b) {
  return dot_of_bytes(a.x, b.x, 0) + dot_of_bytes(a.y, b.y, 0) + dot_of_bytes(a.z, b.z, 0) + dot_of_bytes(a.w, b.w, 0);
}

// Whether the halves of a block have scales of their own; no function, as sizes of shared memory depend on it.
#define HAS_TWO_SCALES(type)                                                                                   \
  ((type) == kQ2_K || (type) == kQ3_K || (type) == kQ6_K || (type) == kNVFP4 || (type) == kIQ1_M ||            \
   (type) == kIQ2_XS || (type) == kIQ2_S)

// The products of both halves' codes and of the minima with x, added to a sum.
float add_block(uint type, ivec2 products, vec2 scales, vec2 mins, uvec2 x, float sum) {
  precise float y = HAS_TWO_SCALES(type) ? fma(scales.y, float(products.y), scales.x * float(products.x))
                                         : scales.x * float(products.x + products.y);
  const ivec2 sums = sums_of(x);
  if (type == kQ2_K) y = fma(-mins.y, float(sums.y), fma(-mins.x, float(sums.x), y));
  else if (has_min(type)) y = fma(-mins.x, float(sums.x + sums.y), y);
  return fma(scale_of(x), y, sum);
}
