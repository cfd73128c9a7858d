#include "options/arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "options/config_file.h"
#include "options/llama_cpp.h"
#include "options/option_table.h"

namespace weft::cli {
namespace {

// "'weft run' and 'weft chat'": the other commands that have an option.
std::string owners_of(std::string_view word, const Command& but) {
  std::string owners;
  for (const Command& command : commands()) {
    if (std::string_view(command.name) == but.name) continue;
    CLI::App app;
    set_up(command, app);
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
      return fmt::format("; did you mean {} {}?", word.substr(0, 2), word.substr(2));
    return did_you_mean(word, spellings(app));
  }();
  const std::string owners = owners_of(word, command);
  if (!owners.empty())
    throw UsageError(fmt::format("{} is an option of {}, not of 'weft {}'", word, owners, command.name));
  throw UsageError(fmt::format("unknown option {}{}", word, suggestion));
}

bool is_switch_word(std::string_view word) {
  return word == "on" || word == "off" || word == "auto" || word == "0" || word == "1";
}

/// The names in the environment that begin with `prefix`.
std::vector<std::string> environment_names(std::string_view prefix) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

/// The words of a command line in CLI11's terms: long option names, without options that weft ignores.
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

  bool asks_for_help() const { return given_.contains(app_.get_help_ptr()); }

  /// Options that were not given, as the environment has them.
  void read_environment() {
    for (CLI::Option* option : app_.get_options()) {
      if (!is_configurable(app_, *option) || given_.contains(option)) continue;
      for (const std::string& name : option->get_lnames())
        if (take_variable(environment_name(name), *option, name)) break;
      if (given_.contains(option)) continue;
      for (const std::string_view variable : foreign_variables(option->get_lnames().front()))
        if (take_variable(std::string(variable), *option, option->get_lnames().front())) {
          notes_.push_back(fmt::format("--{} is from {}", option->get_lnames().front(), variable));
          break;
        }
    }
    for (const std::string& name : environment_names("LLAMA_ARG_"))
      if (!is_foreign_variable(name))
        notes_.push_back(fmt::format("{} has no effect: weft has no option for it", name));
  }

  /// Options that neither were given nor are in the environment, as `files` have them, the first before
  /// others.
  void read_configs(const std::vector<ConfigFile>& files) {
    for (const ConfigFile& file : files) {
      read_table(file, command_.name);
      read_table(file, "");
    }
  }

  const std::vector<std::string>& words() const { return words_; }
  std::vector<std::string>& notes() { return notes_; }
  /// The origin of values that were not given on the command line, by the option's long name.
  const std::map<std::string, std::string>& origins() const { return origins_; }
  /// The value of --config, if it was given.
  const std::optional<std::string>& config() const { return config_; }

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
    if (option == nullptr) return skip_foreign(argument, word, arguments);
    given_.insert(option);
    const std::string name = name_of(*option, word);
    if (!takes_value(*option)) {
      const bool word_follows =
          !has_value && takes_switch_word(name) && !arguments.empty() && is_switch_word(arguments.front());
      if (has_value) check_flag(name, argument.substr(equals + 1));
      if (word_follows && arguments.front() != "auto") {
        words_.push_back(name + "=" + arguments.front());
      } else {
        words_.push_back(has_value ? name + argument.substr(equals) : name);
      }
      return arguments.subspan(word_follows ? 1 : 0);
    }
    words_.push_back(name);
    if (has_value) {
      words_.push_back(argument.substr(equals + 1));
    } else {
      if (option->get_expected_min() == 0) return arguments;
      if (arguments.empty())
        throw UsageError(fmt::format("{} needs a value: {} {}", word, word, option->get_type_name()));
      arguments = keep(arguments);
      if (takes_two(*option) && !arguments.empty() && !is_pair(words_.back())) {
        words_.back() += ":" + arguments.front();
        arguments = arguments.subspan(1);
      }
    }
    if (is_config(*option)) config_ = words_.back();
    return arguments;
  }

  // Whether a value has its second word already: "FILE:0.5".
  static bool is_pair(const std::string& value) {
    const std::size_t colon = value.rfind(':');
    return colon != std::string::npos &&
           value.find_first_not_of("0123456789.-+eE", colon + 1) == std::string::npos;
  }

  static bool is_config(const CLI::Option& option) { return option.check_lname("config"); }

  // As it was written, but for other spellings: --no-x is not --x.
  static std::string name_of(const CLI::Option& option, std::string word) {
    for (const auto& [alias, name] : aliases())
      if (alias == word) word = name;
    const bool known = word.starts_with("--") && option.check_lname(word.substr(2));
    if (known || option.get_lnames().empty()) return word;
    return "--" + option.get_lnames().front();
  }

  static void check_flag(const std::string& name, std::string_view value) {
    static constexpr std::string_view kWords[] = {"true", "false", "on", "off", "yes", "no", "1", "0"};
    if (std::find(std::begin(kWords), std::end(kWords), value) == std::end(kWords))
      throw UsageError(fmt::format("{}: '{}' is neither true nor false", name, value));
  }

  Arguments skip_foreign(const std::string& argument, const std::string& word, Arguments arguments) {
    const bool has_value = argument.size() > word.size();
    const ForeignOption* const foreign = find_foreign_option(word);
    if (foreign == nullptr) refuse_unknown(command_, app_, word);
    const bool takes =
        !has_value && !arguments.empty() &&
        (foreign->value == ForeignOption::Value::kOne ||
         (foreign->value == ForeignOption::Value::kSwitch && is_switch_word(arguments.front())));
    const std::string_view value = has_value ? std::string_view(argument).substr(word.size() + 1)
                                   : takes   ? std::string_view(arguments.front())
                                             : std::string_view();
    const bool asks_for_nothing = !foreign->neutral.empty() && value == foreign->neutral;
    if (!foreign->harmless && !asks_for_nothing)
      throw UsageError(fmt::format("{}: {}", word, foreign->reason));
    notes_.push_back(asks_for_nothing ? fmt::format("{} {} has no effect: weft does so anyway", word, value)
                                      : fmt::format("{} has no effect: {}", word, foreign->reason));
    return arguments.subspan(takes ? 1 : 0);
  }

  bool take_variable(const std::string& variable, CLI::Option& option, const std::string& long_name) {
    const char* const value = std::getenv(variable.c_str());
    if (value == nullptr || (!takes_value(option) && *value == '\0')) return false;
    // Compose files pass on variables that are not set as empty ones.
    if (*value == '\0' && (option.check_lname("api-key") || option.check_lname("api-key-file"))) {
      notes_.push_back(fmt::format("{} is empty, so it sets no API key", variable));
      return false;
    }
    std::string word = value;
    if (!takes_value(option)) {
      if (word == "enabled") word = "true";  // llama.cpp's spellings.
      if (word == "disabled") word = "false";
      check_flag(variable, word);
    }
    take(option, long_name, {word}, variable);
    return true;
  }

  void read_table(const ConfigFile& file, std::string_view table) {
    std::map<const CLI::Option*, int> lines;  // Two names of one option are as wrong as one name twice.
    for (const ConfigEntry& entry : file.entries) {
      if (entry.table != table) continue;
      CLI::Option* const option = find_option(app_, "--" + entry.key);
      if (option == nullptr) continue;  // Of another command.
      if (const auto [first, added] = lines.emplace(option, entry.line); !added)
        throw UsageError(fmt::format("{}: {} sets the same option as line {}; leave one of them out",
                                     file.place(entry.line), entry.key, first->second));
      if (entry.is_array && !is_repeatable(*option))
        throw UsageError(
            fmt::format("{}: {} takes one value, not a list", file.place(entry.line), entry.key));
      if (!takes_value(*option))
        check_flag(fmt::format("{}: {}", file.place(entry.line), entry.key), entry.values[0]);
      if (!given_.contains(option)) take(*option, entry.key, entry.values, file.place(entry.line));
    }
  }

  // Values for an option that was not given.
  void take(CLI::Option& option, const std::string& long_name, const std::vector<std::string>& values,
            const std::string& origin) {
    const std::string name = "--" + long_name;
    std::vector<std::string> words;
    for (const std::string& value : values) {
      if (takes_value(option)) {
        words.insert(words.end(), {name, value});
      } else {
        words.push_back(fmt::format("{}={}", name, value));
      }
    }
    // In front, as words after "--" are not parsed as options.
    words_.insert(words_.begin(), words.begin(), words.end());
    given_.insert(&option);
    for (const std::string& each : option.get_lnames()) origins_["--" + each] = origin;
  }

  const Command& command_;
  CLI::App& app_;
  std::vector<std::string> words_, notes_;
  std::set<const CLI::Option*> given_;
  std::map<std::string, std::string> origins_;
  std::optional<std::string> config_;
};

// The long names that files may set for `only`, or for any command if it is empty.
std::vector<std::string> configurable_names(std::string_view only) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (!only.empty() && only != command.name) continue;
    CLI::App app;
    set_up(command, app);
    for (const CLI::Option* option : app.get_options())
      if (is_configurable(app, *option))
        names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  return names;
}

// A name that no command has is a slip, which would go unnoticed.
void check_environment() {
  const std::vector<std::string> names = environment_names("WEFT_ARG_");
  if (names.empty()) return;
  std::vector<std::string> known;
  for (const std::string& name : configurable_names({})) known.push_back(environment_name(name));
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string suggestion = did_you_mean(name, known);
    throw UsageError(fmt::format("the environment has {}, which is not an option{}", name,
                                 suggestion.empty() ? "; unset it" : suggestion));
  }
}

// Also rejects keys and tables that no command has, whichever command runs.
void check_configs(const std::vector<ConfigFile>& files) {
  for (const ConfigFile& file : files) {
    std::map<std::string, std::vector<std::string>, std::less<>> known = {{"", configurable_names({})}};
    std::vector<std::string> names;
    for (const ConfigFile::Table& table : file.tables) {
      names.clear();
      for (const Command& command : commands()) names.emplace_back(command.name);
      if (std::find(names.begin(), names.end(), table.name) == names.end())
        throw UsageError(fmt::format("{}: [{}] is not a command{}", file.place(table.line), table.name,
                                     did_you_mean(table.name, names)));
      known[table.name] = configurable_names(table.name);
    }
    for (const ConfigEntry& entry : file.entries) {
      const std::vector<std::string>& keys = known[entry.table];
      if (std::find(keys.begin(), keys.end(), entry.key) != keys.end()) continue;
      throw UsageError(fmt::format("{}: {} is not an option{}{}", file.place(entry.line), entry.key,
                                   entry.table.empty() ? "" : fmt::format(" of 'weft {}'", entry.table),
                                   did_you_mean(entry.key, keys)));
    }
  }
}

bool has_configurable_option(const CLI::App& app) {
  const std::vector<const CLI::Option*> options = app.get_options();
  return std::any_of(options.begin(), options.end(),
                     [&](const CLI::Option* option) { return is_configurable(app, *option); });
}

// The file that is named on the command line or in the environment, if one is.
std::optional<std::string> config_name(const std::optional<std::string>& given) {
  if (given) return given;
  const char* const variable = std::getenv("WEFT_CONFIG");
  return variable != nullptr ? std::optional<std::string>(variable) : std::nullopt;
}

// A message that begins with an option's name, with the value's origin.
std::string with_origin(std::string_view message, const std::map<std::string, std::string>& origins) {
  const auto found = origins.find(std::string(message.substr(0, message.find_first_of(": "))));
  return found == origins.end() ? std::string(message) : fmt::format("{} (from {})", message, found->second);
}

template <typename T>
std::string describe(const Range<T>& range, T value) {
  constexpr T kLarge = 1'000'000'000;  // As good as none.
  const bool bounded = range.most < kLarge || value > range.most;
  return bounded ? fmt::format("from {} to {}", range.least, range.most)
                 : fmt::format("{} or more", range.least);
}

template <typename T>
void check_range(const std::string& name, std::string_view text, T value, const Range<T>& range) {
  if (value >= range.least && value <= range.most) return;  // Not so for NaN.
  throw UsageError(fmt::format("{}: {} is out of range, it must be {}{}{}", name, text,
                               describe(range, value), range.otherwise.empty() ? "" : "; ", range.otherwise));
}

}  // namespace

std::int64_t parse_size(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  std::int64_t factor = 1;
  const char* tail = rest;
  const bool overflows = error == std::errc::result_out_of_range;
  if ((error == std::errc{} || overflows) && tail + 1 == end) {
    if (*tail == 'k' || *tail == 'K') factor = std::int64_t{1} << 10;
    if (*tail == 'm' || *tail == 'M') factor = std::int64_t{1} << 20;
    if (factor != 1) ++tail;
  }
  if ((error != std::errc{} && !overflows) || tail != end)
    throw UsageError(fmt::format("'{}' is not a number; write e.g. 4096, 8k or 1M", text));
  constexpr std::int64_t kMax = std::numeric_limits<int>::max();
  if (overflows || value > kMax / factor || value < -kMax / factor)
    throw UsageError(fmt::format("{} is too large", text));
  return value * factor;
}

std::string expand_home(std::string path) {
  const char* const home = std::getenv("HOME");
  if (home == nullptr || *home == '\0' || (path != "~" && !path.starts_with("~/"))) return path;
  return home + path.substr(1);
}

std::string long_name(const std::string& names) {
  const std::size_t begin = names.find("--");
  if (begin == std::string::npos) return names;  // A positional has one name.
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
      throw UsageError(fmt::format("{}: '{}' is not a number", name, text));
    check_range(name, text, value, range);
  };
  return app.add_option_function<std::string>(names, set, fmt::format("{} (default {})", help, value))
      ->type_name("F");
}

CLI::Option* add_function(CLI::App& app, const std::string& names,
                          std::function<void(const std::string&)> set, const std::string& help,
                          const std::string& type) {
  return app.add_option_function<std::string>(names, std::move(set), help)->type_name(type);
}

CLI::Option* add_repeated(CLI::App& app, const std::string& names, std::vector<std::string>& values,
                          const std::string& help, const std::string& type) {
  return app.add_option(names, values, help)
      ->type_name(type)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->allow_extra_args(false);
}

CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return app.add_flag(names + ",!--no-" + long_name(names).substr(2), value, help);
}

bool parse(const Command& command, CLI::App& app, const std::vector<std::string>& arguments) {
  for (CLI::Option* option : app.get_options()) {
    // As everywhere in Unix, the last of several wins.
    option->multi_option_policy(option->get_expected_max() > 1 ? CLI::MultiOptionPolicy::TakeAll
                                                               : CLI::MultiOptionPolicy::TakeLast);
  }
  Words words(command, app);
  words.read(arguments);
  if (words.asks_for_help()) return false;
  check_environment();
  words.read_environment();
  if (has_configurable_option(app)) {
    const std::vector<ConfigFile> files = read_configs(config_name(words.config()), words.notes());
    check_configs(files);
    words.read_configs(files);
  }
  app.allow_extras();  // Unexpected words are ours to report.
  std::vector<std::string> reversed(words.words().rbegin(), words.words().rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    throw UsageError(with_origin(error.what(), words.origins()));
  } catch (const UsageError& error) {
    throw UsageError(with_origin(error.what(), words.origins()));
  }
  if (const std::vector<std::string> extras = app.remaining(); !extras.empty())
    throw UsageError(fmt::format("unexpected argument '{}'; {}", extras.front(),
                                 extras.front().ends_with(".gguf") ? "a model is named with -m"
                                                                   : "quote an argument that has spaces"));

  const CLI::Option* const quiet = app.get_option_no_throw("--quiet");
  if (quiet == nullptr || !quiet->as<bool>())
    for (const std::string& text : words.notes()) fmt::print(stderr, "weft: note: {}\n", text);
  return true;
}

}  // namespace weft::cli
