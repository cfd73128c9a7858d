#pragma once
// Small JSON files that downloads leave in the model cache.
#include <filesystem>
#include <optional>

#include "base/json.h"

namespace weft::fetch {

/// Nothing for a file that is missing, unreadable or not JSON.
std::optional<nlohmann::json> json_of(const std::filesystem::path& path);

}  // namespace weft::fetch
