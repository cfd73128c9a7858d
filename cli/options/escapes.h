#pragma once
// Escapes in strings of the command line, as llama.cpp reads them: \n \r \t \\ \' \" and \xHH.
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// `text` with its escapes replaced. Any other backslash stays, with the character after it.
std::string unescape(std::string_view text);

/// `text` with its escapes replaced, if `escape`.
std::string read_escapes(std::string text, bool escape);
std::vector<std::string> read_escapes(std::vector<std::string> texts, bool escape);

}  // namespace weft::cli
