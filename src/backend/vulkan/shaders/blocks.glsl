#ifndef BLOCKS_GLSL
#define BLOCKS_GLSL
// Rows of activations as quantise.comp makes them: a code of eight bits for each column, then for each 32 columns their
// scale, and in a word what the codes of both halves add up to (which types with minima multiply).
const uint kBlock = 32;
uint code_row_bytes(uint columns) { return (columns + columns / kBlock * 8u + 15u) / 16u * 16u; }
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Codes { uvec4 c[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Scales { uvec2 s[]; };
float scale_of(uvec2 block) { return uintBitsToFloat(block.x); }
ivec2 sums_of(uvec2 block) { return ivec2(int(block.y) << 16 >> 16, int(block.y) >> 16); }
#endif
