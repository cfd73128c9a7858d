#pragma once
// Statistics of an importance matrix: how unevenly the columns of a model's tensors matter.
#include <string>
#include <vector>

#include "files/json_output.h"
#include "weft/importance.h"

namespace weft::cli {

/// Statistics of a tensor's mean squares, one for each column (of each matrix that met a row).
struct ImportanceStatistics {
  std::string tensor;
  std::size_t n_columns = 0;
  double rows = 0.0;  ///< Input rows, summed over its matrices.
  double sum = 0.0;
  double least = 0.0;
  double most = 0.0;
  double mean = 0.0;
  double deviation = 0.0;
  double active = 0.0;         ///< The share of columns above 1e-5.
  double entropy = 0.0;        ///< In bits, of the columns' shares; as many bits as all alike would have ...
  double evenness = 0.0;       ///< ... make this 1.
  double outstanding = 0.0;    ///< The share of columns more than a standard deviation above the mean.
  double like_previous = 0.0;  ///< The cosine to the same tensor of the layer before; 0: there is none.
  std::size_t n_never_read = 0;  ///< Matrices that met no row.
};

/// In the order of layers.
std::vector<ImportanceStatistics> statistics_of(const Importance& importance);
std::string to_report(const std::vector<ImportanceStatistics>& statistics);
Json to_json(const std::vector<ImportanceStatistics>& statistics);

}  // namespace weft::cli
