// However weights come to the CPU (packed, mapped from the cache of packed ones, as they lie in the file),
// the logits are the same bits.
#include <unistd.h>

#include "engine/test_support.h"

namespace weft {
namespace {

class Weights : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("weft-weights-" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder);
    tokens = test::read_tokens(test::golden_dir() / GetParam() / "tokens.json");
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::vector<float> logits(const ModelParams& params, bool mapped, std::size_t piece) const {
    const auto model = Model::load(test::golden_dir() / GetParam() / "model.gguf", params);
    EXPECT_EQ(model->info().weights_mapped, mapped);
    Context context(model, {.n_ctx = 256});
    return test::all_logits(context, tokens, piece);
  }

  std::filesystem::path folder;
  std::vector<Token> tokens;
};

TEST_P(Weights, GiveTheSameBitsHoweverTheyAreHeld) {
  const std::vector<float> expected = logits({}, false, 16);
  EXPECT_TRUE(logits({.repack = false}, true, 16) == expected);
  EXPECT_TRUE(logits({.repack = false}, true, 1) == expected);
  EXPECT_TRUE(logits({.pack_cache = folder}, false, 16) == expected) << "the start that writes";
  EXPECT_TRUE(logits({.pack_cache = folder}, true, 16) == expected) << "the start that maps";
  EXPECT_TRUE(logits({.isa = CpuIsa::kGeneric, .pack_cache = folder}, true, 5) ==
              logits({.isa = CpuIsa::kGeneric}, false, 16))
      << "one layout for all instruction sets";
}

INSTANTIATE_TEST_SUITE_P(Families, Weights, testing::Values("gemma3", "gpt2", "llama", "mamba2", "qwen3moe"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(Weights, TakeWhatInspectionSays) {
  const std::filesystem::path path = test::golden_dir() / GetParam() / "model.gguf";
  const std::optional<ModelInfo> info = inspect(path).model;
  ASSERT_TRUE(info);
  EXPECT_GT(info->weight_bytes, 0);
  EXPECT_EQ(info->weight_bytes, Model::load(path)->info().weight_bytes);
}

// Cut while they load: after the first weight there is an error to come, and no end of the process.
TEST_P(Weights, OfAFileThatIsCutMeanwhileAreAnError) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path path = folder / "model.gguf";
  for (const bool keep : {false, true}) {
    std::filesystem::copy_file(test::golden_dir() / GetParam() / "model.gguf", path,
                               std::filesystem::copy_options::overwrite_existing);
    ModelParams params;
    if (keep) params.pack_cache = folder / "packed";
    params.progress = [&](float) {
      std::filesystem::resize_file(path, 4096);
      return true;
    };
    try {
      Model::load(path, params);
      ADD_FAILURE() << "loaded from a file that is gone";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo) << error.what();
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
    EXPECT_TRUE(!std::filesystem::exists(folder / "packed") || std::filesystem::is_empty(folder / "packed"))
        << "nothing of half a model is kept";
  }
}

TEST(WeightsOfRealModels, AreMappedTheSecondTime) {
  const auto path = test::cached_model(test::kGemma3);
  if (!path) GTEST_SKIP() << "no " << test::kGemma3 << " in the model cache";
  const auto folder =
      std::filesystem::temp_directory_path() / ("weft-weights-real-" + std::to_string(::getpid()));
  const std::vector<Token> tokens = {2, 651, 1295, 235, 17, 9000, 5, 77};
  std::vector<float> expected;
  for (const bool mapped : {false, true}) {
    const auto model = Model::load(*path, {.pack_cache = folder});
    EXPECT_EQ(model->info().weights_mapped, mapped);
    Context context(model, {.n_ctx = 64});
    const std::vector<float> logits = test::all_logits(context, tokens, 8);
    if (mapped) {
      EXPECT_TRUE(logits == expected);
    } else {
      expected = logits;
    }
  }
  const auto model = Model::load(*path, {.repack = false});
  Context context(model, {.n_ctx = 64});
  EXPECT_TRUE(test::all_logits(context, tokens, 8) == expected);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
