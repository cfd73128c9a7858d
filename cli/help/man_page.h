#pragma once
// Manual pages in roff (the macros of man(7)), made from the table of commands and their options.
#include <string>
#include <string_view>

#include "commands/command.h"

namespace weft::cli {

/// weft(1). `date` as "2026-11-22".
std::string man_page(std::string_view date);
/// weft-COMMAND(1)
std::string man_page(const Command& command, std::string_view date);

}  // namespace weft::cli
