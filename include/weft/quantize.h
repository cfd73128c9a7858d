#pragma once
// Quantizes the matrices of a GGUF file.
//
//   weft::quantize("model-f16.gguf", "model-q4_k_m.gguf", {.mix = "Q4_K_M"});
//
// A mix, such as Q4_K_M, is a preset: one type for most matrices, and others for the most sensitive ones.
// Only weights of matrix products are quantised. Norms, biases, routers, convolutions and position tables
// keep their types.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "weft/dtype.h"

#pragma GCC visibility push(default)

namespace weft {

struct QuantizeMix {
  std::string_view name;         ///< "Q4_K_M"
  std::string_view description;  ///< A short description.
  DType type = DType::kF32;      ///< The type of most matrices.
  /// Whether it needs an importance matrix to be useful (QuantizeParams::importance).
  bool wants_importance = false;
};
/// All mixes, from the largest files to the smallest.
std::span<const QuantizeMix> quantize_mixes();
/// Finds a mix by its name in any case, or by llama.cpp's alias (Q4_K is Q4_K_M) or number (15). Null: none.
const QuantizeMix* find_quantize_mix(std::string_view name);

/// A rule: tensors whose names contain a match of a regular expression get this type.
struct QuantizeRule {
  std::string pattern;
  DType type = DType::kF32;
};

struct QuantizedTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< Outermost first.
  DType from = DType::kF32;
  DType to = DType::kF32;
  std::uint64_t bytes_from = 0;
  std::uint64_t bytes_to = 0;
  /// The type that was chosen first, if its blocks do not fit the tensor's rows.
  std::optional<DType> wanted = {};
};

/// A metadata key and its new value.
using MetadataChange = std::pair<std::string, std::variant<std::int64_t, double, bool, std::string>>;

struct QuantizeParams {
  std::string mix = "Q4_K_M";  ///< A name of quantize_mixes(), in any case.
  bool keep_types = false;     ///< Ignore `mix`: matrices without a rule keep their types.
  /// An importance matrix (weft/importance.h): GGUF, or llama.cpp's older format. Empty: none.
  std::filesystem::path importance = {};
  /// Use the importance matrix only for tensors whose names contain one of these strings. Empty: all.
  std::vector<std::string> important = {};
  /// Do not use it for tensors whose names contain one of these strings.
  std::vector<std::string> unimportant = {};
  /// Types by name, instead of the mix's. The first rule that matches a tensor wins.
  std::vector<QuantizeRule> rules = {};
  /// The type of the output matrix, or of the embedding table if the model has tied embeddings.
  std::optional<DType> output_type = {};
  std::optional<DType> embedding_type = {};  ///< The type of the embedding table.
  bool pure = false;                         ///< All matrices get the mix's main type.
  bool keep_output = false;                  ///< The output matrix keeps its type.
  /// Whether quantised matrices may be quantised again. Their loss remains, so it is an error by default.
  bool requantize = false;
  /// Layers to remove (pruning); later layers are renumbered. The result may not be a useful model.
  std::vector<int> left_out_layers = {};
  /// Metadata to set. A number keeps the type of an existing key.
  std::vector<MetadataChange> metadata = {};
  /// Write a split set with the same tensors in each part, if the input is a split set. `to` names it without
  /// the part number: "model.gguf" or "model" gives model-00001-of-00003.gguf.
  bool keep_split = false;
  int n_threads = 0;  ///< 0: the number of cores.
  /// The calling thread calls it with the progress, 0 to 1. Returning false cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct QuantizeResult {
  std::string mix;
  std::vector<QuantizedTensor> tensors;  ///< In the file's order.
  std::uint64_t bytes_from = 0;          ///< The bytes of all tensors before and after.
  std::uint64_t bytes_to = 0;
  double bits_per_weight = 0.0;
  /// The files written; from plan_quantize(), the files to write.
  std::vector<std::filesystem::path> files = {};
  /// Warnings, a sentence each: rules that match no matrix, importances that match no tensor, matrices
  /// without importances.
  std::vector<std::string> notes = {};
};

/// Returns the result that quantize() would have, without reading tensors. Throws like quantize().
QuantizeResult plan_quantize(const std::filesystem::path& from, const QuantizeParams& params = {},
                             const std::filesystem::path& to = {});

/// Reads a file or a split set, and writes one file (or several, with keep_split) atomically. Holds one
/// tensor in memory at a time. Throws Error kInvalidArgument for wrong params: an unknown mix, an invalid
/// pattern, quantised matrices without `requantize`, or the input as the output. Throws kInvalidFile for a
/// damaged file and for an importance matrix that does not fit it. Also kNotFound, kIo and kCancelled.
QuantizeResult quantize(const std::filesystem::path& from, const std::filesystem::path& to,
                        const QuantizeParams& params = {});

}  // namespace weft

#pragma GCC visibility pop
