// The cache of packed weights: what is found is what was added, damage of any kind is seen and written over,
// and the folder keeps its bounds.
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
constexpr std::int64_t kShape[] = {48, 256};

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
  static std::vector<std::byte> contents(std::size_t n, std::uint64_t seed) {
    std::vector<std::byte> bytes(n);
    Random random(seed);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random.bits() & 0xff);
    return bytes;
  }
  void write(const PackedCacheOptions& how, base::Hash128 key = kKey, std::size_t n_bytes = 50000) {
    PackedCache cache(how, key, n_bytes);
    ASSERT_FALSE(cache.found());
    cache.add("a", DType::kQ4_K, kShape, contents(n_bytes, 1));
    cache.add("b", DType::kQ4_K, kShape, contents(777, 2));
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
  bool holds(base::Hash128 key = kKey, std::size_t n_bytes = 50000) const {
    const PackedCache cache(options(), key, n_bytes);
    const auto a = cache.find("a", DType::kQ4_K, kShape, n_bytes),
               b = cache.find("b", DType::kQ4_K, kShape, 777);
    return cache.found() && std::ranges::equal(a, contents(n_bytes, 1)) &&
           std::ranges::equal(b, contents(777, 2));
  }

  fs::path folder_;
};

TEST_F(PackedCacheTest, FindsWhatWasAdded) {
  write(options());
  EXPECT_TRUE(holds());
  const PackedCache cache(options(), kKey, 50000);
  const auto a = cache.find("a", DType::kQ4_K, kShape, 50000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 4096, 0u);
  // Another name, type, shape, size, model.
  const std::int64_t other[] = {256, 48};
  EXPECT_TRUE(cache.find("c", DType::kQ4_K, kShape, 50000).empty());
  EXPECT_TRUE(cache.find("a", DType::kQ4_0, kShape, 50000).empty());
  EXPECT_TRUE(cache.find("a", DType::kQ4_K, other, 50000).empty());
  EXPECT_TRUE(cache.find("a", DType::kQ4_K, kShape, 49999).empty());
  EXPECT_FALSE(PackedCache(options(), {1, 3}, 50000).found());
}

TEST_F(PackedCacheTest, AppearsWhenItIsWhole) {
  {
    PackedCache cache(options(), kKey, 1000);
    cache.add("a", DType::kQ4_K, kShape, contents(1000, 1));
  }
  EXPECT_TRUE(files().empty()) << "a load that was cancelled leaves nothing";
}

TEST_F(PackedCacheTest, DamageIsSeenAndWrittenOver) {
  write(options());
  ASSERT_EQ(files().size(), 1u);
  const fs::path path = files()[0];
  const std::vector<char> good = read(path);
  std::vector<std::vector<char>> damaged;
  // Every byte of table and trailer counts.
  for (std::size_t i = good.size() - 64 - 2 * sizeof(PackedCache::Entry); i < good.size(); ++i) {
    damaged.push_back(good);
    damaged.back()[i] = static_cast<char>(damaged.back()[i] ^ 0x10);
  }
  // Cut anywhere, grown, empty, of the wrong kind.
  for (const std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
                              std::size_t{4096}, good.size() - 64, good.size() - 1})
    damaged.emplace_back(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n));
  damaged.push_back(good);
  damaged.back().push_back(0);
  damaged.emplace_back(good.size(), '\0');
  damaged.emplace_back(good.size(), '\xff');
  // A part that was never written.
  damaged.push_back(good);
  std::memset(damaged.back().data() + 8192, 0, 16384);
  for (std::size_t i = 0; i < damaged.size(); ++i) {
    replace(path, damaged[i]);
    ASSERT_FALSE(PackedCache(options(), kKey, 50000).found()) << "damage " << i;
  }
  write(options());
  EXPECT_TRUE(holds());
}

// Hashes that fit their contents prove nothing: ranges are checked as well.
TEST_F(PackedCacheTest, RangesOutsideTheFileAreRefused) {
  write(options());
  const fs::path path = files()[0];
  const std::vector<char> good = read(path);
  const std::size_t table = good.size() - 64 - 2 * sizeof(PackedCache::Entry);
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
    const std::uint64_t trailer_hash = hash(bytes.data() + bytes.size() - 64, 56);
    std::memcpy(bytes.data() + bytes.size() - 8, &trailer_hash, 8);
    replace(path, bytes);
    return PackedCache(options(), kKey, 50000).found();
  };
  EXPECT_TRUE(forge([](PackedCache::Entry&) {})) << "the forgery itself is right";
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.offset = 1; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.offset = std::uint64_t{1} << 40; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.offset = ~std::uint64_t{4095}; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.bytes = ~std::uint64_t{0}; }));
  EXPECT_FALSE(forge([](PackedCache::Entry& e) { e.bytes += 4096; }));
}

TEST_F(PackedCacheTest, WhatWasUsedLeastRecentlyGoes) {
  const std::uint64_t limit = 130000;  // Two files of 50000 and a little.
  const auto age = [&](base::Hash128 key, int hours) {
    write(options(limit), key);
    for (const fs::path& path : files()) {
      if (path.filename().string().find(std::to_string(key.low) + ".") == std::string::npos) continue;
      fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    }
  };
  age({1, 0}, 3);
  age({2, 0}, 2);
  EXPECT_EQ(files().size(), 2u);
  EXPECT_TRUE(holds({1, 0}));  // Now it was used last.
  write(options(limit), {3, 0});
  EXPECT_EQ(files().size(), 2u);
  EXPECT_TRUE(holds({1, 0}));
  EXPECT_TRUE(holds({3, 0}));
  EXPECT_FALSE(PackedCache(options(limit), {2, 0}, 50000).found());
}

TEST_F(PackedCacheTest, WritesNothingWhereItMayNot) {
  const auto nothing_from = [&](const PackedCacheOptions& how) {
    PackedCache cache(how, kKey, 50000);
    cache.add("a", DType::kQ4_K, kShape, contents(50000, 1));
    cache.commit();
    return !cache.found() && files().empty();
  };
  EXPECT_TRUE(nothing_from(options(40000))) << "larger than the folder may be";
  PackedCacheOptions full = options();
  full.min_free_fraction = 1.0;
  EXPECT_TRUE(nothing_from(full)) << "the disk would be too full";
  EXPECT_TRUE(nothing_from({.folder = "/dev/null/no", .max_bytes = 1 << 30})) << "no folder";
}

TEST_F(PackedCacheTest, RubbishOfKilledWritersGoes) {
  fs::create_directories(folder_ / "packed");
  const fs::path old = folder_ / "packed" / "00.packed.tmp-1-0",
                 fresh = folder_ / "packed" / "00.packed.tmp-2-0";
  const fs::path foreign = folder_ / "packed" / "readme";
  for (const fs::path& path : {old, fresh, foreign}) replace(path, {'x'});
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  fs::last_write_time(foreign, fs::file_time_type::clock::now() - std::chrono::hours(2));
  write(options());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(foreign));
}

}  // namespace
}  // namespace weft::cpu
