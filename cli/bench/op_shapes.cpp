#include "bench/op_shapes.h"

#include <fmt/format.h>

#include <cmath>

namespace weft::cli {
namespace {

using Sizes = std::vector<std::int64_t>;

Shape shape_of(const Sizes& sizes) { return Shape(std::span<const std::int64_t>(sizes)); }

OpShape linear(DType dtype, std::int64_t rows) {
  constexpr std::int64_t kIn = 2048, kOut = 8192;  // A feed-forward layer.
  return {"linear",
          std::string(info(dtype).name),
          {rows, kIn, kOut},
          fmt::format("{} x {} -> {}", rows, kIn, kOut),
          [=](Graph& g) { return linear(g.input("x", {rows, kIn}), g.weight("w", dtype, {kOut, kIn})); },
          static_cast<double>(rows * kIn * kOut)};
}

/// {batch, m, k} times {batch, k, n}, or times the transpose of {batch, n, k}.
OpShape products(const char* op, std::int64_t batch, std::int64_t m, std::int64_t k, std::int64_t n) {
  const bool transposed = std::string(op) == "matmul_nt";
  return {op,
          "f32",
          {batch, m, k, n},
          fmt::format("{} x {} x {} x {}", batch, m, k, n),
          [=](Graph& g) {
            const Value a = g.input("a", {batch, m, k});
            return transposed ? matmul(a, transpose(g.input("b", {batch, n, k})))
                              : matmul(a, g.input("b", {batch, k, n}));
          },
          static_cast<double>(batch * m * k * n)};
}

OpShape conv1d(std::int64_t times, std::int64_t in, std::int64_t out, std::int64_t stride) {
  constexpr std::int64_t kKernel = 3, kPadding = 1;
  return {"conv1d",
          "f32",
          {times, in, out, kKernel, stride, kPadding},
          fmt::format("{} x {} -> {}, 3 wide, step {}", times, in, out, stride),
          [=](Graph& g) {
            return conv1d_channels_last(g.input("x", {times, in}), g.weight("w", {out, kKernel * in}),
                                        g.weight("bias", {out}), kKernel, stride, kPadding);
          },
          static_cast<double>(times / stride * in * out * kKernel)};
}

/// Square images, padded so that a stride of 1 keeps their size.
OpShape conv2d(std::int64_t size, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
               std::int64_t groups = 1) {
  const std::int64_t padding = kernel / 2, out_size = (size + 2 * padding - kernel) / stride + 1;
  return {groups == 1 ? "conv2d" : "conv2d_depthwise",
          "f32",
          {size, in, out, kernel, stride, padding, groups},
          fmt::format("{} x {}, {} -> {}, {} x {}, step {}", size, size, in, out, kernel, kernel, stride),
          [=](Graph& g) {
            return conv2d(g.input("x", {1, in, size, size}),
                          g.weight("w", {out, in / groups, kernel, kernel}), g.weight("bias", {out}),
                          {.stride = stride, .padding = padding, .groups = groups});
          },
          static_cast<double>(out_size * out_size * out * in / groups * kernel * kernel)};
}

/// {1, heads, rows, head_dim} and as many keys.
OpShape dense_attention(std::int64_t rows, std::int64_t heads, std::int64_t head_dim) {
  return {"attention",
          "f32",
          {rows, rows, heads, head_dim},
          fmt::format("{} x {}, {} heads of {}", rows, rows, heads, head_dim),
          [=](Graph& g) {
            const Shape shape = {1, heads, rows, head_dim};
            return scaled_dot_product_attention(g.input("q", shape), g.input("k", shape),
                                                g.input("v", shape));
          },
          static_cast<double>(2 * rows * rows * heads * head_dim)};
}

OpShape attention(std::int64_t rows, std::int64_t keys, std::int64_t heads, std::int64_t head_dim) {
  const std::int64_t width = heads * head_dim;
  return {"ragged_attention",
          "f32",
          {rows, keys, heads, head_dim},
          fmt::format("{} x {}, {} heads of {}", rows, keys, heads, head_dim),
          [=](Graph& g) {
            return ragged_attention(g.input("q", {rows, width}), g.input("k", {keys, width}),
                                    g.input("v", {keys, width}), g.input("begins", {rows}, DType::kI32),
                                    g.input("ends", {rows}, DType::kI32), static_cast<int>(heads));
          },
          static_cast<double>(2 * rows * keys * width),
          {{"begins", 0}, {"ends", static_cast<std::int32_t>(keys)}}};
}

/// An op of one operand, or two, whose limit is memory.
OpShape of_one(const char* op, const Sizes& sizes, const std::function<Value(Value)>& f) {
  return {op, "f32", sizes, fmt::format("{}", fmt::join(sizes, " x ")),
          [=](Graph& g) { return f(g.input("x", shape_of(sizes))); }};
}
OpShape add(const char* op, const Sizes& a, const Sizes& b) {
  return {op, "f32", a, fmt::format("{} + {}", fmt::join(a, " x "), fmt::join(b, " x ")),
          [=](Graph& g) { return g.input("a", shape_of(a)) + g.input("b", shape_of(b)); }};
}

}  // namespace

std::vector<OpShape> op_shapes() {
  std::vector<OpShape> shapes;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kQ8_0, DType::kQ4_K})
    for (const std::int64_t rows : {1, 32, 512}) shapes.push_back(linear(dtype, rows));
  shapes.push_back(products("matmul", 1, 1024, 1024, 1024));
  shapes.push_back(products("matmul_nt", 12, 512, 64, 512));
  shapes.push_back(products("matmul", 12, 512, 512, 64));
  shapes.push_back(conv1d(3000, 80, 384, 1));
  shapes.push_back(conv1d(3000, 384, 384, 2));
  shapes.push_back(conv2d(56, 64, 64, 3, 1));
  shapes.push_back(conv2d(56, 64, 256, 1, 1));
  shapes.push_back(conv2d(224, 3, 64, 7, 2));
  shapes.push_back(conv2d(112, 96, 96, 3, 1, 96));
  shapes.push_back(attention(512, 512, 12, 64));
  shapes.push_back(dense_attention(512, 12, 64));
  shapes.push_back(of_one("softmax", {4096, 1024}, [](Value x) { return softmax(x); }));
  shapes.push_back(of_one("layer_norm", {4096, 768}, [](Value x) {
    Graph& g = x.graph();
    return layer_norm(x, g.weight("weight", {768}), g.weight("bias", {768}));
  }));
  shapes.push_back(of_one("gelu", {4096, 3072}, [](Value x) { return gelu(x); }));
  shapes.push_back(of_one("gelu_tanh", {4096, 3072}, [](Value x) { return gelu_tanh(x); }));
  shapes.push_back(of_one("exp", {4096, 3072}, [](Value x) { return exp(x); }));
  shapes.push_back(add("add", {4096, 3072}, {4096, 3072}));
  shapes.push_back(add("add_row", {4096, 3072}, {3072}));
  shapes.push_back(add("add_column", {4096, 3072}, {4096, 1}));
  shapes.push_back(of_one("sum_rows", {4096, 3072}, [](Value x) { return sum(x, {1}); }));
  shapes.push_back(of_one("sum_columns", {4096, 3072}, [](Value x) { return sum(x, {0}); }));
  shapes.push_back(of_one("argmax", {4096, 3072}, [](Value x) { return argmax(x, 1); }));
  shapes.push_back(of_one("permute", {512, 12, 256}, [](Value x) { return permute(x, {1, 0, 2}); }));
  shapes.push_back(of_one("transpose", {2048, 2048}, [](Value x) { return transpose(x); }));
  return shapes;
}

}  // namespace weft::cli
