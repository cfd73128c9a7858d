// GGUF files through the public API. Its neighbour read_write_test.cpp compares the internal writer's bytes
// with the gguf package.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "gguf/gguf.h"
#include "weft/error.h"
#include "weft/gguf.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class PublicGguf : public testing::Test {
 protected:
  PublicGguf() { fs::create_directories(folder_); }
  ~PublicGguf() override { fs::remove_all(folder_); }
  template <typename F>
  static void refuses(F call, ErrorCode code, const std::string& part) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown, expected " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  const fs::path folder_ = fs::path(testing::TempDir()) / ("weft_public_gguf_" + std::to_string(::getpid()));
  const fs::path path_ = folder_ / "a.gguf";
};

TEST_F(PublicGguf, MetadataOfEveryTypeComeBack) {
  const std::vector<std::pair<std::string, GgufValue>> all = {
      {"general.architecture", "mine"},
      {"bool", true},
      {"u8", std::uint8_t{255}},
      {"i8", std::int8_t{-128}},
      {"u16", std::uint16_t{65535}},
      {"i16", std::int16_t{-32768}},
      {"u32", ~std::uint32_t{0}},
      {"i32", -7},
      {"u64", ~std::uint64_t{0}},
      {"i64", std::int64_t{-1} << 62},
      {"f32", 0.1f},
      {"f64", 0.1},
      {"bools", std::vector<bool>{true, false, true}},
      {"bytes", std::vector<std::uint8_t>{0, 255}},
      {"i16s", std::vector<std::int16_t>{-3, 3}},
      {"u64s", std::vector<std::uint64_t>{~std::uint64_t{0}, 1}},
      {"f32s", std::vector<float>{0.1f, -2.0f}},
      {"f64s", std::vector<double>{0.1}},
      {"none", std::vector<float>{}},
      {"strings", std::vector<std::string>{"", "\xc3\xa4", "b"}},
  };
  GgufWriter file;
  for (const auto& [key, value] : all) file.set(key, value);
  file.write(path_);
  EXPECT_EQ(read_gguf_metadata(path_), all);
}

TEST_F(PublicGguf, TensorsComeBackFromAnySource) {
  const std::array<float, 6> numbers = {1, 2, 3, 4, 5, 6};
  GgufWriter file;
  file.add_tensor("given", DType::kF32, {2, 3}, std::as_bytes(std::span(numbers)));
  file.add_tensor("made", DType::kI8, {5}, [](std::span<std::byte> bytes) { bytes[4] = std::byte{9}; });
  GgufWriter moved = std::move(file);
  moved.write(path_);
  const gguf::File read = gguf::File::open(path_);
  const gguf::TensorInfo& given = *read.find_tensor("given");
  EXPECT_EQ(given.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(std::ranges::equal(given.data, std::as_bytes(std::span(numbers))));
  const std::array<std::byte, 5> expected = {{{}, {}, {}, {}, std::byte{9}}};
  EXPECT_TRUE(std::ranges::equal(read.find_tensor("made")->data, expected));
}

TEST_F(PublicGguf, RejectsUnreadableValues) {
  GgufWriter file;
  const std::array<std::byte, 4> four = {};
  refuses([&] { file.set("", 1); }, ErrorCode::kInvalidArgument, "0 bytes");
  refuses([&] { file.set("general.alignment", std::uint32_t{3}); }, ErrorCode::kInvalidArgument,
          "power of two");
  refuses([&] { file.set("general.alignment", std::uint32_t{4}); }, ErrorCode::kInvalidArgument,
          "power of two from 8");
  refuses([&] { file.add_tensor(std::string(64, 'a'), DType::kF32, {1}, four); }, ErrorCode::kInvalidArgument,
          "64 bytes");
  refuses([&] { file.add_tensor("a\nb", DType::kF32, {1}, four); }, ErrorCode::kInvalidArgument,
          "control character");
  refuses([&] { file.add_tensor("a", DType::kF32, {2}, four); }, ErrorCode::kInvalidArgument, "expected 8");
  refuses([&] { file.add_tensor("a", static_cast<DType>(77), {1}, four); }, ErrorCode::kInvalidArgument,
          "77");
  file.add_tensor("a", DType::kF32, {1}, four);
  refuses([&] { file.add_tensor("a", DType::kF32, {1}, four); }, ErrorCode::kInvalidArgument, "already");
}

TEST_F(PublicGguf, AFileIsReplacedWholeOrNotAtAll) {
  GgufWriter before;
  before.set("which", "before");
  before.write(path_);
  GgufWriter after;
  after.set("which", "after");
  after.add_tensor("a", DType::kF32, {1},
                   [](std::span<std::byte>) { throw Error(ErrorCode::kIo, "no data"); });
  refuses([&] { after.write(path_); }, ErrorCode::kIo, "no data");
  EXPECT_EQ(read_gguf_metadata(path_).at(0).second, GgufValue("before"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "no temporary file is left";
  refuses([&] { before.write(folder_ / "none" / "a.gguf"); }, ErrorCode::kIo, "a.gguf");
}

}  // namespace
}  // namespace weft
