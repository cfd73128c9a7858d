#pragma once
// A GPU's memory, whatever its API: buffers with addresses for kernels, tensors in them, and the workspace
// that plans share. Tensors live as they cross the contract, byte by byte. Vectors of weights are floats.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "weft/backend/device.h"

namespace weft::gpu {

/// The best place of a buffer's memory.
enum class Place : std::uint8_t {
  kDevice,  ///< For weights, caches and temporaries. Also mapped where the host can map all of it.
  kHost,    ///< For data that the host writes or reads in each step; always mapped.
};

/// A buffer with memory and an address of its own. All offsets and sizes in bytes. Members throw Error
/// kOutOfMemory and kDevice.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual std::uint64_t address() const = 0;
  virtual std::byte* mapped() const = 0;  ///< Null where the host cannot reach it. To be written.
  // Done when they return. The caller waits for steps that use the memory.
  virtual void write(std::size_t offset, std::span<const std::byte> bytes) = 0;
  virtual void read(std::size_t offset, std::span<std::byte> bytes) const = 0;
  virtual void clear() = 0;
};

class Tensor final : public DeviceTensor {
 public:
  Tensor(std::unique_ptr<Buffer> buffer, Place place, DType dtype, std::size_t bytes,
         std::size_t cell_bytes = 0)
      : dtype_(dtype), bytes_(bytes), cell_bytes_(cell_bytes), place_(place), buffer_(std::move(buffer)) {}
  DType dtype() const override { return dtype_; }
  std::size_t bytes() const override { return bytes_; }
  std::span<std::byte> host() override {
    if (place_ != Place::kHost) return {};
    return {buffer_->mapped(), bytes_};
  }
  bool reads_source() const override { return false; }
  std::size_t cell_bytes() const { return cell_bytes_; }  ///< Of a state: the bytes of one cell or slot.
  Buffer& buffer() { return *buffer_; }
  const Buffer& buffer() const { return *buffer_; }

 private:
  DType dtype_;
  std::size_t bytes_;
  std::size_t cell_bytes_;
  Place place_;
  std::unique_ptr<Buffer> buffer_;
};

/// The buffer of a tensor that a device of this layer made.
Buffer& buffer_of(DeviceTensor& tensor);

/// Temporaries of plans on one GPU.
class GpuWorkspace final : public Workspace {
 public:
  /// `make` makes a buffer in the memory of `gpu`, once no step uses the former one.
  using Make = std::function<std::unique_ptr<Buffer>(std::size_t bytes)>;
  GpuWorkspace(const void* gpu, Make make) : gpu_(gpu), make_(std::move(make)) {}
  /// The one of `shared` for that GPU, or a new one. `shared` may be null.
  static std::shared_ptr<GpuWorkspace> of(const void* gpu, Workspaces* shared, const Make& make);
  std::uint64_t address() const { return buffer_ != nullptr ? buffer_->address() : 0; }

 private:
  void grow(std::size_t bytes) override;
  const void* gpu_;
  Make make_;
  std::unique_ptr<Buffer> buffer_;
};

/// The part of a device that keeps tensors in such buffers.
class StoringDevice : public Device {
 public:
  std::size_t bytes_of(ValueKind kind, DType dtype, std::span<const std::int64_t> shape) const final;
  std::unique_ptr<DeviceTensor> create_weight(DType dtype, std::span<const std::int64_t> shape,
                                              const WeightSource& source) final;
  std::unique_ptr<DeviceTensor> create_state(DType dtype, std::span<const std::int64_t> shape) final;
  void read_cells(const DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                  std::span<std::byte> rows) final;
  void write_cells(DeviceTensor& state, CacheRole role, std::span<const std::int32_t> cells,
                   std::span<const std::byte> rows) final;
  std::unique_ptr<DeviceTensor> create_host_tensor(DType dtype, std::span<const std::int64_t> shape) final;

 private:
  virtual std::unique_ptr<Buffer> make_buffer(Place place, std::size_t bytes) = 0;
  /// Waits for steps whose cells a copy beside them reads or writes.
  virtual void wait_for_steps() {}
};

}  // namespace weft::gpu
