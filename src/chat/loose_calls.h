#pragma once
// Parses whole calls that are not written in JSON.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/tools.h"

namespace weft::chat {

struct WholeCall {
  std::string name = {};
  std::string arguments = {};  ///< A JSON object.
};

/// Python's calls with literals for arguments, also print(f(...)). Several are separated by commas,
/// semicolons or line breaks, or form a list. Positional arguments get the names of the tool's properties.
/// Returns nullopt for any other input.
std::optional<std::vector<WholeCall>> read_python_calls(std::string_view text,
                                                        const std::vector<Tool>& tools);

/// f{key:<quote>text<quote>,n:1}
std::optional<WholeCall> read_unquoted_call(std::string_view text, std::string_view quote);

}  // namespace weft::chat
