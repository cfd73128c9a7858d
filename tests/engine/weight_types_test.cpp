// Models of every quantised type compute the results of the same values in F32, except for the rounding of
// activations to eight bits.
#include <algorithm>

#include "engine/typed_model.h"

namespace weft {
namespace {

using test::quantised_types;
using test::wide_llama;

std::vector<float> logits_of(const test::Draft& draft, std::size_t piece) {
  const test::DraftFile file(draft);
  Context context(Model::load(file.path()),
                  {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  tokens.resize(std::min<std::size_t>(tokens.size(), 40));
  return test::all_logits(context, tokens, piece);
}

void expect_like_f32(const std::vector<DType>& types) {
  const test::Draft draft = wide_llama(types, false);
  const std::vector<float> logits = logits_of(draft, 40);
  EXPECT_LT(test::nmse(logits, logits_of(wide_llama(types, true), 40)), 2e-3);
  EXPECT_EQ(logits, logits_of(draft, 7));
}

class WeightTypes : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, WeightTypes, testing::ValuesIn(quantised_types()),
                         [](const auto& test) { return std::string(weft::info(test.param).name); });

TEST_P(WeightTypes, ComputeWhatTheirValuesGiveInF32) { expect_like_f32({GetParam()}); }

TEST(WeightTypesWithFactors, ComputeWhatTheirValuesGiveInF32) {
  test::Draft packed = wide_llama({DType::kNVFP4}, false), plain = wide_llama({DType::kNVFP4}, true);
  std::vector<test::Draft::Tensor> factors;
  for (test::Draft::Tensor& tensor : plain.tensors) {
    if (tensor.shape.size() == 1) continue;
    const float by = 0.7f + 0.1f * static_cast<float>(factors.size() % 5);
    factors.push_back({tensor.name.substr(0, tensor.name.rfind('.')) + ".scale", DType::kF32, {1}, {}});
    factors.back().fill([&] { return by; });
    auto* const values = reinterpret_cast<float*>(tensor.bytes.data());
    for (std::size_t i = 0; i < tensor.bytes.size() / sizeof(float); ++i) values[i] *= by;
  }
  packed.tensors.insert(packed.tensors.end(), factors.begin(), factors.end());
  const std::vector<float> logits = logits_of(packed, 40);
  EXPECT_LT(test::nmse(logits, logits_of(plain, 40)), 2e-3);
  EXPECT_EQ(logits, logits_of(packed, 7));
}

TEST(WeightTypesOfAFile, MayBeAll) { expect_like_f32(quantised_types()); }

}  // namespace
}  // namespace weft
