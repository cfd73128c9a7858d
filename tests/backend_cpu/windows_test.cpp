// Convolutions on the CPU: weights that are used as stored in a file, and fusion into one launch.
#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/device.h"
#include "backend/cpu/launches/window_axis.h"
#include "weft/conformance.h"

namespace weft::cpu {
namespace {

TEST(WindowLaunches, WeightsNeedNotBePacked) {
  const auto device = make_device({.n_threads = 2, .repack = false});
  for (const char* const op : {"conv2d", "conv_transpose2d"}) {
    const std::vector<ConformanceCase> cases = check_conformance(*device, {.only = op});
    EXPECT_GT(cases.size(), 20U);
    for (const ConformanceCase& one : cases) EXPECT_TRUE(one.passed()) << to_table(cases);
  }
}

TEST(WindowLaunches, AnActivationIsPartOfTheConvolution) {
  Graph g;
  const Value x = g.input("x", {1, 3, 9, 9}), w = g.weight("w", {4, 3, 3, 3});
  const Value turned = g.weight("turned", {4, 5, 2, 2});
  const Value y = g.output("y", gelu(conv_transpose2d(relu(conv2d(x, w)), turned)));
  const auto device = make_device({.n_threads = 2});
  const std::vector<float> weight(180, 0.5f), other(80, 1.0f);
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  Bindings bindings(g.values().size(), nullptr);
  const auto bind = [&](Value value, std::unique_ptr<DeviceTensor> tensor) {
    bindings[static_cast<std::size_t>(value.id())] = tensor.get();
    tensors.push_back(std::move(tensor));
  };
  const std::int64_t sizes[] = {4, 3, 3, 3}, turned_sizes[] = {4, 5, 2, 2};
  bind(w, device->create_weight(DType::kF32, sizes, {std::as_bytes(std::span(weight).first(108)), {}}));
  bind(turned, device->create_weight(DType::kF32, turned_sizes, {std::as_bytes(std::span(other)), {}}));
  bind(x, device->create_host_tensor(DType::kF32, std::vector<std::int64_t>{1, 3, 9, 9}));
  bind(y, device->create_host_tensor(DType::kF32, std::vector<std::int64_t>{1, 5, 8, 8}));
  const auto plan = device->compile(g, bindings, {});
  EXPECT_EQ(plan->n_launches(), 2) << plan->describe();
}

TEST(WindowLaunches, BlocksHoldWhatWindowsRead) {
  // Windows that overlap are one band of rows, or one of columns for each remainder.
  const WindowAxis near = convolution_axis(3, 2, 1, 1);
  EXPECT_EQ(lay_out_rows(near, 5).bands.size(), 1U);
  EXPECT_EQ(lay_out_rows(near, 5).size, 11);
  EXPECT_EQ(lay_out_rows(near, 5).advance, 2);
  EXPECT_EQ(lay_out_columns(near, 5).bands.size(), 2U);
  EXPECT_EQ(lay_out_columns(near, 5).positions, (std::vector<std::int64_t>{0, 6, 1}));
  // Of those far apart each tap has a band.
  for (const WindowAxis& far : {convolution_axis(3, 1, 1, 1000), convolution_axis(3, 1000, 1, 1)})
    for (const WindowLayout& layout : {lay_out_rows(far, 5), lay_out_columns(far, 5)}) {
      EXPECT_EQ(layout.bands.size(), 3U);
      EXPECT_EQ(layout.size, 15);
      EXPECT_EQ(layout.advance, 1);
      EXPECT_EQ(layout.bands[2].offset, far.offsets[2]);
      EXPECT_EQ(layout.positions[2], 10);
    }
  for (const WindowAxis& axis : {near, convolution_axis(4, 7, 0, 3)})
    for (std::int64_t n = 1; n < 40; ++n) {
      EXPECT_EQ(size_of_rows(axis, n), lay_out_rows(axis, n).size);
      EXPECT_EQ(size_of_columns(axis, n), lay_out_columns(axis, n).size);
      EXPECT_LE(size_of_rows(axis, n), size_of_rows(axis, n + 1));
      EXPECT_LE(size_of_columns(axis, n), size_of_columns(axis, n + 1));
    }
}

TEST(WindowLaunches, TransposedWindowsTakeEachTapOnce) {
  for (const std::int64_t stride : {1, 2, 3, 5})
    for (const std::int64_t dilation : {1, 2, 3}) {
      std::vector<bool> taken(4);
      for (const WindowAxis& axis : transposed_axes(4, stride, 2, dilation))
        for (std::size_t i = 0; i < axis.taps.size(); ++i) {
          const auto tap = static_cast<std::size_t>(axis.taps[i]);
          EXPECT_FALSE(taken[tap]);
          taken[tap] = true;
          // The first result, and where its element goes with this tap.
          const std::int64_t element = axis.origin + axis.offsets[i];
          EXPECT_EQ(element * stride - 2 + axis.taps[i] * dilation, axis.out_first);
        }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), true), 4);
    }
}

}  // namespace
}  // namespace weft::cpu
