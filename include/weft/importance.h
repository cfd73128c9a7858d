#pragma once
// Importance matrices (imatrix): how much each column of a model's matrices matters, measured on calibration
// data. quantize() uses them (QuantizeParams::importance). Any thread may call the functions.
//
//   weft::Context context(model, {.sum_columns = true});
//   ... decode the calibration data ...
//   weft::write_importance("imatrix.gguf", {.tensors = context.column_sums(), .n_chunks = 1});
//
// Files are GGUF as llama.cpp's, with general.type "imatrix". NAME.in_sum2 has the sum of squares of each
// input column of tensor NAME, and NAME.counts the number of input rows. The keys imatrix.datasets,
// imatrix.chunk_count and imatrix.chunk_size describe the calibration data.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

/// Per tensor of the model: the sum of squares of each input column.
struct ColumnSums {
  std::string tensor;
  /// The number of input rows in the sums: one entry per matrix of the tensor (experts, heads), or one for
  /// all.
  std::vector<double> counts;
  /// The sums of all columns, matrix after matrix. Its size is a multiple of counts.size().
  std::vector<double> sums;
};

struct Importance {
  std::vector<ColumnSums> tensors;
  std::vector<std::string> datasets = {};  ///< Names of the calibration files.
  std::int64_t n_chunks = 0;               ///< Chunks of the calibration data.
  int chunk_size = 512;                    ///< Tokens per chunk.
};

/// The file format. kOlder is llama.cpp's format before GGUF: it counts chunks instead of rows, and names one
/// calibration file.
enum class ImportanceForm : std::uint8_t { kGguf, kOlder };

/// Reads a file of either format. For the older one, a chunk counts as `older_chunk_size` rows. The file is
/// untrusted. Throws Error kInvalidFile, kNotFound, kIo.
Importance read_importance(const std::filesystem::path& path, int older_chunk_size = 512);

/// Writes a file atomically. Tensors are sorted by name; those without rows are left out. Throws Error
/// kInvalidArgument if none is left, and kIo.
void write_importance(const std::filesystem::path& path, const Importance& importance,
                      ImportanceForm form = ImportanceForm::kGguf);

/// Adds the sums of other calibration data for the same model. Throws Error kInvalidArgument, and changes
/// nothing, if a tensor has another number of columns.
void merge_importance(Importance& to, const Importance& more);

}  // namespace weft

#pragma GCC visibility pop
