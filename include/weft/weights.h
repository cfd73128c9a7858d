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
    /// Rows as GGUF stores them, where they are mapped. Bytes that the file loses read as zeros
    /// (guard_mapped_files), and bytes that other processes write show: a program that uses them in place
    /// calls check_unchanged after each use. `read` copies them and needs no check.
    std::span<const std::byte> bytes;
  };

  /// What it is shows in its first bytes. Throws Error kNotFound, kIo, and kInvalidFile that says what is
  /// wrong. Tensors of types that weft has not are left out of safetensors, and are kUnsupported in GGUF.
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

/// Files that are mapped may be cut by other processes, and their disks may fail. A thread that touches bytes
/// that are gone gets SIGBUS then, which ends the process. By default weft handles that signal, from the
/// first file on that it maps: the thread continues with zeros, and steps and checks throw Error kIo, which
/// names the file.
///
/// Every other SIGBUS goes to the handler that the program had before, or to the system. A handler that a
/// program installs later must hand on to weft's what is not its own. False, before the first file is opened:
/// weft installs no handler, and such a thread ends the process. Any thread.
void guard_mapped_files(bool guarded);

}  // namespace weft

#pragma GCC visibility pop
