#include "chat/tools.h"

#include <algorithm>

#include "chat/request_json.h"

namespace weft::chat {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMaxNameBytes = 128;
/// Of the schemas of a tool's parameters, each with the definitions that it needs.
constexpr std::size_t kMaxSchemaBytes = std::size_t{8} << 20;

/// Whether a schema allows strings only. `more` says that it also says which.
bool is_text(const ordered_json& schema, bool& more) {
  if (!schema.is_object()) return false;
  const auto type = schema.find("type");
  const auto choices = schema.find("enum");
  const auto is_string = [](const ordered_json& value) { return value.is_string(); };
  if (choices != schema.end()) {
    more = true;
    return choices->is_array() && std::all_of(choices->begin(), choices->end(), is_string);
  }
  for (const char* keyword :
       {"const", "pattern", "format", "minLength", "maxLength", "$ref", "anyOf", "oneOf", "allOf"}) {
    if (schema.contains(keyword)) more = true;
  }
  return type != schema.end() && *type == "string";
}

void read_properties(Tool& tool, const ordered_json& schema) {
  for (const char* keyword : {"anyOf", "oneOf", "allOf", "$ref", "patternProperties", "if", "not"}) {
    if (schema.contains(keyword)) tool.open = true;
  }
  const auto properties = schema.find("properties");
  if (properties == schema.end() || !properties->is_object()) {
    tool.open = true;
    return;
  }
  std::vector<std::string> required;
  if (const auto names = schema.find("required"); names != schema.end() && names->is_array()) {
    for (const ordered_json& name : *names) {
      if (name.is_string()) required.push_back(name.get<std::string>());
    }
  }
  std::sort(required.begin(), required.end());
  std::size_t n_bytes = 0;
  for (const auto& [name, property] : properties->items()) {
    ToolParameter parameter{.name = name};
    parameter.text = is_text(property, parameter.choices);
    parameter.required = std::binary_search(required.begin(), required.end(), name);
    ordered_json whole = property;
    if (whole.is_object() && whole.dump().find("\"$ref\"") != std::string::npos) {
      for (const char* definitions : {"$defs", "definitions"}) {
        if (schema.contains(definitions)) whole[definitions] = schema[definitions];
      }
    }
    parameter.schema = whole.dump();
    n_bytes += parameter.schema.size();
    if (n_bytes > kMaxSchemaBytes) {
      refuse("the parameters of the function \"" + tool.name +
             "\" refer to definitions that are too large: with " +
             "those that each property needs they have more than " + std::to_string(kMaxSchemaBytes) +
             " bytes");
    }
    tool.properties.push_back(std::move(parameter));
  }
}

Tool read_tool(const ordered_json& item, const std::string& where) {
  if (!item.is_object()) refuse(where + " must be an object {\"type\": \"function\", \"function\": {...}}");
  if (!item.contains("type") || item["type"] != "function") {
    refuse(where + ".type must be \"function\": other tools cannot be called here");
  }
  if (!item.contains("function") || !item["function"].is_object()) {
    refuse(where + ".function must be an object with the function's name, description and parameters");
  }
  const ordered_json& function = item["function"];
  Tool tool;
  if (!function.contains("name") || !function["name"].is_string())
    refuse(where + ".function.name must be a string");
  tool.name = function["name"].get<std::string>();
  if (!is_tool_name(tool.name)) {
    refuse(where + ".function.name must be 1 to " + std::to_string(kMaxNameBytes) +
           " letters, digits, '_', '-', '.', ':' or '/'");
  }
  if (const auto text = function.find("description");
      text != function.end() && !text->is_string() && !text->is_null()) {
    refuse(where + ".function.description must be a string");
  }
  if (const auto strict = function.find("strict"); strict != function.end() && !strict->is_null()) {
    if (!strict->is_boolean()) refuse(where + ".function.strict must be true or false");
    tool.strict = strict->get<bool>();
  }
  if (const auto schema = function.find("parameters"); schema != function.end() && !schema->is_null()) {
    if (!schema->is_object()) refuse(where + ".function.parameters must be a JSON schema, an object");
    tool.parameters = schema->dump();
    read_properties(tool, *schema);
  }
  return tool;
}

}  // namespace

std::vector<Tool> read_tools(std::string_view tools_json) {
  std::vector<Tool> tools;
  if (tools_json.empty()) return tools;
  const ordered_json all = parse_request_json(tools_json, "tools");
  if (!all.is_array()) refuse("tools must be an array");
  for (const ordered_json& item : all) {
    tools.push_back(read_tool(item, "tools[" + std::to_string(tools.size()) + "]"));
  }
  std::vector<std::string_view> names;
  for (const Tool& tool : tools) names.push_back(tool.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    refuse("tools has two functions named \"" + std::string(*twice) + "\": give each a name of its own");
  }
  return tools;
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
