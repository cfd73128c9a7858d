#pragma once
// How tensors live on the CPU.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/layout/cache_rows.h"
#include "base/file_watch.h"
#include "base/memory.h"
#include "weft/backend/device.h"

namespace weft::cpu {

/// The form of matrices in memory.
enum class MatrixForm : std::uint8_t {
  kCanonical,  ///< As in the file.
  kPacked,     ///< In panels.
  kCompact,    ///< In panels of 12 bits (layout/compact.h), where they fit.
};

/// The type and shape of a weight's matrices: one, or one per expert.
struct MatrixShape {
  DType dtype = DType::kF32;
  std::int64_t n_matrices = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;

  /// One of them, without its memory.
  PackedMatrix matrix(MatrixForm form) const;
  /// What one takes.
  std::size_t matrix_bytes(MatrixForm form) const;
};

/// Memory for packed matrices, cut from large blocks so that small matrices are on large pages too.
class WeightMemory {
 public:
  struct Piece {
    std::span<std::byte> bytes;                 ///< Zeroed, from a multiple of 4096 on.
    std::shared_ptr<const base::Memory> owner;  ///< Keeps them.
  };
  /// On these nodes of memory (NUMA).
  explicit WeightMemory(std::vector<int> nodes) : nodes_(std::move(nodes)) {}
  /// Throws Error kOutOfMemory.
  Piece take(std::size_t bytes);
  /// Takes back the piece that was taken last.
  void give_back(const Piece& piece);

 private:
  const std::vector<int> nodes_;
  std::shared_ptr<const base::Memory> block_;
  std::size_t used_ = 0;
};

/// The matrices of a weight, packed or canonical.
class MatrixTensor final : public DeviceTensor {
 public:
  /// All matrices, one after another, in memory that `owner` keeps. Null `owner`: in the source's memory.
  /// `watch` watches the file that they are mapped from; null: not mapped.
  MatrixTensor(const MatrixShape& shape, std::span<const std::byte> bytes, MatrixForm form,
               std::shared_ptr<const void> owner, std::shared_ptr<const base::FileWatch> watch = nullptr);

  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return bytes_.size(); }
  bool reads_source() const override { return owner_ == nullptr; }
  std::span<const PackedMatrix> matrices() const { return matrices_; }
  const base::FileWatch* watch() const { return watch_.get(); }

 private:
  DType dtype_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::vector<PackedMatrix> matrices_;
  std::shared_ptr<const base::FileWatch> watch_;
};

/// Plain memory: vectors of weights (as floats), inputs, outputs and caches.
class PlainTensor : public DeviceTensor {
 public:
  PlainTensor(DType dtype, std::size_t bytes, bool host_visible, bool large_pages = true)
      : dtype_(dtype), host_visible_(host_visible), memory_(bytes, large_pages) {}
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return memory_.size(); }
  std::span<std::byte> host() override { return host_visible_ ? memory_.bytes() : std::span<std::byte>{}; }
  bool reads_source() const override { return false; }
  std::byte* data() const { return memory_.data(); }

 private:
  DType dtype_;
  bool host_visible_;
  base::Memory memory_;
};

/// A cache. Its layout is the kernels' (cache_layout.h).
class StateTensor final : public PlainTensor {
 public:
  StateTensor(const CacheShape& shape, std::int64_t n_cells, std::size_t bytes, bool large_pages)
      : PlainTensor(shape.dtype, bytes, false, large_pages), shape_(shape), n_cells_(n_cells) {}
  const CacheShape& shape() const { return shape_; }
  std::int64_t n_cells() const { return n_cells_; }

 private:
  CacheShape shape_;
  std::int64_t n_cells_;
};

}  // namespace weft::cpu
