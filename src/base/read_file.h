#pragma once
// A private copy of a small file: changes by other processes cannot affect checked bytes.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace weft::base {

/// Throws Error kNotFound or kIo, and kInvalidFile where the file has more than `max_bytes`.
std::vector<std::byte> read_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace weft::base
