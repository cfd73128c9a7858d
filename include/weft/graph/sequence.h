// Since 0.1
#pragma once
// Functions over sequences: softmax, attention, recurrent cells. The rules of value.h hold.
#include "weft/graph/value.h"

#pragma GCC visibility push(default)

namespace weft {

/// Along any axis: e^x divided by its sum. If all are minus infinity: zeros.
Value softmax(Value x, int axis, Where where = Where::current());

struct AttentionOptions {
  Value bias = {};   ///< F32: added to the scores. I32: a mask, 0 hides a key. It broadcasts to {b, h, m, n}.
  Value sinks = {};  ///< Attention sinks {h}: see ops::DenseAttention.
  bool causal = false;
  float scale = 0.0f;    ///< 0: 1 / sqrt(d).
  float softcap = 0.0f;  ///< 0: off
};
/// q {b, h, m, d}, k {b, g, n, d}, v {b, g, n, e} -> {b, h, m, e}. Three axes leave out b; two axes are one
/// head. See ops::DenseAttention.
Value scaled_dot_product_attention(Value q, Value k, Value v, const AttentionOptions& options = {},
                                   Where where = Where::current());

/// The results of lstm() and gru(). y {t, b, h} has the outputs of all time steps. h {b, h}, with c for an
/// LSTM, is the state after the last step, to continue the sequence.
struct Recurrence {
  Value y;
  Value h;
  Value c = {};  ///< The cell state, for an LSTM.
};
/// x {t, b, 4h}, weight {4h, h}, h0 {b, h}?, c0 {b, h}? See ops::Lstm. torch.nn.LSTM of one layer is
/// lstm(linear(x, weight_ih, bias_ih + bias_hh), weight_hh).
Recurrence lstm(Value x, Value weight, Value h0 = {}, Value c0 = {}, Where where = Where::current());
/// x {t, b, 3h}, weight {3h, h}, h0 {b, h}?, bias {h}? See ops::Gru. The first two thirds of torch.nn.GRU's
/// bias_hh belong to x.
Recurrence gru(Value x, Value weight, Value h0 = {}, Value bias = {}, Where where = Where::current());

}  // namespace weft

#pragma GCC visibility pop
