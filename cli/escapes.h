#pragma once
// Escapes in texts of the command line, as llama.cpp reads them: \n \r \t \\ \' \" and \xHH.
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// `text` with its escapes replaced. A backslash before anything else stays, and so does what follows.
std::string unescape(std::string_view text);

/// `text` without its escapes if `escape`.
std::string read_escapes(std::string text, bool escape);
std::vector<std::string> read_escapes(std::vector<std::string> texts, bool escape);

}  // namespace weft::cli
