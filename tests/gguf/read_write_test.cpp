// Files that the Python package gguf wrote (make_files.py): read, and written again to the same bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/reader.h"
#include "gguf/writer.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::gguf {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kData = fs::path(WEFT_TEST_DATA) / "gguf";

std::vector<std::byte> read_bytes(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

void write_bytes(const fs::path& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

std::vector<float> values_of(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.n_elements()));
  unpack_row(tensor.dtype, tensor.data.data(), values);
  return values;
}

class Folder {
 public:
  Folder() {
    static int n = 0;
    path_ =
        fs::temp_directory_path() / ("weft-gguf-" + std::to_string(::getpid()) + "-" + std::to_string(n++));
    fs::create_directory(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const fs::path& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Calls f, which must throw Error with that code and with `text` in its message.
template <typename F>
void expect_error(F f, ErrorCode code, const std::string& text) {
  try {
    f();
    ADD_FAILURE() << "no error, expected one with: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

template <typename T>
std::vector<T> extremes() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

Writer values_writer() {
  Writer writer;
  writer.set("general.architecture", "llama");
  writer.set("value.u8", std::uint8_t{255});
  writer.set("value.i8", std::int8_t{-128});
  writer.set("value.u16", std::uint16_t{65535});
  writer.set("value.i16", std::int16_t{-32768});
  writer.set("value.u32", std::uint32_t{4294967295});
  writer.set("value.i32", std::numeric_limits<std::int32_t>::min());
  writer.set("value.u64", std::numeric_limits<std::uint64_t>::max());
  writer.set("value.i64", std::numeric_limits<std::int64_t>::min());
  writer.set("value.f32", 0.1f);
  writer.set("value.f64", 0.1);
  writer.set("value.true", true);
  writer.set("value.false", false);
  writer.set("value.string", "Grüße → 🧵");
  writer.set("value.empty", std::string());
  writer.set_array("array.u8", extremes<std::uint8_t>());
  writer.set_array("array.i8", extremes<std::int8_t>());
  writer.set_array("array.u16", extremes<std::uint16_t>());
  writer.set_array("array.i16", extremes<std::int16_t>());
  writer.set_array("array.u32", extremes<std::uint32_t>());
  writer.set_array("array.i32", extremes<std::int32_t>());
  writer.set_array("array.u64", extremes<std::uint64_t>());
  writer.set_array("array.i64", extremes<std::int64_t>());
  writer.set_array("array.f32", std::vector<float>{0.5f, -1e30f});
  writer.set_array("array.f64", std::vector<double>{0.1, 1e300});
  writer.set_array("array.bool", std::vector<bool>{true, false, true});
  writer.set_array("array.string", std::vector<std::string>{"one", "", "three"});
  const auto inner = [](std::vector<std::int32_t> numbers) {
    const auto bytes = std::as_bytes(std::span(numbers));
    Numbers<std::int64_t> elements(ValueType::kI32, {bytes.begin(), bytes.end()});
    return Value{ValueType::kArray, Array{ValueType::kI32, elements}};
  };
  writer.set("array.array", Value{ValueType::kArray,
                                  Array{ValueType::kArray, std::vector<Value>{inner({1, 2}), inner({3})}}});
  return writer;
}

TEST(Gguf, ReadsMetadataOfEveryType) {
  const File file = File::open(kData / "values.gguf");
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.n_parts(), 1);
  EXPECT_EQ(file.file_bytes(), fs::file_size(kData / "values.gguf"));
  EXPECT_EQ(file.metadata().size(), 28u);
  EXPECT_EQ(file.metadata()[0].key, "general.architecture");
  EXPECT_TRUE(file.tensors().empty());

  EXPECT_EQ(file.get_int("value.u8"), 255);
  EXPECT_EQ(file.get_int("value.i8"), -128);
  EXPECT_EQ(file.get_int("value.u16"), 65535);
  EXPECT_EQ(file.get_int("value.i16"), -32768);
  EXPECT_EQ(file.get_int("value.u32"), 4294967295);
  EXPECT_EQ(file.get_int("value.i32"), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(file.get_int("value.i64"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(std::get<std::uint64_t>(file.find("value.u64")->data), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(file.get_float("value.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(file.get_float("value.f64"), 0.1);
  EXPECT_EQ(file.get_float("value.i8"), -128.0);
  EXPECT_EQ(file.get_float("value.u64"), 0x1p64);
  EXPECT_EQ(file.get_bool("value.true"), true);
  EXPECT_EQ(file.get_bool("value.false"), false);
  EXPECT_EQ(file.get_string("value.string"), "Grüße → 🧵");
  EXPECT_EQ(file.get_string("value.empty"), "");

  EXPECT_THAT(*file.get_ints("array.u8"), ElementsAre(0, 255));
  EXPECT_THAT(*file.get_ints("array.i8"), ElementsAre(-128, 127));
  EXPECT_THAT(*file.get_ints("array.u16"), ElementsAre(0, 65535));
  EXPECT_THAT(*file.get_ints("array.i16"), ElementsAre(-32768, 32767));
  EXPECT_THAT(*file.get_ints("array.u32"), ElementsAre(0, 4294967295));
  EXPECT_THAT(*file.get_ints("array.i32"), ElementsAre(-2147483648, 2147483647));
  EXPECT_EQ(*file.get_ints("array.i64"), extremes<std::int64_t>());
  EXPECT_THAT(*file.get_floats("array.f32"), ElementsAre(0.5, static_cast<double>(-1e30f)));
  EXPECT_THAT(*file.get_floats("array.f64"), ElementsAre(0.1, 1e300));
  EXPECT_THAT(*file.get_floats("array.i8"), ElementsAre(-128.0, 127.0));
  EXPECT_THAT(*file.get_bools("array.bool"), ElementsAre(true, false, true));
  EXPECT_THAT(*file.get_strings("array.string"), ElementsAre("one", "", "three"));
  const auto& outer = std::get<Array>(file.find("array.array")->data);
  ASSERT_EQ(outer.size(), 2u);
  const auto& inner = std::get<Array>(std::get<std::vector<Value>>(outer.elements)[0].data);
  EXPECT_EQ(inner.element_type, ValueType::kI32);
  EXPECT_EQ(std::get<Numbers<std::int64_t>>(inner.elements)[1], 2);
}

TEST(Gguf, MissingKeysGiveNothing) {
  const File file = File::open(kData / "values.gguf");
  EXPECT_EQ(file.find("value.u"), nullptr);
  EXPECT_EQ(file.find(""), nullptr);
  EXPECT_FALSE(file.get_int("nothing").has_value());
  EXPECT_FALSE(file.get_float("nothing").has_value());
  EXPECT_FALSE(file.get_bool("nothing").has_value());
  EXPECT_FALSE(file.get_string("nothing").has_value());
  EXPECT_EQ(file.get_strings("nothing"), nullptr);
  EXPECT_FALSE(file.get_ints("nothing").has_value());
  EXPECT_FALSE(file.get_floats("nothing").has_value());
  EXPECT_FALSE(file.get_bools("nothing").has_value());
  EXPECT_EQ(file.find_tensor("nothing"), nullptr);
}

TEST(Gguf, WrongTypesAreRefusedWithKeyAndBothTypes) {
  const File file = File::open(kData / "values.gguf");
  const auto refuses = [](auto f, const std::string& text) {
    expect_error(f, ErrorCode::kInvalidFile, text);
  };
  refuses([&] { file.get_int("value.f32"); }, "\"value.f32\": found 0.100000, expected an integer");
  refuses([&] { file.get_int("value.string"); }, "type string, expected an integer");
  refuses([&] { file.get_int("value.u64"); }, "18446744073709551615");
  refuses([&] { file.get_int("array.u8"); }, "array of u8");
  refuses([&] { file.get_float("value.string"); }, "type string");
  refuses([&] { file.get_bool("value.u8"); }, "\"value.u8\": found 255, expected true or false");
  refuses([&] { file.get_bool("value.string"); }, "type string");
  refuses([&] { file.get_string("value.u8"); }, "type u8");
  refuses([&] { file.get_strings("array.u8"); }, "array of u8");
  refuses([&] { file.get_strings("value.string"); }, "type string");
  refuses([&] { file.get_ints("array.f32"); }, "\"array.f32\": element 0 is 0.500000");
  refuses([&] { file.get_ints("array.u64"); }, "element 1");
  refuses([&] { file.get_ints("value.u8"); }, "type u8");
  refuses([&] { file.get_floats("array.string"); }, "array of string");
  refuses([&] { file.get_floats("array.array"); }, "array of array");
  refuses([&] { file.get_bools("array.u8"); }, "\"array.u8\": element 1 is 255");
  refuses([&] { file.get_bool("value.u8"); }, "values.gguf: ");
}

TEST(Gguf, StringsThatSpellBoolsAreReadWithANote) {
  Writer writer;
  writer.set("general.name", "true");
  for (const char* const word : {"true", "false", "True", "False", "yes", "TRUE", "true ", "1", ""})
    writer.set("flag." + std::string(word), word);
  const std::vector<std::byte> bytes = writer.to_bytes();
  const File file = File::parse(bytes);
  EXPECT_EQ(file.get_bool("flag.true"), true);
  EXPECT_EQ(file.get_bool("flag.false"), false);
  EXPECT_EQ(file.get_bool("flag.True"), true);
  EXPECT_EQ(file.get_bool("flag.False"), false);
  for (const char* const word : {"yes", "TRUE", "true ", "1", ""})
    expect_error([&] { file.get_bool("flag." + std::string(word)); }, ErrorCode::kInvalidFile,
                 "it is of type string, expected bool");
  ASSERT_EQ(file.notes().size(), 4u);
  EXPECT_THAT(file.notes()[0], HasSubstr("\"flag.true\" is the string \"true\""));
}

TEST(Gguf, NumbersOfOtherTypesConvertWhereTheyStayTheSame) {
  Writer writer;
  writer.set("f32", 32.0f);
  writer.set("f64", -4503599627370496.0);
  writer.set("large", 1e300);
  writer.set("true", true);
  writer.set("u8", std::uint8_t{1});
  writer.set("i64", std::int64_t{0});
  writer.set("name", std::uint32_t{5});
  writer.set_array("floats", std::vector<float>{1.0f, -2.0f});
  writer.set_array("flags", std::vector<bool>{true, false});
  writer.set_array("bytes", std::vector<std::uint8_t>{0, 1});
  const std::vector<std::byte> bytes = writer.to_bytes();
  const File file = File::parse(bytes);
  EXPECT_EQ(file.get_int("f32"), 32);
  EXPECT_EQ(file.get_int("f64"), -4503599627370496);
  EXPECT_THROW(file.get_int("large"), Error);
  EXPECT_EQ(file.get_int("true"), 1);
  EXPECT_EQ(file.get_float("true"), 1.0);
  EXPECT_EQ(file.get_bool("u8"), true);
  EXPECT_EQ(file.get_bool("i64"), false);
  EXPECT_THROW(file.get_bool("f32"), Error);
  EXPECT_THAT(*file.get_ints("floats"), ElementsAre(1, -2));
  EXPECT_THAT(*file.get_ints("flags"), ElementsAre(1, 0));
  EXPECT_THAT(*file.get_bools("bytes"), ElementsAre(false, true));
  EXPECT_THROW(file.get_bools("floats"), Error);
  EXPECT_EQ(file.get_label("name"), "");
  EXPECT_EQ(file.get_label("nothing"), "");
}

TEST(Gguf, ReadsTensors) {
  const File file = File::open(kData / "tensors.gguf");
  ASSERT_EQ(file.tensors().size(), 5u);
  EXPECT_EQ(file.tensors()[0].name, "vector");
  const TensorInfo& matrix = *file.find_tensor("matrix");
  EXPECT_EQ(matrix.dtype, DType::kF16);
  EXPECT_THAT(matrix.shape, ElementsAre(2, 3));
  EXPECT_THAT(values_of(matrix), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(values_of(*file.find_tensor("vector")), ElementsAre(0, 1, 2, 3, 4));
  const TensorInfo& four = *file.find_tensor("four.dims");
  EXPECT_EQ(four.dtype, DType::kI32);
  EXPECT_THAT(four.shape, ElementsAre(2, 3, 4, 1));
  EXPECT_EQ(four.n_elements(), 24);
  EXPECT_EQ(values_of(four)[23], 23.0f);
  const TensorInfo& quantised = *file.find_tensor("quantised");
  EXPECT_EQ(quantised.data.size(), 68u);
  EXPECT_NEAR(values_of(quantised)[63], 63.0f, 0.1f);
  EXPECT_THAT(values_of(*file.find_tensor("byte")), ElementsAre(-7));

  std::vector<std::byte> copy(matrix.data.size());
  file.read(matrix.data, copy);
  EXPECT_TRUE(std::ranges::equal(copy, matrix.data));
}

TEST(Gguf, KnowsEveryTypesBlockAsPythonDoes) {
  const File file = File::open(kData / "types.gguf");
  ASSERT_EQ(file.tensors().size(), all_dtypes().size());
  for (const TensorInfo& tensor : file.tensors()) {
    const DTypeInfo& type = info(tensor.dtype);
    EXPECT_EQ(dtype_from_name(tensor.name), tensor.dtype);
    EXPECT_THAT(tensor.shape, ElementsAre(1, type.block_elements)) << tensor.name;
    const auto fill = static_cast<std::byte>(tensor.name.back());
    EXPECT_THAT(tensor.data, testing::Each(fill)) << tensor.name;
  }
}

TEST(Gguf, ParsesBytesAndMoves) {
  const std::vector<std::byte> bytes = read_bytes(kData / "tensors.gguf");
  File file = File::parse(bytes);
  EXPECT_EQ(file.file_bytes(), bytes.size());
  const TensorInfo* matrix = file.find_tensor("matrix");
  const File moved = std::move(file);
  EXPECT_EQ(moved.find_tensor("matrix"), matrix);
  EXPECT_THAT(values_of(*matrix), ElementsAre(0, 1, 2, 3, 4, 5));
  std::vector<std::byte> copy(matrix->data.size());
  moved.read(matrix->data, copy);
  EXPECT_TRUE(std::ranges::equal(copy, matrix->data));
}

TEST(Gguf, HeadersOfAnySizeAreReadFromFilesAsFromBytes) {
  // Values that end before, on and after the ends of one read.
  Writer writer;
  std::vector<std::int32_t> numbers(300000);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::string> words;
  for (int i = 0; i < 60000; ++i) words.push_back("word " + std::to_string(i));
  writer.set_array("words", words);
  writer.set_array("numbers", numbers);
  writer.set("long", std::string(1 << 18, 'x'));
  writer.set("last", std::uint32_t{7});
  const fs::path path = fs::path(testing::TempDir()) / ("weft_gguf_large_" + std::to_string(::getpid()));
  writer.write_file(path);
  const File file = File::open(path);
  fs::remove(path);
  EXPECT_EQ(*file.get_strings("words"), words);
  EXPECT_TRUE(std::ranges::equal(file.get_ints("numbers").value(), numbers));
  EXPECT_EQ(file.get_string("long"), std::string(1 << 18, 'x'));
  EXPECT_EQ(file.get_int("last"), 7);
}

TEST(Gguf, AFileThatIsCutWhileItIsOpenIsAnError) {
  const fs::path path = fs::path(testing::TempDir()) / ("weft_gguf_cut_" + std::to_string(::getpid()));
  fs::copy_file(kData / "tensors.gguf", path, fs::copy_options::overwrite_existing);
  const File file = File::open(path);
  const base::MappedFile mapped(path);
  fs::resize_file(path, 100);  // Within the header.
  const TensorInfo& matrix = *file.find_tensor("matrix");
  std::vector<std::byte> copy(matrix.data.size());
  expect_error([&] { file.read(matrix.data, copy); }, ErrorCode::kIo, "do not change it while it is in use");
  expect_error([&] { read_part(mapped, path.string()); }, ErrorCode::kIo, path.string());
  fs::remove(path);
}

TEST(Gguf, Version2IsReadToo) {
  std::vector<std::byte> bytes = read_bytes(kData / "tensors.gguf");
  bytes[4] = std::byte{2};
  const File file = File::parse(bytes);
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.tensors().size(), 5u);
}

TEST(GgufSplit, AnyPartOpensTheSet) {
  for (const char* name : {"set-00001-of-00003.gguf", "set-00002-of-00003.gguf", "set-00003-of-00003.gguf"}) {
    const File file = File::open(kData / name);
    EXPECT_EQ(file.n_parts(), 3);
    EXPECT_EQ(file.get_int("llama.block_count"), 7);
    EXPECT_EQ(file.get_int("split.no"), 0) << "metadata are the first part's";
    ASSERT_EQ(file.tensors().size(), 7u);
    for (int i = 0; i < 7; ++i) {
      const TensorInfo& tensor = *file.find_tensor("tensor." + std::to_string(i));
      EXPECT_EQ(&tensor, &file.tensors()[static_cast<std::size_t>(i)]);
      EXPECT_THAT(values_of(tensor), ElementsAre(i, i, i));
      std::vector<std::byte> copy(tensor.data.size());
      file.read(tensor.data, copy);
      EXPECT_TRUE(std::ranges::equal(copy, tensor.data)) << "each part from its own file";
    }
    std::size_t bytes = 0;
    for (int i = 1; i <= 3; ++i)
      bytes += fs::file_size(kData / ("set-0000" + std::to_string(i) + "-of-00003.gguf"));
    EXPECT_EQ(file.file_bytes(), bytes);
  }
}

class GgufSplitFolder : public testing::Test {
 protected:
  GgufSplitFolder() {
    for (int i = 1; i <= 3; ++i) fs::copy_file(kData / part(i), folder_ / part(i));
  }
  static std::string part(int i) { return "set-0000" + std::to_string(i) + "-of-00003.gguf"; }
  void refuses(ErrorCode code, const std::string& text, int opened = 1) {
    expect_error([&] { File::open(folder_ / part(opened)); }, code, text);
  }
  Folder folder_;
};

TEST_F(GgufSplitFolder, AMissingPartIsNamed) {
  fs::remove(folder_ / part(2));
  refuses(ErrorCode::kNotFound, part(2));
  refuses(ErrorCode::kNotFound, "part 2 of 3", 3);
}

TEST_F(GgufSplitFolder, ADamagedPartIsNamed) {
  fs::resize_file(folder_ / part(3), fs::file_size(folder_ / part(3)) - 40);
  refuses(ErrorCode::kInvalidFile, part(3));
}

TEST_F(GgufSplitFolder, PartsInTheWrongPlaceAreRefused) {
  fs::copy_file(folder_ / part(2), folder_ / part(3), fs::copy_options::overwrite_existing);
  refuses(ErrorCode::kInvalidFile, part(3) + ": metadata key \"split.no\": found 1, expected 2");
  refuses(ErrorCode::kInvalidFile, "names must end in -00002-of-00003.gguf", 3);
}

TEST_F(GgufSplitFolder, AnotherSetsPartIsRefused) {
  Writer writer;
  writer.set("split.no", std::uint16_t{1});
  writer.set("split.count", std::uint16_t{3});
  writer.set("split.tensors.count", std::int32_t{9});
  writer.write_file(folder_ / part(2));
  refuses(ErrorCode::kInvalidFile, part(2) + ": metadata key \"split.tensors.count\": found 9, expected 7");
  writer.set("split.tensors.count", std::int32_t{7});
  writer.write_file(folder_ / part(2));
  refuses(ErrorCode::kInvalidFile, "the parts hold 4 tensors");
  const std::array<float, 3> data{};
  for (const char* name : {"tensor.0", "b", "c"})
    writer.add_tensor(name, DType::kF32, {3}, std::as_bytes(std::span(data)));
  writer.write_file(folder_ / part(2));
  refuses(ErrorCode::kInvalidFile, "tensor \"tensor.0\" occurs twice");
}

TEST_F(GgufSplitFolder, WrongCountsAreRefused) {
  const auto with = [&](const char* key, auto value) {
    Writer writer;
    writer.set("split.no", std::uint16_t{0});
    writer.set("split.count", std::uint16_t{3});
    writer.set("split.tensors.count", std::int32_t{7});
    writer.set(key, value);
    writer.write_file(folder_ / part(1));
  };
  with("split.no", std::uint16_t{3});
  refuses(ErrorCode::kInvalidFile, "\"split.no\": found 3, expected 0 to 2");
  with("split.no", std::int32_t{-1});
  refuses(ErrorCode::kInvalidFile, "\"split.no\": found -1");
  with("split.no", 0.5f);
  refuses(ErrorCode::kInvalidFile, "\"split.no\": expected an integer");
  with("split.no", 3.0f);
  refuses(ErrorCode::kInvalidFile, "\"split.no\": found 3, expected 0 to 2");
  with("split.no", "0");
  refuses(ErrorCode::kInvalidFile, "\"split.no\": expected an integer");
  with("split.count", std::uint64_t{1} << 62);
  refuses(ErrorCode::kInvalidFile, "\"split.count\"");
  with("split.tensors.count", std::int32_t{-1});
  refuses(ErrorCode::kInvalidFile, "\"split.tensors.count\"");
}

TEST_F(GgufSplitFolder, BytesOfOnePartAreNoFile) {
  const std::vector<std::byte> bytes = read_bytes(folder_ / part(1));
  expect_error([&] { File::parse(bytes); }, ErrorCode::kInvalidFile, "one of 3 parts");
}

TEST(GgufWriter, WritesTheBytesThatPythonWrites) {
  EXPECT_EQ(values_writer().to_bytes(), read_bytes(kData / "values.gguf"));

  const std::vector<std::byte> expected = read_bytes(kData / "tensors.gguf");
  const File file = File::parse(expected);
  Writer writer;
  writer.set("general.architecture", "llama");
  writer.set("general.alignment", std::uint32_t{64});
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == "matrix")
      writer.add_tensor(tensor.name, tensor.dtype, tensor.shape,
                        [data = tensor.data](std::span<std::byte> out) {
                          std::copy(data.begin(), data.end(), out.begin());
                        });
    else
      writer.add_tensor(tensor.name, tensor.dtype, tensor.shape, tensor.data);
  }
  EXPECT_EQ(writer.to_bytes(), expected);
}

TEST(GgufWriter, WhatIsReadCanBeWrittenAgain) {
  const std::vector<std::byte> bytes = values_writer().to_bytes();
  const File file = File::parse(bytes);
  Writer writer;
  for (const File::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  EXPECT_EQ(writer.to_bytes(), bytes);
}

TEST(GgufWriter, LongTensorNamesAreWrittenAgain) {
  const std::array<float, 1> data{};
  const auto bytes = std::as_bytes(std::span(data));
  Writer writer;
  for (const std::size_t n : {64, 255}) writer.add_tensor(std::string(n, 'a'), DType::kF32, {1}, bytes);
  expect_error([&] { writer.add_tensor(std::string(256, 'a'), DType::kF32, {1}, bytes); },
               ErrorCode::kInvalidArgument, "256 bytes, expected 1 to 255");
  const std::vector<std::byte> written = writer.to_bytes();
  const File file = File::parse(written);
  EXPECT_NE(file.find_tensor(std::string(64, 'a')), nullptr);
  EXPECT_NE(file.find_tensor(std::string(255, 'a')), nullptr);
}

TEST(GgufWriter, AnAlignmentThatIsReadCanBeSet) {
  Writer writer;
  for (const auto& [read, written] : {std::pair(1, 8), {4, 8}, {8, 8}, {64, 64}, {65536, 65536}}) {
    writer.set_alignment(read);
    EXPECT_EQ(writer.planned().get_int("general.alignment"), written);
  }
}

TEST(GgufWriter, NamesOfManyKeysAndTensorsAreKept) {
  const std::array<float, 1> data{};
  const auto bytes = std::as_bytes(std::span(data));
  Writer writer;
  constexpr int kMany = 20'000;
  const auto name = [](int i) { return "name." + std::to_string(i); };
  for (const int round : {1, 2})
    for (int i = 0; i < kMany; ++i) writer.set(name(i), i * round);
  for (int i = 0; i < kMany; ++i) writer.add_tensor(name(i), DType::kF32, {1}, bytes);
  expect_error([&] { writer.add_tensor(name(7), DType::kF32, {1}, bytes); }, ErrorCode::kInvalidArgument,
               "\"name.7\" exists already");
  // A refused tensor leaves its name free.
  expect_error([&] { writer.add_tensor("new", DType::kF32, {2}, bytes); }, ErrorCode::kInvalidArgument,
               "4 bytes, expected 8");
  writer.add_tensor("new", DType::kF32, {1}, bytes);
  const File file = writer.planned();
  ASSERT_EQ(file.metadata().size(), static_cast<std::size_t>(kMany));
  EXPECT_EQ(file.metadata()[7].key, "name.7");
  EXPECT_EQ(file.get_int("name.7"), 14);
  EXPECT_EQ(file.tensors().size(), static_cast<std::size_t>(kMany) + 1);
}

TEST(GgufWriter, EveryTensorTypeComesBack) {
  Writer writer;
  std::vector<std::vector<std::byte>> data;
  for (const DTypeInfo& type : all_dtypes()) {
    data.emplace_back(3 * row_bytes(type.type, 256));
    std::iota(reinterpret_cast<unsigned char*>(data.back().data()),
              reinterpret_cast<unsigned char*>(data.back().data() + data.back().size()),
              static_cast<unsigned char>(data.size()));
    writer.add_tensor(type.name, type.type, {3, 256}, data.back());
  }
  const std::vector<std::byte> bytes = writer.to_bytes();
  const File file = File::parse(bytes);
  for (std::size_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(file.tensors()[i].dtype, all_dtypes()[i].type);
    EXPECT_TRUE(std::equal(data[i].begin(), data[i].end(), file.tensors()[i].data.begin(),
                           file.tensors()[i].data.end()));
  }
}

TEST(GgufWriter, RejectsUnreadableValues) {
  const auto refuses = [](auto f, const std::string& text) {
    expect_error(f, ErrorCode::kInvalidArgument, text);
  };
  Writer writer;
  const std::array<float, 64> data{};
  const auto bytes = std::as_bytes(std::span(data));
  writer.add_tensor("a", DType::kF32, {64}, bytes);
  refuses([&] { writer.add_tensor("a", DType::kF32, {64}, bytes); }, "\"a\" exists already");
  refuses([&] { writer.add_tensor("", DType::kF32, {64}, bytes); }, "0 bytes");
  refuses([&] { writer.add_tensor("x\n", DType::kF32, {64}, bytes); }, "control character");
  refuses([&] { writer.add_tensor("b", DType::kF32, {63}, bytes); }, "256 bytes, expected 252");
  refuses([&] { writer.add_tensor("b", DType::kQ4_0, {63}, bytes); }, "multiple of 32");
  refuses([&] { writer.add_tensor("b", DType::kF32, {}, bytes); }, "0 dimensions");
  refuses([&] { writer.add_tensor("b", DType::kF32, {1, 1, 1, 1, 64}, bytes); }, "5 dimensions");
  refuses([&] { writer.add_tensor("b", DType::kF32, {0, 64}, bytes); }, "dimension of 0");
  refuses([&] { writer.add_tensor("b", DType::kF32, {1L << 40, 1L << 40}, bytes); }, "too large");
  refuses([&] { writer.set("", true); }, "0 bytes");
  refuses([&] { writer.set("general.alignment", std::uint32_t{48}); }, "power of two");
  refuses([&] { writer.set("general.alignment", 64); }, "power of two");
  refuses([&] { writer.set("k", Value{ValueType::kString, 1.0}); }, "does not have the type");
  EXPECT_EQ(File::parse(writer.to_bytes()).tensors().size(), 1u) << "what was refused leaves nothing behind";
}

TEST(GgufWriter, AFileIsReplacedWholeOrNotAtAll) {
  const Folder folder;
  const fs::path path = folder / "model.gguf";
  write_bytes(path, std::as_bytes(std::span("before", 6)));

  Writer writer;
  writer.add_tensor("a", DType::kF32, {2},
                    [](std::span<std::byte>) { throw Error(ErrorCode::kIo, "no data"); });
  expect_error([&] { writer.write_file(path); }, ErrorCode::kIo, "no data");
  EXPECT_EQ(read_bytes(path).size(), 6u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "no temporary file is left";

  values_writer().write_file(path);
  EXPECT_EQ(read_bytes(path), read_bytes(kData / "values.gguf"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);

  expect_error([&] { values_writer().write_file(folder / "none" / "model.gguf"); }, ErrorCode::kIo,
               "cannot create");
}

TEST(Gguf, MissingAndEmptyFiles) {
  const Folder folder;
  expect_error([&] { File::open(folder / "none.gguf"); }, ErrorCode::kNotFound, "none.gguf");
  write_bytes(folder / "empty.gguf", {});
  expect_error([&] { File::open(folder / "empty.gguf"); }, ErrorCode::kInvalidFile,
               "empty.gguf: not a GGUF file");
  expect_error([&] { File::parse({}); }, ErrorCode::kInvalidFile, "not a GGUF file: it has 0 bytes");
}

TEST(Gguf, RejectsGitLfsPointersWithAdvice) {
  for (const char* text :
       {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\n"
        "size 538090408\n",
        "version https://git-lfs.github.com/spec/v1"})
    expect_error([&] { File::parse(std::as_bytes(std::span(std::string_view(text)))); },
                 ErrorCode::kInvalidFile, "git lfs pull");
}

TEST(Gguf, PlannedFilesMatchWrittenOnes) {
  Writer writer = values_writer();
  writer.add_tensor("w", DType::kF32, {2, 3}, [](std::span<std::byte>) {});
  const File planned = writer.planned();
  const std::vector<std::byte> bytes = writer.to_bytes();
  const File written = File::parse(bytes);
  EXPECT_EQ(planned.metadata().size(), written.metadata().size());
  ASSERT_NE(planned.find_tensor("w"), nullptr);
  EXPECT_EQ(planned.find_tensor("w")->shape, written.find_tensor("w")->shape);
  EXPECT_TRUE(planned.find_tensor("w")->data.empty());
}

// Models and vocabularies that other programs wrote.
TEST(Gguf, ReadsModelsAndVocabularies) {
  int n_models = 0;
  int n_vocabularies = 0;
  for (const auto& entry : fs::recursive_directory_iterator(WEFT_TEST_DATA)) {
    if (entry.path().extension() != ".gguf") continue;
    const File file = File::open(entry.path());
    const auto* tokens = file.get_strings("tokenizer.ggml.tokens");
    if (tokens == nullptr) continue;
    EXPECT_TRUE(file.get_string("general.architecture").has_value()) << entry.path();
    EXPECT_EQ(file.get_ints("tokenizer.ggml.token_type")->size(), tokens->size()) << entry.path();
    const TensorInfo* embedding = file.find_tensor("token_embd.weight");
    if (embedding == nullptr) {
      EXPECT_TRUE(file.tensors().empty()) << entry.path();
      ++n_vocabularies;
      continue;
    }
    ++n_models;
    EXPECT_EQ(embedding->shape.size(), 2u);
    EXPECT_EQ(embedding->shape[0], static_cast<std::int64_t>(tokens->size())) << entry.path();
    double sum = 0.0;
    for (const float value : values_of(*embedding)) sum += std::abs(value);
    EXPECT_TRUE(sum > 0.0 && sum < 1e9) << entry.path();
  }
  EXPECT_GT(n_models, 100);
  EXPECT_GT(n_vocabularies, 5);
}

}  // namespace
}  // namespace weft::gguf
