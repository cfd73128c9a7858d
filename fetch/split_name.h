#pragma once
// Names of split models: "x-00002-of-00003.gguf" is the second of three parts.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace weft::fetch {

struct SplitName {
  std::string stem = {};  ///< The path without its number and ".gguf".
  int part = 0;           ///< From 0; below n_parts.
  int n_parts = 1;
};
/// Of a path that ends in ".gguf". A number that cannot be ("-00004-of-00003") is a part of the stem.
SplitName split_of(std::string_view path);

/// The paths of all parts of this part's model, in order; for other files the path itself.
std::vector<std::string> all_parts(const std::string& path);

}  // namespace weft::fetch
