#include "quantize/packer.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <string>

#include "base/to_size.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::quantize_impl {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

/// Without an end in the middle, so that compilers look at many at once.
bool all_finite(std::span<const float> values) {
  std::int32_t greatest = 0;
  for (const float value : values)
    greatest = std::max(greatest, std::bit_cast<std::int32_t>(std::fabs(value)));
  return greatest < 0x7f800000;
}

}  // namespace

void check_threads(int n_threads) {
  if (n_threads < 0 || n_threads > base::kMaxThreads)
    throw Error(ErrorCode::kInvalidArgument, "n_threads is " + std::to_string(n_threads) +
                                                 ", expected 0 to " + std::to_string(base::kMaxThreads));
}

void check_weight_type(DType type) {
  if (info(type).kind == DTypeKind::kInteger || type == DType::kF64)
    throw Error(ErrorCode::kInvalidArgument, std::string(info(type).name) + " is not a type for weights");
}

Packer::Packer(const gguf::File& file, int n_threads, std::uint64_t n_bytes,
               const std::function<bool(double)>& progress)
    : file_(file),
      progress_(progress),
      pool_(n_threads > 0 ? n_threads : base::default_threads(), 1),
      values_(to_size(pool_.n_threads())),
      n_bytes_(std::max<std::uint64_t>(n_bytes, 1)) {}

void Packer::pack(const gguf::TensorInfo& tensor, DType type, std::span<const float> importance,
                  std::span<std::byte> out, const Change& change) {
  if (type == tensor.dtype && !change) {
    file_.read(tensor.data, out);
    return advance(tensor.data.size());
  }
  const std::int64_t n_columns = tensor.shape.back();
  const std::int64_t n_rows = tensor.n_elements() / n_columns;
  const std::int64_t n_rows_of_matrix = tensor.shape.size() == 3 ? tensor.shape[1] : n_rows;
  const std::size_t from_row = row_bytes(tensor.dtype, n_columns), to_row = row_bytes(type, n_columns);
  const auto columns = to_size(n_columns);
  for (std::vector<float>& values : values_) values.resize(columns);  // Tasks must not throw.
  std::atomic<bool> are_finite = true, fit = true;
  for (std::int64_t begin = 0; begin < n_rows;) {
    const std::int64_t end = std::min<std::int64_t>(n_rows, begin + rows_of_piece(from_row));
    piece_.resize(to_size(end - begin) * from_row);
    // Read by the caller, since reading may throw.
    file_.read(tensor.data.subspan(to_size(begin) * from_row, piece_.size()), piece_);
    pool_.parallel_for(static_cast<std::int32_t>(end - begin), [&](std::int32_t i, int thread) {
      std::vector<float>& values = values_[to_size(thread)];
      unpack_row(tensor.dtype, piece_.data() + to_size(i) * from_row, values);
      if (change) change(begin + i, values);
      if (!all_finite(values)) are_finite = false;
      const auto matrix = to_size((begin + i) / n_rows_of_matrix);
      pack_row(type, values, out.data() + to_size(begin + i) * to_row,
               importance.empty() ? importance : importance.subspan(matrix * columns, columns));
      if (!change) return;
      unpack_row(type, out.data() + to_size(begin + i) * to_row, values);
      if (!all_finite(values)) fit = false;
    });
    if (!are_finite)
      throw Error(ErrorCode::kInvalidFile,
                  tensor.name + " has values that are infinite or not numbers, which cannot be quantized");
    if (!fit)
      throw Error(ErrorCode::kInvalidArgument, tensor.name + " would have values that " +
                                                   std::string(info(type).name) +
                                                   " cannot represent; use a smaller scale or a wider type");
    advance(piece_.size());
    begin = end;
  }
}

std::int64_t Packer::rows_of_piece(std::size_t row) const {
  return std::max<std::int64_t>(pool_.n_threads(), static_cast<std::int64_t>(kPieceBytes / row));
}

void Packer::advance(std::size_t bytes) {
  done_ += bytes;
  if (progress_ && !progress_(static_cast<double>(done_) / static_cast<double>(n_bytes_)))
    throw Error(ErrorCode::kCancelled, "cancelled");
}

}  // namespace weft::quantize_impl
