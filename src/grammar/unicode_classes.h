#pragma once
// Unicode's general categories as sets.
#include <optional>
#include <string_view>

#include "grammar/char_set.h"

namespace weft::grammar {

/// "L", "Lu", "Letter", ...; nullopt for an unknown name. Takes some milliseconds.
std::optional<CharSet> general_category(std::string_view name);

}  // namespace weft::grammar
