#pragma once
// general.file_type: a number for the types that a file's matrices have as a rule.
#include <cstdint>
#include <span>
#include <string_view>

namespace weft::gguf {

inline constexpr const char* kFileTypeKey = "general.file_type";

struct FileType {
  std::uint32_t number;
  std::string_view name;  ///< The users' name: "Q4_K_M".
};

std::span<const FileType> file_types();

/// Empty for a number that none has.
std::string_view file_type_name(std::uint64_t number);

}  // namespace weft::gguf
