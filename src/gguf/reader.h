#pragma once
// From the bytes of one GGUF file to its checked content. Inside this layer only.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/gguf.h"

namespace weft::gguf {

/// A string from a file for an error message: control characters as \xNN, long ones cut, in quotes.
std::string in_quotes(std::string_view text);

/// Bytes that a value of a type takes in a file; of a string or an array the least.
std::size_t least_bytes(ValueType type);

/// A number or bool as an integer; nullopt where that changes its value, and for strings and arrays.
std::optional<std::int64_t> to_int(const Value& value);

/// The content of one file. All checks that need no other part of a split set are done.
struct Part {
  std::uint32_t version = 0;
  std::vector<File::Entry> metadata;  ///< In the file's order.
  std::vector<TensorInfo> tensors;    ///< In the file's order; `data` points into the bytes given.
  std::vector<std::string> notes;     ///< As in File::notes.
};

/// Throws Error kInvalidFile, or kUnsupported for valid contents that weft cannot read. Bytes are read once:
/// the result has copies of all data but tensors.
Part read_part(std::span<const std::byte> bytes);
/// The same of a file, which `source` names in messages. Throws Error kIo where the file is truncated during
/// reading.
Part read_part(const base::MappedFile& file, std::string_view source);

}  // namespace weft::gguf
