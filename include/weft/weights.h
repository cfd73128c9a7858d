// Since 0.1
#pragma once
// Reads weights by name from GGUF files (one file or a split set), safetensors files and Whisper models of
// whisper.cpp (ggml-*.bin). Files are mapped into memory.
//
//   plan.set_weights(weft::WeightFile("model.safetensors"));
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/dtype.h"

namespace weft::base {
class MappedFile;
}

#pragma GCC visibility push(default)

namespace weft {

/// The tensors of a file. Immutable: any number of threads may use one, and copies share the mapping. The
/// file is untrusted and is checked when it is opened.
class WeightFile {
 public:
  struct Tensor {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::int64_t> shape;  ///< Outermost first.
    /// Its rows in GGUF's layout, in the mapped file. If another process changes the file, the bytes change,
    /// too; bytes that the file loses read as zeros (guard_mapped_files). So call check_unchanged() after
    /// each use of the bytes in place, or copy them by read(), which checks itself.
    std::span<const std::byte> bytes;
  };

  /// Opens a file. Its first bytes determine the format. Tensors of types that weft does not know are left
  /// out of safetensors files. In GGUF files they are an error. Throws Error kNotFound, kIo, kInvalidFile
  /// with the reason, and kUnsupported.
  explicit WeightFile(const std::filesystem::path& path);

  std::span<const Tensor> tensors() const;
  const Tensor* find(std::string_view name) const;  ///< Null: none.
  /// Copies a part of a tensor's bytes. Throws Error kIo if the file has lost them.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;
  /// Throws Error kIo, with the file's name, if the file was truncated or overwritten since it was opened, or
  /// its disk failed. Renaming and deleting it is allowed.
  void check_unchanged() const;
  /// The mapped file, for weft's own use.
  std::shared_ptr<const base::MappedFile> file_of(std::span<const std::byte> part) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Sets whether weft handles SIGBUS. If a mapped file is truncated or its disk fails, a thread that reads the
/// lost bytes gets SIGBUS, which ends the process. By default weft installs a handler with its first mapped
/// file. The thread then reads zeros, and steps and checks throw Error kIo, which names the file.
///
/// Other SIGBUS signals go to the handler that the program had before, or to the system. A handler that a
/// program installs later must pass signals that are not its own to weft's handler. With false, weft installs
/// none; call this before the first file is opened. Any thread may call it.
void guard_mapped_files(bool guarded);

}  // namespace weft

#pragma GCC visibility pop
