#include "files/text_input.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "commands/command.h"
#include "options/options.h"

namespace weft::cli {

std::string read_prompt_file(const std::string& path) {
  std::string text = read_text(path);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

void add_text_options(CLI::App& app, TextInput& input, const std::string& name, const std::string& what,
                      const std::string& group) {
  app.add_option(name, input.words, what + " (default: the lines of the standard input)");
  app.add_option("-f,--file", input.file, what + ", one per line of a file; '-': standard input")
      ->type_name("FILE")
      ->group(group);
}

std::vector<std::string> texts_of(const TextInput& input) {
  if (!input.words.empty() && !input.file.empty())
    throw UsageError("give the input as words or with -f, not both");
  std::vector<std::string> texts = input.words;
  if (texts.empty()) {
    const std::string all = read_text(input.file.empty() ? "-" : input.file);
    for (std::string_view rest = all; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      texts.emplace_back(line);
    }
  }
  if (texts.empty()) throw UsageError("no input: give it as words, with -f FILE or on the standard input");
  return texts;
}

}  // namespace weft::cli
