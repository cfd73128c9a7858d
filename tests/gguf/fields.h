#pragma once
// Where each field of a (valid) GGUF file lies, so that tests can damage one at a time.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace weft::gguf::test {

enum class FieldKind {
  kMagic,
  kVersion,
  kTensorCount,
  kKeyCount,
  kKeyLength,
  kValueType,
  kStringLength,
  kElementType,
  kArrayLength,
  kBool,
  kNameLength,
  kDimCount,
  kDim,
  kTensorType,
  kOffset,
};

struct Field {
  FieldKind kind;
  std::size_t at;     // Byte in the file.
  std::size_t bytes;  // 1, 4 or 8.
  std::string owner;  // The key or tensor that it belongs to; empty in the header.
};

/// Walks through a file without any checks: the file must be valid.
class FieldWalk {
 public:
  explicit FieldWalk(std::span<const std::byte> file) : file_(file) {
    field(FieldKind::kMagic, 4);
    field(FieldKind::kVersion, 4);
    const std::uint64_t n_tensors = field(FieldKind::kTensorCount, 8);
    const std::uint64_t n_keys = field(FieldKind::kKeyCount, 8);
    for (std::uint64_t i = 0; i < n_keys; ++i) {
      name(FieldKind::kKeyLength);
      value(field(FieldKind::kValueType, 4));
    }
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
      name(FieldKind::kNameLength);
      const std::uint64_t n_dims = field(FieldKind::kDimCount, 4);
      for (std::uint64_t d = 0; d < n_dims; ++d) field(FieldKind::kDim, 8);
      field(FieldKind::kTensorType, 4);
      field(FieldKind::kOffset, 8);
    }
  }

  const std::vector<Field>& fields() const { return fields_; }
  std::size_t header_bytes() const { return at_; }

 private:
  std::uint64_t field(FieldKind kind, std::size_t bytes) {
    fields_.push_back({kind, at_, bytes, owner_});
    std::uint64_t result = 0;
    std::memcpy(&result, file_.data() + at_, bytes);
    at_ += bytes;
    return result;
  }

  void name(FieldKind kind) {
    owner_.clear();
    const std::size_t length = field(kind, 8);
    owner_.assign(reinterpret_cast<const char*>(file_.data()) + at_, length);
    at_ += length;
  }

  void value(std::uint64_t type) {
    constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    constexpr std::uint64_t kBool = 7, kString = 8, kArray = 9;
    if (type == kBool) {
      field(FieldKind::kBool, 1);
    } else if (type == kString) {
      at_ += field(FieldKind::kStringLength, 8);
    } else if (type == kArray) {
      const std::uint64_t element = field(FieldKind::kElementType, 4);
      const std::uint64_t n = field(FieldKind::kArrayLength, 8);
      for (std::uint64_t i = 0; i < n; ++i) value(element);
    } else {
      at_ += kBytes[type];
    }
  }

  std::span<const std::byte> file_;
  std::size_t at_ = 0;
  std::string owner_;
  std::vector<Field> fields_;
};

}  // namespace weft::gguf::test
