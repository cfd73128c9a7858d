#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft::base {

/// The names of the entries of a folder, in no order; nothing where it cannot be opened. (The standard
/// library's iterator ends the process where memory runs out within it.)
std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder);

}  // namespace weft::base
