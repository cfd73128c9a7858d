#pragma once
// Importance matrices: the importance of each column of a model's matrices, from the inputs of the matrices
// over calibration data. quantize() takes such a file (QuantizeParams::importance).
//
//   weft::Context context(model, {.sum_columns = true});
//   ... decode calibration data ...
//   weft::write_importance("imatrix.gguf", {.tensors = context.column_sums(), .n_chunks = 1});
//
// Files are GGUF, as llama.cpp's: general.type is "imatrix". For each of a tensor's matrices, NAME.in_sum2
// has the sum of squares of each column, and NAME.counts has the number of rows. imatrix.datasets,
// imatrix.chunk_count and imatrix.chunk_size describe the calibration data.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// The sums of squares of the input rows of one tensor of a model's file.
struct ColumnSums {
  std::string tensor;
  /// The number of rows in the sums, for each of the tensor's matrices (experts, heads), or for all of them.
  std::vector<double> counts;
  std::vector<double> sums;  ///< Matrix after matrix; a multiple of the counts' number.
};

struct Importance {
  std::vector<ColumnSums> tensors;
  std::vector<std::string> datasets = {};  ///< Names of the calibration files.
  std::int64_t n_chunks = 0;               ///< Chunks of the calibration data ...
  int chunk_size = 512;                    ///< ... and their tokens.
};

/// kOlder is llama.cpp's format before GGUF. It counts chunks instead of rows for each tensor, and names one
/// calibration file.
enum class ImportanceForm : std::uint8_t { kGguf, kOlder };

/// Of either form. Each chunk that the older one counts is taken for `older_chunk_size` rows. The file is
/// untrusted. Throws Error kInvalidFile, kNotFound, kIo.
Importance read_importance(const std::filesystem::path& path, int older_chunk_size = 512);

/// The file appears whole or stays as it was. Tensors are sorted by their names. Tensors without rows are
/// left out. Throws Error kInvalidArgument where nothing is left, kIo.
void write_importance(const std::filesystem::path& path, const Importance& importance,
                      ImportanceForm form = ImportanceForm::kGguf);

/// Adds the sums of other calibration data. Throws Error kInvalidArgument, and changes nothing, where a
/// tensor has other columns there: it is of another model.
void merge_importance(Importance& to, const Importance& more);

}  // namespace weft

#pragma GCC visibility pop
