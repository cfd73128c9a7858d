#include "help/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "options/option_table.h"

namespace weft::cli {
namespace {

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

std::string overview() {
  std::string out = fmt::format("{}\n\nUsage: weft COMMAND [options]\n\nCommands:\n", kSummary);
  for (const Command& command : commands()) out += fmt::format("  {:<14}{}\n", command.name, command.summary);
  out += fmt::format(
      "  help          explain a command: weft help run\n"
      "\nExamples:\n"
      "  weft run -p \"Once upon a time\" -n 64     generate text from a prompt\n"
      "  weft chat -m gemma                       chat with a model of the cache\n"
      "  weft serve                               an OpenAI-compatible server with a web page\n"
      "  weft inspect model.gguf                  show what a file contains\n"
      "\n-m finds models by name in ${{WEFT_CACHE:-$HOME/.cache/weft}}/models.\n"
      "Exit codes: {}\n",
      kExitCodes);
  return out;
}

std::string help_text(const Command& command) {
  CLI::App app;
  set_up(command, app);
  std::string out =
      fmt::format("{}\n\nUsage: weft {} {}\n", command.summary, command.name, command.arguments);
  std::string group;
  for (const OptionRow& row : option_rows(app)) {
    if (row.group != group) out += fmt::format("\n{}:\n", row.group);
    group = row.group;
    // "-c, --ctx-size N"
    std::string line =
        fmt::format("  {}{}{}", fmt::join(row.names, ", "), row.value.empty() ? "" : " ", row.value);
    if (line.size() + 2 > kHelpColumn) {
      line += '\n';
      line.append(kHelpColumn, ' ');
    } else {
      line.resize(kHelpColumn, ' ');
    }
    out += line;
    append_wrapped(out, row.description);
  }
  return out + "\n" + command.details +
         fmt::format(
             "\nEvery option can also come from the environment, --top-k as WEFT_ARG_TOP_K, or from a "
             "configuration\nfile, as top-k = 40.\n"
             "Exit codes: {}\n",
             kExitCodes);
}

}  // namespace weft::cli
