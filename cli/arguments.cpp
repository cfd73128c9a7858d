#include "arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "llama_cpp.h"

namespace weft::cli {
namespace {

std::string environment_name(std::string_view long_name) {
  std::string name = "WEFT_ARG_";
  for (const char c : long_name)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
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
  for (const auto& [alias, name] : aliases())
    if (!alias.starts_with("--") && option.check_lname(std::string(name.substr(2))))
      names.emplace_back(alias);
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

// The option that is written so, or null.
CLI::Option* find_option(CLI::App& app, std::string_view word) {
  for (const auto& [alias, name] : aliases())
    if (alias == word) word = name;
  for (CLI::Option* option : app.get_options()) {
    if (word.starts_with("--") && option->check_lname(std::string(word.substr(2)))) return option;
    if (word.size() == 2 && word[0] == '-' && option->check_sname(std::string(word.substr(1)))) return option;
  }
  return nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() != 0; }

// All that can be written for options of `app`.
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

// "'weft run' and 'weft chat'": the other commands that have an option.
std::string owners_of(std::string_view word, const Command& but) {
  std::string owners;
  for (const Command& command : commands()) {
    if (std::string_view(command.name) == but.name) continue;
    CLI::App app;
    command.prepare(app);
    if (find_option(app, word) != nullptr)
      owners += fmt::format("{}'weft {}'", owners.empty() ? "" : " and ", command.name);
  }
  return owners;
}

[[noreturn]] void refuse_unknown(const Command& command, CLI::App& app, const std::string& word) {
  const std::string suggestion = [&]() -> std::string {
    // -t4
    if (word.size() > 2 && word[1] != '-' && find_option(app, word.substr(0, 2)) != nullptr &&
        std::isdigit(static_cast<unsigned char>(word[2])) != 0)
      return fmt::format("{} {}", word.substr(0, 2), word.substr(2));
    return nearest(word, spellings(app));
  }();
  const std::string owners = owners_of(word, command);
  if (!owners.empty())
    throw UsageError(fmt::format("{} is an option of {}, not of 'weft {}'", word, owners, command.name));
  throw UsageError(fmt::format("unknown option {}{}", word,
                               suggestion.empty() ? "" : fmt::format("; did you mean {}?", suggestion)));
}

bool is_switch_word(std::string_view word) {
  return word == "on" || word == "off" || word == "auto" || word == "0" || word == "1";
}

/// The words of a command line, made such that CLI11 reads them as they are meant: options by their long
/// names, what weft has no use for left out.
class Words {
 public:
  Words(const Command& command, CLI::App& app) : command_(command), app_(app) {}

  void read(std::span<const std::string> arguments) {
    while (!arguments.empty()) {
      const std::string& word = arguments.front();
      if (word == "--") break;
      arguments = word.size() > 1 && word[0] == '-' ? read_option(arguments) : keep(arguments);
    }
    words_.insert(words_.end(), arguments.begin(), arguments.end());
  }

  /// Options that were not given, as the environment has them.
  void read_environment() {
    for (CLI::Option* option : app_.get_options()) {
      if (option->get_lnames().empty() || option == app_.get_help_ptr() || given_.contains(option)) continue;
      for (const std::string& name : option->get_lnames())
        if (take_variable(environment_name(name), *option, name)) break;
      if (given_.contains(option)) continue;
      for (const std::string_view variable : foreign_variables(option->get_lnames().front()))
        if (take_variable(std::string(variable), *option, option->get_lnames().front())) {
          notes_.push_back(fmt::format("--{} is from {}", option->get_lnames().front(), variable));
          break;
        }
    }
  }

  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// What the environment set, by the option's long name.
  const std::map<std::string, std::string>& variables() const { return variables_; }

 private:
  using Arguments = std::span<const std::string>;

  Arguments keep(Arguments arguments) {
    words_.push_back(arguments.front());
    return arguments.subspan(1);
  }

  Arguments read_option(Arguments arguments) {
    const std::string& argument = arguments.front();
    const std::size_t equals = argument.find('=');
    const std::string word = argument.substr(0, equals);
    const bool has_value = equals != std::string::npos;
    arguments = arguments.subspan(1);

    CLI::Option* const option = find_option(app_, word);
    if (option == nullptr) return skip_foreign(word, has_value, arguments);
    given_.insert(option);
    const std::string name = name_of(*option, word);
    if (!takes_value(*option)) {
      if (has_value) check_flag(name, argument.substr(equals + 1));
      words_.push_back(has_value ? name + argument.substr(equals) : name);
      return arguments;
    }
    words_.push_back(name);
    if (has_value) {
      words_.push_back(argument.substr(equals + 1));
      return arguments;
    }
    if (option->get_expected_min() == 0) return arguments;
    if (arguments.empty())
      throw UsageError(fmt::format("{} needs a value: {} {}", word, word, option->get_type_name()));
    return keep(arguments);
  }

  // As it was written, but for other spellings: --no-x is not --x.
  static std::string name_of(const CLI::Option& option, const std::string& word) {
    const bool known = word.starts_with("--") && option.check_lname(word.substr(2));
    if (known || option.get_lnames().empty()) return word;
    return "--" + option.get_lnames().front();
  }

  static void check_flag(const std::string& name, std::string_view value) {
    static constexpr std::string_view kWords[] = {"true", "false", "on", "off", "yes", "no", "1", "0"};
    if (std::find(std::begin(kWords), std::end(kWords), value) == std::end(kWords))
      throw UsageError(fmt::format("{}: '{}' is none of true, false", name, value));
  }

  Arguments skip_foreign(const std::string& word, bool has_value, Arguments arguments) {
    const ForeignOption* const foreign = find_foreign_option(word);
    if (foreign == nullptr) refuse_unknown(command_, app_, word);
    if (!foreign->harmless) throw UsageError(fmt::format("{}: {}", word, foreign->reason));
    notes_.push_back(fmt::format("{} has no effect: {}", word, foreign->reason));
    if (has_value || arguments.empty()) return arguments;
    const bool takes = foreign->value == ForeignOption::Value::kOne ||
                       (foreign->value == ForeignOption::Value::kSwitch && is_switch_word(arguments.front()));
    return arguments.subspan(takes ? 1 : 0);
  }

  bool take_variable(const std::string& variable, CLI::Option& option, const std::string& long_name) {
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr) return false;
    const std::string name = "--" + long_name;
    std::vector<std::string> words = {name, value};
    if (!takes_value(option)) {
      if (*value == '\0') return false;
      check_flag(variable, value);
      words = {name + "=" + value};
    }
    // In front: what comes behind "--" is no option.
    words_.insert(words_.begin(), words.begin(), words.end());
    given_.insert(&option);
    variables_[name] = variable;
    return true;
  }

  const Command& command_;
  CLI::App& app_;
  std::vector<std::string> words_, notes_;
  std::set<const CLI::Option*> given_;
  std::map<std::string, std::string> variables_;
};

// A name that no command has is a slip, which would go unnoticed.
void check_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("WEFT_ARG_")) names.emplace_back(text.substr(0, text.find('=')));
  }
  if (names.empty()) return;
  std::vector<std::string> known;
  for (const Command& command : commands()) {
    CLI::App app;
    command.prepare(app);
    for (const CLI::Option* option : app.get_options())
      for (const std::string& name : option->get_lnames()) known.push_back(environment_name(name));
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string suggestion = nearest(name, known);
    throw UsageError(
        fmt::format("the environment has {}, which is no option{}", name,
                    suggestion.empty() ? "; unset it" : fmt::format("; did you mean {}?", suggestion)));
  }
}

template <typename T>
std::string describe(const Range<T>& range) {
  constexpr T kLarge = 1'000'000'000;  // As good as none.
  const bool bounded = range.most < kLarge;
  return bounded ? fmt::format("from {} to {}", range.least, range.most)
                 : fmt::format("{} or more", range.least);
}

template <typename T>
void check_range(const std::string& name, std::string_view text, T value, const Range<T>& range) {
  if (value >= range.least && value <= range.most) return;  // Not so for NaN.
  throw UsageError(fmt::format("{}: {} is out of range, it must be {}{}{}", name, text, describe(range),
                               range.otherwise.empty() ? "" : "; ", range.otherwise));
}

}  // namespace

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

CLI::Option* add_size(CLI::App& app, const std::string& names, int& value, Range<int> range,
                      const std::string& help) {
  const auto set = [&value, range, name = long_name(names)](const std::string& text) {
    try {
      value = static_cast<int>(parse_size(text));
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("{}: {}", name, error.what()));
    }
    check_range(name, text, value, range);
  };
  return app.add_option_function<std::string>(names, set, help)->type_name("N");
}

CLI::Option* add_number(CLI::App& app, const std::string& names, float& value, Range<float> range,
                        const std::string& help) {
  const auto set = [&value, range, name = long_name(names)](const std::string& text) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + (text.starts_with('+') ? 1 : 0), end, value);
    if (error != std::errc{} || rest != end || !std::isfinite(value))
      throw UsageError(fmt::format("{}: '{}' is no number", name, text));
    check_range(name, text, value, range);
  };
  return app.add_option_function<std::string>(names, set, fmt::format("{} (default {})", help, value))
      ->type_name("F");
}

CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return app.add_flag(names + ",!--no-" + long_name(names).substr(2), value, help);
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
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

bool parse(const Command& command, CLI::App& app, const std::vector<std::string>& arguments) {
  for (CLI::Option* option : app.get_options()) {
    // As everywhere in Unix, the last of several wins.
    option->multi_option_policy(option->get_expected_max() > 1 ? CLI::MultiOptionPolicy::TakeAll
                                                               : CLI::MultiOptionPolicy::TakeLast);
  }
  Words words(command, app);
  words.read(arguments);
  check_environment();
  words.read_environment();
  app.allow_extras();  // Unexpected words are ours to report.
  std::vector<std::string> reversed(words.words().rbegin(), words.words().rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  } catch (const UsageError& error) {
    const std::string_view text = error.what();
    const auto found = words.variables().find(std::string(text.substr(0, text.find(':'))));
    if (found == words.variables().end()) throw;
    throw UsageError(fmt::format("{} (from {})", text, found->second));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty())
    throw UsageError(fmt::format(
        "unexpected argument '{}'; {}", extras.front(),
        extras.front().ends_with(".gguf") ? "a model is named with -m" : "quote a text that has spaces"));

  const CLI::Option* const quiet = app.get_option_no_throw("--quiet");
  if (quiet == nullptr || !quiet->as<bool>())
    for (const std::string& text : words.notes()) fmt::print(stderr, "weft: note: {}\n", text);
  return true;
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
