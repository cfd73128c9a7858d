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
    /// Rows as GGUF stores them, where they are mapped: who touches them there is ended by the system if the
    /// file is cut meanwhile. `read` takes them safely.
    std::span<const std::byte> bytes;
  };

  /// What it is shows in its first bytes. Throws Error kNotFound, kIo, and kInvalidFile that says what is
  /// wrong. Tensors of types that weft has not are left out of safetensors, and are kUnsupported in GGUF.
  explicit WeightFile(const std::filesystem::path& path);

  std::span<const Tensor> tensors() const;
  const Tensor* find(std::string_view name) const;  ///< Null where there is none.
  /// Copies a part of a tensor's bytes. Throws Error kIo where the file lost them.
  void read(std::span<const std::byte> part, std::span<std::byte> to) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace weft

#pragma GCC visibility pop
