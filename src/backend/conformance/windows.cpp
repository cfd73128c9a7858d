// Cases of ops over windows of images.
#include <vector>

#include "backend/conformance/general_operands.h"
#include "backend/conformance/window_truth.h"

namespace weft::conformance::cases {
namespace {

/// How the weight of a convolution comes.
enum class Source : std::uint8_t { kFloats, kHalves, kValue };

struct Layer {
  std::int64_t channels, outputs;
  HeightWidth kernel, size;
};

Known weight_of(Case& c, Operands& make, Source source, const std::vector<std::int64_t>& sizes) {
  if (source == Source::kValue) return make.plain(sizes);
  Known weight;
  weight.shape = Shape(std::span<const std::int64_t>(sizes));
  weight.tensor = Tensor(Sizes(sizes.begin(), sizes.end()));
  weight.tensor.values = c.floats(weight.shape);
  weight.id =
      c.weight(source == Source::kHalves ? DType::kF16 : DType::kF32, weight.shape, weight.tensor.values);
  return weight;
}

/// x {m, c, h, w}, whose number of images is a symbol, with a weight and a bias.
template <typename T, typename F>
void one_convolution(Suite& suite, const T& op, const Layer& layer, const std::vector<std::int64_t>& kernels,
                     std::int64_t m, Source source, bool with_bias, bool edges, F truth) {
  Case c = suite.next();
  Operands make(c, m);
  const std::vector<std::int64_t> sizes = {kRows, layer.channels, layer.size.h, layer.size.w};
  const Known x = edges ? make.edgy(sizes, false) : make.plain(sizes);
  const Known weight = weight_of(c, make, source, kernels);
  std::vector<ValueId> inputs = {x.id, weight.id};
  Values bias;
  if (with_bias) {
    bias = c.floats({layer.outputs});
    inputs.push_back(source == Source::kValue ? c.input({layer.outputs}, bias)
                                              : c.weight(DType::kF32, {layer.outputs}, bias));
  }
  c.expect(c.graph.add(op, inputs, "y"), truth(op, x.tensor, weight.tensor, bias).values);
  constexpr const char* kSources[] = {"", " f16", " value"};
  suite.take(c,
             text_of(x) + " by " + text_of(weight) + " groups " + std::to_string(op.groups) + " stride " +
                 std::to_string(op.stride.h) + "," + std::to_string(op.stride.w) + " padded " +
                 std::to_string(op.padding.h) + "," + std::to_string(op.padding.w) + " dilated " +
                 std::to_string(op.dilation.h) + "," + std::to_string(op.dilation.w) +
                 kSources[static_cast<int>(source)] + (with_bias ? " + bias" : "") + (edges ? " edges" : ""),
             kProductTolerance);
}

struct Convolution {
  Layer layer;
  ops::Conv2d op;
};
const Convolution kConvolutions[] = {
    {{3, 64, 7, {31, 30}}, {.stride = 2, .padding = 3}},
    {{5, 33, 3, {9, 17}}, {.padding = 1}},
    {{40, 50, 1, {7, 9}}, {}},
    {{40, 16, 1, {8, 9}}, {.stride = {2, 3}}},
    {{6, 40, {3, 5}, {12, 40}}, {.stride = {1, 2}, .padding = {0, 4}, .dilation = {2, 1}}},
    {{4, 3, 3, {20, 70}}, {.padding = 1}},
    {{9, 9, 3, {14, 37}}, {.padding = 1, .groups = 9}},
    {{7, 7, 5, {19, 20}}, {.padding = 2, .groups = 7}},
    {{3, 3, 7, {15, 15}}, {.padding = 3, .groups = 3}},
    {{8, 16, 3, {11, 12}}, {.stride = 2, .padding = 1, .groups = 8}},
    {{6, 6, 3, {40, 41}}, {.padding = 9, .dilation = 9, .groups = 6}},
    {{12, 54, 3, {8, 8}}, {.padding = 1, .groups = 3}},
    {{10, 30, {1, 3}, {1, 60}}, {.padding = {0, 2}, .dilation = {1, 2}, .groups = 5}},
    {{4, 20, {2, 4}, {5, 6}}, {.padding = {3, 5}}},
    {{2, 17, 3, {3, 300}}, {.stride = {1, 1}, .dilation = {1, 100}}},
    {{600, 18, 3, {5, 6}}, {.padding = 1}},
};

void convolutions(Suite& suite) {
  if (!suite.wanted("conv2d")) return;
  for (const Convolution& one : kConvolutions) {
    const Layer& layer = one.layer;
    const std::vector<std::int64_t> kernels = {layer.outputs, layer.channels / one.op.groups, layer.kernel.h,
                                               layer.kernel.w};
    for (const Source source : {Source::kFloats, Source::kHalves, Source::kValue})
      for (const std::int64_t m : {0, 1, 3})
        one_convolution(suite, one.op, layer, kernels, m, source, m != 1, source == Source::kFloats && m == 3,
                        conv2d);
  }
}

struct Transposed {
  Layer layer;
  ops::ConvTranspose2d op;
};
const Transposed kTransposed[] = {
    {{5, 20, 3, {7, 9}}, {.stride = 2, .padding = 1, .output_padding = 1}},
    {{33, 40, 4, {5, 6}}, {.stride = 2, .padding = 1}},
    {{4, 6, 2, {6, 20}}, {.stride = 2}},
    {{6, 6, 3, {9, 8}}, {.stride = {1, 3}, .padding = {2, 0}, .groups = 6}},
    {{8, 34, {3, 2}, {6, 7}}, {.stride = {2, 1}, .padding = {3, 0}, .output_padding = {1, 0}, .groups = 2}},
    {{3, 17, 3, {5, 5}}, {.stride = {3, 2}, .padding = 1, .output_padding = {2, 2}, .dilation = {2, 3}}},
    {{3, 4, 1, {5, 5}}, {.stride = 3}},
    {{4, 5, {1, 5}, {1, 30}}, {.stride = {1, 4}, .padding = {0, 2}}},
};

void transposed_convolutions(Suite& suite) {
  if (!suite.wanted("conv_transpose2d")) return;
  for (const Transposed& one : kTransposed) {
    const Layer& layer = one.layer;
    const std::vector<std::int64_t> kernels = {layer.channels, layer.outputs / one.op.groups, layer.kernel.h,
                                               layer.kernel.w};
    for (const Source source : {Source::kFloats, Source::kHalves})
      for (const std::int64_t m : {0, 1, 3})
        one_convolution(suite, one.op, layer, kernels, m, source, m != 1, false, conv_transpose2d);
  }
}

void pools(Suite& suite) {
  if (!suite.wanted("pool2d")) return;
  const ops::Pool2d kPools[] = {
      {.kernel = 2, .stride = 2},
      {.kernel = 3, .stride = 2, .padding = 1},
      {.kernel = 3, .stride = 1, .padding = 1},
      {.kernel = {1, 5}, .stride = {1, 7}, .padding = {0, 2}},
      {.kernel = {4, 3}, .stride = {3, 1}, .padding = {2, 1}},
      {.kernel = 1, .stride = 3},
  };
  for (ops::Pool2d op : kPools)
    for (const int how : {0, 1, 2})
      for (const HeightWidth size : {HeightWidth(5, 6), HeightWidth(13, 40), HeightWidth(4, 5)})
        for (const std::int64_t m : {0, 1, 3})
          for (const bool edges : {false, true}) {
            op.kind = how == 0 ? PoolKind::kMax : PoolKind::kMean;
            op.count_padding = how != 2;
            Case c = suite.next();
            Operands make(c, m);
            const std::vector<std::int64_t> sizes = {kRows, 3, size.h, size.w};
            const Known x = edges ? make.edgy(sizes, false) : make.plain(sizes);
            c.expect(c.graph.add(op, {x.id}, "y"), pool2d(op, x.tensor).values);
            suite.take(c,
                       text_of(x) + " by " + std::to_string(op.kernel.h) + "," + std::to_string(op.kernel.w) +
                           " stride " + std::to_string(op.stride.h) + "," + std::to_string(op.stride.w) +
                           " padded " + std::to_string(op.padding.h) + "," + std::to_string(op.padding.w) +
                           (how == 0 ? " max" : " mean") + (how == 2 ? " of what is inside" : "") +
                           (edges ? " edges" : ""),
                       how == 0 ? 0.0 : kFloatTolerance);
          }
}

void resizes(Suite& suite) {
  if (!suite.wanted("resize2d")) return;
  for (const HeightWidth from : {HeightWidth(1, 1), HeightWidth(4, 5), HeightWidth(7, 30)})
    for (const HeightWidth to :
         {HeightWidth(1, 1), HeightWidth(8, 10), HeightWidth(3, 47), HeightWidth(7, 30), HeightWidth(21, 2)})
      for (const int how : {0, 1, 2})
        for (const std::int64_t m : {0, 1, 3})
          for (const bool edges : {false, true}) {
            const ops::Resize2d op = {how == 0 ? ResizeKind::kNearest : ResizeKind::kBilinear, to.h, to.w,
                                      how == 2};
            Case c = suite.next();
            Operands make(c, m);
            const std::vector<std::int64_t> sizes = {kRows, 2, from.h, from.w};
            const Known x = edges ? make.edgy(sizes, false) : make.plain(sizes);
            c.expect(c.graph.add(op, {x.id}, "y"), resize2d(op, x.tensor).values);
            suite.take(c,
                       text_of(x) + " to " + std::to_string(to.h) + "," + std::to_string(to.w) +
                           (how == 0 ? " nearest" : " bilinear") + (how == 2 ? " by corners" : "") +
                           (edges ? " edges" : ""),
                       how == 0 ? 0.0 : kFloatTolerance);
          }
}

}  // namespace

void windows(Suite& suite) {
  convolutions(suite);
  transposed_convolutions(suite);
  pools(suite);
  resizes(suite);
}

}  // namespace weft::conformance::cases
