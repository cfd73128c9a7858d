#include "help/completion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "commands/command.h"
#include "options/option_table.h"

namespace weft::cli {
namespace {

constexpr std::string_view kHelp = "help";
constexpr std::string_view kHelpSummary = "explain a command";

struct CommandRows {
  const Command* command;
  std::vector<OptionRow> options;
  std::vector<OptionRow> positionals;
};

std::vector<CommandRows> all_rows() {
  std::vector<CommandRows> all;
  for (const Command& command : commands()) {
    CLI::App app;
    set_up(command, app);
    all.push_back({&command, option_rows(app), positional_rows(app)});
  }
  return all;
}

std::string command_names() {
  std::string names;
  for (const Command& command : commands())
    names += fmt::format("{}{}", names.empty() ? "" : " ", command.name);
  return names;
}

// Kinds of option values.
enum class ValueKind { kText, kFile, kChoice, kCommand };

ValueKind kind_of(const OptionRow& row) {
  if (!row.choices().empty()) return ValueKind::kChoice;
  if (row.takes_file()) return ValueKind::kFile;
  return row.value == "COMMAND" ? ValueKind::kCommand : ValueKind::kText;
}

std::string replaced(std::string text, std::string_view characters, std::string_view before) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (characters.find(text[i]) == std::string_view::npos) continue;
    text.insert(i, before);
    i += before.size();
  }
  return text;
}

// Single-quoted for a shell without escapes in quotes.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The description's first part, short enough for a list.
std::string brief(const OptionRow& row) {
  constexpr std::size_t kMost = 70;
  std::string text = row.description.substr(0, row.description.find("; "));
  if (text.size() <= kMost) return text;
  return text.substr(0, text.rfind(' ', kMost)) + " ...";
}

// bash: a command that fills COMPREPLY with the values.
std::string bash_values(const OptionRow& row) {
  switch (kind_of(row)) {
    case ValueKind::kFile:
      return "_weft_files";
    case ValueKind::kChoice:
      return fmt::format("_weft_words '{}'", fmt::join(row.choices(), " "));
    case ValueKind::kCommand:
      return fmt::format("_weft_words '{}'", command_names());
    case ValueKind::kText:
      break;
  }
  return "";
}

std::string bash_of(const CommandRows& rows) {
  std::string out = fmt::format("    {})\n", rows.command->name);
  std::string cases;
  std::vector<std::string> words;
  for (const OptionRow& row : rows.options) {
    const std::vector<std::string> spellings = row.spellings();
    words.insert(words.end(), spellings.begin(), spellings.end());
    if (row.value.empty()) continue;
    const std::string values = bash_values(row);
    // A value that may be missing may also be followed by the next option.
    const std::string leave = row.value_optional ? "[[ $cur == -* ]] || return" : "return";
    cases += fmt::format("        {}) {}{}{} ;;\n", fmt::join(row.names, "|"), values,
                         values.empty() ? "" : "; ", leave);
  }
  if (!cases.empty()) out += fmt::format("      case $prev in\n{}      esac\n", cases);
  out += fmt::format("      options='{}'\n", fmt::join(words, " "));
  for (const OptionRow& row : rows.positionals)
    if (const std::string values = bash_values(row); !values.empty())
      out += fmt::format("      [[ $cur == -* ]] || {{ {}; return; }}\n", values);
  return out + "      ;;\n";
}

// zsh: the part of a specification after the description.
std::string zsh_values(const OptionRow& row) {
  switch (kind_of(row)) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kChoice:
      return fmt::format("({})", fmt::join(row.choices(), " "));
    case ValueKind::kCommand:
      return fmt::format("({})", command_names());
    case ValueKind::kText:
      break;
  }
  return " ";
}

std::string zsh_option(const OptionRow& row) {
  const std::vector<std::string> spellings = row.spellings();
  const std::string exclusive = row.repeatable ? "*" : fmt::format("({})", fmt::join(spellings, " "));
  const std::string help = replaced(brief(row), "[]\\:", "\\");
  const std::string value = row.value.empty()
                                ? ""
                                : fmt::format(":{}{}:{}", row.value_optional ? ":" : "",
                                              replaced(row.value, "[]\\:", "\\"), zsh_values(row));
  std::string out;
  for (const std::string& name : spellings) {
    // --name VALUE and --name=VALUE
    const bool equals = name.starts_with("--") && !row.value.empty();
    out += fmt::format("        {} \\\n",
                       quoted(fmt::format("{}{}{}[{}]{}", exclusive, name, equals ? "=" : "", help, value)));
  }
  return out;
}

std::string fish_option(std::string_view condition, const OptionRow& row) {
  std::string names;
  for (const std::string& name : row.spellings()) {
    if (name.starts_with("--")) {
      names += " -l " + name.substr(2);
    } else {
      names += (name.size() == 2 ? " -s " : " -o ") + name.substr(1);
    }
  }
  std::string values;
  if (!row.value.empty()) {
    switch (kind_of(row)) {
      case ValueKind::kFile:
        values = " -r -F";
        break;
      case ValueKind::kChoice:
        values = fmt::format(" -x -a '{}'", fmt::join(row.choices(), " "));
        break;
      case ValueKind::kCommand:
        values = fmt::format(" -x -a '{}'", command_names());
        break;
      case ValueKind::kText:
        values = row.value_optional ? "" : " -x";
        break;
    }
  }
  return fmt::format("complete -c weft -n '{}'{}{} -d '{}'\n", condition, names, values,
                     replaced(brief(row), "'\\", "\\"));
}

}  // namespace

std::string bash_completion() {
  std::string out =
      R"(# bash completion for weft; made by 'weft completion bash'.
_weft_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_weft_files() { compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur"); }

_weft() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} options=
  COMPREPLY=()
  # bash makes three words of --name=value.
  if [[ $cur == = ]]; then
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
)";
  out += fmt::format("  if ((COMP_CWORD == 1)); then\n    _weft_words '{} {}'\n    return\n  fi\n",
                     command_names(), kHelp);
  out += "  case ${COMP_WORDS[1]} in\n";
  out += fmt::format("    {}) _weft_words '{}'; return ;;\n", kHelp, command_names());
  for (const CommandRows& rows : all_rows()) out += bash_of(rows);
  return out + "  esac\n  _weft_words \"$options\"\n}\ncomplete -F _weft weft\n";
}

std::string zsh_completion() {
  std::string out = "#compdef weft\n# zsh completion for weft; made by 'weft completion zsh'.\n\n_weft() {\n";
  out += "  local -a commands=(\n";
  for (const Command& command : commands())
    out += fmt::format("    {}\n", quoted(fmt::format("{}:{}", command.name, command.summary)));
  out += fmt::format("    '{}:{}'\n  )\n", kHelp, kHelpSummary);
  out +=
      "  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  ((CURRENT--))\n  case $command in\n";
  out += fmt::format("    {})\n      _describe command commands\n      ;;\n", kHelp);
  for (const CommandRows& rows : all_rows()) {
    out += fmt::format("    {})\n      _arguments \\\n", rows.command->name);
    for (const OptionRow& row : rows.options) out += zsh_option(row);
    for (const OptionRow& row : rows.positionals)
      out += fmt::format("        {} \\\n",
                         quoted(fmt::format("::{}:{}", replaced(row.names[0], ":", "\\"), zsh_values(row))));
    out += "        && return\n      ;;\n";
  }
  return out + "  esac\n}\n\n_weft \"$@\"\n";
}

std::string fish_completion() {
  std::string out =
      R"(# fish completion for weft; made by 'weft completion fish'.
function __weft_command
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = $argv[1]
end

complete -c weft -f
)";
  constexpr std::string_view kFirst = "test (count (commandline -opc)) -eq 1";
  for (const Command& command : commands())
    out += fmt::format("complete -c weft -n '{}' -a {} -d '{}'\n", kFirst, command.name,
                       replaced(command.summary, "'\\", "\\"));
  out += fmt::format("complete -c weft -n '{}' -a {} -d '{}'\n", kFirst, kHelp, kHelpSummary);
  out += fmt::format("complete -c weft -n '__weft_command {}' -a '{}'\n", kHelp, command_names());
  for (const CommandRows& rows : all_rows()) {
    const std::string condition = fmt::format("__weft_command {}", rows.command->name);
    out += fmt::format("\n# weft {}\n", rows.command->name);
    for (const OptionRow& row : rows.options) out += fish_option(condition, row);
    for (const OptionRow& row : rows.positionals) {
      if (kind_of(row) == ValueKind::kFile) out += fmt::format("complete -c weft -n '{}' -F\n", condition);
      if (kind_of(row) == ValueKind::kChoice)
        out += fmt::format("complete -c weft -n '{}' -a '{}'\n", condition, fmt::join(row.choices(), " "));
      if (kind_of(row) == ValueKind::kCommand)
        out += fmt::format("complete -c weft -n '{}' -a '{}'\n", condition, command_names());
    }
  }
  return out;
}

}  // namespace weft::cli
