#pragma once
// Numbers and tables as people read them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::cli {

/// Characters, not bytes; wide ones count once, which is close enough for a table.
std::size_t text_width(std::string_view text);
/// "93.8 MiB"
std::string bytes_text(std::uint64_t bytes);
/// "134.5M" parameters
std::string count_text(std::int64_t count);
/// Columns of the width that they need, two spaces between; the last one may be of any length. Control
/// characters become '?', as cells may contain strings from files.
std::string table_text(const std::vector<std::vector<std::string>>& rows);
/// Removes a UTF-8 byte order mark.
void drop_byte_order_mark(std::string& text);
/// `text` without control characters.
std::string printable(std::string_view text);
/// `text` as one line without control characters, for messages that quote hostile files or clients. Newlines
/// become spaces, the others \x1b.
std::string one_line(std::string_view text);

}  // namespace weft::cli
