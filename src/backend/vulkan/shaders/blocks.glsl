// Rows of activations as quantise.comp makes them: a code of eight bits for each column, then a scale for each 32.
const uint kBlock = 32;
uint code_row_bytes(uint columns) { return (columns + columns / kBlock * 4u + 15u) / 16u * 16u; }
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Codes { uvec4 c[]; };
