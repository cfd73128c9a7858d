// The cache of packed weights. Entries that it finds were added and match the model's files. Damage of any
// kind is detected and overwritten, and the folder keeps its bounds.
#include "backend/cpu/layout/packed_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>

#include "backend_cpu/matrix_testing.h"

namespace weft::cpu {
namespace {

namespace fs = std::filesystem;

constexpr base::Hash128 kKey = {1, 2};
constexpr base::Hash128 kFiles = {3, 4};  // Hash of the model's files when it was packed.
constexpr std::uint64_t kSource = 55;
constexpr std::int64_t kShape[] = {48, 256};
constexpr std::size_t kTailBytes = 80 + 2 * sizeof(PackedCache::Entry);  // Trailer and table of two matrices.

class PackedCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("weft-packed-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  PackedCacheOptions options(std::uint64_t max_bytes = 1 << 30) const {
    return {.folder = folder_ / "packed", .max_bytes = max_bytes, .min_free_fraction = 0.0};
  }
  static PackedModel model(base::Hash128 key = kKey, base::Hash128 identity = kFiles) {
    return {.name = "model", .key = key, .identity = identity, .n_bytes = kBytes};
  }
  static std::vector<std::byte> contents(std::size_t n, std::uint64_t seed) {
    std::vector<std::byte> bytes(n);
    Random random(seed);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.bits() & 0xff);
    return bytes;
  }
  void add(PackedCache& cache, const char* name, std::size_t n, std::uint64_t seed) {
    cache.add(name, DType::kQ4_K, kShape, contents(n, seed), kSource, pool_);
  }
  void write(const PackedCacheOptions& how, base::Hash128 key = kKey) {
    PackedCache cache(how, model(key));
    ASSERT_FALSE(cache.found());
    add(cache, "a", kBytes, 1);
    add(cache, "b", 777, 2);
    cache.commit();
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    if (!fs::exists(folder_ / "packed")) return found;
    for (const auto& entry : fs::directory_iterator(folder_ / "packed")) found.push_back(entry.path());
    return found;
  }
  static std::vector<char> read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static void replace(const fs::path& path, const std::vector<char>& bytes) {
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  /// Whether both matrices are found, as they were added. The cache never returns other bytes.
  bool holds(const PackedModel& model, std::uint64_t source = kSource) {
    PackedCache cache(options(), model);
    n_sources_read_ = 0;
    const auto is_there = [&](const char* name, std::size_t n, std::uint64_t seed) {
      const auto bytes = cache.find(name, DType::kQ4_K, kShape, n, pool_, [&] {
        ++n_sources_read_;
        return source;
      });
      EXPECT_TRUE(bytes.empty() || std::ranges::equal(bytes, contents(n, seed)));
      return !bytes.empty();
    };
    const bool a = is_there("a", kBytes, 1), b = is_there("b", 777, 2);
    if (cache.found()) cache.commit();
    EXPECT_EQ(cache.found(), a && b);
    return a && b;
  }

  static constexpr std::size_t kBytes = 600000;  // More than a piece.
  int n_sources_read_ = 0;
  base::Pool pool_{2, 1};
  fs::path folder_;
};

TEST_F(PackedCacheTest, FindsAddedEntries) {
  write(options());
  EXPECT_TRUE(holds(model()));
  PackedCache cache(options(), model());
  const auto find = [&](const char* name, DType dtype, std::span<const std::int64_t> shape, std::size_t n) {
    return cache.find(name, dtype, shape, n, pool_, [] { return kSource; });
  };
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(find("a", DType::kQ4_K, kShape, kBytes).data()) % 4096, 0u);
  // Another name, type, shape, size, model.
  const std::int64_t other[] = {256, 48};
  EXPECT_TRUE(find("c", DType::kQ4_K, kShape, kBytes).empty());
  EXPECT_TRUE(find("a", DType::kQ4_0, kShape, kBytes).empty());
  EXPECT_TRUE(find("a", DType::kQ4_K, other, kBytes).empty());
  EXPECT_TRUE(find("a", DType::kQ4_K, kShape, kBytes - 1).empty());
  EXPECT_FALSE(PackedCache(options(), model({1, 3})).found());
}

TEST_F(PackedCacheTest, UnchangedFilesAreNotRead) {
  write(options());
  EXPECT_TRUE(holds(model()));
  EXPECT_EQ(n_sources_read_, 0);
}

TEST_F(PackedCacheTest, OtherFilesOfTheSameBytesAreReadOnce) {
  write(options());
  constexpr base::Hash128 kCopy = {5, 6};
  EXPECT_TRUE(holds(model(kKey, kCopy)));
  EXPECT_EQ(n_sources_read_, 2);
  EXPECT_TRUE(holds(model(kKey, kCopy)));
  EXPECT_EQ(n_sources_read_, 0) << "they are known now";
  // Files without a hash are read each time, also if the packed entry has no hash.
  EXPECT_TRUE(holds(model(kKey, {})));
  EXPECT_TRUE(holds(model(kKey, {})));
  EXPECT_EQ(n_sources_read_, 2);
}

TEST_F(PackedCacheTest, PacksChangedBytesAgain) {
  write(options());
  EXPECT_FALSE(holds(model(kKey, {5, 6}), kSource + 1));
  EXPECT_TRUE(files().empty());
  write(options());
  EXPECT_TRUE(holds(model()));
}

TEST_F(PackedCacheTest, AppearsWhenComplete) {
  {
    PackedCache cache(options(), model());
    add(cache, "a", 1000, 1);
  }
  EXPECT_TRUE(files().empty()) << "a load that was cancelled leaves nothing";
}

TEST_F(PackedCacheTest, ReplacesDamagedEntries) {
  write(options());
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  const std::vector<char> good = read(path);
  std::vector<std::vector<char>> damaged;
  const auto flip = [&](std::size_t at, int bit) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ (1 << bit));
  };
  // Every byte of table and trailer counts, and every bit of the matrices.
  const std::size_t table = good.size() - kTailBytes, b = table - 777;
  for (std::size_t i = table; i < good.size(); ++i) flip(i, 4);
  Random random(3);
  for (int i = 0; i < 60; ++i) flip(random.bits() % kBytes, static_cast<int>(random.bits() % 8));
  for (const std::size_t i : {std::size_t{0}, kBytes - 1, b, table - 1}) flip(i, 0);
  // Pages that were never written.
  for (const std::size_t page : {std::size_t{0}, std::size_t{5}, kBytes / 4096}) {
    damaged.push_back(good);
    std::memset(damaged.back().data() + page * 4096, 0, std::min<std::size_t>(4096, kBytes - page * 4096));
  }
  // Cut anywhere, grown, empty, of the wrong kind.
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{79}, std::size_t{80},
                              std::size_t{4096}, good.size() - 80, good.size() - 1})
    damaged.emplace_back(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
  damaged.push_back(good);
  damaged.back().push_back(0);
  damaged.emplace_back(good.size(), '\0');
  damaged.emplace_back(good.size(), '\xff');
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    replace(path, damaged[i]);
    ASSERT_FALSE(holds(model())) << "damage " << i;
    ASSERT_FALSE(PackedCache(options(), model()).found()) << "damage " << i << " is still there";
  }
  write(options());
  EXPECT_TRUE(holds(model()));
}

// Hashes that fit their contents prove nothing: ranges are checked as well.
TEST_F(PackedCacheTest, RangesOutsideTheFileAreRefused) {
  write(options());
  const fs::path path = files()[0];
  const std::vector<char> good = read(path);
  const std::size_t table = good.size() - kTailBytes;
  const auto forge = [&](auto change) {
    std::vector<char> bytes = good;
    PackedCache::Entry entry;
    std::memcpy(&entry, bytes.data() + table, sizeof(entry));
    change(entry);
    std::memcpy(bytes.data() + table, &entry, sizeof(entry));
    const auto hash = [](const char* from, std::size_t n) {
      return base::hash64(std::as_bytes(std::span(from, n)));
    };
    const std::uint64_t table_hash = hash(bytes.data() + table, 2 * sizeof(entry));
    std::memcpy(bytes.data() + bytes.size() - 16, &table_hash, 8);
    const std::uint64_t trailer_hash = hash(bytes.data() + bytes.size() - 80, 72);
    std::memcpy(bytes.data() + bytes.size() - 8, &trailer_hash, 8);
    replace(path, bytes);
    return PackedCache(options(), model()).found();
  };
  EXPECT_TRUE(forge([](PackedCache::Entry&) {})) << "the forgery itself is right";
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.offset = 1; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.offset = std::uint64_t{1} << 40; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.offset = ~std::uint64_t{4095}; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.bytes = ~std::uint64_t{0}; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.bytes += 4096; }));
}

TEST_F(PackedCacheTest, EvictsLeastRecentlyUsed) {
  const std::uint64_t limit = 1300000;  // Two files of 600000 and a little.
  const auto age = [&](base::Hash128 key, int days) {
    write(options(limit), key);
    for (const fs::path& path : files()) {
      if (path.filename().string().find(std::to_string(key.low) + ".") == std::string::npos) continue;
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
    }
  };
  age({1, 0}, 3);
  age({2, 0}, 2);
  EXPECT_EQ(files().size(), 2u);
  EXPECT_TRUE(holds(model({1, 0})));  // Now it was used last.
  write(options(limit), {3, 0});
  EXPECT_EQ(files().size(), 2u);
  EXPECT_TRUE(holds(model({1, 0})));
  EXPECT_TRUE(holds(model({3, 0})));
  EXPECT_FALSE(PackedCache(options(limit), model({2, 0})).found());
}

TEST_F(PackedCacheTest, EvictsNothingForAnUnwritableFile) {
  write(options(), {1, 0});
  PackedCacheOptions full = options(700000);  // Of the folder; the disk has no room at all.
  full.min_free_fraction = 1.0;
  const PackedCache cache(full, model({2, 0}));
  EXPECT_TRUE(holds(model({1, 0})));
}

TEST_F(PackedCacheTest, RewritesCheckedEntries) {
  write(options());
  constexpr base::Hash128 kCopy = {5, 6};
  {
    PackedCache cache(options(), model(kKey, kCopy));
    for (const auto& [name, n] : {std::pair{"a", kBytes}, {"b", std::size_t{777}}})
      ASSERT_FALSE(cache.find(name, DType::kQ4_K, kShape, n, pool_, [] { return kSource; }).empty());
    std::fstream file(files()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-48, std::ios::end).put('\x77');  // Part of the trailer.
    file.close();
    cache.commit();
  }
  EXPECT_TRUE(holds(model(kKey, kCopy)));
  EXPECT_EQ(n_sources_read_, 0);
}

TEST_F(PackedCacheTest, WritesNothingBeyondItsLimits) {
  const auto nothing_from = [&](const PackedCacheOptions& how) {
    PackedCache cache(how, model());
    add(cache, "a", kBytes, 1);
    cache.commit();
    return !cache.found() && files().empty();
  };
  EXPECT_TRUE(nothing_from(options(400000))) << "larger than the folder may be";
  PackedCacheOptions full = options();
  full.min_free_fraction = 1.0;
  EXPECT_TRUE(nothing_from(full)) << "the disk would be too full";
  EXPECT_TRUE(nothing_from({.folder = "/dev/null/no", .max_bytes = 1 << 30})) << "no folder";
}

TEST_F(PackedCacheTest, RemovesFilesOfKilledWriters) {
  fs::create_directories(folder_ / "packed");
  const fs::path rubbish = folder_ / "packed" / "00.packed.tmp-0";
  const fs::path foreign = folder_ / "packed" / "readme", other = folder_ / "packed" / "my.packed.list";
  for (const fs::path& path : {rubbish, foreign, other}) replace(path, {'x'});
  write(options());
  EXPECT_FALSE(fs::exists(rubbish));
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace weft::cpu
