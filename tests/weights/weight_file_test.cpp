#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "weft/error.h"
#include "weft/weights.h"

namespace weft {
namespace {

using testing::TempDir;

std::filesystem::path file_of(const std::string& bytes) {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path path =
      std::filesystem::path(TempDir()) / (std::string(test->name()) + ".safetensors");
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string with_header(const std::string& header, std::size_t n_data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes += header;
  for (std::size_t i = 0; i < n_data; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string error_of(const std::string& bytes) {
  try {
    const WeightFile file(file_of(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidFile) << error.what();
    return error.what();
  }
  return {};
}

TEST(WeightFiles, TensorsOfSafetensors) {
  const WeightFile file(file_of(with_header(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
      R"("bytes":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
      R"("number":{"data_offsets":[26,28],"shape":[],"dtype":"BF16"},)"
      R"("none":{"dtype":"F16","shape":[4,0],"data_offsets":[28,28]}})",
      28)));
  ASSERT_EQ(file.tensors().size(), 3U);  // weft has no type for unsigned bytes.
  EXPECT_EQ(file.find("bytes"), nullptr);
  const WeightFile::Tensor* const a = file.find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{2, 3}));
  ASSERT_EQ(a->bytes.size(), 24U);
  EXPECT_EQ(a->bytes[0], std::byte{2});
  EXPECT_EQ(file.find("number")->shape.size(), 0U);
  EXPECT_EQ(file.find("number")->dtype, DType::kBF16);
  EXPECT_TRUE(file.find("none")->bytes.empty());

  std::vector<std::byte> part(4);
  file.read(a->bytes.subspan(20), part);
  EXPECT_EQ(part[3], std::byte{25});
  EXPECT_THROW(file.read(a->bytes, part), Error);
  EXPECT_THROW(file.read(part, part), Error);
}

/// A long tensor around short ones, and one of which only the front is inside it.
TEST(WeightFiles, PartsAreReadOfTensorsThatLieOnTopOfEachOther) {
  const WeightFile file(file_of(with_header(R"({"short":{"dtype":"I8","shape":[2],"data_offsets":[4,6]},)"
                                            R"("late":{"dtype":"I8","shape":[4],"data_offsets":[8,12]},)"
                                            R"("alone":{"dtype":"I8","shape":[2],"data_offsets":[14,16]},)"
                                            R"("long":{"dtype":"I8","shape":[10],"data_offsets":[0,10]}})",
                                            20)));
  const std::span<const std::byte> data = file.find("long")->bytes;
  const auto reads = [&](std::size_t begin, std::size_t end) {
    std::vector<std::byte> part(end - begin);
    try {
      file.read({data.data() + begin, end - begin}, part);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return false;
    }
    EXPECT_EQ(part.front(), std::byte(begin));
    return true;
  };
  for (const auto& [begin, end] :
       {std::pair(0, 10), {0, 1}, {4, 6}, {5, 7}, {6, 10}, {8, 12}, {11, 12}, {14, 16}})
    EXPECT_TRUE(reads(static_cast<std::size_t>(begin), static_cast<std::size_t>(end))) << begin;
  for (const auto& [begin, end] : {std::pair(12, 13), {11, 13}, {12, 16}, {15, 17}, {16, 20}, {10, 15}})
    EXPECT_FALSE(reads(static_cast<std::size_t>(begin), static_cast<std::size_t>(end))) << begin;
}

TEST(WeightFiles, TensorsOfGguf) {
  const std::filesystem::path path = std::filesystem::path(WEFT_TEST_DATA) / "golden/llama/model.gguf";
  const WeightFile file(path);
  const WeightFile::Tensor* const table = file.find("token_embd.weight");
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->shape.size(), 2U);
  std::vector<std::byte> bytes(table->bytes.size());
  file.read(table->bytes, bytes);
  EXPECT_EQ(std::memcmp(bytes.data(), table->bytes.data(), bytes.size()), 0);
}

TEST(WeightFiles, ErrorsNameTheTensor) {
  const auto one = [](const std::string& tensor) { return with_header("{\"w\":" + tensor + "}", 16); };
  const std::pair<std::string, const char*> files[] = {
      {"", "too short"},
      {"1234", "too short"},
      {std::string(8, '\xff'), "header would have"},
      {with_header("", 0), "the header: invalid JSON at byte"},
      {with_header("[]", 0), "list where none belongs"},
      {with_header("7", 0), "number where none belongs"},
      {with_header("{\"w\":7}", 0), "number where none belongs"},
      {with_header("{\"w\":{}}", 0), "'w' has no dtype"},
      {with_header(std::string(100'000, '['), 0), "list where none belongs"},
      {with_header("{\"w\":{\"a\":{", 0), "objects where none belong"},
      {one(R"({"dtype":"F32","shape":[4]})"), "two data_offsets"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16,3]})"), "two data_offsets"},
      {one(R"({"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,16]})"), "two lists \"shape\""},
      {one(R"({"dtype":"I64","dtype":"F32","shape":[4],"data_offsets":[0,16]})"), "two dtypes"},
      {one(R"({"dtype":"F32","data_offsets":[0,4]})"), "has no shape"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,12]})"), "has 12 bytes, and its shape needs 16"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[4,20]})"), "outside of the file"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[16,0]})"), "outside of the file"},
      {one(R"({"dtype":"F32","shape":[-4],"data_offsets":[0,16]})"), "negative"},
      {one(R"({"dtype":"F32","shape":[1e3],"data_offsets":[0,16]})"), "not whole"},
      {one(R"({"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,16]})"), "not whole"},
      {one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]})"), "no memory has"},
      {one(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,16]})"), "too large"},
      {one(R"({"dtype":"F32","shape":[[4]],"data_offsets":[0,16]})"), "list where none belongs"},
      {one(R"({"dtype":"F32","shape":[{}],"data_offsets":[0,16]})"), "objects where none belong"},
      {one(R"({"dtype":"F32","sizes":[4],"data_offsets":[0,16]})"), "\"sizes\""},
      {one(R"({"dtype":null,"shape":[4],"data_offsets":[0,16]})"), "null"},
      {one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
           R"("w":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})"),
       "two tensors 'w'"},
  };
  for (const auto& [bytes, expected] : files)
    EXPECT_NE(error_of(bytes).find(expected), std::string::npos) << expected << ": " << error_of(bytes);
  // Even a very long name does not make the error long.
  const std::string name(1 << 20, 'w');
  EXPECT_LT(error_of(with_header("{\"" + name + "\":{}}", 0)).size(), 1000u);
  EXPECT_LT(error_of(with_header("{\"w\":{\"" + name + "\":[]}}", 0)).size(), 1000u);
  const std::string twice = "\"" + name + R"(":{"dtype":"F32","shape":[4],"data_offsets":[0,16]})";
  EXPECT_LT(error_of(with_header("{" + twice + "," + twice + "}", 16)).size(), 1000u);
  EXPECT_THROW(WeightFile("/no/such.safetensors"), Error);
}

/// Every prefix of a good file, and every byte of its header changed: an error or a file, and nothing else.
TEST(WeightFiles, AnyBytesAreAnErrorOrAFile) {
  const std::string good = with_header(R"({"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}})", 16);
  int n_good = 0;
  const auto try_it = [&](const std::string& bytes) {
    const std::filesystem::path path = file_of(bytes);
    try {
      const WeightFile file(path);
      for (const WeightFile::Tensor& tensor : file.tensors()) {
        std::vector<std::byte> copy(tensor.bytes.size());
        file.read(tensor.bytes, copy);
      }
      ++n_good;
    } catch (const Error&) {
    }
  };
  for (std::size_t n = 0; n < good.size(); ++n) try_it(good.substr(0, n));
  EXPECT_EQ(n_good, 0);
  for (std::size_t i = 0; i < good.size() - 16; ++i)
    for (const char c : {'\0', '"', '{', '9', '\x80', '\xff'}) {
      std::string changed = good;
      changed[i] = c;
      try_it(changed);
    }
  EXPECT_GT(n_good, 0);  // A name may have another letter.
}

}  // namespace
}  // namespace weft
