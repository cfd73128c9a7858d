#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/foreign_file.h"
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
class Header final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Header(std::span<const std::byte> data) : data_(data) {}

  std::vector<StoredTensor> tensors;
  std::string error;

  bool start_object(std::size_t) override {
    if (++depth_ > 2 || list_ != nullptr) return fail("has objects where none belong");
    return true;
  }
  bool end_object() override { return --depth_ != 1 || metadata_ || take(); }
  bool key(std::string& key) override {
    if (depth_ == 1) {
      metadata_ = key == "__metadata__";
      next_ = {};
      next_.name = std::move(key);
      shape_.reset();
      offsets_.reset();
    } else {
      key_ = std::move(key);
    }
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ == 2 && metadata_) return true;
    if (depth_ != 2 || list_ != nullptr || key_ != "dtype") return fail("has a string where none belongs");
    if (!next_.type.empty()) return fail("has two dtypes");
    next_.type = std::move(text);
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ != 2 || metadata_ || list_ != nullptr) return fail("has a list where none belongs");
    if (key_ != "shape" && key_ != "data_offsets")
      return fail("has a list \"" + key_.substr(0, kMaxShown) + "\", which the format does not know");
    std::optional<std::vector<std::int64_t>>& list = key_ == "shape" ? shape_ : offsets_;
    if (list) return fail("has two lists \"" + key_ + "\"");
    list_ = &list.emplace();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }
  bool number_unsigned(std::uint64_t number) override {
    if (list_ == nullptr) return fail("has a number where none belongs");
    if (number > static_cast<std::uint64_t>(INT64_MAX) || list_->size() == kMaxRank)
      return fail("has a number or a list that is too large");
    list_->push_back(static_cast<std::int64_t>(number));
    return true;
  }
  bool number_integer(std::int64_t) override { return fail("has a negative number"); }
  bool number_float(double, const std::string&) override { return fail("has a number that is not whole"); }
  bool null() override { return fail("has a null"); }
  bool boolean(bool) override { return fail("has a truth value"); }
  bool binary(nlohmann::json::binary_t&) override { return fail("is binary"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    return fail("is no valid JSON at byte " + std::to_string(position));
  }

 private:
  bool fail(std::string reason) {
    error = (depth_ == 2 && !metadata_ ? "'" + next_.name.substr(0, kMaxShown) + "' " : "the header ") +
            std::move(reason);
    return false;
  }

  /// The tensor that has just been read.
  bool take() {
    ++depth_;  // For fail: it is still about this one.
    const Type* type = nullptr;
    for (const Type& t : kTypes)
      if (t.name == next_.type) type = &t;
    if (next_.type.empty()) return fail("has no dtype");
    if (!shape_) return fail("has no shape");
    if (!offsets_ || offsets_->size() != 2) return fail("must have two data_offsets");
    const auto n_data = static_cast<std::int64_t>(data_.size());
    const std::int64_t begin = offsets_->front(), end = offsets_->back();
    if (begin > end || end > n_data)
      return fail("lies outside of the file, which has " + std::to_string(n_data) + " bytes of data");
    std::int64_t bytes = type == nullptr ? 1 : type->bytes;
    for (const std::int64_t size : *shape_)
      if (__builtin_mul_overflow(bytes, size, &bytes)) return fail("has a shape that no memory has");
    if (type != nullptr && bytes != end - begin)
      return fail("has " + std::to_string(end - begin) + " bytes, and its shape needs " +
                  std::to_string(bytes));
    --depth_;
    if (type != nullptr) next_.dtype = type->dtype;
    next_.shape = std::move(*shape_);
    next_.bytes = data_.subspan(to_size(begin), to_size(end - begin));
    tensors.push_back(std::move(next_));
    return true;
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
  if (!nlohmann::json::sax_parse(text, &header))
    refuse(header.error.empty() ? "the header is no JSON object" : header.error);
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
