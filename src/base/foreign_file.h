#pragma once
// Files that users take for a model, and are something else.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace weft::base {

/// Bytes of a file's beginning that foreign_file_text() looks at.
inline constexpr std::size_t kSniffedBytes = 512;

/// What a file is that begins so, and what to do about it: "a Git LFS pointer; fetch the file ...". Empty
/// where that is not known, and for GGUF.
std::string foreign_file_text(std::span<const std::byte> begin);

/// The same of a folder that is given where a file is expected.
std::string folder_text(const std::filesystem::path& folder);

}  // namespace weft::base
