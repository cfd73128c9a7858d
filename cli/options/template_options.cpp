#include "options/template_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <map>

#include "commands/command.h"
#include "files/json_input.h"
#include "options/arguments.h"
#include "options/options.h"
#include "weft/chat.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

int parse_budget(const std::string& text) {
  std::int64_t budget = 0;
  try {
    budget = parse_size(text);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("--reasoning-budget: {}", error.what()));
  }
  if (budget < -1 || budget > std::numeric_limits<int>::max())
    throw UsageError(
        fmt::format("--reasoning-budget: {} is not a number of tokens; 0 turns reasoning off, -1 sets no "
                    "limit",
                    text));
  return static_cast<int>(budget);
}

void set_effort(TemplateOptions& options, const std::string& text) {
  if (text == "none" || text == "off") options.reasoning = Reasoning::kOff;
  options.effort = text == "default" || text == "none" || text == "off" ? "" : text;
}

Json read_variables(const std::string& text) {
  const auto refuse = [](std::string_view reason) {
    throw UsageError(
        fmt::format("--chat-template-kwargs: {}; expected a JSON object such as "
                    "'{{\"enable_thinking\": false}}'",
                    reason));
  };
  Json given;
  try {
    given = parse_json(text);
  } catch (const Error& error) {
    refuse(error.what());
  }
  if (!given.is_object()) refuse("the value is not an object");
  for (const char* name : {"messages", "tools", "add_generation_prompt"})
    if (given.contains(name)) refuse(fmt::format("weft itself sets '{}'", name));
  return given;
}

}  // namespace

void add_template_options(CLI::App& app, TemplateOptions& options, const std::string& group) {
  app.add_option(
         "--chat-template", options.text,
         fmt::format("chat template (Jinja) in place of the model's own, or the name of one of these: {}",
                     fmt::join(weft::Chat::template_names(), ", ")))
      ->type_name("TEXT")
      ->group(group);
  app.add_option("--chat-template-file", options.file, "the chat template from a file")
      ->type_name("FILE")
      ->group(group);
  app.add_option(
         "--chat-template-kwargs", options.variables,
         "JSON object with variables of the template, e.g. '{\"enable_thinking\": false}'; \"now\" sets the "
         "time that strftime_now returns (default: the current time)")
      ->type_name("JSON")
      ->group(group);
  add_choice<Reasoning>(app, "--reasoning", options.reasoning,
                        {{"on", Reasoning::kOn},
                         {"off", Reasoning::kOff},
                         {"auto", Reasoning::kAuto},
                         {"template", Reasoning::kTemplate}},
                        "whether the model reasons before it responds; auto: yes, if its template can turn "
                        "reasoning on and off; "
                        "template: the template decides (default auto)")
      ->group(group);
  app.add_option_function<std::string>(
         "--reasoning-budget", [&options](const std::string& text) { options.budget = parse_budget(text); },
         "most tokens of reasoning in a response; then it is closed, and the response follows; 0: no "
         "reasoning; -1: no limit (default)")
      ->type_name("N")
      ->group(group);
  app.add_option("--reasoning-budget-message", options.budget_message,
                 "ends reasoning that reached the budget, before the closing tag (default: none)")
      ->type_name("TEXT")
      ->group(group);
  app.add_option_function<std::string>(
         "--reasoning-effort", [&options](const std::string& text) { set_effort(options, text); },
         "reasoning effort, a value that the template knows: low, medium, high (default: the template's)")
      ->type_name("WORD")
      ->group(group);
}

std::string template_text(const TemplateOptions& options) {
  if (!options.text.empty() && !options.file.empty())
    throw UsageError("--chat-template and --chat-template-file both set the template; give one of them");
  if (!options.file.empty()) return read_text(options.file);
  if (options.text.empty() || options.text.find_first_of("{ \n") != std::string::npos) return options.text;
  const std::vector<std::string> names = weft::Chat::template_names();
  if (std::find(names.begin(), names.end(), options.text) == names.end())
    throw UsageError(
        fmt::format("--chat-template: unknown template '{}'; give a Jinja template, a file with "
                    "--chat-template-file, or one of {}",
                    options.text, fmt::join(names, ", ")));
  return options.text;
}

server::ChatDefaults chat_defaults(const TemplateOptions& options) {
  server::ChatDefaults defaults;
  Json variables = Json::object();
  if (options.reasoning == Reasoning::kTemplate) defaults.reasoning = std::nullopt;
  defaults.reasoning_budget = options.budget;
  defaults.reasoning_budget_message = options.budget_message;
  const bool is_off = options.reasoning == Reasoning::kOff || options.budget == 0;
  if (is_off || options.reasoning == Reasoning::kOn) {
    defaults.reasoning = !is_off;
    // Templates call it the one or the other.
    for (const char* name : {"enable_thinking", "thinking"}) variables[name] = *defaults.reasoning;
  }
  if (!options.effort.empty()) variables["reasoning_effort"] = options.effort;
  if (!options.variables.empty()) variables.update(read_variables(options.variables));
  if (!variables.empty())
    defaults.variables_json = variables.dump(-1, ' ', false, Json::error_handler_t::replace);
  return defaults;
}

}  // namespace weft::cli
