// Ops over windows of images give PyTorch's results (scripts/make_torch_vectors.py).
#include "plan/vectors.h"

namespace weft {
namespace {

using test::Make;
using test::Numbers;
using test::Values;

HeightWidth pair(const Numbers& p, std::size_t i) { return {p.at(i), p.at(i + 1)}; }

const std::map<std::string, Make>& torch_functions() {
  static const std::map<std::string, Make> table = {
      {"conv2d",
       [](const Values& in, const Numbers& p) {
         return conv2d(
             in[0], in[1], in[2],
             {.stride = pair(p, 0), .padding = pair(p, 2), .dilation = pair(p, 4), .groups = p.at(6)});
       }},
      {"conv_transpose2d",
       [](const Values& in, const Numbers& p) {
         return conv_transpose2d(in[0], in[1], in[2],
                                 {.stride = pair(p, 0),
                                  .padding = pair(p, 2),
                                  .output_padding = pair(p, 4),
                                  .dilation = pair(p, 6),
                                  .groups = p.at(8)});
       }},
      {"max_pool2d", [](const Values& in,
                        const Numbers& p) { return max_pool2d(in[0], pair(p, 0), pair(p, 2), pair(p, 4)); }},
      {"avg_pool2d",
       [](const Values& in, const Numbers& p) {
         return avg_pool2d(in[0], pair(p, 0), pair(p, 2), pair(p, 4), p.at(6) != 0);
       }},
      {"resize_nearest",
       [](const Values& in, const Numbers& p) { return resize_nearest(in[0], p.at(0), p.at(1)); }},
      {"upsample_nearest",
       [](const Values& in, const Numbers& p) { return upsample_nearest(in[0], pair(p, 0)); }},
      {"resize_bilinear",
       [](const Values& in, const Numbers& p) {
         return resize_bilinear(in[0], p.at(0), p.at(1), p.at(2) != 0);
       }},
      {"upsample_bilinear",
       [](const Values& in, const Numbers& p) { return upsample_bilinear(in[0], pair(p, 0), p.at(2) != 0); }},
      {"batch_norm",
       [](const Values& in, const Numbers&) { return batch_norm(in[0], in[1], in[2], in[3], in[4]); }},
      {"group_norm",
       [](const Values& in, const Numbers& p) { return group_norm(in[0], p.at(0), in[1], in[2]); }},
  };
  return table;
}

constexpr double kTolerance = 1e-5;  // For long sums, which PyTorch also computes in floats.

TEST(Torch, EveryCase) {
  const std::vector<test::VectorCase> cases = test::read_cases(WEFT_TEST_DATA "/torch/cases.txt");
  ASSERT_GT(cases.size(), 50U);
  test::check_cases(cases, torch_functions(),
                    {.tolerance = kTolerance,
                     .is_weight = [](const test::VectorCase&, std::size_t operand) { return operand > 0; }});
}

TEST(Torch, EveryCaseWhoseKernelMayBeAValue) {
  std::vector<test::VectorCase> cases = test::read_cases(WEFT_TEST_DATA "/torch/cases.txt");
  std::erase_if(cases, [](const test::VectorCase& c) { return c.name == "conv_transpose2d"; });
  ASSERT_GT(cases.size(), 50U);
  test::check_cases(cases, torch_functions(), {.tolerance = kTolerance});
}

}  // namespace
}  // namespace weft
