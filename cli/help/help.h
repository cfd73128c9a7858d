#pragma once
// The program's help: the overview of its commands, and the help of each.
#include <string>
#include <string_view>

#include "commands/command.h"

namespace weft::cli {

inline constexpr std::string_view kSummary = "weft runs language models from GGUF files.";
inline constexpr std::string_view kExitCodes =
    "0 done, 1 failed, 2 the command line is wrong, 130 interrupted with Ctrl-C.";

/// All commands, and examples.
std::string overview();

/// Usage, options in groups, details.
std::string help_text(const Command& command);

}  // namespace weft::cli
