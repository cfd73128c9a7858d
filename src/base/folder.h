#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::base {

/// The names of the entries of a folder, in no order; nothing where it cannot be opened. (The standard
/// library's iterator ends the process where memory runs out within it.)
std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder);

/// Makes a folder that only its owner can use, and the folders above it. Does nothing if it exists. Throws
/// Error kIo.
void make_private_folder(const std::filesystem::path& folder);

/// A file of a folder that is a cache.
struct CachedFile {
  std::filesystem::path path;
  std::filesystem::file_time_type used;
  std::uint64_t bytes = 0;
};

/// The files of a folder whose names end in `extension`, the least recently used first. Removes their
/// temporary files that ended processes have left (atomic_file.h). Other processes may
/// remove files at the same time.
std::vector<CachedFile> cached_files(const std::filesystem::path& folder, std::string_view extension);

}  // namespace weft::base
