#pragma once
// The report of a load: a row of figures for each arrival pattern.
#include <string>
#include <vector>

#include "bench/bench_report.h"
#include "bench/load_run.h"

namespace weft::cli {

/// The value that this share of the values does not exceed (nearest rank); 0 of none. Sorts them.
double percentile(std::vector<double>& values, double share);

/// "8 clients", "2.5 /s", "as recorded"
std::string name_of(const Arrivals& arrivals);

/// Times are in ms. Missing times are null, as is the share within limits without limits.
Json load_row(const LoadPlan& plan, const std::string& model, const LoadResult& result);
/// The table's columns, with goodput if the plan has limits.
std::vector<Column> load_columns(const LoadPlan& plan);
/// A line for each kind of error, with an example; "" without errors.
std::string load_errors(const Json& rows);

}  // namespace weft::cli
