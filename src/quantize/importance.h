#pragma once
// How much the columns of a model's matrices matter to packers: the mean squares of what they were multiplied
// with, from a file of importances (weft/importance.h).
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

  /// Of a tensor with so many matrices of so many columns, matrix after matrix; empty where nothing is known.
  /// Throws Error kInvalidFile where the numbers are not of such a tensor.
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
