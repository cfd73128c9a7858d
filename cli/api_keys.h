#pragma once
// The keys that clients of a server send.
#include <string>
#include <vector>

#include "server.h"

namespace weft::cli {

/// The keys `given` on the command line, of which one may hold several with commas, then those of a file: one
/// per line, optionally with a name after it. Empty lines and comments (#) are left out. Throws UsageError.
std::vector<server::ApiKey> read_keys(const std::vector<std::string>& given, const std::string& file);

}  // namespace weft::cli
