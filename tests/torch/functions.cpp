#include "functions.h"

#include "calls.h"

namespace weft::torch {
namespace {

/// A function of two values, or of one and a number.
Make binary(Value (*f)(Value, Value, Where), Value (*with_number)(Value, float, Where) = nullptr) {
  return [f, with_number](const Call& c) {
    if (c.in.size() == 2) return f(c.in[0], c.in[1], Where::current());
    return with_number(c.in.at(0), number(c.p, "number"), Where::current());
  };
}
/// The operators: of two values, or of a value and a number on either side.
template <typename F>
Make arithmetic(const F& f) {
  return [f](const Call& c) {
    if (c.in.size() == 2) return f(Operand(c.in[0]), c.in[1]);
    const float value = number(c.p, "number");
    return c.p.value("first", false) ? f(value, Operand(c.in.at(0))) : f(Operand(c.in.at(0)), value);
  };
}
Make glu_of(Activation kind) {
  return [kind](const Call& c) { return glu(kind, c.in.at(0), c.in.at(1)); };
}

}  // namespace

const std::map<std::string, Make>& functions() {
  static const std::map<std::string, Make> table = [] {
    std::map<std::string, Make> all = elementary_functions();
    all.merge(order_functions());
    all.merge(sequence_functions());
    all.merge(window_functions());
    return all;
  }();
  return table;
}

std::map<std::string, Make> elementary_functions() {
  return {
      {"neg", [](const Call& c) { return -Operand(c.in.at(0)); }},
      {"abs", unary(abs)},
      {"square", unary(square)},
      {"sqrt", unary(sqrt)},
      {"rsqrt", unary(rsqrt)},
      {"reciprocal", unary(reciprocal)},
      {"exp", unary(exp)},
      {"log", unary(log)},
      {"sin", unary(sin)},
      {"cos", unary(cos)},
      {"tanh", unary(tanh)},
      {"sigmoid", unary(sigmoid)},
      {"floor", unary(floor)},
      {"ceil", unary(ceil)},
      {"round", unary(round)},
      {"relu", unary(relu)},
      {"relu_squared", unary(relu_squared)},
      {"silu", unary(silu)},
      {"gelu", unary(gelu)},
      {"gelu_tanh", unary(gelu_tanh)},
      {"gelu_quick", unary(gelu_quick)},
      {"softplus", unary(softplus)},
      {"softcap", [](const Call& c) { return softcap(c.in.at(0), number(c.p, "cap")); }},
      {"clamp", [](const Call& c) { return clamp(c.in.at(0), number(c.p, "low"), number(c.p, "high")); }},

      {"add", arithmetic([](auto a, auto b) { return a + b; })},
      {"sub", arithmetic([](auto a, auto b) { return a - b; })},
      {"mul", arithmetic([](auto a, auto b) { return a * b; })},
      {"div", arithmetic([](auto a, auto b) { return a / b; })},
      {"maximum", binary(maximum, maximum)},
      {"minimum", binary(minimum, minimum)},
      {"pow", binary(pow, pow)},
      {"glu_silu", glu_of(Activation::kSilu)},
      {"glu_gelu", glu_of(Activation::kGeluErf)},
      {"glu_gelu_tanh", glu_of(Activation::kGelu)},
      {"glu_relu", glu_of(Activation::kRelu)},
      {"equal", binary(equal, equal)},
      {"not_equal", binary(not_equal, not_equal)},
      {"less", binary(less, less)},
      {"less_equal", binary(less_equal, less_equal)},
      {"greater", binary(greater, greater)},
      {"greater_equal", binary(greater_equal, greater_equal)},
      {"where",
       [](const Call& c) {
         if (c.in.size() == 2) return where(c.in[0], c.in[1], number(c.p, "number"));
         return where(c.in.at(0), c.in.at(1), c.in.at(2));
       }},

      {"sum", reduction(sum)},
      {"mean", reduction(mean)},
      {"max", reduction(max)},
      {"min", reduction(min)},
      {"var", reduction(var)},
      {"argmax",
       [](const Call& c) { return argmax(c.in.at(0), integer(c.p, "axis"), c.p.at("keep").get<bool>()); }},
      {"softmax", unary(softmax)},
      {"layer_norm",
       [](const Call& c) {
         return layer_norm(c.in.at(0), optional(c.in, 1), optional(c.in, 2), number(c.p, "eps"));
       }},
      {"rms_norm", [](const Call& c) { return rms_norm(c.in.at(0), optional(c.in, 1), number(c.p, "eps")); }},
      {"normalize", [](const Call& c) { return normalize(c.in.at(0), number(c.p, "eps")); }},

      {"matmul", binary(matmul)},
      {"linear", [](const Call& c) { return linear(c.in.at(0), c.in.at(1), optional(c.in, 2)); }},
      {"conv1d",
       [](const Call& c) {
         return conv1d_channels_last(c.in.at(0), c.in.at(1), optional(c.in, 2), integer(c.p, "kernel"),
                                     integer(c.p, "stride"), integer(c.p, "padding"));
       }},
      {"ragged_attention",
       [](const Call& c) {
         return ragged_attention(c.in.at(0), c.in.at(1), c.in.at(2), c.in.at(3), c.in.at(4),
                                 integer(c.p, "heads"), number(c.p, "scale"));
       }},
      {"ragged_mean", [](const Call& c) { return ragged_mean(c.in.at(0), c.in.at(1), c.in.at(2)); }},
      {"take", [](const Call& c) { return take(c.in.at(0), c.in.at(1)); }},
      {"top_k", [](const Call& c) { return top_k(c.in.at(0), integer(c.p, "k")); }},

      {"reshape", [](const Call& c) { return reshape(c.in.at(0), c.shape(c.p.at("shape"))); }},
      {"broadcast_to", [](const Call& c) { return broadcast_to(c.in.at(0), c.shape(c.p.at("shape"))); }},
      {"permute", [](const Call& c) { return permute(c.in.at(0), axes(c.p)); }},
      {"transpose",
       [](const Call& c) { return transpose(c.in.at(0), integer(c.p, "a"), integer(c.p, "b")); }},
      {"slice",
       [](const Call& c) {
         return slice(c.in.at(0), integer(c.p, "axis"), integer(c.p, "begin"), integer(c.p, "end"),
                      integer(c.p, "step"));
       }},
      {"squeeze", [](const Call& c) { return squeeze(c.in.at(0), integer(c.p, "axis")); }},
      {"unsqueeze", [](const Call& c) { return unsqueeze(c.in.at(0), integer(c.p, "axis")); }},
      {"concat",
       [](const Call& c) {
         const int axis = integer(c.p, "axis");
         if (c.in.size() == 2) return concat({c.in[0], c.in[1]}, axis);
         return concat({c.in.at(0), c.in.at(1), c.in.at(2)}, axis);
       }},
      {"pad",
       [](const Call& c) {
         return pad(c.in.at(0), integer(c.p, "axis"), integer(c.p, "before"), integer(c.p, "after"),
                    number(c.p, "value"));
       }},
  };
}

}  // namespace weft::torch
