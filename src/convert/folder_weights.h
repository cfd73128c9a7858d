#pragma once
// The weights of a folder: model.safetensors, or the files that model.safetensors.index.json names.
#include <deque>
#include <filesystem>
#include <map>
#include <string>

#include "weft/weights.h"

namespace weft::convert_impl {

class FolderWeights {
 public:
  struct Entry {
    const WeightFile* file;
    const WeightFile::Tensor* tensor;
  };

  /// Throws Error kNotFound where there are none or a part is missing, kUnsupported where there are only
  /// pickled ones, kInvalidFile.
  explicit FolderWeights(const std::filesystem::path& folder);

  /// By their names, in the order of these.
  const std::map<std::string, Entry>& all() const { return entries_; }

 private:
  void add_file(const std::filesystem::path& path);

  std::deque<WeightFile> files_;
  std::map<std::string, Entry> entries_;
};

}  // namespace weft::convert_impl
