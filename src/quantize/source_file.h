#pragma once
// Shared by commands that rewrite a model's file in other types or parts: copied metadata, protection of the
// source.
#include <filesystem>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/error.h"

namespace weft::quantize_impl {

[[noreturn]] inline void refuse(const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, problem);
}

/// Throws Error kInvalidArgument where `to` is the file, or a part of the set, that was opened by `from`.
void refuse_overwriting(const gguf::File& file, const std::filesystem::path& from,
                        const std::filesystem::path& to);

/// Removes the files that were written, unless all of them were.
struct Written {
  std::vector<std::filesystem::path> paths = {};
  bool all = false;

  Written() = default;
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written();
};

/// Copies the alignment, if the file has one. Writer::set_alignment may raise it.
void copy_alignment(const gguf::File& file, gguf::Writer& writer);
/// Copies all metadata except the keys that number the parts of a set.
void copy_metadata(const gguf::File& file, gguf::Writer& writer);

}  // namespace weft::quantize_impl
