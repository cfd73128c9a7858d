#pragma once
// What CLI11 2.1 lacks: short options of several letters, sizes such as 8k, "did you mean", and help in our
// layout.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "command.h"

namespace weft::cli {

/// Replaces short options of several letters (-ctk) by their long names, up to "--". CLI11 would read -ctk as
/// the three flags -c -t -k.
std::vector<std::string> expand_short_options(std::vector<std::string> arguments);

/// "512", "8k", "1M" (of 1024), as users write counts of tokens. Throws UsageError.
std::int64_t parse_size(std::string_view text);

/// The long name among an option's names: "--ctx-size" of "-c,--ctx-size".
std::string long_name(const std::string& names);

/// An option with such a size as its value.
CLI::Option* add_size(CLI::App& app, const std::string& names, int& value, const std::string& help);

/// A flag that --no-NAME takes back. `names` ends with the long name.
CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help);

/// The word among `known` that was probably meant, or empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// Parses `arguments` into the options of `app`; options that are not given are looked up in the environment
/// as WEFT_ARG_<LONG_NAME>. Throws UsageError; returns false where help was asked for.
bool parse(CLI::App& app, std::vector<std::string> arguments);

/// Usage, options in groups, details.
std::string help_text(const Command& command, const CLI::App& app);

}  // namespace weft::cli
