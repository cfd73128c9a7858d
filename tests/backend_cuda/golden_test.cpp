// Whole models by CUDA's kernels on an emulated GPU: against PyTorch's logits, and against themselves cut
// into other pieces, bit by bit.
#include "cuda_test_support.h"
#include "engine/families_tried.h"

namespace weft {
namespace {

class CudaGolden : public testing::TestWithParam<const char*> {};

TEST_P(CudaGolden, LogitsAreThoseOfPyTorchAndTheSameInAnyPieces) {
  const auto dir = test::golden_dir() / GetParam();
  const std::vector<Token> tokens = test::read_tokens(dir / "tokens.json");
  const std::vector<float> reference = test::read_floats(dir / "logits.f32");
  const auto model = test::load_on_cuda(dir / "model.gguf");
  std::vector<float> first;
  for (const std::size_t piece : {tokens.size(), std::size_t{7}, std::size_t{1}}) {
    Context context(model, {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
    const std::vector<float> logits = test::all_logits(context, tokens, piece);
    if (first.empty()) {
      first = logits;
      EXPECT_LE(test::nmse(logits, reference), 1e-6);
    }
    EXPECT_TRUE(logits == first) << "pieces of " << piece;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CudaGolden, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

}  // namespace
}  // namespace weft
