#pragma once
// Options that set another chat template than the model's own.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "models/served_model.h"

namespace weft::cli {

/// Of a model whose file has no chat template.
inline constexpr std::string_view kNoTemplate =
    "the model's file has no chat template; chats use ChatML (--chat-template sets another)";

/// --reasoning.
enum class Reasoning : std::uint8_t {
  kAuto,      ///< On, where the template has a switch.
  kOn,        ///< Sets the switch by all names that templates have for it.
  kOff,       ///< The same.
  kTemplate,  ///< The template decides.
};

struct TemplateOptions {
  std::string text;
  std::string file;
  std::string variables;  ///< A JSON object.
  Reasoning reasoning = Reasoning::kAuto;
  std::string effort;
};
/// --chat-template and --chat-template-file, and what the template is told: --chat-template-kwargs,
/// --reasoning, --reasoning-budget, --reasoning-effort.
void add_template_options(CLI::App& app, TemplateOptions& options, const std::string& group);
/// The template's text or name; empty where the model's own holds. Throws UsageError where both are given,
/// and for a word that is no template.
std::string template_text(const TemplateOptions& options);
/// What chats say to the template. Throws UsageError for variables that are no JSON object.
server::ChatDefaults chat_defaults(const TemplateOptions& options);

}  // namespace weft::cli
