// Graphs in the public language: the resulting nodes, and errors.
#include "weft/graph/value.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "graph/refusal.h"
#include "weft/error.h"

namespace weft {
namespace {

using test::has;
using test::refusal;

class Language : public testing::Test {
 protected:
  Graph g;
  Dim n = g.symbol("n", 1, 512);
  Value x = g.input("x", {n, 8});
};

TEST_F(Language, ReadsLikeTheFormula) {
  const Value up = g.weight("up.weight", DType::kF32, {16, 8}), bias = g.weight("up.bias", {16});
  const Value y = g.output("y", softmax(gelu(linear(x, up) + bias) * 0.5f));
  EXPECT_EQ(y.shape(), (Shape{n, 16}));
  EXPECT_EQ(y.name(), "y");
  EXPECT_TRUE(g.is_output(y.id()));
  std::string ops;
  for (const Node& node : g.nodes()) ops += std::string(to_string(node.op)) + " ";
  EXPECT_EQ(ops, "matmul add activate scale softmax ");
  EXPECT_EQ(g.value(g.node(0).output).name, "matmul_0");
}

TEST_F(Language, ComparisonsIndicesAndAxesReadAsInNumPy) {
  const Comparison positive = x > 0.0f;
  static_assert(!std::is_constructible_v<bool, Comparison>, "a comparison has no truth before a step");
  EXPECT_EQ(positive.dtype(), DType::kI32);
  for (const Value& value : {Value(x < x), Value(x <= 1.0f), Value(1.0f >= x), Value(2.0f < x)})
    EXPECT_EQ(value.shape(), x.shape());
  EXPECT_EQ(x[0].shape(), (Shape{8}));
  EXPECT_EQ(x[-1][2].shape(), Shape{});
  EXPECT_EQ(sum(x, 0).shape(), (Shape{8}));
  EXPECT_EQ(sum(x, {0, 1}).shape(), Shape{});
  EXPECT_EQ(max(x, -1, true).shape(), (Shape{n, 1}));
  EXPECT_EQ(mean(x).shape(), Shape{});
  EXPECT_EQ(where(positive, 1.0f, x).shape(), x.shape());
  EXPECT_EQ(where(positive, x, 1.0f).shape(), x.shape());
  EXPECT_EQ(where(positive, 1.0f, 0.0f).shape(), x.shape());
  EXPECT_EQ(where(positive, 1.0f, 0.0f).dtype(), DType::kF32);
  EXPECT_TRUE(has(refusal([&] { mean(Value(positive)); }), "cast it to f32"));
}

TEST_F(Language, OutputsLeaveTheNamesThatValuesWereGiven) {
  const Value hidden = relu(x).named("hidden");
  EXPECT_EQ(g.output("y", hidden).name(), "y");
  EXPECT_EQ(hidden.name(), "hidden");
  EXPECT_FALSE(g.is_output(hidden.id()));
  const Value plain = relu(x);
  const Value first = g.output("first", plain), second = g.output("second", plain);
  EXPECT_EQ(plain.name(), "first");
  EXPECT_NE(first.id(), second.id());
  EXPECT_EQ(g.output("first", plain).id(), first.id());
  EXPECT_EQ(g.output("same", x).shape(), x.shape());
  EXPECT_EQ(g.output("hidden", hidden).id(), hidden.id());
  EXPECT_EQ(g.outputs().size(), 5u);
}

TEST_F(Language, SizesAreExpressions) {
  const Dim m = g.symbol("m", 0, 9);
  const Value wide = g.input("wide", {2 * n + m, 8});
  EXPECT_EQ(relu(wide).size(0), n + m + n);
  EXPECT_EQ(wide.size(-1), Dim(8));
  EXPECT_EQ(refusal([&] { (void)wide.size(2); }), "wide [2*n + m, 8] has no axis 2");
  const std::string what = refusal([&] { relu(x) + relu(wide); });
  EXPECT_TRUE(has(what, "[n, 8]")) << what;
  EXPECT_TRUE(has(what, "[2*n + m, 8]")) << what;
}

TEST_F(Language, MistakesNameTheLineTheOpAndTheShapes) {
  const Value w = g.weight("w", {5, 9});
  const auto line = std::to_string(__LINE__ + 1);
  const std::string what = refusal([&] { linear(x, w); });
  for (const std::string& part : {"value_test.cpp:" + line, std::string("matmul_0"), std::string("w [5, 9]"),
                                  std::string("x [n, 8]"), std::string("as many columns")})
    EXPECT_TRUE(has(what, part)) << part << " in " << what;
  const auto of_operator = std::to_string(__LINE__ + 1);
  EXPECT_TRUE(has(refusal([&] { x + w; }), "value_test.cpp:" + of_operator));
}

TEST_F(Language, RejectsInvalidExpressions) {
  EXPECT_TRUE(has(refusal([&] { g.symbol("n", 1, 2); }), "already"));
  EXPECT_TRUE(has(refusal([&] { g.symbol("k", 5, 2); }), "bounds"));
  EXPECT_TRUE(has(refusal([&] { g.symbol("k", -1, 2); }), "bounds"));
  EXPECT_TRUE(has(refusal([&] { g.input("x", {n, 8}); }), "already"));
  EXPECT_TRUE(has(refusal([&] { g.input("", {n, 8}); }), "name"));
  EXPECT_TRUE(has(refusal([&] { g.weight("w", {n, 8}); }), "constant"));
  EXPECT_TRUE(has(refusal([&] { g.weight("w", DType::kQ4_K, {4, 8}); }), "256"));
  EXPECT_TRUE(has(refusal([&] { g.output("y", Value()); }), "not in this graph"));
  EXPECT_TRUE(has(refusal([&] { g.output("x", relu(x)); }), "already"));
  EXPECT_TRUE(has(refusal([&] { relu(Value()); }), "no inputs"));
  EXPECT_TRUE(has(refusal([&] { layer_norm(x, {}, g.weight("b", {8})); }), "precedes"));
  Graph other;
  const Value foreign = other.input("x", {other.symbol("n", 1, 2), 8});
  EXPECT_TRUE(has(refusal([&] { x + foreign; }), "two graphs"));
  EXPECT_TRUE(has(refusal([&] { g.output("y", relu(foreign)); }), "not in this graph"));
}

TEST_F(Language, NamesThatAreTakenAreNotGivenAgain) {
  g.input("activate_0", {n, 8});
  EXPECT_EQ(relu(x).name(), "activate_1");
  EXPECT_EQ(relu(x).named("hidden").name(), "hidden");
  EXPECT_TRUE(has(refusal([&] { relu(x).named("hidden"); }), "already"));
}

TEST_F(Language, ValuesThatTheirGraphDoesNotHaveAreRefused) {
  const Value wrong(g, 999), none(g, kNoValue);
  Graph moved = std::move(g);
  for (const Value& value : {x, wrong, none, Value()}) {
    EXPECT_TRUE(has(refusal([&] { value.shape(); }), "does not have"));
    EXPECT_TRUE(has(refusal([&] { value.named("y"); }), "does not have"));
    EXPECT_NE(refusal([&] { relu(value); }), "");
    EXPECT_NE(refusal([&] { value + value; }), "");
    EXPECT_NE(refusal([&] { sum(value); }), "");
    EXPECT_TRUE(has(refusal([&] { g.output("y", value); }), "not in this graph"));
  }
  EXPECT_TRUE(has(refusal([&] { moved.add(ops::Scale{}, {7}, "y"); }), "no value 7"));
  EXPECT_TRUE(has(refusal([&] { moved.rename(7, "y"); }), "no value 7"));
  EXPECT_TRUE(has(refusal([&] { moved.add_symbol("m", 3, 2); }), "bounds"));
  EXPECT_TRUE(has(refusal([&] { moved.input("z", {Dim(1, -5), 2}); }), "another graph"));
  EXPECT_EQ(relu(Value(moved, moved.find("x"))).shape().rank(), 2);
}

TEST_F(Language, AGraphIsAValue) {
  g.output("y", relu(x));
  Graph copy = g;
  copy.output("z", relu(Value(copy, copy.find("y"))));
  EXPECT_EQ(g.nodes().size(), 1U);
  EXPECT_EQ(copy.nodes().size(), 2U);
}

}  // namespace
}  // namespace weft
