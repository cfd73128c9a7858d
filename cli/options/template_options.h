#pragma once
// Options that replace the model's chat template.
#include <cstdint>
#include <string>
#include <string_view>

#include "models/served_model.h"
#include "options/option_types.h"

namespace weft::cli {

/// The note for a model without a chat template.
inline constexpr std::string_view kNoTemplate =
    "the model's file has no chat template; chats use ChatML (--chat-template sets another)";

/// --reasoning.
enum class Reasoning : std::uint8_t {
  kAuto,      ///< On, if the template has a switch.
  kOn,        ///< Sets the switch by all names that templates have for it.
  kOff,       ///< The same.
  kTemplate,  ///< The template decides.
};

struct TemplateOptions {
  std::string text;
  std::string file;
  std::string variables;  ///< A JSON object.
  Reasoning reasoning = Reasoning::kAuto;
  int budget = -1;  ///< As ChatTurn::reasoning_budget.
  std::string budget_message;
  std::string effort;
};
/// Adds --chat-template and --chat-template-file, and the template's variables: --chat-template-kwargs,
/// --reasoning, --reasoning-budget, --reasoning-budget-message, --reasoning-effort.
void add_template_options(CLI::App& app, TemplateOptions& options, const std::string& group);
/// The template or its name; empty for the model's own. Throws UsageError if both options are given, and for
/// an unknown template name.
std::string template_text(const TemplateOptions& options);
/// The template variables of chats. Throws UsageError if the variables are not a JSON object.
server::ChatDefaults chat_defaults(const TemplateOptions& options);

}  // namespace weft::cli
