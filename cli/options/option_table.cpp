#include "options/option_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <numeric>

#include "options/llama_cpp.h"

namespace weft::cli {
namespace {

constexpr std::string_view kConfigOption = "config";

// Edit distance where swapped neighbours count as one edit (--tmep).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

bool is_negated(const CLI::Option& option, const std::string& long_name) {
  return long_name.starts_with("no-") && option.get_lnames().size() > 1 && !takes_value(option);
}

OptionRow row_of(const CLI::Option& option) {
  OptionRow row;
  const auto names_like = [&](const std::string& long_name) -> std::vector<std::string>& {
    return is_negated(option, long_name) ? row.negated : row.names;
  };
  for (const std::string& name : option.get_snames()) row.names.push_back("-" + name);
  for (const auto& [alias, word] : aliases()) {
    const std::string name(word.substr(2));
    if (!alias.starts_with("--") && option.check_lname(name)) names_like(name).emplace_back(alias);
  }
  for (const std::string& name : option.get_lnames()) names_like(name).push_back("--" + name);
  if (takes_value(option)) row.value = option.get_type_name();
  row.group = option.get_group();
  row.description = option.get_description();
  row.value_optional = takes_value(option) && option.get_expected_min() == 0;
  row.repeatable = is_repeatable(option);
  return row;
}

}  // namespace

std::function<int()> set_up(const Command& command, CLI::App& app) {
  std::function<int()> run = command.prepare(app);
  app.add_option_function<std::string>(
         fmt::format("--{}", kConfigOption), [](const std::string&) {},
         "read options from this file; '': from no file (default: WEFT_CONFIG, or ~/.config/weft/config.toml "
         "and /etc/weft/config.toml)")
      ->type_name("FILE")
      ->group("Configuration");
  app.set_help_flag("-h,--help", "print this help")->group("Output");
  return run;
}

std::vector<std::string> OptionRow::spellings() const {
  std::vector<std::string> all = names;
  all.insert(all.end(), negated.begin(), negated.end());
  return all;
}

std::vector<std::string> OptionRow::choices() const {
  std::vector<std::string> words;
  if (value.find('|') == std::string::npos) return words;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t bar = std::min(value.find('|', begin), value.size());
    words.push_back(value.substr(begin, bar - begin));
    begin = bar + 1;
  }
  return words;
}

std::vector<OptionRow> option_rows(const CLI::App& app) {
  std::vector<OptionRow> rows;
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;  // hidden
    for (const CLI::Option* option : app.get_options())
      if (option->get_group() == group && !option->get_positional()) rows.push_back(row_of(*option));
  }
  return rows;
}

std::vector<OptionRow> positional_rows(const CLI::App& app) {
  std::vector<OptionRow> rows;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    OptionRow row;
    row.names = {option->get_name(true)};
    row.value =
        option->get_type_name().find('|') != std::string::npos ? option->get_type_name() : row.names[0];
    row.description = option->get_description();
    rows.push_back(std::move(row));
  }
  return rows;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() != 0; }

bool takes_two(const CLI::Option& option) {
  return takes_value(option) && option.get_type_name().find(' ') != std::string::npos;
}

bool is_repeatable(const CLI::Option& option) { return option.get_expected_max() > 1; }

CLI::Option* find_option(CLI::App& app, std::string_view word) {
  for (const auto& [alias, name] : aliases())
    if (alias == word) word = name;
  for (CLI::Option* option : app.get_options()) {
    if (word.starts_with("--") && option->check_lname(std::string(word.substr(2)))) return option;
    if (word.size() == 2 && word[0] == '-' && option->check_sname(std::string(word.substr(1)))) return option;
  }
  return nullptr;
}

std::vector<std::string> spellings(CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    for (const std::string& name : option->get_snames()) words.push_back("-" + name);
  }
  for (const Alias& alias : aliases())
    if (find_option(app, alias.name) != nullptr) words.emplace_back(alias.alias);
  return words;
}

bool is_configurable(const CLI::App& app, const CLI::Option& option) {
  return &option != app.get_help_ptr() && !option.get_lnames().empty() &&
         !option.check_lname(std::string(kConfigOption));
}

std::string environment_name(std::string_view long_name) {
  std::string name = "WEFT_ARG_";
  for (const char c : long_name)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  // Longer words than any option are not typos, and the distance costs the product of both lengths.
  constexpr std::size_t kLongest = 64;
  if (word.size() > kLongest) return {};
  std::string best;
  // More edits than this, and the suggestion would be a guess.
  std::size_t best_distance = word.size() <= 3 ? 2 : std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t edits = distance(word, candidate);
    if (edits < best_distance && edits < candidate.size()) {
      best = candidate;
      best_distance = edits;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string suggestion = nearest(word, known);
  return suggestion.empty() ? std::string() : fmt::format("; did you mean {}?", suggestion);
}

}  // namespace weft::cli
