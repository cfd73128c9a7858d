#include "bench/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "terminal/text_format.h"

namespace weft::cli {
namespace {

/// RFC 4180: quotes within a field are doubled.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : printable(text)) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

}  // namespace

double Samples::mean() const {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

double Samples::deviation() const {
  if (values.size() < 2) return 0.0;
  double sum = 0.0;
  for (const double v : values) sum += (v - mean()) * (v - mean());
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double Samples::min() const { return *std::min_element(values.begin(), values.end()); }

Column text_column(const std::string& title, const std::string& field, bool right) {
  return {title, right, [field](const Json& row) {
            const Json& value = row.at(field);
            return value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump();
          }};
}

Column number_column(const std::string& title, const std::string& field, int digits) {
  return {title, true, [field, digits](const Json& row) {
            const Json& value = row.at(field);
            return value.is_null() ? "" : fmt::format("{:.{}f}", value.get<double>(), digits);
          }};
}

Column percent_column(const std::string& title, const std::string& field) {
  return {title, true, [field](const Json& row) {
            const Json& value = row.at(field);
            return value.is_null() ? "" : fmt::format("{:.1f} %", 100.0 * value.get<double>());
          }};
}

Column spread_column(const std::string& title, const std::string& mean, const std::string& deviation) {
  return {title, true, [mean, deviation](const Json& row) {
            return fmt::format("{:.2f} ± {:.2f}", row.at(mean).get<double>(),
                               row.at(deviation).get<double>());
          }};
}

std::string to_markdown(const Json& rows, const std::vector<Column>& columns) {
  std::vector<std::vector<std::string>> cells(1);
  for (const Column& column : columns) cells[0].push_back(column.title);
  for (const Json& row : rows) {
    cells.emplace_back();
    for (const Column& column : columns) cells.back().push_back(printable(column.text(row)));
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& line : cells)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], text_width(line[i]));
  std::string out;
  for (std::size_t r = 0; r < cells.size(); ++r) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string padding(widths[i] - text_width(cells[r][i]), ' ');
      out += "| " + (columns[i].right ? padding + cells[r][i] : cells[r][i] + padding) + " ";
    }
    out += "|\n";
    if (r > 0) continue;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::string dashes(widths[i], '-');
      out += columns[i].right ? "| " + dashes + ":" : "| :" + dashes;
    }
    out += "|\n";
  }
  return out;
}

std::string to_csv(const Json& rows) {
  std::string out;
  for (const Json& row : rows) {
    if (out.empty()) {
      std::vector<std::string> names;
      for (const auto& [name, value] : row.items())
        if (!value.is_structured()) names.push_back(name);
      out = fmt::format("{}\n", fmt::join(names, ","));
    }
    std::vector<std::string> values;
    for (const auto& [name, value] : row.items()) {
      if (value.is_structured()) continue;
      values.push_back(value.is_null() ? "" : value.is_string() ? quoted(value) : value.dump());
    }
    out += fmt::format("{}\n", fmt::join(values, ","));
  }
  return out;
}

std::string to_jsonl(const Json& rows) {
  std::string out;
  for (const Json& row : rows) out += to_text(row);
  return out;
}

}  // namespace weft::cli
