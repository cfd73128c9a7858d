#pragma once
// Options that set another chat template than the model's own.
#include <CLI/CLI.hpp>
#include <string>

namespace weft::cli {

struct TemplateOptions {
  std::string text;
  std::string file;
};
/// --chat-template and --chat-template-file.
void add_template_options(CLI::App& app, TemplateOptions& options, const std::string& group);
/// The template's text; empty where the model's own holds. Throws UsageError where both are given, and for a
/// word that is no template.
std::string template_text(const TemplateOptions& options);

}  // namespace weft::cli
