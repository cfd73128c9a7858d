// Models of every quantised type on a GPU compute what the same values give in F32 on the CPU.
#include "engine/typed_model.h"
#include "vulkan_test_support.h"

namespace weft {
namespace {

std::vector<float> logits_of(const std::shared_ptr<const Model>& model) {
  Context context(model, {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  std::vector<Token> tokens = test::read_tokens(test::golden_dir() / "llama" / "tokens.json");
  tokens.resize(std::min<std::size_t>(tokens.size(), 20));
  return test::all_logits(context, tokens, 19);  // Many rows, then one.
}

TEST(VulkanWeightTypes, ComputeWhatTheirValuesGiveInF32) {
  if (vulkan::backend().list().empty()) GTEST_SKIP() << test::kNoVulkan;
  const std::vector<DType> all = test::quantised_types();
  const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);  // A model has 23 matrices.
  for (const std::vector<DType>& types :
       {std::vector<DType>(all.begin(), half), std::vector<DType>(half, all.end())}) {
    const test::DraftFile packed(test::wide_llama(types, false));
    const std::vector<float> logits = logits_of(test::load_on_vulkan(packed.path()));
    const test::DraftFile plain(test::wide_llama(types, true));
    EXPECT_LT(test::nmse(logits, logits_of(Model::load(plain.path()))), 2e-3);
  }
}

}  // namespace
}  // namespace weft
