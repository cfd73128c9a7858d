#pragma once
// Files that users take for a model, and are something else.
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace weft::base {

/// A clone without git-lfs has small pointer files in the place of large ones.
inline constexpr std::string_view kLfsPointer =
    "a git-lfs pointer, not the file itself; run 'git lfs pull' in its folder, or download the file again";

/// Whether a file that begins so is one.
inline bool is_lfs_pointer(std::string_view begin) {
  return begin.starts_with("version https://git-lfs.github.com/spec/");
}
inline bool is_lfs_pointer(std::span<const std::byte> begin) {
  return is_lfs_pointer(std::string_view(reinterpret_cast<const char*>(begin.data()), begin.size()));
}

enum class FileKind { kGguf, kSafetensors, kJson };

/// Bytes of a file's beginning that foreign_file_text() looks at.
inline constexpr std::size_t kSniffedBytes = 512;

/// What a file is that begins so, and what to do about it: "a Git LFS pointer; fetch the file ...". Empty
/// where that is not known, and for GGUF.
/// A file that looks like the `expected` kind is not foreign.
std::string foreign_file_text(std::span<const std::byte> begin, FileKind expected = FileKind::kGguf);

/// The same of a folder that is given where a file is expected.
std::string folder_text(const std::filesystem::path& folder);

}  // namespace weft::base
