// Folders that are converted when they are first asked for.
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/read_file.h"
#include "convert/folder_testing.h"
#include "convert/version.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Converted : public testing::Test {
 protected:
  Converted() {
    fs::remove_all(scratch_);
    fs::create_directories(scratch_);
    fs::copy(fs::path(WEFT_TEST_DATA) / "convert/phi2", folder_, fs::copy_options::recursive);
  }
  ~Converted() override { fs::remove_all(scratch_); }

  int n_files() const {
    return fs::exists(cache_) ? static_cast<int>(std::distance(fs::directory_iterator(cache_), {})) : 0;
  }

  const fs::path scratch_ = fs::path(testing::TempDir()) / (std::to_string(::getpid()) + "-converted");
  const fs::path folder_ = scratch_ / "phi2", cache_ = scratch_ / "a/cache";
};

TEST_F(Converted, ConvertsAgainWhenTheFolderChanges) {
  int n_calls = 0;
  const auto progress = [&](double) { return ++n_calls > 0; };
  const ConvertedModel made = converted(folder_, cache_, progress);
  const fs::path first = made.file;
  ASSERT_TRUE(made.made);
  EXPECT_EQ(made.made->architecture, "phi2");
  EXPECT_TRUE(fs::is_regular_file(first));
  EXPECT_EQ(first.parent_path(), cache_);
  EXPECT_TRUE(first.filename().string().starts_with("phi2-"));
  EXPECT_GT(n_calls, 0);
  n_calls = 0;
  EXPECT_EQ(converted(folder_, cache_, progress).file, first);
  EXPECT_FALSE(converted(folder_, cache_, progress).made);
  EXPECT_EQ(converted(folder_ / "../phi2", cache_, progress).file, first);
  EXPECT_EQ(n_calls, 0);
  test::write_text(folder_ / "notes.txt", "another file");
  const fs::path second = converted(folder_, cache_, progress).file;
  EXPECT_NE(second, first);
  EXPECT_GT(n_calls, 0);
  EXPECT_EQ(n_files(), 2);
  fs::remove(second);
  EXPECT_EQ(converted(folder_, cache_).file, second);
}

TEST_F(Converted, LeavesNoFileWhereItFails) {
  EXPECT_THROW(converted(folder_, cache_, [](double) { return false; }), Error);
  EXPECT_THROW(converted(scratch_ / "none", cache_), Error);
  fs::remove(folder_ / "model.safetensors");
  EXPECT_THROW(converted(folder_, cache_), Error);
  EXPECT_EQ(n_files(), 0);
}

// Caches keep converted folders for as long as the version stays.
TEST_F(Converted, TheVersionChangesWithTheOutput) {
  constexpr int kVersion = 7;
  const std::pair<const char*, std::uint64_t> kHashes[] = {{"flan-t5", 7628141828130264783u},
                                                           {"gemma2", 10153811767076547206u},
                                                           {"mixtral", 642230836619914197u},
                                                           {"phi2", 11298701809106339649u},
                                                           {"sentencepiece", 442386571533463695u}};
  const fs::path pieces = scratch_ / "sentencepiece";
  fs::create_directories(pieces);
  test::write_small_model(pieces, 1000);
  fs::copy(fs::path(WEFT_TEST_DATA) / "tokenizers/sentencepiece-bpe.model", pieces / "tokenizer.model");
  EXPECT_EQ(convert_impl::kConverterVersion, kVersion) << "set kVersion and the hashes here, too";
  for (const auto& [name, hash] : kHashes) {
    const fs::path folder = fs::path(WEFT_TEST_DATA) / "convert" / name;
    convert(fs::exists(folder) ? folder : scratch_ / name, scratch_ / "made.gguf");
    const std::vector<std::byte> bytes = base::read_file(scratch_ / "made.gguf", std::uint64_t{1} << 30);
    EXPECT_EQ(base::hash64(bytes), hash)
        << name << ": the converter's output has changed. Raise kConverterVersion in src/convert/version.h, "
        << "then set kVersion and the hashes here";
  }
}

}  // namespace
}  // namespace weft
