// Products with Hadamard matrices. Passes of widths 1, 2, 4 ... replace the elements of each pair by their sum and their
// difference. Then all elements are scaled.
uvec2 hadamard_pair(uint i, uint width) {
  const uint first = i / width * 2u * width + i % width;
  return uvec2(first, first + width);
}
float hadamard_scale(uint block) { return 1.0 / sqrt(float(block)); }
