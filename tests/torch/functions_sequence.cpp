// Functions over sequences.
#include "calls.h"

namespace weft::torch {
namespace {

Value attention(const Call& c) {
  AttentionOptions options{
      .causal = flag(c.p, "causal"), .scale = number(c.p, "scale"), .softcap = number(c.p, "softcap")};
  std::size_t next = 3;
  if (!c.p.at("bias").get<std::string>().empty()) options.bias = c.in.at(next++);
  if (flag(c.p, "sinks")) options.sinks = c.in.at(next);
  return scaled_dot_product_attention(c.in.at(0), c.in.at(1), c.in.at(2), options);
}

/// A recurrent layer with a cell, a first output and, last, an LSTM's first cell or a GRU's bias.
Value recurrent(const Call& c, Recurrence (*f)(Value, Value, Value, Value, Where)) {
  const Value h0 = flag(c.p, "h0") ? c.in.at(2) : Value();
  const Value last = flag(c.p, "last") ? c.in.back() : Value();
  const Recurrence all = f(c.in.at(0), c.in.at(1), h0, last, Where::current());
  const int which = integer(c.p, "which");
  return which == 0 ? all.y : which == 1 ? all.h : all.c;
}

}  // namespace

std::map<std::string, Make> sequence_functions() {
  return {
      {"softmax_axis", [](const Call& c) { return softmax(c.in.at(0), integer(c.p, "axis")); }},
      {"attention", attention},
      {"lstm", [](const Call& c) { return recurrent(c, lstm); }},
      {"gru", [](const Call& c) { return recurrent(c, gru); }},
  };
}

}  // namespace weft::torch
