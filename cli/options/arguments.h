#pragma once
// Additions to CLI11 2.1: short options of several letters, llama.cpp's options, sizes such as 8k and ranges.
// Values may come from the environment and from files. Errors suggest a correction.
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "options/option_types.h"

namespace weft::cli {

/// "512", "8k", "1M" (of 1024), as users write counts of tokens. Throws UsageError.
std::int64_t parse_size(std::string_view text);

/// A path with "~" or "~/" at its beginning replaced by the home folder, as shells do, but not after "=".
std::string expand_home(std::string path);

/// The long name among an option's names: "--ctx-size" of "-c,--ctx-size".
std::string long_name(const std::string& names);

/// The range of an option's number. The error for other numbers names it, followed by `otherwise`.
template <typename T>
struct Range {
  T least = 0;
  T most = std::numeric_limits<T>::max();
  std::string_view otherwise = {};
};

/// An option whose value is a size (parse_size).
CLI::Option* add_size(CLI::App& app, const std::string& names, int& value, Range<int> range,
                      const std::string& help);

/// An option whose value is a number.
CLI::Option* add_number(CLI::App& app, const std::string& names, float& value, Range<float> range,
                        const std::string& help);

/// A flag that --no-NAME takes back. `names` ends with the long name.
CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help);

/// An option that may be given again: each time one string more. `type` is the value's name in the help.
CLI::Option* add_repeated(CLI::App& app, const std::string& names, std::vector<std::string>& values,
                          const std::string& help, const std::string& type);

/// An option whose value `set` takes. `type` is the value's name in the help.
CLI::Option* add_function(CLI::App& app, const std::string& names,
                          std::function<void(const std::string&)> set, const std::string& help,
                          const std::string& type);

/// The value of the word `text`. Throws UsageError that names the option and all words.
template <typename T>
T parse_choice(const std::string& option, const std::string& text, const std::map<std::string, T>& choices);

/// An option whose value is one of some words.
template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& value,
                        const std::map<std::string, T>& choices, const std::string& help);

/// Parses `arguments` into the options of `app`, which `set_up` made. Missing options are looked up in the
/// environment (WEFT_ARG_<LONG_NAME>, then llama.cpp's names). Configuration files (config_file.h) come next:
/// the command's table, then the top level. A word that begins with a dash is matched as a whole: -ctk is not
/// -c with a value. Options that weft ignores are noted on stderr. Throws UsageError, and Error if a named
/// configuration file cannot be read. Returns false if help was requested.
bool parse(const Command& command, CLI::App& app, const std::vector<std::string>& arguments);

// As an option's type is shown: a|b|c
template <typename T>
std::string words_of(const std::map<std::string, T>& choices) {
  std::string words;
  for (const auto& [word, ignored] : choices) words += (words.empty() ? "" : "|") + word;
  return words;
}

template <typename T>
T parse_choice(const std::string& option, const std::string& text, const std::map<std::string, T>& choices) {
  const auto found = choices.find(text);
  if (found == choices.end())
    throw UsageError(option + ": '" + text + "' is not one of " + words_of(choices));
  return found->second;
}

template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& value,
                        const std::map<std::string, T>& choices, const std::string& help) {
  const auto set = [&value, choices, option = long_name(names)](const std::string& text) {
    value = parse_choice(option, text, choices);
  };
  return add_function(app, names, set, help, words_of(choices));
}

}  // namespace weft::cli
