#pragma once
// Errors of the graph language.
#include <string>

#include "weft/graph/value.h"

namespace weft {

/// "net.cpp:12: ", or nothing where that is not known.
std::string line_text(const Where& where);
/// Throws Error kInvalidArgument: the user's line, and the reason.
[[noreturn]] void refuse(const std::string& reason, const Where& where);

}  // namespace weft
