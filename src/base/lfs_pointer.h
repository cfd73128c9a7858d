#pragma once
// A clone without git-lfs has small pointer files in the place of large files.
#include <cstddef>
#include <span>
#include <string_view>

namespace weft::base {

/// The way out, as the end of an error message.
inline constexpr std::string_view kLfsAdvice =
    "it is a pointer of git-lfs and not the file itself; run 'git lfs pull' in its folder, or download the "
    "file "
    "again";

/// Whether a file with this content, or the beginning of it, is one.
inline bool is_lfs_pointer(std::string_view content) {
  return content.starts_with("version https://git-lfs.github.com/spec/");
}
inline bool is_lfs_pointer(std::span<const std::byte> content) {
  return is_lfs_pointer(std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
}

}  // namespace weft::base
