// The language's functions that count, move and order, and functions over sequences: shapes and refusals.
#include <gtest/gtest.h>

#include <algorithm>

#include "graph/refusal.h"
#include "weft/graph.h"

namespace weft {
namespace {

using test::refusal;

bool has(const std::string& text, std::initializer_list<std::string> parts) {
  return std::all_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return test::has(text, part); });
}

TEST(OrderValue, ShapesMayHoldSymbols) {
  Graph g;
  const Dim n = g.symbol("n", 1, 64);
  const Value x = g.input("x", {n, 3, 8});
  EXPECT_EQ(arange(g, n, 3 * n, 2).shape(), (Shape{(2 * n + 1) / 2}));
  EXPECT_EQ(arange(g, 5, 2).shape(), Shape{0});
  EXPECT_EQ(arange(g, 5, 0, -2).shape(), Shape{3});
  EXPECT_EQ(repeat(x, 3, 0).shape(), (Shape{3 * n, 3, 8}));
  EXPECT_EQ(tile(x, 2, -1).shape(), (Shape{n, 3, 16}));
  EXPECT_EQ(stack({x, x}, 1).shape(), (Shape{n, 2, 3, 8}));
  EXPECT_EQ(flip(x, {0, -1}).shape(), x.shape());
  EXPECT_EQ(split(x, 4, -1).size(), 4U);
  EXPECT_EQ(split(x, 4, -1)[3].shape(), (Shape{n, 3, 2}));
  const Value ids = g.input("ids", {2, n}, DType::kI32);
  EXPECT_EQ(one_hot(ids, 10).shape(), (Shape{2, n, 10}));
  EXPECT_EQ(take(x, ids, 1).shape(), (Shape{n, 2, n, 8}));
  EXPECT_EQ(sort(x, 0).shape(), x.shape());
  EXPECT_EQ(argsort(x).dtype(), DType::kI32);
  EXPECT_EQ(cumsum(ids, 1).dtype(), DType::kI32);
  EXPECT_EQ(logsumexp(x, {0, 2}).shape(), Shape{3});
  const Value q = g.input("q", {2, 4, n, 16}), k = g.input("k", {2, 2, 2 * n, 16}),
              v = g.input("v", {2, 2, 2 * n, 5});
  EXPECT_EQ(scaled_dot_product_attention(q, k, v).shape(), (Shape{2, 4, n, 5}));
  const Value gates = g.input("gates", {n, 2, 40});
  EXPECT_EQ(lstm(gates, g.weight("w", {40, 10})).c.shape(), (Shape{2, 10}));
}

TEST(OrderValue, WholeNumbersHaveArithmeticOfTheirOwn) {
  Graph g;
  const Value a = g.input("a", {4, 1}, DType::kI32), b = g.input("b", {3}, DType::kI32);
  for (const Value& y :
       {a + b, a - b, a * b, maximum(a, b), 2.0f - a, -a, where(a, b, a), floor_divide(a, 3)})
    EXPECT_EQ(y.dtype(), DType::kI32);
  EXPECT_EQ((a + b).shape(), (Shape{4, 3}));
  EXPECT_EQ(cast(a, DType::kI32).id(), a.id());
  EXPECT_TRUE(has(refusal([&] { (void)(a + 0.5f); }), {"order_value_test.cpp", "a is i32", "0.5"}));
  EXPECT_TRUE(has(refusal([&] { (void)(a / b); }), {"input 0 must be f32"}));
  EXPECT_TRUE(has(refusal([&] { (void)(a + g.input("x", {3})); }), {"must be f32"}));
}

TEST(OrderValue, MistakesAreNamed) {
  Graph g;
  const Dim n = g.symbol("n", 1, 64);
  const Value x = g.input("x", {n, 6}), ids = g.input("ids", {n}, DType::kI32);
  EXPECT_TRUE(has(refusal([&] { arange(g, 0, 5, 0); }), {"arange", "step is 0"}));
  EXPECT_TRUE(has(refusal([&] { arange(g, n, 5); }), {"order_value_test.cpp"}));
  EXPECT_TRUE(has(refusal([&] { split(x, 4, 1); }), {"x [n, 6]", "no 4 equal parts"}));
  EXPECT_TRUE(has(refusal([&] {
                    const Dim sizes[] = {2, 3};
                    split(x, sizes, 1);
                  }),
                  {"add up to 5"}));
  EXPECT_TRUE(has(refusal([&] { repeat(x, -1, 0); }), {"repeat", "less than 0"}));
  EXPECT_TRUE(has(refusal([&] { take_along_axis(x, ids, 1); }), {"as many axes"}));
  EXPECT_TRUE(has(refusal([&] { take(x, x, 1); }), {"i32"}));
  EXPECT_TRUE(has(refusal([&] { index_add(x, ids, x, 1); }), {"shape of the indices"}));
  EXPECT_TRUE(has(refusal([&] { cumsum(x, 2); }), {"no axis 2"}));
  EXPECT_TRUE(has(refusal([&] { tril(ids); }), {"no matrix"}));
  EXPECT_TRUE(has(refusal([&] { random_normal(ids, {3}, 1); }), {"one number"}));
  EXPECT_TRUE(has(refusal([&] { logical_not(x); }), {"must be i32"}));
  const Value q = g.input("q", {1, 3, n, 8}), k = g.input("k", {1, 2, n, 8});
  EXPECT_TRUE(has(refusal([&] { scaled_dot_product_attention(q, k, k); }), {"divisor"}));
  EXPECT_TRUE(has(refusal([&] { scaled_dot_product_attention(q, q, q, {.bias = g.input("b", {5, 1})}); }),
                  {"input 3", "broadcast"}));
  const Value gates = g.input("gates", {n, 2, 40}), weight = g.weight("w", {40, 11});
  EXPECT_TRUE(has(refusal([&] { lstm(gates, weight); }), {"a row for each gate"}));
  EXPECT_TRUE(has(refusal([&] { cumsum(Value(), 0); }), {"an input is an empty value"}));
}

}  // namespace
}  // namespace weft
