#include "help/man_page.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <vector>

#include "help/help.h"
#include "options/option_table.h"
#include "weft/version.h"

namespace weft::cli {
namespace {

// The string in roff: backslashes and hyphens as typed, no requests at the beginning of a line.
std::string escaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool line_begins = i == 0 || text[i - 1] == '\n';
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      out += c;
    }
  }
  return out;
}

// Lines shorter than 80 bytes, as tools for roff require; they are filled again for display.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kWidth = 60;  // Escapes make lines longer.
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0) {
      const bool fits = column + 1 + end <= kWidth;
      out += fits ? ' ' : '\n';
      column = fits ? column + 1 : 0;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return escaped(out);
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string title(const std::string& name, std::string_view date) {
  return fmt::format(".TH {} 1 {} \"weft {}\" \"weft manual\"\n", upper(escaped(name)), date, WEFT_VERSION);
}

// Lines that begin with two blanks are shown as they are, the others are paragraphs.
std::string paragraphs(std::string_view text) {
  std::string out;
  bool literal = false, open = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool code = line.starts_with("  ");
    if (code != literal) out += code ? ".PP\n.RS 4\n.nf\n" : ".fi\n.RE\n";
    if (!code && (line.empty() || literal)) open = false;
    literal = code;
    if (line.empty()) continue;
    if (!code && !open) out += ".PP\n";
    open = !code;
    out += (code ? escaped(line.substr(2)) : wrapped(line)) + "\n";
  }
  return out + (literal ? ".fi\n.RE\n" : "");
}

std::string section(std::string_view name, std::string body) {
  // A section does not begin with a paragraph break.
  if (body.starts_with(".PP\n")) body.erase(0, 4);
  return body.empty() ? "" : fmt::format(".SH {}\n{}", name, body);
}

std::string item(std::string_view head, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", head, wrapped(text));
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", escaped(text)); }

std::string option_items(const Command& command) {
  CLI::App app;
  set_up(command, app);
  std::string out, group;
  for (const OptionRow& row : option_rows(app)) {
    if (row.group != group) out += fmt::format(".SS {}\n", row.group);
    group = row.group;
    std::vector<std::string> names;
    for (const std::string& name : row.spellings()) names.push_back(bold(name));
    out += item(fmt::format("{}{}", fmt::join(names, ", "),
                            row.value.empty() ? "" : fmt::format(" \\fI{}\\fR", escaped(row.value))),
                row.description);
  }
  return out;
}

// The sections common to all commands.
std::string common_sections() {
  std::string environment =
      item(bold("WEFT_ARG_NAME"), "value of the option --name, if the option is not given");
  environment += item(bold("WEFT_CONFIG"), "configuration file to read in place of those below; empty: none");
  environment += item(bold("WEFT_CACHE"), "folder of models and packed weights, in place of ~/.cache/weft");
  environment += item(bold("WEFT_BACKENDS"), "folders with additional backends, separated by colons");
  environment += item(bold("OMP_NUM_THREADS"), "number of threads, if --threads is not given");
  environment += item(bold("NO_COLOR"), "no colour, if set");
  std::string files = item(bold("~/.config/weft/config.toml"),
                           "the user's options as TOML, by their long names: at the top for all commands, or "
                           "in a table with the command's name");
  files += item(bold("/etc/weft/config.toml"), "the system's options, unless the user's file sets them");
  files += item(bold("~/.cache/weft/models"), "models that -m finds by their names");
  return section("ENVIRONMENT", environment) + section("FILES", files) +
         section("EXIT STATUS", paragraphs(kExitCodes));
}

std::string page_name(const Command& command) { return fmt::format("weft-{}", command.name); }

}  // namespace

std::string man_page(std::string_view date) {
  std::string list;
  for (const Command& command : commands()) list += item(bold(command.name), command.summary);
  list += item(bold("help"), "explain a command: weft help run");
  std::string see_also;
  for (const Command& command : commands())
    see_also += fmt::format("{}.BR {} (1)", see_also.empty() ? "" : " ,\n", escaped(page_name(command)));
  return title("weft", date) + section("NAME", "weft \\- run language models from GGUF files\n") +
         section("SYNOPSIS", ".B weft\n.I COMMAND\n[options]\n") +
         section("DESCRIPTION", paragraphs(kSummary) + paragraphs("Each command has a page of its own.")) +
         section("COMMANDS", list) + common_sections() + section("SEE ALSO", see_also + "\n");
}

std::string man_page(const Command& command, std::string_view date) {
  const std::string name = page_name(command);
  std::string_view text = command.details, examples;
  for (const std::string_view heading : {"Examples:\n", "Example:\n"}) {
    const std::size_t at = text.find(heading);
    if (at == std::string_view::npos) continue;
    examples = text.substr(at + heading.size());
    text = text.substr(0, at);
  }
  return title(name, date) +
         section("NAME", fmt::format("{} \\- {}\n", escaped(name), escaped(command.summary))) +
         section("SYNOPSIS",
                 fmt::format(".B weft {}\n{}\n", escaped(command.name), escaped(command.arguments))) +
         section("DESCRIPTION", paragraphs(text)) + section("OPTIONS", option_items(command)) +
         common_sections() + section("EXAMPLES", paragraphs(examples)) +
         section("SEE ALSO", ".BR weft (1)\n");
}

}  // namespace weft::cli
