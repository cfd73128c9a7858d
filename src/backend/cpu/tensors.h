#pragma once
// How tensors live on the CPU.
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/cache_rows.h"
#include "backend/cpu/kernels.h"
#include "backend/device.h"
#include "base/memory.h"

namespace weft::cpu {

/// Packed matrices: one, or one per expert.
class MatrixTensor final : public DeviceTensor {
 public:
  MatrixTensor(DType dtype, std::int64_t n_matrices, std::int64_t rows, std::int64_t columns);
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return memory_.size(); }
  std::span<const PackedMatrix> matrices() const { return matrices_; }
  std::byte* data(std::int64_t matrix) {
    return memory_.data() + static_cast<std::size_t>(matrix) * matrix_bytes_;
  }

 private:
  DType dtype_;
  std::size_t matrix_bytes_;
  base::Memory memory_;
  std::vector<PackedMatrix> matrices_;
};

/// Plain memory: vectors of weights (as floats), inputs, outputs and caches.
class PlainTensor : public DeviceTensor {
 public:
  PlainTensor(DType dtype, std::size_t bytes, bool host_visible, bool large_pages = true)
      : dtype_(dtype), host_visible_(host_visible), memory_(bytes, large_pages) {}
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return memory_.size(); }
  std::span<std::byte> host() override { return host_visible_ ? memory_.bytes() : std::span<std::byte>{}; }
  std::byte* data() const { return memory_.data(); }

 private:
  DType dtype_;
  bool host_visible_;
  base::Memory memory_;
};

/// A cache. Its layout is the kernels' (cache_layout.h).
class StateTensor final : public PlainTensor {
 public:
  StateTensor(const CacheShape& shape, std::size_t bytes, bool large_pages)
      : PlainTensor(shape.dtype, bytes, false, large_pages), shape_(shape) {}
  const CacheShape& shape() const { return shape_; }

 private:
  CacheShape shape_;
};

}  // namespace weft::cpu
