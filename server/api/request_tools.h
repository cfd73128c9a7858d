#pragma once
// The tools of a request, in the forms of all APIs, as functions of the chat API.
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/fields.h"

namespace weft::server {

/// A tool that takes a text ("custom") is a function with the argument "input". The tools of a namespace are
/// functions whose names begin with its name. Tools of other kinds run on the servers of an API's owner: they
/// are left out with a note.
class RequestTools {
 public:
  static constexpr std::size_t kMost = 2048;

  RequestTools() = default;
  /// Reads the field "tools". Throws ApiError for too many, and for what is no tool.
  explicit RequestTools(Fields& fields);

  bool empty() const { return functions_.empty(); }
  /// An array of the chat API's tools; empty text: none.
  std::string json() const { return empty() ? std::string() : to_text(functions_); }

  /// The tool behind a function, as the client named it.
  struct Origin {
    std::string name;
    std::string name_space = {};  ///< Empty: none.
    bool is_custom = false;
  };
  Origin origin_of(const std::string& function) const;
  /// The function's name of a tool.
  static std::string function_of(std::string_view name_space, std::string_view name);
  /// Leaves out all functions but these.
  void keep_only(const std::vector<std::string>& functions);

  /// The text that a call of a custom tool gives as "input", also if its JSON was cut.
  static std::string input_of(const std::string& arguments);

 private:
  void read(Fields tool, const Json& json, const std::string& name_space);
  void add_custom(Fields& tool, const std::string& name_space);
  void add(Json function, const std::string& name_space, bool is_custom = false);

  Json functions_ = Json::array();
  std::unordered_map<std::string, Origin> origins_;  ///< Of those that are not plain functions.
};

}  // namespace weft::server
