#include "template_options.h"

#include <fmt/format.h>

#include "command.h"
#include "options.h"

namespace weft::cli {

void add_template_options(CLI::App& app, TemplateOptions& options, const std::string& group) {
  app.add_option("--chat-template", options.text, "a chat template (Jinja) instead of the model's own")
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--chat-template-file", options.file, "the chat template from a file")
      ->type_name("FILE")
      ->group(group);
}

std::string template_text(const TemplateOptions& options) {
  if (!options.text.empty() && !options.file.empty())
    throw UsageError("--chat-template and --chat-template-file both set the template; give one of them");
  if (!options.file.empty()) return read_text(options.file);
  // llama.cpp has a list of templates by their names.
  if (!options.text.empty() && options.text.find_first_of("{ \n") == std::string::npos)
    throw UsageError(
        fmt::format("--chat-template: '{}' is a name, and weft knows no templates by their names; give the "
                    "template's text (Jinja), or a file with --chat-template-file",
                    options.text));
  return options.text;
}

}  // namespace weft::cli
