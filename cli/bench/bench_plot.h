#pragma once
// weft bench --plot: a plot of the measured rows.
#include <string>

#include "files/json_output.h"

namespace weft::cli {

/// Returns SVG for light and dark pages, with a chart for each kind of speed: prefill and decoding, of one or
/// many sequences. Bars follow the first field in which the rows differ (sequences, depth, sizes, threads),
/// colours the other fields. A line over each bar is its roofline, if known.
std::string plot(const Json& rows);

/// Throws Error kIo.
void write_plot(const std::string& path, const Json& rows);

}  // namespace weft::cli
