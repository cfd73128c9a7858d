#include "arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <numeric>
#include <utility>

namespace weft::cli {
namespace {

// Known to users of llama.cpp.
constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kShortOptions = {{
    {"-ub", "--ubatch-size"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-sys", "--system-prompt"},
    {"-st", "--single-turn"},
    {"-ngl", "--gpu-layers"},
    {"-ts", "--tensor-split"},
    {"-sm", "--split-mode"},
    {"-cmoe", "--cpu-moe"},
    {"-ot", "--pin"},
    {"-dev", "--device"},
    {"-np", "--parallel"},
    {"-npl", "--streams"},
    {"-pps", "--shared-prompt"},
    {"-pg", "--prompt-generate"},
}};

std::string environment_name(const CLI::Option& option) {
  std::string name = "WEFT_ARG_" + option.get_lnames().front();
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

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

// "-c, --ctx-size N" of an option.
std::string option_column(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& [brief, name] : kShortOptions) {
    if (option.check_lname(std::string(name.substr(2)))) names.emplace_back(brief);
  }
  for (const std::string& name : option.get_lnames()) {
    const bool negated =
        name.starts_with("no-") && option.get_lnames().size() > 1 && option.get_expected_max() == 0;
    if (!negated) names.push_back("--" + name);
  }
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (option.get_expected_max() != 0) text += " " + option.get_type_name();
  return text;
}

constexpr std::size_t kHelpColumn = 34;
constexpr std::size_t kHelpWidth = 100;

// Appends `text`, broken at spaces into lines that start at kHelpColumn.
void append_wrapped(std::string& out, std::string_view text) {
  std::size_t column = kHelpColumn;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > kHelpColumn && column + 1 + end > kHelpWidth) {
      out += '\n';
      out.append(kHelpColumn, ' ');
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += '\n';
}

}  // namespace

std::vector<std::string> expand_short_options(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    for (const auto& [brief, name] : kShortOptions) {
      if (argument == brief || argument.starts_with(std::string(brief) + "=")) {
        argument.replace(0, brief.size(), name);
      }
    }
  }
  return arguments;
}

std::int64_t parse_size(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::int64_t factor = 1;
  const char* tail = rest;
  if (error == std::errc{} && tail + 1 == end) {
    if (*tail == 'k' || *tail == 'K') factor = std::int64_t{1} << 10;
    if (*tail == 'm' || *tail == 'M') factor = std::int64_t{1} << 20;
    if (factor != 1) ++tail;
  }
  if (error != std::errc{} || tail != end) {
    throw UsageError(fmt::format("'{}' is no number; write e.g. 4096, 8k or 1M", text));
  }
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  if (value > kMax / factor || value < -kMax / factor) throw UsageError(fmt::format("{} is too large", text));
  return value * factor;
}

std::string long_name(const std::string& names) {
  const std::size_t begin = names.find("--");
  return names.substr(begin, names.find(',', begin) - begin);
}

CLI::Option* add_size(CLI::App& app, const std::string& names, int& value, const std::string& help) {
  const auto set = [&value, name = long_name(names)](const std::string& text) {
    try {
      value = static_cast<int>(parse_size(text));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", name, error.what()));
    }
  };
  return app.add_option_function<std::string>(names, set, help)->type_name("N");
}

CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return app.add_flag(names + ",!--no-" + long_name(names).substr(2), value, help);
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  // More edits than this, and the suggestion would be a guess.
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t edits = distance(word, candidate);
    if (edits < best_distance && edits < candidate.size()) {
      best = candidate;
      best_distance = edits;
    }
  }
  return best;
}

bool parse(CLI::App& app, std::vector<std::string> arguments) {
  for (CLI::Option* option : app.get_options()) {
    // As everywhere in Unix, the last of several wins.
    option->multi_option_policy(option->get_expected_max() > 1 ? CLI::MultiOptionPolicy::TakeAll
                                                               : CLI::MultiOptionPolicy::TakeLast);
    if (!option->get_lnames().empty() && option != app.get_help_ptr())
      option->envname(environment_name(*option));
  }
  // Unknown words are ours to report: CLI11 knows no suggestions.
  app.allow_extras();
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }

  std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return true;
  const auto option_like = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  const auto unknown = std::find_if(extras.begin(), extras.end(), option_like);
  if (unknown == extras.end()) {
    throw UsageError(fmt::format("unexpected argument '{}'; quote a text that has spaces", extras.front()));
  }
  const std::string word = unknown->substr(0, unknown->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  const std::string suggestion = nearest(word, known);
  throw UsageError(fmt::format("unknown option {}{}", word,
                               suggestion.empty() ? "" : fmt::format("; did you mean {}?", suggestion)));
}

std::string help_text(const Command& command, const CLI::App& app) {
  std::string out =
      fmt::format("{}\n\nUsage: weft {} {}\n", command.summary, command.name, command.arguments);
  for (const std::string& group : app.get_groups()) {
    if (group.empty()) continue;  // hidden
    std::string lines;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group || option->get_positional()) continue;
      std::string line = "  " + option_column(*option);
      if (line.size() + 2 > kHelpColumn) {
        line += '\n';
        line.append(kHelpColumn, ' ');
      } else {
        line.resize(kHelpColumn, ' ');
      }
      lines += line;
      append_wrapped(lines, option->get_description());
    }
    if (!lines.empty()) out += fmt::format("\n{}:\n{}", group, lines);
  }
  return out + "\n" + command.details +
         "\nEvery option can also come from the environment: --top-k as WEFT_ARG_TOP_K.\n"
         "Exit codes: 0 done, 1 failed, 2 the command line is wrong, 130 interrupted with Ctrl-C.\n";
}

}  // namespace weft::cli
