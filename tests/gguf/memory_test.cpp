// What reading a file costs in memory: at most four times the file and 64 MiB, whatever the file says.
// Counted by replacing the allocator of this test program.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/error.h"

namespace {
std::atomic<std::size_t> live_bytes{0};
std::atomic<std::size_t> peak_bytes{0};
std::atomic<std::size_t> n_allocations{0};
}  // namespace

// Not inlined, or the compiler sees a malloc that meets a delete and warns.
[[gnu::noinline]] void* operator new(std::size_t n) {
  void* block = std::malloc(n);
  if (block == nullptr) throw std::bad_alloc();
  ++n_allocations;
  const std::size_t now = live_bytes += malloc_usable_size(block);
  if (now > peak_bytes) peak_bytes = now;
  return block;
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  live_bytes -= malloc_usable_size(block);
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace weft::gguf {
namespace {

constexpr std::size_t kMiB = 1 << 20;

class Builder {
 public:
  Builder(std::uint64_t n_tensors, std::uint64_t n_keys) {
    bytes_.reserve(70 * kMiB);
    text("GGUF");
    number(std::uint32_t{3});
    number(n_tensors);
    number(n_keys);
  }
  template <typename T>
  void number(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), begin, begin + sizeof(T));
  }
  void text(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    bytes_.insert(bytes_.end(), begin, begin + text.size());
  }
  void name(std::string_view name) {
    number(std::uint64_t{name.size()});
    text(name);
  }
  void array(std::string_view key, ValueType element, std::uint64_t n) {
    name(key);
    number(static_cast<std::uint32_t>(ValueType::kArray));
    number(static_cast<std::uint32_t>(element));
    number(n);
  }
  void zeros(std::size_t n) { bytes_.resize(bytes_.size() + n); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// The most memory in use while the file is read (or refused), and how that ended.
struct Cost {
  std::size_t peak;
  bool accepted;
};
Cost cost(std::span<const std::byte> bytes) {
  const std::size_t before = live_bytes;
  peak_bytes = before;
  Cost result{0, true};
  try {
    File::parse(bytes);
  } catch (const Error&) {
    result.accepted = false;
  }
  result.peak = peak_bytes - before;
  EXPECT_LE(result.peak, 4 * bytes.size() + 64 * kMiB) << bytes.size();
  return result;
}

TEST(GgufMemory, ArraysOfNumbersTakeTheirSize) {
  Builder file(0, 1);
  file.array("bytes", ValueType::kU8, 32 * kMiB);
  file.zeros(32 * kMiB);
  const Cost result = cost(file.bytes());
  EXPECT_TRUE(result.accepted);
  EXPECT_LE(result.peak, 33 * kMiB);
}

TEST(GgufMemory, EmptyStrings) {
  Builder file(0, 1);
  file.array("strings", ValueType::kString, 4 * kMiB);
  file.zeros(32 * kMiB);
  EXPECT_TRUE(cost(file.bytes()).accepted);
}

TEST(GgufMemory, CountsThatTheFileDoesNotHold) {
  for (const ValueType type : {ValueType::kU8, ValueType::kString, ValueType::kArray}) {
    Builder file(0, 1);
    file.array("array", type, (type == ValueType::kU8 ? 32 : type == ValueType::kString ? 4 : 2) * kMiB + 10);
    file.zeros(32 * kMiB);
    const Cost result = cost(file.bytes());
    EXPECT_FALSE(result.accepted);
    EXPECT_LE(result.peak, kMiB);
  }
}

TEST(GgufMemory, NestedArrays) {
  Builder file(0, 1);
  file.array("arrays", ValueType::kArray, 2 * kMiB);
  file.zeros(24 * kMiB);
  EXPECT_FALSE(cost(file.bytes()).accepted) << "no vocabulary and no model has millions of arrays";
  Builder small(0, 1);
  small.array("arrays", ValueType::kArray, 65536);
  small.zeros(65536 * 12);
  EXPECT_TRUE(cost(small.bytes()).accepted);
}

TEST(GgufMemory, ManyKeys) {
  Builder file(0, 65536);
  for (int i = 0; i < 65536; ++i) {
    file.name(std::to_string(i));
    file.number(std::uint32_t{0});
    file.number(std::uint8_t{0});
  }
  EXPECT_TRUE(cost(file.bytes()).accepted);
}

TEST(GgufMemory, ManyTensors) {
  constexpr std::uint64_t kN = 400000;
  Builder file(kN, 0);
  for (std::uint64_t i = 0; i < kN; ++i) {
    file.name(std::to_string(i));
    file.number(std::uint32_t{1});
    file.number(std::uint64_t{1});
    file.number(static_cast<std::uint32_t>(DType::kI8));
    file.number(i * 32);
  }
  file.zeros(32 * kN + 32);
  EXPECT_TRUE(cost(file.bytes()).accepted);
}

// 262,144 strings, as large vocabularies have them, are made once and not copied: that would be felt at the
// start.
TEST(GgufMemory, LargeVocabulariesTakeAnAllocationPerString) {
  std::vector<std::string> tokens;
  for (int i = 0; i < 262144; ++i) tokens.push_back("token number " + std::to_string(i * 7919 % 262144));
  Writer writer;
  writer.set_array("tokens", std::move(tokens));
  const std::vector<std::byte> bytes = writer.to_bytes();
  const std::size_t before = n_allocations;
  const File file = File::parse(bytes);
  EXPECT_LT(n_allocations - before, 262144u + 1000u);
  EXPECT_EQ(file.get_strings("tokens")->size(), 262144u);
}

}  // namespace
}  // namespace weft::gguf
