// Since 0.1
#pragma once
// Weights from files: GGUF (one file or a split set) and safetensors, mapped into memory, by their names.
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

/// A file's tensors. Immutable: any number of threads may read one, and a copy is the same file. The file is
/// an untrusted input: whatever it says is checked before it is used.
class WeightFile {
 public:
  struct Tensor {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::int64_t> shape;  ///< Outermost first.
    /// Rows as GGUF stores them, in the mapped file. Bytes that the file loses read as zeros
    /// (guard_mapped_files), and writes of other processes show. So a program that uses the bytes in place
    /// calls check_unchanged after each use. `read` copies them and needs no check.
    std::span<const std::byte> bytes;
  };

  /// The first bytes give the format. Throws Error kNotFound, kIo, and kInvalidFile with the reason. Tensors
  /// of types that weft lacks are left out of safetensors, and are kUnsupported in GGUF.
  explicit WeightFile(const std::filesystem::path& path);

  std::span<const Tensor> tensors() const;
  const Tensor* find(std::string_view name) const;  ///< Null where there is none.
  /// Copies a part of a tensor's bytes. Throws Error kIo where the file lost them.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;
  /// Throws Error kIo, which names the file, where another process cut it or wrote to it since it was opened,
  /// or its disk failed. It may have been renamed or removed.
  void check_unchanged() const;
  /// The mapped file, for weft's own use.
  std::shared_ptr<const base::MappedFile> file_of(std::span<const std::byte> part) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Other processes may cut mapped files, and disks may fail. A thread that touches lost bytes gets SIGBUS,
/// which ends the process. By default weft handles that signal from its first mapped file on. The thread
/// continues with zeros, and steps and checks throw Error kIo, which names the file.
///
/// Every other SIGBUS goes to the handler that the program had before, or to the system. A handler that a
/// program installs later must pass other signals than its own to weft's. False, before the first file is
/// opened: weft installs no handler, and such a thread ends the process. Any thread.
void guard_mapped_files(bool guarded);

}  // namespace weft

#pragma GCC visibility pop
