// Conformance as users see it.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "weft/conformance.h"
#include "weft/graph/op.h"

namespace weft {
namespace {

template <std::size_t... kIndices>
std::vector<std::string> names_of(std::index_sequence<kIndices...>) {
  std::vector<std::string> names = {std::string(std::variant_alternative_t<kIndices, Op>::kName)...};
  std::erase(names, ops::Custom::kName);  // Its function is the user's.
  return names;
}

/// How much of its tolerance a case uses up.
double strain(const ConformanceCase& c) {
  if (!c.supported) return -1.0;
  if (c.tolerance > 0.0) return c.error / c.tolerance;
  return c.error > 0.0 ? std::numeric_limits<double>::infinity() : 0.0;
}

}  // namespace

std::vector<std::string> op_names() { return names_of(std::make_index_sequence<std::variant_size_v<Op>>()); }

std::vector<ConformanceRow> by_op(std::span<const ConformanceCase> cases) {
  std::vector<ConformanceRow> rows;
  for (const ConformanceCase& c : cases) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const ConformanceRow& r) { return r.op == c.op; });
    if (row == rows.end()) row = rows.insert(rows.end(), {.op = c.op, .worst = c});
    ++row->n_cases;
    row->n_unsupported += c.supported ? 0 : 1;
    row->n_failed += c.passed() ? 0 : 1;
    if (strain(c) > strain(row->worst)) row->worst = c;
  }
  return rows;
}

std::string to_table(std::span<const ConformanceCase> cases) {
  std::string text;
  const auto add = [&text](const char* format, auto... values) {
    char line[256];
    std::snprintf(line, sizeof line, format, values...);
    text += line;
  };
  add("%-16s %6s %12s %7s %10s %10s  %s\n", "op", "cases", "unsupported", "failed", "error", "tolerance",
      "worst case");
  for (const ConformanceRow& row : by_op(cases)) {
    add("%-16s %6d %12d %7d ", row.op.c_str(), row.n_cases, row.n_unsupported, row.n_failed);
    if (row.worst.supported) {
      add("%10.2e %10.0e  %s\n", row.worst.error, row.worst.tolerance, row.worst.what.c_str());
    } else {
      add("%10s %10s\n", "-", "-");
    }
  }
  for (const ConformanceCase& c : cases)
    if (!c.passed())
      add("FAILED: %s %s: error %.2e, tolerance %.0e\n", c.op.c_str(), c.what.c_str(), c.error, c.tolerance);
  return text;
}

}  // namespace weft
