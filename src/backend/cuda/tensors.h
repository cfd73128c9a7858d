#pragma once
// How tensors live on a CUDA device: as they cross the contract, byte by byte. Vectors of weights are floats.
#include "backend/cuda/runtime.h"
#include "weft/backend/device.h"

namespace weft::cuda {

class Tensor final : public DeviceTensor {
 public:
  Tensor(std::shared_ptr<Runtime> runtime, Place place, DType dtype, std::size_t bytes,
         std::size_t cell_bytes = 0)
      : dtype_(dtype),
        bytes_(bytes),
        cell_bytes_(cell_bytes),
        place_(place),
        buffer_(std::move(runtime), place, bytes) {}
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return bytes_; }
  std::span<std::byte> host() override {
    if (place_ != Place::kHost) return {};
    return {buffer_.host(), bytes_};
  }
  bool reads_source() const override { return false; }
  std::size_t cell_bytes() const { return cell_bytes_; }  ///< Of states: of one cell or slot.
  Buffer& buffer() { return buffer_; }
  const Buffer& buffer() const { return buffer_; }

 private:
  DType dtype_;
  std::size_t bytes_;
  std::size_t cell_bytes_;
  Place place_;
  Buffer buffer_;
};

}  // namespace weft::cuda
