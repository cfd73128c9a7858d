// Since 0.1
#pragma once
// GGUF files: writes them, and reads their metadata. To read tensors use WeightFile (weft/weights.h).
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

/// A metadata value; the C++ type gives the type in the file.
using GgufValue =
    std::variant<bool, std::uint8_t, std::int8_t, std::uint16_t, std::int16_t, std::uint32_t, std::int32_t,
                 std::uint64_t, std::int64_t, float, double, std::string, std::vector<bool>,
                 std::vector<std::uint8_t>, std::vector<std::int8_t>, std::vector<std::uint16_t>,
                 std::vector<std::int16_t>, std::vector<std::uint32_t>, std::vector<std::int32_t>,
                 std::vector<std::uint64_t>, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<double>, std::vector<std::string>>;

/// Reads keys and values in the file's order. Arrays of arrays are left out. The file is untrusted. Throws
/// Error kNotFound, kIo, kInvalidFile with the reason, and kUnsupported for a tensor type that weft does not
/// know.
std::vector<std::pair<std::string, GgufValue>> read_gguf_metadata(const std::filesystem::path& path);

/// Collects metadata and tensors, and writes a GGUF file (version 3) with them in the order of addition. Used
/// by one thread at a time.
///
/// set() and add_tensor() throw Error kInvalidArgument, with the key or tensor, and change nothing, for:
/// - names that are empty, have control characters, or are too long for other readers (63 bytes for a tensor,
///   65,535 for a key);
/// - a second tensor of the same name, sizes below 1, and rows that are not whole blocks of the type.
/// Names and strings should be UTF-8, as other readers refuse anything else.
class GgufWriter {
 public:
  GgufWriter();
  ~GgufWriter();
  GgufWriter(GgufWriter&&) noexcept;
  GgufWriter& operator=(GgufWriter&&) noexcept;

  /// Sets a key. An existing key gets the new value and keeps its place. "general.alignment" (std::uint32_t,
  /// a power of two from 8 to 65536, default 32) sets the alignment of tensors.
  void set(std::string_view key, const GgufValue& value);

  /// Adds a tensor with a shape of 1 to 4 sizes, outermost first. `bytes` are its rows in GGUF's layout. They
  /// are not copied: keep them until write().
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape,
                  std::span<const std::byte> bytes);
  /// The same with bytes that `fill` generates during write(). It gets all bytes of the tensor, zeroed. If it
  /// throws, write() throws that.
  using Fill = std::function<void(std::span<std::byte> bytes)>;
  void add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> shape, Fill fill);

  /// Writes the file atomically: `path` keeps its old content until all is on disk. Throws Error kIo, also
  /// for a full disk. Holds one generated tensor in memory at a time.
  void write(const std::filesystem::path& path) const;

 private:
  friend gguf::File gguf_plan(const GgufWriter& writer);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
