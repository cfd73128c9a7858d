// The language of values of any rank: shapes that broadcast, axes, views, and errors.
#include <gtest/gtest.h>

#include "graph/refusal.h"
#include "weft/error.h"
#include "weft/graph/value.h"

namespace weft {
namespace {

using test::has;
using test::refusal;

class General : public testing::Test {
 protected:
  Graph g;
  Dim n = g.symbol("n", 1, 512), m = g.symbol("m", 0, 9);
  Value x = g.input("x", {n, 12, 64});
  Value ids = g.input("ids", {n}, DType::kI32);
};

TEST_F(General, OperandsBroadcast) {
  const Value column = g.input("column", {n, 1, 1}), row = g.input("row", {64}), all = g.input("all", {});
  EXPECT_EQ((x + row).shape(), x.shape());
  EXPECT_EQ((row - x).shape(), x.shape());
  EXPECT_EQ((column * row).shape(), (Shape{n, 1, 64}));
  EXPECT_EQ((all / row).shape(), (Shape{64}));
  EXPECT_EQ(maximum(all, all).shape(), Shape{});
  EXPECT_EQ(where(less(x, 0.0f), x, row).shape(), x.shape());
  const Value of_m = g.input("of_m", {m, 64});
  EXPECT_TRUE(has(refusal([&] { x + of_m; }), "broadcasts"));
  EXPECT_TRUE(has(refusal([&] { where(x, x, x); }), "i32"));
  EXPECT_TRUE(has(refusal([&] { ids + row; }), "f32"));
}

TEST_F(General, NumbersAreOperands) {
  for (const Value y : {x + 1.0f, 1.0f + x, x - 1.0f, 1.0f - x, x / 2.0f, 2.0f / x, -x, pow(x, 2.0f),
                        pow(2.0f, x), maximum(x, 0.0f), clamp(x, -1.0f, 1.0f)})
    EXPECT_EQ(y.shape(), x.shape());
  EXPECT_EQ(equal(ids, 3.0f).dtype(), DType::kI32);
  EXPECT_TRUE(has(refusal([&] { equal(ids, 0.5f); }), "whole number"));
  EXPECT_TRUE(has(refusal([&] { equal(ids, x); }), "type"));
  EXPECT_TRUE(has(refusal([&] { clamp(x, 2.0f, 1.0f); }), "range"));
}

TEST_F(General, AxesCountFromEitherEnd) {
  EXPECT_EQ(sum(x).shape(), Shape{});
  EXPECT_EQ(mean(x, {-1}).shape(), (Shape{n, 12}));
  EXPECT_EQ(max(x, {0, 2}, true).shape(), (Shape{1, 12, 1}));
  EXPECT_EQ(var(x, {1}).shape(), (Shape{n, 64}));
  EXPECT_EQ(argmax(x, -2).dtype(), DType::kI32);
  EXPECT_EQ(concat({x, x, x}, 0).shape(), (Shape{3 * n, 12, 64}));
  EXPECT_EQ(pad(x, -1, 1, 2).shape(), (Shape{n, 12, 67}));
  EXPECT_TRUE(has(refusal([&] { sum(x, {3}); }), "x [n, 12, 64] has no axis 3"));
  EXPECT_TRUE(has(refusal([&] { sum(x, {2, -1}); }), "named twice"));
  EXPECT_TRUE(has(refusal([&] { pad(x, 0, -1, 0); }), "0 elements or more"));
}

TEST_F(General, ViewsHaveTheShapesOfTheirNames) {
  EXPECT_EQ(reshape(x, {n, 768}).shape(), (Shape{n, 768}));
  EXPECT_EQ(reshape(x, {-1, 64}).shape(), (Shape{12 * n, 64}));
  EXPECT_EQ(reshape(x, {n, -1}).shape(), (Shape{n, 768}));
  EXPECT_EQ(permute(x, {1, 2, 0}).shape(), (Shape{12, 64, n}));
  EXPECT_EQ(transpose(x).shape(), (Shape{n, 64, 12}));
  EXPECT_EQ(transpose(x, 0, 1).shape(), (Shape{12, n, 64}));
  EXPECT_EQ(slice(x, -1, 0, 64, 5).shape(), (Shape{n, 12, 13}));
  EXPECT_EQ(slice(x, -1, 0, -1).shape(), (Shape{n, 12, 63}));
  EXPECT_EQ(slice(x, 0, n - 1, n).shape(), (Shape{1, 12, 64}));
  EXPECT_EQ(broadcast_to(ids, {3, n}).shape(), (Shape{3, n}));
  EXPECT_EQ(unsqueeze(ids, -1).shape(), (Shape{n, 1}));
  EXPECT_EQ(squeeze(unsqueeze(ids, 0), 0).shape(), (Shape{n}));
  EXPECT_EQ(transpose(ids, 0, 0).dtype(), DType::kI32);
}

TEST_F(General, ViewsThatAreNoneAreRefused) {
  EXPECT_TRUE(has(refusal([&] { reshape(x, {n, 700}); }), "as many elements"));
  EXPECT_TRUE(has(refusal([&] { reshape(x, {-1, 5}); }), "-1"));
  EXPECT_TRUE(has(refusal([&] { reshape(x, {-1, -1}); }), "0 or more"));
  EXPECT_TRUE(has(refusal([&] { reshape(x, {n, -12, -64}); }), "0 or more"));
  EXPECT_TRUE(has(refusal([&] { permute(x, {0, 1}); }), "another number of axes"));
  EXPECT_TRUE(has(refusal([&] { permute(x, {0, 1, 1}); }), "once"));
  EXPECT_TRUE(has(refusal([&] { slice(x, 2, 0, 65); }), "its size"));
  EXPECT_TRUE(has(refusal([&] { slice(x, 2, 5, 4); }), "its size"));
  EXPECT_TRUE(has(refusal([&] { slice(x, 2, 0, 4, 0); }), "step"));
  EXPECT_TRUE(has(refusal([&] { slice(x, 3, 0, 1); }), "no axis 3"));
  EXPECT_TRUE(has(refusal([&] { broadcast_to(x, {n, 12, 65}); }), "broadcasts"));
  EXPECT_TRUE(has(refusal([&] { squeeze(x, 0); }), "size 1"));
  const Value full = g.input("full", {n, 1, 1, 1});
  EXPECT_TRUE(has(refusal([&] { unsqueeze(full, 0); }), "as many axes"));
  Graph other;
  other.symbol("a", 1, 2);
  other.symbol("b", 1, 2);
  const Dim foreign = other.symbol("c", 1, 2);
  EXPECT_TRUE(has(refusal([&] { reshape(x, {foreign, 768}); }), "another graph"));
  EXPECT_TRUE(has(refusal([&] { slice(x, 0, 0, foreign); }), "another graph"));
  EXPECT_TRUE(has(refusal([&] { reshape(Value(), {1}); }), "an input is an empty value"));
}

TEST_F(General, ProductsAreOfMatrices) {
  const Value heads = transpose(x, 0, 1);
  EXPECT_EQ(matmul(heads, transpose(heads)).shape(), (Shape{12, n, n}));
  EXPECT_EQ(matmul(heads, g.input("one", {64, 5})).shape(), (Shape{12, n, 5}));
  EXPECT_TRUE(has(refusal([&] { matmul(x, x); }), "as many rows"));
  EXPECT_TRUE(has(refusal([&] { matmul(x, ids); }), "f32"));
  EXPECT_TRUE(has(refusal([&] { matmul(heads, g.weight("w", {64, 5})); }), "linear"));
  const auto line = std::to_string(__LINE__ + 1);
  EXPECT_TRUE(has(refusal([&] { matmul(x, x); }), "general_value_test.cpp:" + line));
}

}  // namespace
}  // namespace weft
