#pragma once
// GGUF files in other types: the matrices of a model, packed so that they take less room.
//
//   weft::quantize("model-f16.gguf", "model-q4_k_m.gguf", {.mix = "Q4_K_M"});
//
// A mix has one type for most matrices and others for the most sensitive ones. Other tensors than matrices of
// products (norms, biases, routers, convolutions, tables of positions) keep their types.
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
  std::string_view description;  ///< In a few words.
  DType type = DType::kF32;      ///< Of most matrices.
  /// Whether it is of little use without knowing which columns matter (QuantizeParams::importance).
  bool wants_importance = false;
};
/// All of them, the largest files first.
std::span<const QuantizeMix> quantize_mixes();
/// By its name, in any case, or by another that llama.cpp has for it ("Q4_K" is Q4_K_M); null: there is none.
const QuantizeMix* find_quantize_mix(std::string_view name);

/// Tensors whose names a regular expression is found in get this type.
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
  /// The type that it would have, if its rows were a multiple of that one's block.
  std::optional<DType> wanted = {};
};

/// A key of a file's metadata, and its new value.
using MetadataChange = std::pair<std::string, std::variant<std::int64_t, double, bool, std::string>>;

struct QuantizeParams {
  std::string mix = "Q4_K_M";  ///< A name of quantize_mixes(), in any case.
  bool keep_types = false;     ///< No mix: matrices without a rule keep their type.
  /// The importance of each column of each matrix, from calibration data: a GGUF file of general.type
  /// "imatrix", or llama.cpp's older form. Empty: all alike.
  std::filesystem::path importance = {};
  /// Importances are used for tensors whose names contain one of these only (empty: all), ...
  std::vector<std::string> important = {};
  std::vector<std::string> unimportant = {};  ///< ... and not for those whose names contain one of these.
  std::vector<QuantizeRule> rules = {};       ///< Before the mix; the first that fits a matrix wins.
  /// The type of the output matrix; in models with tied embeddings, of the embedding table.
  std::optional<DType> output_type = {};
  std::optional<DType> embedding_type = {};  ///< The type of the embedding table.
  bool pure = false;                         ///< All matrices in the mix's type.
  bool keep_output = false;                  ///< The output matrix stays as it is.
  /// Whether quantised matrices may be quantised again. That keeps their loss, so it is an error by default.
  bool requantize = false;
  /// Layers to remove; later layers are renumbered. The result may not be a useful model.
  std::vector<int> left_out_layers = {};
  std::vector<MetadataChange> metadata = {};  ///< A number keeps the key's type if the key exists.
  /// For a split set the result is a split set with the same tensors in each part. `to` names its files
  /// without the part number: "model.gguf" or "model" gives model-00001-of-00003.gguf.
  bool keep_split = false;
  int n_threads = 0;  ///< 0: the number of cores.
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct QuantizeResult {
  std::string mix;
  std::vector<QuantizedTensor> tensors;  ///< In the file's order.
  std::uint64_t bytes_from = 0;          ///< Of all tensors.
  std::uint64_t bytes_to = 0;
  double bits_per_weight = 0.0;
  std::vector<std::filesystem::path> files = {};  ///< The files that were written, or would be.
  /// Parameters without effect, a sentence each: rules that match no matrix, importances that match no
  /// tensor, matrices without importances.
  std::vector<std::string> notes = {};
};

/// The result that quantize() would have. Reads no tensor. Throws as quantize does.
QuantizeResult plan_quantize(const std::filesystem::path& from, const QuantizeParams& params = {},
                             const std::filesystem::path& to = {});

/// Reads a file or a split set, and writes one file, or with keep_split several: whole, or not at all. Holds
/// one tensor in memory at a time. Throws Error kInvalidArgument for params that make no sense (an unknown
/// mix, a pattern that is none, quantised matrices without `requantize`, the file itself as the result),
/// kInvalidFile for a damaged file and for importances that do not fit it, kNotFound, kIo, kCancelled.
QuantizeResult quantize(const std::filesystem::path& from, const std::filesystem::path& to,
                        const QuantizeParams& params = {});

}  // namespace weft

#pragma GCC visibility pop
