// The language of windows of images: sizes and errors.
#include <gtest/gtest.h>

#include "graph/refusal.h"
#include "weft/graph.h"

namespace weft {
namespace {

using test::has;
using test::refusal;

class Windows : public testing::Test {
 protected:
  Graph g;
  Dim n = g.symbol("n", 0, 8), h = g.symbol("h", 5, 600);
  Value x = g.input("x", {n, 12, h, 40});
  Value w = g.weight("w", {16, 12, 3, 3});
  Value b = g.weight("b", {16});
};

TEST_F(Windows, SizesFollowSymbols) {
  EXPECT_EQ(conv2d(x, w).shape(), (Shape{n, 16, h - 2, 38}));
  EXPECT_EQ(conv2d(x, w, b, {.stride = 2, .padding = 1}).shape(), (Shape{n, 16, (h - 1) / 2 + 1, 20}));
  EXPECT_EQ(conv2d(x, w, {}, {.padding = {0, 4}, .dilation = {2, 4}}).shape(), (Shape{n, 16, h - 4, 40}));
  EXPECT_EQ(conv2d(x, g.weight("each", DType::kF16, {24, 1, 1, 5}), {}, {.groups = 12}).shape(),
            (Shape{n, 24, h, 36}));
  const Value turned = g.weight("turned", {12, 5, 4, 4});
  EXPECT_EQ(conv_transpose2d(x, turned, {}, {.stride = 2, .padding = 1}).shape(), (Shape{n, 5, 2 * h, 80}));
  EXPECT_EQ(conv_transpose2d(x, turned, {}, {.stride = 3, .output_padding = 2, .groups = 3}).size(1), 15);
  EXPECT_EQ(max_pool2d(x, 2).shape(), (Shape{n, 12, h / 2, 20}));
  EXPECT_EQ(avg_pool2d(x, 3, 1, 1, false).shape(), (Shape{n, 12, h, 40}));
  EXPECT_EQ(upsample_nearest(x, 2).shape(), (Shape{n, 12, 2 * h, 80}));
  EXPECT_EQ(upsample_nearest(x, {1, 3}).shape(), (Shape{n, 12, h, 120}));
  EXPECT_EQ(resize_bilinear(x, h + 1, 7, true).shape(), (Shape{n, 12, h + 1, 7}));
  EXPECT_EQ(upsample_bilinear(x, 2, true).shape(), (Shape{n, 12, 2 * h, 80}));
}

TEST_F(Windows, SignalsAreImagesOfHeightOne) {
  const Value signal = g.input("signal", {n, 12, h});
  const Value taps = g.weight("taps", {24, 4, 1, 5});
  EXPECT_EQ(conv1d(signal, taps, {}, {.stride = 2, .padding = 2, .groups = 3}).shape(),
            (Shape{n, 24, (h - 1) / 2 + 1}));
  EXPECT_EQ(conv1d(signal, g.weight("all", {7, 12, 1, 3})).shape(), (Shape{n, 7, h - 2}));
  const Value turned = g.weight("turned_taps", {12, 2, 1, 4});
  EXPECT_EQ(conv_transpose1d(signal, turned, {}, {.stride = 2, .padding = 1, .groups = 2}).shape(),
            (Shape{n, 4, 2 * h}));
  EXPECT_TRUE(has(refusal([&] { conv1d(x, taps); }), "signals {n, c, t}"));
  EXPECT_TRUE(has(refusal([&] { conv_transpose1d(x, turned); }), "signals {n, c, t}"));
  EXPECT_TRUE(has(refusal([&] { conv1d(signal, taps, {}, {.groups = 5}); }), "groups of equal size"));
}

TEST_F(Windows, NormsKeepTheShape) {
  const Value v = g.weight("v", {12});
  const Shape pictures = x.shape();
  EXPECT_EQ(batch_norm(x, v, v).shape(), pictures);
  EXPECT_EQ(batch_norm(x, v, v, v, v).shape(), pictures);
  EXPECT_EQ(group_norm(x, 4).shape(), pictures);
  EXPECT_EQ(group_norm(g.input("fixed", {n, 12, 3, 3}), 3, v, v).shape(), (Shape{n, 12, 3, 3}));
  EXPECT_TRUE(has(refusal([&] { batch_norm(x, v, b); }), "one entry for each channel"));
  EXPECT_TRUE(has(refusal([&] { batch_norm(x, v, {}); }), "variance"));
  EXPECT_TRUE(has(refusal([&] { group_norm(x, 5); }), "groups of equal size"));
  EXPECT_TRUE(has(refusal([&] { group_norm(x, 4, b); }), "one entry for each channel"));
}

TEST_F(Windows, ErrorsNameTheLine) {
  const auto line = std::to_string(__LINE__ + 1);
  EXPECT_TRUE(has(refusal([&] { conv2d(b, w); }), "window_value_test.cpp:" + line));
  EXPECT_TRUE(has(refusal([&] { conv2d(b, w); }), "{n, c, h, w}"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, b); }), "four dimensions"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, x); }), "vector"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, g.weight("q", DType::kQ8_0, {4, 12, 1, 32})); }), "f32 or f16"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.groups = 5}); }), "groups of equal size"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.groups = 2}); }), "channels of a group"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.groups = 0}); }), "groups"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.stride = 0}); }), "strides"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.padding = {0, -1}}); }), "padding"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.dilation = std::int64_t{1} << 40}); }), "dilations"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, w, b, {.dilation = {1, 20}}); }), "as large as the kernel"));
  EXPECT_TRUE(has(refusal([&] { conv2d(x, g.input("empty", {4, 12, 0, 3})); }), "elements"));
  const Value turned = g.weight("turned", {12, 5, 4, 4});
  EXPECT_TRUE(has(refusal([&] { conv_transpose2d(x, w); }), "{channels, outputs of a group, kh, kw}"));
  EXPECT_TRUE(has(refusal([&] { conv_transpose2d(x, turned, b); }), "vector"));
  EXPECT_TRUE(has(refusal([&] { conv_transpose2d(x, turned, {}, {.stride = 100}); }), "1 to 64"));
  EXPECT_TRUE(has(refusal([&] { conv_transpose2d(x, turned, {}, {.output_padding = 1}); }), "below"));
  EXPECT_TRUE(has(refusal([&] { conv_transpose2d(x, turned, {}, {.padding = {0, 30}}); }), "leaves a part"));
  EXPECT_TRUE(has(refusal([&] { max_pool2d(x, 0); }), "kernel"));
  EXPECT_TRUE(has(refusal([&] { max_pool2d(x, {2, 41}); }), "as large as the kernel"));
  EXPECT_TRUE(has(refusal([&] { max_pool2d(x, 1 << 16, 1, 1 << 15); }), "2^20 elements"));
  EXPECT_TRUE(has(refusal([&] { avg_pool2d(x, 3, 1, 2); }), "half of the kernel"));
  EXPECT_TRUE(has(refusal([&] { upsample_nearest(x, 0); }), "scale"));
  EXPECT_TRUE(has(refusal([&] { resize_bilinear(x, 0, 4); }), "above 0"));
  EXPECT_TRUE(has(refusal([&] { upsample_nearest(b, 2); }), "{n, c, h, w}"));
  EXPECT_TRUE(has(refusal([&] { upsample_nearest(Value(), 2); }), "an input is an empty value"));
  EXPECT_TRUE(has(refusal([&] { apply(ops::Resize2d{ResizeKind::kNearest, 4, 4, true}, {x}); }), "corners"));
  Graph other;
  for (const char* const name : {"a", "b"}) other.symbol(name, 1, 2);
  const Dim foreign = other.symbol("c", 1, 2);
  EXPECT_TRUE(has(refusal([&] { resize_nearest(x, foreign, 4); }), "another graph"));
}

}  // namespace
}  // namespace weft
