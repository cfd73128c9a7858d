#pragma once
// The tools of a request, checked.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/schema/schema_document.h"

namespace weft::chat {

using ToolParameter = grammar::SchemaProperty;

struct Tool {
  std::string name = {};
  std::size_t index = 0;  ///< In the request's tools.
  bool strict = false;
  /// Schema of the arguments; null if the tool has none.
  std::shared_ptr<const grammar::SchemaDocument> schema = nullptr;
  std::vector<ToolParameter> properties = {};  ///< In the schema's order.
  bool open = false;                           ///< The schema is more than a list of properties.
};

/// Throws ToolSchemaError for a wrong tool. Throws Error kInvalidArgument if the value is not an array.
/// Returns an empty list for an empty string.
std::vector<Tool> read_tools(std::string_view tools_json);

/// Whether its values are strings, or strings and null.
bool is_text(const ToolParameter& parameter);

const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name);
const ToolParameter* find_parameter(const Tool& tool, std::string_view name);

/// Whether the string can be the name of a tool: short, of letters, digits and _ - . : /
bool is_tool_name(std::string_view name);

}  // namespace weft::chat
