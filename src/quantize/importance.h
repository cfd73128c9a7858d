#pragma once
// The importance of the columns of matrices for quantization: the mean squares of their inputs, from an
// importance matrix file (weft/importance.h).
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::quantize_impl {

class ColumnImportance {
 public:
  /// Throws what read_importance throws.
  explicit ColumnImportance(const std::filesystem::path& path);

  /// The values of a tensor with n_matrices matrices of n_columns columns, matrix after matrix. Empty if the
  /// file does not have it. Throws Error kInvalidFile if their number differs.
  std::span<const float> of(std::string_view tensor, std::int64_t n_matrices, std::int64_t n_columns) const;

  std::size_t size() const { return columns_.size(); }
  std::vector<std::string> tensors() const;  ///< Their names, sorted.
  const std::string& dataset() const { return dataset_; }
  std::int64_t n_chunks() const { return n_chunks_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::map<std::string, std::vector<float>, std::less<>> columns_;
  std::string dataset_;
  std::int64_t n_chunks_ = 0;
};

}  // namespace weft::quantize_impl
