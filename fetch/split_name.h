#pragma once
// Names of split models: "x-00002-of-00003.gguf" is the second of three parts.
#include <filesystem>
#include <string>
#include <vector>

namespace weft::fetch {

struct SplitName {
  std::string stem = {};  ///< The path without its number and ".gguf".
  int part = 0;
  int n_parts = 1;
};
/// Of a path that ends in ".gguf".
SplitName split_of(const std::string& path);

/// A model's file and, where it is the first part of a split one, all others.
std::vector<std::filesystem::path> split_files(const std::filesystem::path& first);

}  // namespace weft::fetch
