#pragma once
// weft bench --plot: a picture of the rows that were measured.
#include <string>

#include "json_output.h"

namespace weft::cli {

/// SVG, readable on light and dark pages: a chart for each kind of speed (prompts read, tokens generated,
/// both of many texts), bars along what the rows differ in first (texts, depth, sizes, threads), colours for
/// what else they differ in, and over each bar a line at the roofline where that is known.
std::string plot(const Json& rows);

/// Throws Error kIo.
void write_plot(const std::string& path, const Json& rows);

}  // namespace weft::cli
