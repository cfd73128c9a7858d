#pragma once
// The tools of a request, checked.
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

struct ToolParameter {
  std::string name = {};
  std::string schema = {};  ///< JSON, with the definitions that it may refer to.
  bool required = false;
  bool text = false;     ///< A string and nothing else.
  bool choices = false;  ///< A string with an enum, a pattern or the like.
};

struct Tool {
  std::string name = {};
  std::string parameters = {};  ///< JSON schema of the arguments; empty where the tool has none.
  bool strict = false;
  std::vector<ToolParameter> properties = {};  ///< In the schema's order.
  bool open = false;  ///< Other arguments than the properties are allowed, or the schema is more than a list.
};

/// Throws Error kInvalidArgument, which names the tool, for what is no array of OpenAI's function tools.
/// Empty for empty text.
std::vector<Tool> read_tools(std::string_view tools_json);

const Tool* find_tool(const std::vector<Tool>& tools, std::string_view name);
const ToolParameter* find_parameter(const Tool& tool, std::string_view name);

/// Whether a text can be the name of a tool: short, of letters, digits and _ - . : /
bool is_tool_name(std::string_view name);

}  // namespace weft::chat
