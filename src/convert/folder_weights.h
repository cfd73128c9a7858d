#pragma once
// The weights of a folder: model.safetensors, the files that model.safetensors.index.json names, or
// model-00001-of-0000N.safetensors and so on without an index.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "convert/config.h"
#include "weft/dtype.h"

namespace weft::convert_impl {

/// A tensor of a folder. Quantised data of a kind that GGUF lacks is dequantised when it is read.
struct Source {
  std::string name;
  std::string stored;                ///< The type as the file names it.
  std::optional<DType> dtype;        ///< The type of the data from `read`; nullopt for types that weft lacks.
  std::vector<std::int64_t> shape;   ///< In elements, outermost first.
  std::span<const std::byte> bytes;  ///< As they are stored.
  /// Fills in the blocks (elements, where a type has none) from a place on, in the order of the shape. Throws
  /// Error kIo.
  std::function<void(std::int64_t first, std::span<std::byte> to)> read;

  std::int64_t n_elements() const;
};

/// Whether a folder has the weights of a model: in one file, with an index, or in parts without one.
bool has_model_weights(const std::filesystem::path& folder);

class FolderWeights {
 public:
  /// `config`: config.json, which has the quantization method. Throws Error kNotFound if all or some of the
  /// weights are missing. Throws kUnsupported for folders with only pickled weights and for unknown
  /// quantization methods, kInvalidFile for damaged files.
  FolderWeights(const std::filesystem::path& folder, const Json& config);
  /// The weights of one file. Throws as add_file does.
  explicit FolderWeights(const std::filesystem::path& file) { add_file(file, ""); }

  /// Adds the tensors of another file, with `prefix` before their names. Throws Error kNotFound,
  /// kInvalidFile.
  void add_file(const std::filesystem::path& path, const std::string& prefix);

  /// By their names, in the order of these.
  const std::map<std::string, Source>& all() const { return sources_; }

 private:
  void add_files(const std::filesystem::path& folder);

  std::deque<base::MappedFile> files_;
  std::map<std::string, Source> sources_;
};

}  // namespace weft::convert_impl
