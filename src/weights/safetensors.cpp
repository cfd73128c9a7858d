#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/foreign_file.h"
#include "base/json_reader.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMaxHeader = 100'000'000;  // The limit of other readers.
constexpr std::size_t kMaxRank = 8;
constexpr std::size_t kMaxShown = 120;  // Characters of a name in an error.

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, "safetensors: " + reason);
}

/// The types of the format, with the bytes of an element; and what weft calls them, if it has them.
struct Type {
  std::string_view name;
  std::int64_t bytes;
  std::optional<DType> dtype;
};
constexpr std::array<Type, 16> kTypes = {{
    {"F64", 8, DType::kF64},
    {"F32", 4, DType::kF32},
    {"F16", 2, DType::kF16},
    {"BF16", 2, DType::kBF16},
    {"I64", 8, DType::kI64},
    {"I32", 4, DType::kI32},
    {"I16", 2, DType::kI16},
    {"I8", 1, DType::kI8},
    {"U64", 8, {}},
    {"U32", 4, {}},
    {"U16", 2, {}},
    {"U8", 1, {}},
    {"BOOL", 1, {}},
    {"F8_E4M3", 1, {}},
    {"F8_E5M2", 1, {}},
    {"F8_E8M0", 1, {}},
}};

/// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ..., "__metadata__": {"key": "word"}}
class Header final : public base::JsonHandler {
 public:
  explicit Header(std::span<const std::byte> data) : data_(data) {}

  std::vector<StoredTensor> tensors;

  void begin_object() override {
    if (++depth_ > 2 || list_ != nullptr) fail("has objects where none belong");
  }
  void end_object() override {
    if (--depth_ == 1 && !metadata_) take();
  }
  void key(std::string& key) override {
    if (depth_ == 1) {
      metadata_ = key == "__metadata__";
      next_ = {};
      next_.name = std::move(key);
      shape_.reset();
      offsets_.reset();
    } else {
      key_ = std::move(key);
    }
  }
  void string(std::string& text) override {
    if (depth_ == 2 && metadata_) return;
    if (depth_ != 2 || list_ != nullptr || key_ != "dtype") fail("has a string where none belongs");
    if (!next_.type.empty()) fail("has two dtypes");
    next_.type = std::move(text);
  }
  void begin_array() override {
    if (depth_ != 2 || metadata_ || list_ != nullptr) fail("has a list where none belongs");
    if (key_ != "shape" && key_ != "data_offsets")
      fail("has a list \"" + key_.substr(0, kMaxShown) + "\", which the format does not know");
    std::optional<std::vector<std::int64_t>>& list = key_ == "shape" ? shape_ : offsets_;
    if (list) fail("has two lists \"" + key_ + "\"");
    list_ = &list.emplace();
  }
  void end_array() override { list_ = nullptr; }
  void natural(std::uint64_t number) override {
    if (list_ == nullptr) fail("has a number where none belongs");
    if (number > static_cast<std::uint64_t>(INT64_MAX) || list_->size() == kMaxRank)
      fail("has a number or a list that is too large");
    list_->push_back(static_cast<std::int64_t>(number));
  }
  void negative(std::int64_t /*number*/) override { fail("has a negative number"); }
  void real(double, const std::string&) override { fail("has a number that is not whole"); }
  void null() override { fail("has a null"); }
  void boolean(bool /*value*/) override { fail("has a truth value"); }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    refuse((depth_ == 2 && !metadata_ ? "'" + next_.name.substr(0, kMaxShown) + "' " : "the header ") +
           reason);
  }

  /// The tensor that has just been read.
  void take() {
    ++depth_;  // For fail: it is still about this one.
    const Type* type = nullptr;
    for (const Type& t : kTypes)
      if (t.name == next_.type) type = &t;
    if (next_.type.empty()) fail("has no dtype");
    if (!shape_) fail("has no shape");
    if (!offsets_ || offsets_->size() != 2) fail("must have two data_offsets");
    const auto n_data = static_cast<std::int64_t>(data_.size());
    const std::int64_t begin = offsets_->front(), end = offsets_->back();
    if (begin > end || end > n_data)
      fail("lies outside of the file, which has " + std::to_string(n_data) + " bytes of data");
    std::int64_t bytes = type == nullptr ? 1 : type->bytes;
    for (const std::int64_t size : *shape_)
      if (__builtin_mul_overflow(bytes, size, &bytes)) fail("has a shape that no memory has");
    if (type != nullptr && bytes != end - begin)
      fail("has " + std::to_string(end - begin) + " bytes, and its shape needs " + std::to_string(bytes));
    --depth_;
    if (type != nullptr) next_.dtype = type->dtype;
    next_.shape = std::move(*shape_);
    next_.bytes = data_.subspan(to_size(begin), to_size(end - begin));
    tensors.push_back(std::move(next_));
  }

  const std::span<const std::byte> data_;
  int depth_ = 0;
  bool metadata_ = false;
  std::string key_;
  StoredTensor next_;
  std::optional<std::vector<std::int64_t>> shape_, offsets_;
  std::vector<std::int64_t>* list_ = nullptr;  // The one that is being read.
};

}  // namespace

std::vector<StoredTensor> list_safetensors(const base::MappedFile& mapped) {
  const std::span<const std::byte> file = mapped.bytes();
  std::array<std::byte, sizeof(std::uint64_t)> length;
  if (file.size() < length.size()) refuse("the file is too short for a header");
  mapped.read(file.first(length.size()), length);
  const auto n_header = std::bit_cast<std::uint64_t>(length);
  if (n_header > kMaxHeader || n_header > file.size() - length.size()) {
    std::vector<std::byte> begin(std::min(base::kSniffedBytes, file.size()));
    mapped.read(file.first(begin.size()), begin);
    const std::string known = base::foreign_file_text(begin, base::FileKind::kSafetensors);
    if (!known.empty()) refuse("it is " + known);
    refuse("the header would have " + std::to_string(n_header) + " bytes, and the file has " +
           std::to_string(file.size()));
  }
  std::string text(to_size(n_header), '\0');
  mapped.read(file.subspan(length.size(), text.size()), std::as_writable_bytes(std::span(text)));
  Header header(file.subspan(length.size() + text.size()));
  try {
    base::read_json(text, {}, header);
  } catch (const base::JsonError& error) {
    refuse(std::string("the header: ") + error.what());
  }
  return std::move(header.tensors);
}

std::vector<WeightFile::Tensor> read_safetensors(const base::MappedFile& mapped) {
  std::vector<WeightFile::Tensor> tensors;
  for (StoredTensor& tensor : list_safetensors(mapped))
    if (tensor.dtype)
      tensors.push_back({std::move(tensor.name), *tensor.dtype, std::move(tensor.shape), tensor.bytes});
  return tensors;
}

}  // namespace weft
