#pragma once
// Importances of columns, found by the graph itself: nodes that square the rows which a model's matrices are
// multiplied with, and add them up. So any device can, and nothing else of the graph changes.
#include <string>
#include <vector>

#include "model/builder.h"

namespace weft::model {

/// The sum of squares of the inputs of some tensors, over the rows of a step.
struct ColumnSum {
  ValueId x = kNoValue;              ///< {rows, columns}, or with more leading axes.
  std::vector<std::string> tensors;  ///< Of the file.
  ValueId sums = kNoValue;           ///< {columns} F32, or {matrices, columns} ...
  ValueId counts = kNoValue;         ///< ... {matrices} I32 with the rows of each; kNoValue: all are of one.
};

/// Adds them as outputs, for each matrix of the file that a product reads.
std::vector<ColumnSum> add_column_sums(ModelGraph& model);

}  // namespace weft::model
