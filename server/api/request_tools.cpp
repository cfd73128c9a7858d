#include "api/request_tools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "api/error.h"

namespace weft::server {
namespace {

/// The namespace that clients give to tools that have none.
constexpr std::string_view kNoNamespace = "functions";

/// Empty for a function without a name, which the chat refuses.
std::string name_of(const Json& tool) {
  const auto name = tool["function"].find("name");
  return name != tool["function"].end() && name->is_string() ? name->get<std::string>() : std::string();
}

}  // namespace

RequestTools::RequestTools(Fields& fields, const std::vector<ToolChange>& changes) {
  read_list(fields);
  if (changes.empty()) return;
  skips_known_ = true;
  for (const ToolChange& change : changes) apply(change);
  std::unordered_set<std::string> kept;
  for (const auto& [function, known] : known_)
    if (!known.is_removed) kept.insert(function);
  if (kept.size() < known_.size()) keep_only(kept);
}

void RequestTools::apply(const ToolChange& change) {
  if (change.kind == ToolChange::Kind::kDefine) return read(change.fields, "");
  const bool removes = change.kind == ToolChange::Kind::kRemove;
  const auto known = known_.find(change.name);
  if (known == known_.end()) return change.fields.note(removes ? "tool_removal" : "tool_addition");
  known->second.is_removed = removes;
}

void RequestTools::read_list(Fields& fields) {
  const Json* const tools = fields.array("tools");
  if (tools == nullptr) return;
  const std::string path = fields.path_of("tools");
  if (tools->size() > kMost)
    throw bad_request(path,
                      fmt::format("'{}' may have at most {} entries, not {}", path, kMost, tools->size()));
  for (std::size_t i = 0; i < tools->size(); ++i) read(fields.within((*tools)[i], element(path, i)), "");
}

void RequestTools::read(Fields tool, const std::string& name_space) {
  const bool is_anthropic = tool.has("input_schema");
  const std::string type = tool.string("type", is_anthropic ? "custom" : "function");
  if (type == "function" && tool.object("function") != nullptr) {
    Json whole = tool.json();
    whole["type"] = type;
    const std::string name = name_of(whole);
    append(std::move(whole), tool.path_of("function"), name, {name});  // Templates write it as it is.
  } else if (type == "function" || (type == "custom" && is_anthropic)) {
    Json function = {{"name", tool.string("name")}, {"description", tool.string("description")}};
    function["strict"] = tool.boolean("strict", false);
    if (const Json* schema = tool.object(is_anthropic ? "input_schema" : "parameters"))
      function["parameters"] = *schema;
    tool.ignore({"cache_control", "eager_input_streaming", "allowed_callers", "defer_loading",
                 "input_examples", "output_schema"});
    tool.done();
    add(std::move(function), tool.path(), {tool.string("name"), name_space});
  } else if (type == "custom") {
    const Json* const inner = tool.object("custom");
    Fields custom = inner == nullptr ? tool : tool.within(*inner, tool.path_of("custom"));
    add_custom(custom, name_space);
  } else if (type == "namespace" && name_space.empty()) {
    const std::string name = tool.string("name");
    const Json* const tools = tool.array("tools");
    for (std::size_t i = 0; tools != nullptr && i < tools->size(); ++i)
      read(tool.within((*tools)[i], element(tool.path_of("tools"), i)),
           name == kNoNamespace ? std::string() : name);
  } else if (type == kSearch && tool.string("execution") == "client") {
    add_search(tool);
  } else {
    tool.note(type);
    left_out_.push_back(fmt::format("{} ({})", tool.path(), type.substr(0, 64)));
  }
}

std::string RequestTools::left_out() const {
  constexpr std::size_t kShown = 8;
  const auto shown = std::span(left_out_).first(std::min(kShown, left_out_.size()));
  return fmt::format("{}{}", fmt::join(shown, ", "), left_out_.size() > kShown ? ", ..." : "");
}

// The description has the format. The response is not constrained by it.
void RequestTools::add_custom(Fields& tool, const std::string& name_space) {
  std::string description = tool.string("description");
  if (const Json* format = tool.object("format")) {
    Fields fields = tool.within(*format, tool.path_of("format"));
    const Json* const nested = fields.object("grammar");
    Fields grammar = nested == nullptr ? fields : fields.within(*nested, fields.path_of("grammar"));
    const std::string syntax = grammar.string("syntax"), definition = grammar.string("definition");
    if (!definition.empty()) {
      description += fmt::format("\n\nThe input must follow this grammar ({}):\n{}", syntax, definition);
      tool.note("format");
    }
  }
  const Json input = {{"type", "string"}, {"description", "The whole input of the tool, as plain text."}};
  add({{"name", tool.string("name")},
       {"description", std::move(description)},
       {"parameters",
        {{"type", "object"},
         {"properties", {{"input", input}}},
         {"required", Json::array({"input"})},
         {"additionalProperties", false}}}},
      tool.path(), {tool.string("name"), name_space, true});
}

void RequestTools::add_search(Fields& tool) {
  Json function = {{"name", kSearch}, {"description", tool.string("description")}};
  if (const Json* schema = tool.object("parameters")) function["parameters"] = *schema;
  Origin origin{kSearch};
  origin.is_search = true;
  add(std::move(function), tool.path(), std::move(origin));
}

void RequestTools::add(Json function, const std::string& path, Origin origin) {
  const std::string whole = function_of(origin.name_space, origin.name);
  function["name"] = whole;
  append({{"type", "function"}, {"function", std::move(function)}}, path, whole, std::move(origin));
}

void RequestTools::append(Json tool, const std::string& path, const std::string& function, Origin origin) {
  if (const auto known = known_.find(function); skips_known_ && known != known_.end()) {
    if (!known->second.is_removed) return;
    const std::size_t index = known->second.index;
    known->second = {std::move(origin), index};
    functions_[index] = std::move(tool);
    paths_[index] = path;
    return;
  }
  if (functions_.size() == kMost)
    throw bad_request(path, fmt::format("'{}': a request may have at most {} functions", path, kMost));
  if (!function.empty()) known_[function] = {std::move(origin), functions_.size()};
  functions_.push_back(std::move(tool));
  paths_.push_back(path);
}

RequestTools::Origin RequestTools::origin_of(const std::string& function) const {
  const auto found = known_.find(function);
  return found == known_.end() ? Origin{function} : found->second.origin;
}

std::string RequestTools::function_of(std::string_view name_space, std::string_view name) {
  if (name_space.empty() || name_space == kNoNamespace) return std::string(name);
  return fmt::format("{}__{}", name_space, name);
}

bool RequestTools::has(const std::string& function) const { return known_.contains(function); }

void RequestTools::keep_only(const std::unordered_set<std::string>& functions) {
  Json kept = Json::array();
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    const std::string name = name_of(functions_[i]);
    if (!functions.contains(name)) {
      known_.erase(name);
      continue;
    }
    known_[name].index = kept.size();
    kept.push_back(std::move(functions_[i]));
    paths.push_back(std::move(paths_[i]));
  }
  functions_ = std::move(kept);
  paths_ = std::move(paths);
}

std::string RequestTools::input_of(const std::string& arguments) {
  // JSON that was cut within the string, within an escape of it, or outside.
  const std::size_t escape = std::min(arguments.rfind('\\'), arguments.size());
  for (const std::string& whole : {arguments, arguments + "\"}", arguments.substr(0, escape) + "\"}",
                                   arguments + "}", arguments + "\"\"}"}) {
    try {
      const Json json = parse_json(whole);
      const auto input = json.is_object() ? json.find("input") : json.end();
      if (input != json.end() && input->is_string()) return input->get<std::string>();
      if (whole == arguments) return arguments;
    } catch (const ApiError&) {  // It was cut elsewhere.
      continue;
    }
  }
  return arguments.starts_with('{') ? std::string() : arguments;
}

}  // namespace weft::server
