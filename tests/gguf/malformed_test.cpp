// Damaged files, one field at a time: each must be refused with the name of the wrong field, and none may
// crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fields.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/error.h"

namespace weft::gguf {
namespace {

using test::Field;
using test::FieldKind;
using test::FieldWalk;
using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Value nested(int depth) {
  Value value{ValueType::kArray, {}};
  Array& array = value.data.emplace<Array>();
  array.element_type = depth == 1 ? ValueType::kU8 : ValueType::kArray;
  if (depth == 1)
    array.elements = Numbers<std::uint64_t>(ValueType::kU8, Bytes(2));
  else
    array.elements = std::vector<Value>{nested(depth - 1)};
  return value;
}

// Keys and tensors of every sort.
Bytes valid_file() {
  static const Bytes data(2048);
  Writer writer;
  writer.set("general.architecture", "llama");
  writer.set("general.alignment", std::uint32_t{32});
  writer.set("n", std::uint32_t{7});
  writer.set("flag", true);
  writer.set("text", "some text");
  writer.set_array("words", std::vector<std::string>{"a", "bc", ""});
  writer.set_array("numbers", std::vector<std::int32_t>{1, 2, 3});
  writer.set_array("flags", std::vector<bool>{true, false});
  writer.set("nested", nested(3));
  writer.add_tensor("weight_a", DType::kF32, {4, 8}, std::span(data).first(128));
  writer.add_tensor("weight_b", DType::kQ4_0, {2, 64}, std::span(data).first(72));
  writer.add_tensor("weight_c", DType::kF16, {2, 3, 5}, std::span(data).first(60));
  writer.add_tensor("weight_d", DType::kI8, {1}, std::span(data).first(1));
  return writer.to_bytes();
}

// The message with which a file is refused; empty where it is accepted. Touches all that was read.
std::string refusal(std::span<const std::byte> bytes, ErrorCode* code = nullptr) {
  // A copy of exactly this size, so that a sanitizer sees every byte read beyond it.
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  try {
    const File file = File::parse({copy.get(), bytes.size()});
    volatile unsigned sum = 0;
    for (const TensorInfo& tensor : file.tensors())
      for (const std::byte byte : tensor.data) sum = sum + std::to_integer<unsigned>(byte);
    return {};
  } catch (const Error& error) {
    if (code != nullptr) *code = error.code();
    return error.what();
  }
}

void put(Bytes& file, std::size_t at, std::size_t n, std::uint64_t value) {
  std::memcpy(file.data() + at, &value, n);
}

std::uint64_t get(const Bytes& file, const Field& field) {
  std::uint64_t value = 0;
  std::memcpy(&value, file.data() + field.at, field.bytes);
  return value;
}

class Malformed : public testing::Test {
 protected:
  Malformed() : file_(valid_file()), walk_(file_) {}

  // Expects that the file with `value` in that field is refused and that the message holds `text`.
  void refuses(const Field& field, std::uint64_t value, const std::string& text = {},
               ErrorCode expected = ErrorCode::kInvalidFile) {
    if (get(file_, field) == value) return;
    Bytes damaged = file_;
    put(damaged, field.at, field.bytes, value);
    ErrorCode code{};
    const std::string message = refusal(damaged, &code);
    SCOPED_TRACE("byte " + std::to_string(field.at) + " set to " + std::to_string(value) + ", of \"" +
                 field.owner + "\": " + message);
    EXPECT_FALSE(message.empty()) << "accepted";
    EXPECT_EQ(code, expected);
    EXPECT_THAT(message, HasSubstr(text));
    ++n_refused_;
  }

  void refuses_each(FieldKind kind, std::initializer_list<std::uint64_t> values,
                    const std::string& text = {}) {
    for (const Field& field : walk_.fields())
      if (field.kind == kind)
        for (const std::uint64_t value : values)
          refuses(field, value, text.empty() && !field.owner.empty() ? "\"" + field.owner + "\"" : text);
  }

  const Field& field(FieldKind kind, const std::string& owner) const {
    for (const Field& field : walk_.fields())
      if (field.kind == kind && field.owner == owner) return field;
    throw std::logic_error("no such field");
  }

  void TearDown() override { RecordProperty("refused", n_refused_); }

  Bytes file_, damaged_;
  FieldWalk walk_;
  int n_refused_ = 0;
};

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kHighBit = std::uint64_t{1} << 63;

TEST_F(Malformed, TheFileItselfIsAccepted) {
  EXPECT_EQ(refusal(file_), "");
  EXPECT_GT(walk_.fields().size(), 60u);
}

TEST_F(Malformed, EveryTruncationIsRefused) {
  // The last tensor has one byte, then comes padding, which may be missing.
  const std::size_t needed = file_.size() - 31;
  EXPECT_EQ(refusal(std::span(file_).first(needed)), "");
  for (std::size_t n = 0; n < needed; ++n) {
    ErrorCode code{};
    ASSERT_NE(refusal(std::span(file_).first(n), &code), "") << n << " bytes";
    ASSERT_EQ(code, ErrorCode::kInvalidFile) << n << " bytes";
  }
}

TEST_F(Malformed, Header) {
  refuses_each(FieldKind::kMagic, {0, kMax, 0x47475546, 0x46554746, 0x6c6d6767}, "not a GGUF file");
  refuses_each(FieldKind::kVersion, {0, 4, 100, 0x7fffffff, 0xffffffff}, "expected 2 or 3");
  refuses_each(FieldKind::kVersion, {1}, "version 1");
  refuses_each(FieldKind::kVersion, {0x02000000, 0x03000000}, "big-endian");
  for (const FieldKind kind : {FieldKind::kTensorCount, FieldKind::kKeyCount})
    refuses_each(kind,
                 {kMax, kHighBit, kHighBit - 1, kMax / 33, kMax / 14 + 2, 1ull << 32, 1ull << 20, 1000, 14});
  // What follows is then read as the other thing. (One tensor less is a valid file.)
  refuses_each(FieldKind::kTensorCount, {5, 6, 8});
  refuses_each(FieldKind::kKeyCount, {3, 5, 8, 10});
  EXPECT_GT(n_refused_, 20);
}

TEST_F(Malformed, Lengths) {
  for (const FieldKind kind : {FieldKind::kStringLength, FieldKind::kArrayLength})
    refuses_each(
        kind, {kMax, kMax - 7, kHighBit, kHighBit - 1, kMax / 4 + 1, kMax / 8 + 1, 1ull << 32, file_.size()});
  // The name is not known yet: its number is.
  refuses_each(FieldKind::kKeyLength, {0, kMax, kHighBit, 65536, 1ull << 32, file_.size()}, "metadata key ");
  refuses_each(FieldKind::kNameLength, {0, kMax, kHighBit, 256, 1ull << 32, file_.size()}, "tensor ");
  EXPECT_GT(n_refused_, 100);
}

TEST_F(Malformed, TypesOfValues) {
  for (const FieldKind kind : {FieldKind::kValueType, FieldKind::kElementType})
    refuses_each(kind, {13, 14, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff});
  EXPECT_GT(n_refused_, 80);
}

// What is odd and has one meaning is read, with a note that names it.
TEST_F(Malformed, OddValuesAreReadWithANote) {
  const auto read = [&](const Field& field, std::uint64_t value) {
    damaged_ = file_;
    put(damaged_, field.at, field.bytes, value);
    return File::parse(damaged_);
  };
  for (const std::uint64_t value : {2, 3, 127, 128, 255}) {
    const File flag = read(field(FieldKind::kBool, "flag"), value),
               list = read(field(FieldKind::kBool, "flags"), value);
    EXPECT_EQ(flag.get_bool("flag"), true);
    EXPECT_EQ(list.get_bools("flags")->at(0), true);
    EXPECT_THAT(flag.notes(), testing::ElementsAre(HasSubstr("metadata key \"flag\": found the bool")));
    EXPECT_THAT(list.notes(), testing::ElementsAre(HasSubstr("metadata key \"flags\"")));
  }
  const File empty = read(field(FieldKind::kDim, "weight_a"), 0);
  EXPECT_EQ(empty.find_tensor("weight_a"), nullptr);
  EXPECT_NE(empty.find_tensor("weight_b"), nullptr);
  EXPECT_THAT(empty.notes(), testing::ElementsAre(HasSubstr("tensor \"weight_a\": it has no elements")));
  EXPECT_THAT(File::parse(file_).notes(), testing::IsEmpty());
}

TEST_F(Malformed, Shapes) {
  refuses_each(FieldKind::kDimCount, {5, 6, 255, 0x7fffffff, 0x80000000, 0xffffffff});
  refuses_each(FieldKind::kDim,
               {kMax, kHighBit, kHighBit - 1, 1ull << 62, 1ull << 61, (1ull << 42) + 1, 1ull << 32, 100000});
  // Products that wrap to something small.
  Bytes damaged = file_;
  const Field& dim = field(FieldKind::kDim, "weight_a");
  put(damaged, dim.at, 8, 1ull << 32);
  put(damaged, dim.at + 8, 8, 1ull << 32);
  EXPECT_THAT(refusal(damaged), HasSubstr("\"weight_a\""));
  put(damaged, dim.at + 8, 8, (1ull << 31) - 1);
  EXPECT_THAT(refusal(damaged), HasSubstr("\"weight_a\""));
  // A dimension of 0 does not hide that the others overflow.
  const Field& empty = field(FieldKind::kDim, "weight_c");
  for (std::size_t zero = 0; zero < 3; ++zero) {
    damaged = file_;
    for (std::size_t i = 0; i < 3; ++i) put(damaged, empty.at + 8 * i, 8, i == zero ? 0 : kHighBit - 1);
    EXPECT_THAT(refusal(damaged), HasSubstr("\"weight_c\": its dimensions are too large"));
  }
  for (const std::uint64_t n : {1, 16, 31, 33, 63, 65})
    refuses(field(FieldKind::kDim, "weight_b"), n,
            "\"weight_b\": rows of " + std::to_string(n) + " elements");
}

TEST_F(Malformed, TypesOfTensors) {
  refuses_each(FieldKind::kTensorType,
               {4, 5, 31, 32, 33, 36, 37, 38, 42, 100, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff});
  refuses(field(FieldKind::kTensorType, "weight_a"), 4, "unknown type 4");
  for (const auto& [id, type] : {std::pair{9u, "Q8_1"}, {15u, "Q8_K"}})
    refuses(field(FieldKind::kTensorType, "weight_a"), id,
            std::string("\"weight_a\": weft cannot read type ") + type, ErrorCode::kUnsupported);
}

TEST_F(Malformed, Offsets) {
  refuses_each(FieldKind::kOffset, {1, 31, 33, kMax, kMax - 1, kHighBit + 1}, "alignment");
  refuses_each(FieldKind::kOffset, {kMax - 31, kHighBit, 1ull << 40, 100000 * 32, file_.size() / 32 * 32});
  refuses(field(FieldKind::kOffset, "weight_b"), 0, "overlap");
  refuses(field(FieldKind::kOffset, "weight_b"), 96, "overlap those of tensor \"weight_a\"");
  refuses(field(FieldKind::kOffset, "weight_d"), 128, "overlap");
  refuses(field(FieldKind::kOffset, "weight_c"), 320, "beyond");
}

TEST_F(Malformed, Alignment) {
  // The value follows its type.
  const Field& type = field(FieldKind::kValueType, "general.alignment");
  const Field value{FieldKind::kDim, type.at + 4, 4, "general.alignment"};
  for (const std::uint64_t wrong : {0ull, 3ull, 24ull, 31ull, 33ull, 131072ull, 1ull << 31, 0xffffffffull})
    refuses(value, wrong, "\"general.alignment\": found " + std::to_string(wrong));
  refuses(value, 64, "alignment");  // The offsets don't fit it.
  refuses(type, 6, "\"general.alignment\": it is of type f32, expected an integer");
  Bytes signed_one = file_;
  put(signed_one, type.at, type.bytes, 5);
  EXPECT_EQ(refusal(signed_one), "");
  put(signed_one, value.at, value.bytes, 0xffffffff);
  EXPECT_THAT(refusal(signed_one), HasSubstr("\"general.alignment\": found -1"));
  Bytes with_point = file_;  // A number of any type that is an integer.
  put(with_point, type.at, type.bytes, 6);
  put(with_point, value.at, value.bytes, std::bit_cast<std::uint32_t>(32.0f));
  EXPECT_EQ(refusal(with_point), "");
}

TEST_F(Malformed, NamesThatAreThereTwice) {
  const auto rename = [&](FieldKind kind, const std::string& from, const std::string& to) {
    Bytes damaged = file_;
    std::memcpy(damaged.data() + field(kind, from).at - from.size(), to.data(), to.size());
    return refusal(damaged);
  };
  EXPECT_EQ(rename(FieldKind::kValueType, "text", "flag"), "");
  EXPECT_EQ(rename(FieldKind::kValueType, "numbers", "n\nmbers"),
            "metadata key 6: the name \"n\\x0ambers\" holds a control character");
  EXPECT_EQ(rename(FieldKind::kDimCount, "weight_d", "weight_a"), "tensor \"weight_a\" occurs twice");
  EXPECT_THAT(rename(FieldKind::kDimCount, "weight_d", std::string("weight\0d", 8)),
              HasSubstr("control character"));
}

TEST_F(Malformed, OfAKeyThatIsThereTwiceTheFirstCounts) {
  Bytes damaged = file_;
  std::memcpy(damaged.data() + field(FieldKind::kValueType, "text").at - 4, "flag", 4);
  const File file = File::parse(damaged);
  EXPECT_EQ(file.get_bool("flag"), true);
  EXPECT_THAT(file.notes(), testing::ElementsAre(HasSubstr("metadata key \"flag\" occurs more than once")));
  EXPECT_EQ(file.metadata().size(), File::parse(file_).metadata().size() - 1);
}

TEST_F(Malformed, NestingIsBounded) {
  Writer writer;
  writer.set("deep", nested(4));
  EXPECT_EQ(refusal(writer.to_bytes()), "");
  EXPECT_THROW(writer.set("deeper", nested(5)), Error);

  // A chain of arrays with one array each, as deep as a file of 12 MB allows.
  Writer empty;
  empty.set("deep", std::uint8_t{0});
  Bytes file = empty.to_bytes();
  file.resize(24 + 8 + 4);
  const std::array<std::uint32_t, 1> array = {9};
  const auto append = [&](const void* data, std::size_t n) {
    const auto* bytes = static_cast<const std::byte*>(data);
    file.insert(file.end(), bytes, bytes + n);
  };
  append(array.data(), 4);
  const std::array<std::uint32_t, 3> level = {9, 1, 0};
  for (int i = 0; i < 1000000; ++i) append(level.data(), 12);
  EXPECT_THAT(refusal(file), HasSubstr("\"deep\": arrays are nested deeper than 4"));
}

// Any byte of the header set to anything: refused or accepted, never a crash.
TEST_F(Malformed, AnyByteOfTheHeader) {
  int n_refused = 0;
  for (std::size_t at = 0; at < walk_.header_bytes(); ++at)
    for (const int value : {0x00, 0x01, 0x07, 0x09, 0x20, 0x7f, 0x80, 0xff}) {
      Bytes damaged = file_;
      damaged[at] = static_cast<std::byte>(value);
      ErrorCode code = ErrorCode::kInvalidFile;
      n_refused += refusal(damaged, &code).empty() ? 0 : 1;
      ASSERT_TRUE(code == ErrorCode::kInvalidFile || code == ErrorCode::kUnsupported);
    }
  EXPECT_GT(n_refused, 2000);
}

TEST_F(Malformed, ManyBytesOfTheHeader) {
  std::mt19937 random(1);
  int n_refused = 0;
  for (int i = 0; i < 5000; ++i) {
    Bytes damaged = file_;
    for (unsigned n = 1 + random() % 6; n > 0; --n) {
      if (random() % 2 == 0) {
        damaged[random() % walk_.header_bytes()] ^= static_cast<std::byte>(1u << random() % 8);
      } else {  // A field, with a value near an edge.
        const Field& field = walk_.fields()[random() % walk_.fields().size()];
        const std::uint64_t edges[] = {
            0, 1, 2, 9, 12, 32, kHighBit, kMax, file_.size(), std::uint64_t{1} << random() % 64};
        put(damaged, field.at, field.bytes, edges[random() % std::size(edges)] - random() % 2);
      }
    }
    n_refused += refusal(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(n_refused, 4000);
}

}  // namespace
}  // namespace weft::gguf
