// Models of every family against PyTorch's logits, and against themselves cut into other pieces: bit by bit.
// Some of them by every instruction set: the tests of kernels show that an op does not depend on the family.
#include <algorithm>

#include "engine/families_tried.h"
#include "engine/test_support.h"

namespace weft {
namespace {

using test::all_logits;

class Golden : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path dir() const { return test::golden_dir() / GetParam(); }
  double difference(const std::vector<float>& logits) const {
    const std::vector<float> reference = test::read_floats(dir() / "logits.f32");
    EXPECT_EQ(logits.size(), reference.size());
    return test::nmse(logits, reference);
  }
};

ContextParams f32_cache(int n_ctx, int n_threads) {
  return {.n_ctx = n_ctx, .n_threads = n_threads, .k_type = CacheType::kF32, .v_type = CacheType::kF32};
}

TEST_P(Golden, LogitsAreThoseOfPyTorchAndTheSameInAnyPieces) {
  const std::vector<Token> tokens = test::read_tokens(dir() / "tokens.json");
  const auto model = Model::load(dir() / "model.gguf");
  std::vector<float> first;
  for (const auto& [n_threads, piece] :
       {std::pair(1, tokens.size()), std::pair(2, std::size_t{7}), std::pair(1, std::size_t{1})}) {
    Context context(model, f32_cache(128, n_threads));
    const std::vector<float> logits = all_logits(context, tokens, piece);
    if (first.empty()) {
      first = logits;
      EXPECT_LE(difference(logits), 1e-6);
    }
    EXPECT_TRUE(logits == first) << "pieces of " << piece << ", " << n_threads << " threads";
    EXPECT_EQ(context.plan_stats().compiled, 1);
  }
}

TEST_P(Golden, OtherSequencesChangeNothing) {
  const std::vector<Token> tokens = test::read_tokens(dir() / "tokens.json");
  const auto model = Model::load(dir() / "model.gguf");
  Context alone(model, {.n_ctx = 128});
  const std::vector<float> expected = all_logits(alone, tokens, 5);

  // Three shifted sequences in one cache, interleaved token by token within each batch.
  Context together(model, {.n_ctx = 256, .n_sequences = 3, .n_ubatch = 32});
  std::vector<float> logits;
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Batch batch;
    batch.add(tokens[(t + 5) % tokens.size()], 1, {.logits = true});
    batch.add(tokens[t], 0, {.logits = true});
    if (t % 2 == 0) {
      batch.add(tokens[t / 2], 2);
      batch.add(tokens[(t + 9) % tokens.size()], 2, {.logits = true});
    }
    ASSERT_EQ(together.decode(batch), DecodeStatus::kOk);
    const auto row = together.logits(1);
    logits.insert(logits.end(), row.begin(), row.end());
    if (t == 20) together.cache().remove(2);
  }
  ASSERT_EQ(logits.size(), tokens.size() * n_vocab);
  EXPECT_TRUE(logits == expected);
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(test::kFamilies), test::name_of_family);

class GoldenOfInstructionSets : public Golden {};

TEST_P(GoldenOfInstructionSets, LogitsAreThoseOfPyTorchAndTheSameInAnyPieces) {
  const std::vector<Token> tokens = test::read_tokens(dir() / "tokens.json");
  int n_sets = 0;
  for (const CpuIsa isa : test::kInstructionSets) {
    std::shared_ptr<const Model> model;
    try {
      model = Model::load(dir() / "model.gguf", {.isa = isa});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      continue;  // This machine lacks the instruction set.
    }
    ++n_sets;
    std::vector<float> first;
    for (const int n_threads : {1, 2})
      for (const std::size_t piece : {tokens.size(), std::size_t{7}, std::size_t{1}}) {
        Context context(model, f32_cache(128, n_threads));
        const std::vector<float> logits = all_logits(context, tokens, piece);
        if (first.empty()) {
          first = logits;
          EXPECT_LE(difference(logits), 1e-6) << "instruction set " << static_cast<int>(isa);
        }
        EXPECT_TRUE(logits == first) << "pieces of " << piece << ", " << n_threads << " threads";
      }
  }
  EXPECT_GT(n_sets, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenOfInstructionSets, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

}  // namespace
}  // namespace weft
