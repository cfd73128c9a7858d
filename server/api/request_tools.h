#pragma once
// The tools of a request, in the forms of all APIs, as functions of the chat API.
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "api/fields.h"

namespace weft::server {

/// A change of the tools within a conversation.
struct ToolChange {
  enum class Kind : std::uint8_t {
    kDefine,
    kRemove,
    kRestore,  ///< Of a tool that was removed.
  };
  Kind kind = Kind::kDefine;
  Fields fields;          ///< The definition, or the block that names the tool.
  std::string name = {};  ///< Empty for a definition.
};

/// A tool of type "custom" is a function with the string argument "input". Functions of a namespace have its
/// name as a prefix. A search for tools that the client runs is a function, too. Tools of other types, which
/// a server would have to run, are skipped with a note.
class RequestTools {
 public:
  static constexpr std::size_t kMost = 2048;
  /// The type of a search for tools, and the name of its function.
  static constexpr const char* kSearch = "tool_search";

  RequestTools() = default;
  /// Reads the field "tools", and applies the changes in their order. A definition whose name is taken is
  /// skipped: clients repeat them. A change that names an unknown tool is skipped with a note. Throws
  /// ApiError for too many tools and wrong ones.
  explicit RequestTools(Fields& fields, const std::vector<ToolChange>& changes = {});

  bool empty() const { return functions_.empty(); }
  /// A JSON array of the chat API's tools. Empty: none.
  std::string json() const { return empty() ? std::string() : to_text(functions_); }
  /// "tools[0] (web_search), ...": tools of types that the server does not run. Empty: none.
  std::string left_out() const;
  /// The place of each function in the request: "tools[2].tools[0]", or "tools[2].function".
  const std::vector<std::string>& paths() const { return paths_; }

  /// The tool that a function was made from.
  struct Origin {
    std::string name;
    std::string name_space = {};  ///< Empty: none.
    bool is_custom = false;
    bool is_search = false;  ///< A call of it is an item "tool_search_call" of the Responses API.
  };
  Origin origin_of(const std::string& function) const;
  /// The function's name of a tool.
  static std::string function_of(std::string_view name_space, std::string_view name);
  bool has(const std::string& function) const;
  /// Leaves out all functions but these.
  void keep_only(const std::unordered_set<std::string>& functions);

  /// The member "input" of a custom call's arguments, also if their JSON was cut.
  static std::string input_of(const std::string& arguments);

 private:
  /// A function, and where it is in the list of functions.
  struct Known {
    Origin origin;
    std::size_t index = 0;
    bool is_removed = false;
  };
  void read_list(Fields& fields);
  void apply(const ToolChange& change);
  void read(Fields tool, const std::string& name_space);
  void add_custom(Fields& tool, const std::string& name_space);
  void add_search(Fields& tool);
  /// `function` without its namespace, which `origin` has.
  void add(Json function, const std::string& path, Origin origin);
  void append(Json tool, const std::string& path, const std::string& function, Origin origin);

  bool skips_known_ = false;  ///< Definitions whose names are taken.
  Json functions_ = Json::array();
  std::vector<std::string> paths_;
  std::vector<std::string> left_out_;
  std::unordered_map<std::string, Known> known_;  ///< By the functions' names.
};

}  // namespace weft::server
