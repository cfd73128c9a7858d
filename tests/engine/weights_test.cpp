// However weights come to the CPU (packed, mapped from the cache of packed ones, as they lie in the file),
// the logits are the same bits.
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>

#include "engine/test_support.h"
#include "gguf/gguf.h"

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
    const auto model = Model::load(path, params);
    EXPECT_EQ(model->info().weights_mapped, mapped);
    Context context(model, {.n_ctx = 256});
    return test::all_logits(context, tokens, piece);
  }

  /// A copy of the model that may be changed.
  void copy_model() {
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(path, folder / "model.gguf");
    path = folder / "model.gguf";
  }
  std::vector<std::filesystem::path> packed_files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "packed"))
      files.push_back(entry.path());
    return files;
  }
  static std::vector<char> read(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// Changes a file in place: it keeps its size and, as far as it can be reset, its time.
  static void change(const std::filesystem::path& file, std::size_t at, std::span<const char> bytes) {
    const auto time = std::filesystem::last_write_time(file);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at))
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.close();
    std::filesystem::last_write_time(file, time);
  }

  std::filesystem::path path = test::golden_dir() / GetParam() / "model.gguf";
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

TEST_P(Weights, ThatWereChangedSincePackingArePackedAnew) {
  copy_model();
  const ModelParams kept = {.pack_cache = folder / "packed"};
  const std::vector<float> before = logits(kept, false, 16);
  EXPECT_TRUE(logits(kept, true, 16) == before);

  const std::vector<char> bytes = read(path);
  const gguf::File file = gguf::File::parse(std::as_bytes(std::span(bytes)));
  // Low bits of a matrix, where no sample is taken: in the middle between the first two of eight.
  // Not of embeddings, whose rows are used only by their tokens.
  const auto size = [](const gguf::TensorInfo& tensor) {
    return tensor.name == "token_embd.weight" ? 0 : tensor.data.size();
  };
  const auto largest = std::max_element(file.tensors().begin(), file.tensors().end(),
                                        [&](const auto& a, const auto& b) { return size(a) < size(b); });
  const std::size_t n = 200, gap = largest->data.size() / 7;
  ASSERT_GT(gap, n + 128);
  const auto at =
      static_cast<std::size_t>(reinterpret_cast<const char*>(largest->data.data()) - bytes.data()) +
      (gap - n) / 2 + 32;
  std::vector<char> changed(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                            bytes.begin() + static_cast<std::ptrdiff_t>(at + n));
  for (char& byte : changed) byte = static_cast<char>(byte ^ 1);
  change(path, at, changed);

  const std::vector<float> expected = logits({}, false, 16);
  EXPECT_FALSE(expected == before) << "the change must matter";
  EXPECT_TRUE(logits(kept, false, 16) == expected);
  EXPECT_TRUE(logits(kept, false, 16) == expected) << "written again";
  EXPECT_TRUE(logits(kept, true, 16) == expected);
}

TEST_P(Weights, ThatWereDamagedWherePackedOnesAreKeptArePackedAnew) {
  copy_model();
  const ModelParams kept = {.pack_cache = folder / "packed"};
  const std::vector<float> expected = logits(kept, false, 16);
  ASSERT_EQ(packed_files().size(), 1u);
  const std::vector<char> good = read(packed_files()[0]);
  ASSERT_GT(good.size(), 3u * 4096);
  std::mt19937 random(11);
  for (int i = 0; i < 12; ++i) {
    // A bit, or a page that was never written, anywhere in the file: also where nothing is.
    std::size_t at = random() % good.size();
    std::vector<char> bytes = {static_cast<char>(good[at] ^ (1 << i % 8))};
    if (i % 2 == 1) {
      at = at / 4096 * 4096;
      bytes.assign(std::min<std::size_t>(4096, good.size() - at), 0);
    }
    change(packed_files()[0], at, bytes);
    for (int start = 0; start < 3; ++start) {
      const auto model = Model::load(path, kept);
      Context context(model, {.n_ctx = 256});
      EXPECT_TRUE(test::all_logits(context, tokens, 16) == expected) << "damage " << i << " at byte " << at;
      EXPECT_TRUE(start < 2 || model->info().weights_mapped);
    }
  }
}

TEST_P(Weights, OfTheSameBytesInAnotherFileAreMapped) {
  copy_model();
  const ModelParams kept = {.pack_cache = folder / "packed"};
  const std::vector<float> expected = logits(kept, false, 16);
  std::filesystem::create_directories(folder / "copy");
  std::filesystem::copy_file(path, folder / "copy" / "model.gguf");
  path = folder / "copy" / "model.gguf";
  EXPECT_TRUE(logits(kept, true, 16) == expected);
  EXPECT_EQ(packed_files().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Families, Weights, testing::Values("gemma3", "gpt2", "llama", "mamba2", "qwen3moe"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(Weights, TakeWhatInspectionSays) {
  const std::optional<ModelInfo> info = inspect(path).model;
  ASSERT_TRUE(info);
  EXPECT_GT(info->weight_bytes, 0);
  EXPECT_EQ(info->weight_bytes, Model::load(path)->info().weight_bytes);
}

// Cut while they load: after the first weight there is an error to come, and no end of the process.
TEST_P(Weights, OfAFileThatIsCutMeanwhileAreAnError) {
  const std::filesystem::path whole = path;
  copy_model();
  for (const bool keep : {false, true}) {
    std::filesystem::copy_file(whole, path, std::filesystem::copy_options::overwrite_existing);
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
