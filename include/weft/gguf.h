// Since 0.1
#pragma once
// GGUF files: writing them, and reading their metadata. Their tensors are read by WeightFile (weights.h).
//
//   weft::GgufWriter file;
//   file.set("general.architecture", "mine");
//   file.set("mine.block_count", std::uint32_t{6});
//   file.add_tensor("up.weight", weft::DType::kF32, {3072, 768}, bytes);
//   file.write("mine.gguf");
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weft/dtype.h"

#pragma GCC visibility push(default)

namespace weft::gguf {
class File;
}

namespace weft {

/// A value of metadata, in the type that it has in the file.
using GgufValue =
    std::variant<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                 std::uint64_t, std::int64_t, float, double, std::string, std::vector<bool>,
                 std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                 std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                 std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<double>, std::vector<std::string>>;

/// A file's metadata by their keys, in the order of the file. Arrays of arrays, which no model has, are left
/// out. The file is an untrusted input. Throws Error kNotFound, kIo, kInvalidFile with the reason, and
/// kUnsupported with the name of a tensor's type that weft lacks.
std::vector<std::pair<std::string, GgufValue>> read_gguf_metadata(const std::filesystem::path& path);

/// Collects metadata and tensors, and writes them in the order of addition, as a file of GGUF's version 3.
///
/// Throws Error kInvalidArgument, which names the key or tensor, and changes nothing. It refuses names that
/// are empty, have control characters or are too long for readers (63 bytes for a tensor, 65,535 for a key).
/// It also refuses two tensors of one name, sizes below 1, and rows that are not whole blocks of their type.
///
/// Names and strings should be UTF-8, as other readers refuse anything else. Used by one thread at a time.
class GgufWriter {
 public:
  GgufWriter();
  ~GgufWriter();
  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;

  /// Sets a key; an existing one keeps its place. "general.alignment" (std::uint32_t, a power of two from 8
  /// to 65536) sets the alignment of tensors. The default is 32.
  void set(std::string_view key, const GgufValue& value);

  /// Adds a tensor; the shape is outermost first, of 1 to 4 sizes. `bytes` are its rows as GGUF stores them,
  /// and must stay until the file is written.
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
                  std::span<const std::byte> bytes);
  /// The same with bytes that are generated while the file is written: `fill` gets all bytes of the tensor,
  /// zeroed. Its exceptions end the writing.
  using Fill = std::function<void(std::span<std::byte> bytes)>;
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Fill fill);

  /// Writes the file atomically: `path` keeps its old content until all is on the disk. Throws Error kIo,
  /// also for a full disk. Holds one filled tensor in memory at a time.
  void write(const std::filesystem::path& path) const;

 private:
  friend gguf::File gguf_plan(const GgufWriter& writer);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
