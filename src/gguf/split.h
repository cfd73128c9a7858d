#pragma once
// Opening a model that is stored in several files.
//
// Each part has its number (split.no, from 0), the number of parts (split.count), and the number of tensors
// of the whole model (split.tensors.count). Its file name says so too: PREFIX-00002-of-00003.gguf is part 1
// of 3.
#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/reader.h"

namespace weft::gguf {

struct SplitSet {
  std::vector<base::MappedFile> files;
  std::vector<Part> parts;  ///< One per file, in order; a single part for a file without a set.
};

/// Opens the set that the file at `path` belongs to. Throws Error: kNotFound where a part is missing,
/// kInvalidFile where parts do not belong together, and what read_part throws.
SplitSet open_split_set(const std::filesystem::path& path);

/// The name of part `number` (from 0) of `count` files: PREFIX-00001-of-00003.gguf.
std::string split_file_name(const std::string& prefix, std::int64_t number, std::int64_t count);

}  // namespace weft::gguf
