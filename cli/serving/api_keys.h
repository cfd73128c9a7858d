#pragma once
// The keys that clients of a server send.
#include <string>
#include <vector>

#include "server.h"

namespace weft::cli {

/// Returns the keys `given` on the command line, which may be comma-separated lists, and then the keys of
/// `file`. A line of the file has a key and optionally a name after it. Empty lines and comments (#) are left
/// out. Throws UsageError.
std::vector<server::ApiKey> read_keys(const std::vector<std::string>& given, const std::string& file);

}  // namespace weft::cli
