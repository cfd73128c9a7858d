#include "chat/tools.h"

#include <algorithm>

#include "chat/request_json.h"
#include "weft/chat.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxNameBytes = 128;
/// Limit of a tool's schema. Requests are smaller anyway.
constexpr std::size_t kMaxSchemaBytes = std::size_t{1} << 30;

/// A schema that takes too long to look through is as open as one without properties.
void read_properties(Tool& tool, grammar::Budget& budget) {
  tool.open = true;
  try {
    grammar::SchemaProperties found = tool.schema->properties(budget);
    tool.properties = std::move(found.all);
    tool.open = !found.complete;
  } catch (const grammar::OverBudget&) {
  }
}

Tool read_tool(const ordered_json& item, std::size_t index, grammar::Budget& budget) {
  const std::string where = "tools[" + std::to_string(index) + "]";
  const auto refuse_tool = [&](const std::string& what) { throw ToolSchemaError(index, where + what); };
  if (!item.is_object()) refuse_tool(" must be an object {\"type\": \"function\", \"function\": {...}}");
  if (!item.contains("type") || item["type"] != "function") {
    refuse_tool(".type must be \"function\": other tools cannot be called here");
  }
  if (!item.contains("function") || !item["function"].is_object()) {
    refuse_tool(".function must be an object with the function's name, description and parameters");
  }
  const ordered_json& function = item["function"];
  Tool tool{.index = index};
  if (!function.contains("name") || !function["name"].is_string())
    refuse_tool(".function.name must be a string");
  tool.name = function["name"].get<std::string>();
  if (!is_tool_name(tool.name)) {
    refuse_tool(".function.name must be 1 to " + std::to_string(kMaxNameBytes) +
                " letters, digits, '_', '-', '.', ':' or '/'");
  }
  if (const auto text = function.find("description");
      text != function.end() && !text->is_string() && !text->is_null()) {
    refuse_tool(".function.description must be a string");
  }
  if (const auto strict = function.find("strict"); strict != function.end() && !strict->is_null()) {
    if (!strict->is_boolean()) refuse_tool(".function.strict must be true or false");
    tool.strict = strict->get<bool>();
  }
  if (const auto schema = function.find("parameters"); schema != function.end() && !schema->is_null()) {
    if (!schema->is_object()) refuse_tool(".function.parameters must be a JSON schema, an object");
    tool.schema = std::make_shared<const grammar::SchemaDocument>(
        schema->dump(), GrammarLimits{.source_bytes = kMaxSchemaBytes});
    read_properties(tool, budget);
  }
  return tool;
}

}  // namespace

std::vector<Tool> read_tools(std::string_view tools_json) {
  std::vector<Tool> tools;
  if (tools_json.empty()) return tools;
  const ordered_json all = parse_request_json(tools_json, "tools");
  if (!all.is_array()) refuse("tools must be an array");
  grammar::Budget budget(GrammarLimits{});
  for (const ordered_json& item : all) tools.push_back(read_tool(item, tools.size(), budget));
  std::vector<std::string_view> names;
  for (const Tool& tool : tools) names.push_back(tool.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    refuse("tools has two functions named \"" + std::string(*twice) + "\": give each a name of its own");
  }
  return tools;
}

bool is_text(const ToolParameter& parameter) {
  return (parameter.types & ~grammar::kNullBit) == grammar::kStringBit;
}

const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name) {
  for (const Tool& tool : tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

const ToolParameter* find_parameter(const Tool& tool, std::string_view name) {
  for (const ToolParameter& parameter : tool.properties) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

bool is_tool_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == ':' || c == '/';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace weft::chat
