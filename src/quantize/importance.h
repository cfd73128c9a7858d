#pragma once
// How much the columns of a model's matrices matter: the mean square of what they were multiplied with while
// texts were read ("importance matrix"). The file is untrusted.
//
// GGUF: general.type is "imatrix"; NAME.in_sum2 has the sums of squares of each column, NAME.counts how many
// rows they are of, both once for each expert. imatrix.datasets and imatrix.chunk_count say where they come
// from. The older form, little-endian: the number of entries; for each the length of its name, the name, the
// number of texts, the number of values, and the values as means times that number.
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::quantize_impl {

class Importance {
 public:
  /// Throws Error kInvalidFile, kNotFound, kIo.
  explicit Importance(const std::filesystem::path& path);

  /// Of a tensor with so many matrices of so many columns, matrix after matrix; empty where nothing is known.
  /// Throws Error kInvalidFile where the numbers are not of such a tensor.
  std::span<const float> of(std::string_view tensor, std::int64_t n_matrices, std::int64_t n_columns) const;

  std::size_t size() const { return columns_.size(); }
  const std::string& dataset() const { return dataset_; }
  std::int64_t n_chunks() const { return n_chunks_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void read_gguf();
  void read_older();
  void keep(std::string name, std::vector<float> values);

  std::filesystem::path path_;
  std::map<std::string, std::vector<float>, std::less<>> columns_;
  std::string dataset_;
  std::int64_t n_chunks_ = 0;
};

}  // namespace weft::quantize_impl
