#pragma once
// The options of a command, for help, manual pages, completions, the environment and configuration files.
// Their only list is the command's `prepare`, which adds them to its CLI::App.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "options/option_types.h"

namespace weft::cli {

/// Adds the command's options to `app`, and the common ones (--config, --help).
std::function<int()> set_up(const Command& command, CLI::App& app);

/// An option as documented for users.
struct OptionRow {
  std::vector<std::string> names;    ///< "-c", "--ctx-size"; one of a positional: "FILE"
  std::vector<std::string> negated;  ///< "-nr", "--no-repack" of a switch, else empty.
  std::string value;                 ///< "N", "FILE", "layer|row"; empty: takes no value.
  std::string group;
  std::string description;
  bool value_optional = false;
  bool repeatable = false;

  std::vector<std::string> spellings() const;  ///< The names, then the negated ones.
  std::vector<std::string> choices() const;    ///< The words of a value "layer|row", else empty.
  bool takes_file() const { return value == "FILE"; }
};

/// Without hidden ones, in the order in which help shows them: group by group.
std::vector<OptionRow> option_rows(const CLI::App& app);
/// The positional arguments, in order.
std::vector<OptionRow> positional_rows(const CLI::App& app);

bool takes_value(const CLI::Option& option);
/// Whether the option takes two words, "FILE SCALE", which become the single value "FILE:SCALE".
bool takes_two(const CLI::Option& option);
bool is_repeatable(const CLI::Option& option);

/// The option with this spelling ("-c", "--ctx-size", "-ctk"), or null.
CLI::Option* find_option(CLI::App& app, std::string_view word);
/// All spellings of the options of `app`, hidden ones too.
std::vector<std::string> spellings(CLI::App& app);
/// Whether a configuration file may set it: all but --help and --config themselves, and positionals.
bool is_configurable(const CLI::App& app, const CLI::Option& option);

/// "WEFT_ARG_CTX_SIZE" of "ctx-size".
std::string environment_name(std::string_view long_name);

/// The word among `known` that was probably meant, or empty.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
/// "; did you mean X?", or empty.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace weft::cli
