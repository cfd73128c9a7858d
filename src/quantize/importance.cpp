#include "quantize/importance.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/mapped_file.h"
#include "gguf/gguf.h"
#include "weft/error.h"

namespace weft::quantize_impl {
namespace {

constexpr std::string_view kSums = ".in_sum2";
constexpr std::string_view kCounts = ".counts";

std::vector<float> numbers_of(const gguf::File& file, const gguf::TensorInfo& tensor) {
  std::vector<float> numbers(static_cast<std::size_t>(tensor.n_elements()));
  file.read(tensor.data, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

}  // namespace

Importance::Importance(const std::filesystem::path& path) : path_(path) {
  const base::MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  const bool gguf = bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
  gguf ? read_gguf() : read_older();
  if (columns_.empty())
    throw Error(ErrorCode::kInvalidFile,
                path_.string() + ": has no importances; expected a file of llama.cpp's llama-imatrix");
}

void Importance::keep(std::string name, std::vector<float> values) {
  for (const float value : values)
    if (!(value >= 0.0f) || !std::isfinite(value))
      throw Error(ErrorCode::kInvalidFile,
                  path_.string() + ": " + name + " has a value that is no mean of squares");
  columns_.insert_or_assign(std::move(name), std::move(values));
}

void Importance::read_gguf() {
  const gguf::File file = gguf::File::open(path_);
  if (const auto type = file.get_string("general.type"); type != "imatrix")
    throw Error(ErrorCode::kInvalidFile, path_.string() + ": general.type is \"" +
                                             std::string(type.value_or("")) + "\", expected \"imatrix\"");
  if (const auto* datasets = file.get_strings("imatrix.datasets"); datasets != nullptr && !datasets->empty())
    dataset_ = datasets->front();
  n_chunks_ = file.get_int("imatrix.chunk_count").value_or(0);
  for (const gguf::TensorInfo& sums : file.tensors()) {
    if (!sums.name.ends_with(kSums)) continue;
    const std::string name = sums.name.substr(0, sums.name.size() - kSums.size());
    const gguf::TensorInfo* counts = file.find_tensor(name + std::string(kCounts));
    if (counts == nullptr || sums.dtype != DType::kF32 || counts->dtype != DType::kF32 ||
        sums.n_elements() % counts->n_elements() != 0)
      throw Error(ErrorCode::kInvalidFile,
                  path_.string() + ": " + sums.name + " and its counts do not belong together");
    std::vector<float> values = numbers_of(file, sums);
    const std::vector<float> rows = numbers_of(file, *counts);
    const std::size_t n_columns = values.size() / rows.size();
    // An expert that no row came to: nothing is known, so all its columns are alike.
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float n = rows[i / n_columns];
      values[i] = n > 0.0f ? values[i] / n : 1.0f;
    }
    keep(name, std::move(values));
  }
}

void Importance::read_older() {
  const base::MappedFile file(path_);
  std::span<const std::byte> left = file.bytes();
  const auto take = [&](std::size_t n) {
    if (left.size() < n) throw Error(ErrorCode::kInvalidFile, path_.string() + ": ends in the middle");
    const auto part = left.first(n);
    left = left.subspan(n);
    return part;
  };
  const auto number = [&] {
    std::int32_t value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    if (value < 0) throw Error(ErrorCode::kInvalidFile, path_.string() + ": is no importance matrix");
    return value;
  };
  const auto text = [&] {
    const auto bytes = take(static_cast<std::size_t>(number()));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (std::int32_t n = number(); n > 0; --n) {
    std::string name = text();
    const auto n_texts = static_cast<float>(std::max(number(), 1));
    const auto n_values = static_cast<std::size_t>(number());
    const auto bytes = take(n_values * sizeof(float));
    std::vector<float> values(n_values);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (float& value : values) value /= n_texts;
    keep(std::move(name), std::move(values));
  }
  if (left.size() < 8) return;
  n_chunks_ = number();
  dataset_ = text();
}

std::span<const float> Importance::of(std::string_view tensor, std::int64_t n_matrices,
                                      std::int64_t n_columns) const {
  const auto found = columns_.find(tensor);
  if (found == columns_.end()) return {};
  if (static_cast<std::int64_t>(found->second.size()) != n_matrices * n_columns)
    throw Error(ErrorCode::kInvalidFile,
                path_.string() + ": " + std::string(tensor) + " has " + std::to_string(found->second.size()) +
                    " values, and the model's has " + std::to_string(n_matrices) + " times " +
                    std::to_string(n_columns) + " columns; it was made for another model");
  return found->second;
}

}  // namespace weft::quantize_impl
