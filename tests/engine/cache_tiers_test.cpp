// Prefixes that the cache evicts come back from host memory and from files, with the same results.
#include "weft/cache_tiers.h"

#include <sys/stat.h>

#include <fstream>
#include <random>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::Result;

Ask tier_ask(const Model& model, int n_prompt, std::uint64_t seed) {
  Ask ask;
  std::mt19937_64 random(seed);
  for (int i = 0; i < n_prompt; ++i)
    ask.prompt.push_back(static_cast<Token>(random() % static_cast<unsigned>(model.info().n_vocab)));
  ask.params = {.n_predict = 8, .ignore_end = true};
  ask.params.sampler.seed = seed;
  return ask;
}

Result ask_batcher(Batcher& batcher, const Ask& ask) {
  Collector collector;
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  EXPECT_TRUE(batcher.consistent());
  return collector(id);
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

class CacheTiersOf : public testing::TestWithParam<const char*> {
 protected:
  CacheTiersOf() { fs::remove_all(folder_); }
  ~CacheTiersOf() override { fs::remove_all(folder_); }

  std::string name() const {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '-');
    return name;
  }
  CacheTiers on_disk() {
    return {.ram_bytes = 0, .disk = folder_, .on_note = [this](const std::string& note) {
              const std::lock_guard lock(mutex_);
              notes_.push_back(note);
            }};
  }

  const std::shared_ptr<const Model> model_ = golden(GetParam());
  const ContextParams params_ = {.n_ctx = 1024, .n_sequences = 6, .n_threads = 1};
  const fs::path folder_ = fs::path(testing::TempDir()) / ("weft-tiers-" + name());
  const Ask a_ = tier_ask(*model_, 400, 1), b_ = tier_ask(*model_, 500, 2), c_ = tier_ask(*model_, 500, 3);
  std::mutex mutex_;
  std::vector<std::string> notes_;
};

TEST_P(CacheTiersOf, EvictedPrefixesComeBackFromMemory) {
  Context context(model_, params_);
  Batcher batcher(context, {.tiers = {.ram_bytes = std::int64_t{1} << 30}});
  const Result first = ask_batcher(batcher, a_);
  EXPECT_EQ(first.stats.n_cached, 0);
  EXPECT_EQ(ask_batcher(batcher, b_).stats.n_cached, 0);
  EXPECT_EQ(ask_batcher(batcher, c_).stats.n_cached, 0);
  const Result again = ask_batcher(batcher, a_);
  expect_same(again, alone(model_, a_), "restored");
  EXPECT_EQ(again.tokens, first.tokens);
  if (context.cache().cuts_anywhere()) {
    EXPECT_EQ(again.stats.n_cached, 399);
    EXPECT_EQ(batcher.stats().tiers.n_ram_tokens, 399);
  }
  EXPECT_GT(batcher.stats().tiers.n_stored_tokens, 400);
}

TEST_P(CacheTiersOf, FilesSurviveTheBatcher) {
  Ask next = a_;
  std::vector<Token> tokens;
  {
    Context context(model_, params_);
    Batcher batcher(context, {.tiers = on_disk()});
    tokens = ask_batcher(batcher, a_).tokens;
  }
  struct stat status{};
  ASSERT_EQ(::stat(folder_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  for (const fs::path& file : files_in(folder_)) {
    ASSERT_EQ(::stat(file.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
  }
  // The conversation goes on.
  next.prompt.insert(next.prompt.end(), tokens.begin(), tokens.end());
  next.prompt.push_back(5);
  Context context(model_, params_);
  Batcher batcher(context, {.tiers = on_disk()});
  const Result result = ask_batcher(batcher, next);
  expect_same(result, alone(model_, next), "from files");
  EXPECT_EQ(result.stats.n_cached, 407);
  EXPECT_EQ(batcher.stats().tiers.n_disk_tokens, 407);
  EXPECT_TRUE(notes_.empty());
}

TEST_P(CacheTiersOf, DamagedFilesAreRemovedWithOneNote) {
  Ask next = a_;
  {
    Context context(model_, params_);
    Batcher batcher(context, {.tiers = on_disk()});
    const std::vector<Token> tokens = ask_batcher(batcher, a_).tokens;
    next.prompt.insert(next.prompt.end(), tokens.begin(), tokens.end());
  }
  std::map<fs::path, std::string> good;
  for (const fs::path& file : files_in(folder_)) {
    std::ifstream in(file, std::ios::binary);
    good[file] = {std::istreambuf_iterator<char>(in), {}};
  }
  const Result expected = alone(model_, next);
  std::mt19937_64 random(7);
  for (int i = 0; i < 40; ++i) {
    notes_.clear();
    for (const auto& [file, bytes] : good) {
      std::string bad = bytes;
      // Sizes of every class: nothing, within the header, within the symbols, within the state, the last
      // byte.
      const std::size_t cuts[] = {0, 40, 80, 300, bytes.size() / 2, bytes.size() - 1};
      if (i < 6) {
        bad.resize(cuts[i]);
      } else {
        bad[i < 26 ? static_cast<std::size_t>(i - 6) * 4 : random() % bad.size()] ^=
            static_cast<char>(1 << random() % 8);
      }
      std::ofstream(file, std::ios::binary) << bad;
    }
    Context context(model_, params_);
    Batcher batcher(context, {.tiers = on_disk()});
    const Result result = ask_batcher(batcher, next);
    expect_same(result, expected, "damage " + std::to_string(i));
    const std::lock_guard lock(mutex_);
    ASSERT_EQ(notes_.size(), 1u) << i;
    EXPECT_NE(notes_[0].find(folder_.string() + "/"), std::string::npos) << notes_[0];
  }
}

TEST_P(CacheTiersOf, AnUnusableFolderIsANote) {
  std::ofstream(folder_) << "a file";
  Context context(model_, params_);
  {
    Batcher batcher(context, {.tiers = on_disk()});
    expect_same(ask_batcher(batcher, a_), alone(model_, a_), "without files");
  }
  EXPECT_GE(notes_.size(), 1u);
}

TEST_P(CacheTiersOf, AnotherProcessMayRemoveAndAddFiles) {
  Context context(model_, params_), other_context(model_, params_);
  {
    Batcher first(context, {.tiers = on_disk()});
    ask_batcher(first, a_);
  }
  Batcher batcher(context, {.tiers = on_disk()});
  ask_batcher(batcher, b_);
  Batcher other(other_context, {.tiers = on_disk()});
  const Result shared = ask_batcher(other, a_);
  expect_same(shared, alone(model_, a_), "of another batcher");
  if (context.cache().cuts_anywhere()) {
    EXPECT_EQ(shared.stats.n_cached, 399);
  }
  for (const fs::path& file : files_in(folder_)) fs::remove(file);
  ask_batcher(batcher, b_);
  ask_batcher(batcher, c_);
  expect_same(ask_batcher(batcher, a_), alone(model_, a_), "after removal");
  EXPECT_TRUE(notes_.empty());
}

TEST_P(CacheTiersOf, LimitsHold) {
  const fs::path foreign = folder_ / "mine.weftkv";
  fs::create_directories(folder_);
  std::ofstream(foreign) << std::string(std::size_t{2} << 20, 'x');
  {
    Context context(model_, params_);
    CacheTiers tiers = on_disk();
    tiers.disk_bytes = 1 << 20;
    tiers.ram_bytes = 1 << 20;
    Batcher batcher(context, {.tiers = tiers});
    for (std::uint64_t i = 0; i < 12; ++i) {
      ask_batcher(batcher, tier_ask(*model_, 400, 10 + i));
      EXPECT_LE(batcher.stats().tiers.disk_bytes, 1 << 20);
    }
  }
  std::uintmax_t n_bytes = 0;
  for (const fs::path& file : files_in(folder_))
    if (file != foreign) n_bytes += fs::file_size(file);
  EXPECT_LE(n_bytes, 1u << 20);
  EXPECT_TRUE(fs::exists(foreign)) << "a user's own file";
}

TEST_P(CacheTiersOf, SequencesThatExceedEveryLimitEnd) {
  // Larger than memory, than the folder, and than both.
  for (const bool has_files : {false, true}) {
    fs::remove_all(folder_);
    CacheTiers tiers = has_files ? on_disk() : CacheTiers();
    tiers.ram_bytes = has_files ? 0 : 1 << 16;
    tiers.disk_bytes = 1 << 10;
    Context context(model_, params_);
    Batcher batcher(context, {.tiers = tiers});
    const Ask ask = tier_ask(*model_, 900, 4);
    expect_same(ask_batcher(batcher, ask), alone(model_, ask), "beyond all limits");
    if (!has_files) {  // Otherwise states may still wait to be written.
      EXPECT_LE(batcher.stats().tiers.ram_bytes, 1 << 16);
    }
    EXPECT_LE(batcher.stats().tiers.disk_bytes, 1 << 10);
    ask_batcher(batcher, b_);
  }
}

TEST_P(CacheTiersOf, LargerContextsKeepTheirFiles) {
  {
    Context context(model_, params_);
    Batcher batcher(context, {.tiers = on_disk()});
    ask_batcher(batcher, a_);
  }
  const std::vector<fs::path> files = files_in(folder_);
  {
    ContextParams small = params_;
    small.n_ctx = 128;
    small.n_sequences = 2;
    Context context(model_, small);
    Batcher batcher(context, {.tiers = on_disk()});
    const Ask ask = tier_ask(*model_, 20, 5);
    expect_same(ask_batcher(batcher, ask), alone(model_, ask), "a small context");
  }
  const std::vector<fs::path> left = files_in(folder_);
  EXPECT_TRUE(std::includes(left.begin(), left.end(), files.begin(), files.end()));
  EXPECT_TRUE(notes_.empty());
}

using CacheTiersOfChains = CacheTiersOf;

TEST_P(CacheTiersOfChains, AnObstructedFileStopsNoOther) {
  const auto ask_both = [&] {
    Context context(model_, params_);
    Batcher batcher(context, {.tiers = on_disk()});
    for (const Ask& ask : {a_, b_}) ask_batcher(batcher, ask);
  };
  ask_both();
  const std::vector<fs::path> files = files_in(folder_);
  for (const fs::path& file : files) fs::remove(file);
  fs::create_directory(files.front());
  ask_both();
  EXPECT_EQ(files_in(folder_), files);
  EXPECT_GE(notes_.size(), 1u);
}

TEST_P(CacheTiersOfChains, TheBeginOfAPromptIsDroppedLast) {
  Context context(model_, params_);
  std::int64_t n_bytes = 0;
  {
    Batcher batcher(context, {.tiers = {.ram_bytes = std::int64_t{1} << 30}});
    for (const Ask& ask : {a_, b_, c_}) ask_batcher(batcher, ask);
    n_bytes = batcher.stats().tiers.ram_bytes;
  }
  // The last sequences are not stored yet, so three chains have no room.
  Batcher batcher(context, {.tiers = {.ram_bytes = n_bytes}});
  for (const Ask& ask : {a_, b_, c_}) ask_batcher(batcher, ask);
  ask_batcher(batcher, tier_ask(*model_, 500, 6));
  ask_batcher(batcher, tier_ask(*model_, 500, 7));
  EXPECT_LE(batcher.stats().tiers.ram_bytes, n_bytes);
  EXPECT_GE(ask_batcher(batcher, c_).stats.n_cached, 256);
}

INSTANTIATE_TEST_SUITE_P(Models, CacheTiersOf, testing::Values("llama", "gemma3", "lfm2", "mamba"),
                         [](const auto& param_info) { return std::string(param_info.param); });
INSTANTIATE_TEST_SUITE_P(Models, CacheTiersOfChains, testing::Values("llama"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace
}  // namespace weft
