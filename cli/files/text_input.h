#pragma once
// Input strings of a command: a file, or several strings as words or lines.
#include <string>
#include <vector>

#include "options/option_types.h"

namespace weft::cli {

/// Returns read_text() without one newline at the file's end. Editors add it, and llama.cpp drops it, too.
std::string read_prompt_file(const std::string& path);

struct TextInput {
  std::vector<std::string> words;
  std::string file;
};
/// Adds the positional words `name`, and -f. `what` describes them in the help.
void add_text_options(CLI::App& app, TextInput& input, const std::string& name, const std::string& what,
                      const std::string& group);
/// Returns the words, or the lines of the file, including blank ones; without both it reads the standard
/// input. Result i belongs to line i. Throws UsageError without input.
std::vector<std::string> texts_of(const TextInput& input);

}  // namespace weft::cli
