// Blocks of products of floats: 32 columns, unpacked.
void load_chunk(uint type, uint64_t row, uint chunk, uint columns, out vec4 v[4]) {
  v = vec4[](vec4(0), vec4(0), vec4(0), vec4(0));
  if (chunk * 16u < columns) unpack16(type, row, chunk, columns, v);
}
// One order of additions, as one by one.
float dot_on(vec4 a, vec4 b, float sum) { return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum)))); }
