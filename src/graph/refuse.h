#pragma once
// How the language says no.
#include <cstdint>
#include <string>

#include "weft/graph/value.h"

namespace weft {

/// "net.cpp:12: ", or nothing where that is not known.
std::string line_text(const Where& where);
/// Of a symbol at most. Products of a few such sizes still fit into 64 bits, where they are refused for want of
/// memory.
inline constexpr std::int64_t kMaxSymbol = std::int64_t{1} << 31;
/// Throws Error kInvalidArgument: the user's line, and the reason.
[[noreturn]] void refuse(const std::string& reason, const Where& where);

}  // namespace weft
