// What attention over extents is told. Tensors: q, K, V, positions, sequences, extents, counts, ends, hidden_first, hidden,
// head_terms, out. Params: heads, K/V heads, k_dim, v_dim, scale, softcap, window, extents of a sequence, bytes of a K cell, of
// a V cell, whether there are sinks, whether windows are chunks, alibi, distances of the bias (0: there is none).
#include "softmax_merge.glsl"
const uint kCells = 64;

int first_position(int position) {
  const int window = int(param(6));
  return window == 0 ? -0x7fffffff : param(11) != 0u ? position - position % window : position - window + 1;
}
float slope_of(uint head) {
  if (param_float(12) == 0.0) return 0.0;
  const uint n_power = 1u << findMSB(param(0));  // Heads whose slopes are whole steps.
  const float step = head < n_power ? float(head + 1u) : float(head - n_power) + 0.5;
  return exp2(-param_float(12) * step / float(n_power));
}
