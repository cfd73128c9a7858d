#pragma once
// Several texts of a command line: as words, or a line each in a file.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace weft::cli {

struct TextInput {
  std::vector<std::string> words;
  std::string file;
};
/// The texts as words called `name`, and -f. `what` is for the help.
void add_text_options(CLI::App& app, TextInput& input, const std::string& name, const std::string& what,
                      const std::string& group);
/// The words, or the lines of the file, blank ones too: of the standard input where nothing is named. So each
/// result belongs to the line of its number. Throws UsageError where there is no text.
std::vector<std::string> texts_of(const TextInput& input);

}  // namespace weft::cli
