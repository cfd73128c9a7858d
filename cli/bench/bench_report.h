#pragma once
// The output of weft bench: rows of named fields, and their formats.
#include <functional>
#include <string>
#include <vector>

#include "files/json_output.h"

namespace weft::cli {

/// A figure measured several times.
struct Samples {
  std::vector<double> values;  ///< Not empty.

  double mean() const;
  double deviation() const;  ///< Of a sample; 0 for a single value.
  double min() const;
};

/// A column of the table for people.
struct Column {
  std::string title;
  bool right = true;
  std::function<std::string(const Json& row)> text;
};
/// The field as text, as a number with `digits` decimals, and as a percentage; null becomes "".
Column text_column(const std::string& title, const std::string& field, bool right = true);
Column number_column(const std::string& title, const std::string& field, int digits);
Column percent_column(const std::string& title, const std::string& field);
/// "mean ± deviation" of two fields.
Column spread_column(const std::string& title, const std::string& mean, const std::string& deviation);

std::string to_markdown(const Json& rows, const std::vector<Column>& columns);
/// Fields that are lists are left out. Rows have the same fields.
std::string to_csv(const Json& rows);
/// A row a line.
std::string to_jsonl(const Json& rows);

}  // namespace weft::cli
