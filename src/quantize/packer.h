#pragma once
// Packs tensors of a file into other types with all threads, a piece at a time.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/pool.h"
#include "gguf/gguf.h"

namespace weft::quantize_impl {

/// Throw Error kInvalidArgument.
void check_threads(int n_threads);
void check_weight_type(DType type);

/// Used by one thread at a time. Its own memory is one piece of a tensor.
class Packer {
 public:
  /// `n_bytes` is the size of all tensors. `progress` gets 0 to 1 and cancels by returning false. The file
  /// and `progress` must outlive it. n_threads 0: one per core.
  Packer(const gguf::File& file, int n_threads, std::uint64_t n_bytes,
         const std::function<bool(double)>& progress);

  /// Changes a row before it is packed; called from several threads.
  using Change = std::function<void(std::int64_t row, std::span<float> values)>;
  /// The tensor as `type` into `out`, which has its bytes. `importance` has a value for each column of each
  /// matrix, or is empty. A tensor that has the type already is copied, unless there is a change. Throws
  /// Error kIo, kCancelled.
  void pack(const gguf::TensorInfo& tensor, DType type, std::span<const float> importance,
            std::span<std::byte> out, const Change& change = {});

 private:
  std::int64_t rows_of_piece(std::size_t row) const;
  void advance(std::size_t bytes);

  const gguf::File& file_;
  const std::function<bool(double)>& progress_;
  base::Pool pool_;
  std::vector<std::vector<float>> values_;  // By thread.
  std::vector<std::byte> piece_;
  std::uint64_t n_bytes_, done_ = 0;
};

}  // namespace weft::quantize_impl
