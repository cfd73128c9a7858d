#pragma once
// Reading GGUF files (versions 2 and 3, one file or a split set). The input is untrusted: every count,
// length, offset, type, shape and alignment is checked before use. Work and memory are bounded by the size of
// the file. Errors (weft::Error, kInvalidFile) name the key or tensor and the expected value.
//
// The rule: a file is refused only where its meaning would be wrong or reading it unsafe. A value of another
// type is converted if that loses nothing. Other oddities cost a note, which names the key or tensor and says
// how it is read (File::notes).
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/mapped_file.h"
#include "weft/dtype.h"

namespace weft::gguf {

/// Value types of metadata, with the ids of the format.
// clang-format off
enum class ValueType : std::uint32_t {
  kU8 = 0, kI8 = 1, kU16 = 2, kI16 = 3, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9,
  kU64 = 10, kI64 = 11, kF64 = 12,
};
// clang-format on
std::string_view to_string(ValueType type);

/// The numbers of an array, held in the width that they have in the file (an array of a million bytes takes a
/// million bytes) and read as T, which is std::uint64_t, std::int64_t or double.
template <typename T>
class Numbers {
 public:
  Numbers() = default;
  /// `bytes` are little-endian numbers of that type.
  Numbers(ValueType type, std::vector<std::byte> bytes);

  std::size_t size() const;
  T operator[](std::size_t i) const;                           ///< i < size().
  std::span<const std::byte> bytes() const { return bytes_; }  ///< As in the file.

 private:
  ValueType type_ = ValueType::kU8;
  std::vector<std::byte> bytes_;
};

struct Value;

/// An array of metadata: one container of the element's own kind. Nested arrays hold Values.
struct Array {
  ValueType element_type = ValueType::kU8;
  std::variant<Numbers<std::uint64_t>, Numbers<std::int64_t>, Numbers<double>, std::vector<std::string>,
               std::vector<Value>>
      elements;  ///< Unsigned and bool / signed / float / string / array.
  std::size_t size() const;
};

struct Value {
  ValueType type = ValueType::kU8;
  std::variant<std::uint64_t, std::int64_t, double, std::string, Array> data;  ///< Unsigned and bool / ...
};

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< Outermost first: a matrix is {rows, columns}. 1 to 4 dims, each >= 1.
  /// Where they are mapped; File::read takes them from there safely. Empty in a file that was read without
  /// its data (vocabulary only).
  std::span<const std::byte> data;
  std::int64_t n_elements() const;
};

/// A file's metadata and tensors. Immutable, so any number of threads may read it; moving keeps pointers
/// valid.
class File {
 public:
  struct Entry {
    std::string key;
    Value value;
  };

  /// Opens a file, or a split set by any of its parts ("name-00001-of-00003.gguf"), whose metadata are the
  /// first part's. The files stay mapped as long as the object lives. Throws Error kNotFound where a part is
  /// missing.
  static File open(const std::filesystem::path& path);
  /// Parses bytes that outlive the object: one whole file, no part of a set.
  static File parse(std::span<const std::byte> bytes);
  /// A file that is not written yet. Its tensors have no data.
  static File planned(std::vector<Entry> metadata, std::vector<TensorInfo> tensors);

  ~File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;

  std::span<const Entry> metadata() const;
  const Value* find(std::string_view key) const;

  /// Typed access. A missing key gives nullopt. A number or bool of any type converts where the value stays
  /// the same: 32.0 is an integer, and 1 and "true" are true. Anything else throws.
  std::optional<std::int64_t> get_int(std::string_view key) const;
  std::optional<double> get_float(std::string_view key) const;
  std::optional<bool> get_bool(std::string_view key) const;
  std::optional<std::string_view> get_string(std::string_view key) const;
  /// For keys that only describe the file: empty if the key is missing or not a string.
  std::string_view get_label(std::string_view key) const;
  const std::vector<std::string>* get_strings(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> get_ints(std::string_view key) const;
  std::optional<std::vector<double>> get_floats(std::string_view key) const;
  std::optional<std::vector<bool>> get_bools(std::string_view key) const;

  /// Tolerated defects and how they are read: one sentence each, with the key's or tensor's name.
  std::span<const std::string> notes() const;

  std::span<const TensorInfo> tensors() const;
  const TensorInfo* find_tensor(std::string_view name) const;

  std::uint32_t version() const;
  std::size_t file_bytes() const;  ///< Of all parts.
  int n_parts() const;
  /// The identity of all parts, as in base::OpenFile: equal only where no byte was changed. Zero where it is
  /// unknown.
  base::Hash128 identity() const;
  /// Throws Error kIo where another process has written to a part since it was opened.
  void check_unchanged() const;

  /// Copies a part of a tensor's bytes. Throws Error kIo where the file has been cut since it was opened, or
  /// cannot be read.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;
  /// The file that a part of a tensor's bytes is mapped from; null of bytes that were given to `parse`.
  std::shared_ptr<const base::MappedFile> file_of(std::span<const std::byte> part) const;

 private:
  struct Impl;
  explicit File(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::gguf
