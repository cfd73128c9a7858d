// The types of cached keys and values: how near they come to F32, and that nothing else changes with them.
#include "engine/test_support.h"
#include "weft/error.h"

namespace weft {
namespace {

using test::all_logits;

std::string name_of(CacheType type) {
  constexpr const char* kNames[] = {"auto", "f32",  "f16",  "bf16", "q8_0",
                                    "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"};
  return kNames[static_cast<int>(type)];
}

class CacheTypes : public testing::TestWithParam<std::pair<CacheType, double>> {
 protected:
  void SetUp() override {
    const auto dir = test::golden_dir() / "gemma3";
    model = Model::load(dir / "model.gguf");
    tokens = test::read_tokens(dir / "tokens.json");
    params.k_type = params.v_type = GetParam().first;
  }
  std::span<const Token> text(std::size_t begin, std::size_t n) const {
    return std::span(tokens).subspan(begin, n);
  }

  std::shared_ptr<const Model> model;
  std::vector<Token> tokens;
  ContextParams params = {.n_ctx = 256, .n_sequences = 3};
};

TEST_P(CacheTypes, ComeNearToF32) {
  ContextParams exact = params;
  exact.k_type = exact.v_type = CacheType::kF32;
  Context reference(model, exact), context(model, params);
  const std::vector<float> expected = all_logits(reference, tokens, 16);
  EXPECT_LE(test::nmse(all_logits(context, tokens, 16), expected), GetParam().second);
}

TEST_P(CacheTypes, AnyPieceGivesTheSameBits) {
  Context context(model, params);
  const std::vector<float> expected = all_logits(context, tokens, tokens.size());
  EXPECT_TRUE(all_logits(context, tokens, 1, 1) == expected);
  EXPECT_TRUE(all_logits(context, tokens, 7, 2) == expected);
}

TEST_P(CacheTypes, CopiesPartAndGoOn) {
  Context context(model, params);
  const std::vector<float> expected = all_logits(context, tokens, 16);
  context.cache().remove(0, 30);
  ASSERT_TRUE(context.cache().copy(0, 1));
  const std::vector<float> rest = all_logits(context, text(30, 10), 3, 1);
  EXPECT_TRUE(
      std::equal(rest.begin(), rest.end(), expected.begin() + std::ptrdiff_t{30} * model->info().n_vocab));
  EXPECT_TRUE(all_logits(context, text(30, 10), 4, 0) == rest);
}

TEST_P(CacheTypes, AShiftThereAndBackStaysNear) {
  Context context(model, params);
  const std::vector<float> expected = all_logits(context, tokens, 16);
  context.cache().remove(0, 40);
  ASSERT_TRUE(context.cache().shift(0, 0, -1, 37));
  ASSERT_TRUE(context.cache().shift(0, 0, -1, -37));
  const std::vector<float> rest = all_logits(context, std::span(tokens).subspan(40), 3);
  const std::size_t at = 40 * static_cast<std::size_t>(model->info().n_vocab);
  // Keys are stored twice more.
  EXPECT_LE(test::nmse(rest, std::span(expected).subspan(at)), 4 * GetParam().second + 1e-9);
}

TEST_P(CacheTypes, AShiftedSequenceGoesOnAsIfComputedThere) {
  const std::size_t at = 40 * static_cast<std::size_t>(model->info().n_vocab);
  for (const bool rotate : {true, false}) {
    params.rotate_cache = rotate;
    Context context(model, params);
    const std::vector<float> expected = all_logits(context, tokens, 16);  // RoPE is relative.
    context.cache().remove(0, 40);
    ASSERT_TRUE(context.cache().shift(0, 0, -1, 137));
    const std::vector<float> rest = all_logits(context, std::span(tokens).subspan(40), 3);
    EXPECT_LE(test::nmse(rest, std::span(expected).subspan(at)), 2 * GetParam().second + 1e-9) << rotate;
  }
}

TEST_P(CacheTypes, StatesFitCachesWithTheSameRotation) {
  Context context(model, params);
  const std::vector<float> expected = all_logits(context, tokens, 16);
  context.cache().remove(0, 40);
  const std::vector<std::byte> state = context.save(0);
  Context same(model, params);
  ASSERT_TRUE(same.restore(state, 0));
  const std::vector<float> rest = all_logits(same, std::span(tokens).subspan(40), 3);
  EXPECT_TRUE(
      std::equal(rest.begin(), rest.end(), expected.begin() + std::ptrdiff_t{40} * model->info().n_vocab));
  params.rotate_cache = false;
  Context plain(model, params);
  if (context.params().k_type < CacheType::kQ8_0) {
    EXPECT_TRUE(plain.restore(state, 0));  // Never rotated.
  } else {
    EXPECT_THROW((void)plain.restore(state, 0), Error);
  }
}

TEST_P(CacheTypes, OnlyQuantisedOnesAreRotated) {
  Context rotated(model, params);
  params.rotate_cache = false;
  Context plain(model, params);
  const bool same = all_logits(rotated, tokens, 16) == all_logits(plain, tokens, 16);
  EXPECT_EQ(same, params.k_type < CacheType::kQ8_0);
}

TEST(CacheTypesOfWindows, HeadsOfWindowsMustFitToo) {
  const auto model =
      Model::load(test::golden_dir() / "gemma4" / "model.gguf");  // 32 elements, with windows 16.
  for (const bool keys : {true, false}) {
    ContextParams params = {.n_ctx = 64};
    (keys ? params.k_type : params.v_type) = CacheType::kQ8_0;
    try {
      const Context context(model, params);
      FAIL() << "heads of 16 elements have no whole block";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find("heads of 16 elements"), std::string::npos) << error.what();
    }
  }
  EXPECT_NO_THROW(Context(model, {.n_ctx = 64}));
}

INSTANTIATE_TEST_SUITE_P(All, CacheTypes,
                         testing::Values(std::pair{CacheType::kF32, 0.0}, std::pair{CacheType::kF16, 1e-6},
                                         std::pair{CacheType::kBF16, 1e-4}, std::pair{CacheType::kQ8_0, 4e-4},
                                         std::pair{CacheType::kQ4_0, 1e-1}, std::pair{CacheType::kQ4_1, 1e-1},
                                         std::pair{CacheType::kQ5_0, 3e-2}, std::pair{CacheType::kQ5_1, 3e-2},
                                         std::pair{CacheType::kIQ4_NL, 1e-1}),
                         [](const auto& tested) { return name_of(tested.param.first); });

}  // namespace
}  // namespace weft
