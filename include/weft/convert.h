#pragma once
// Models as they are published on Hugging Face (a folder with config.json, safetensors and a tokenizer) to
// GGUF.
//
//   weft::convert("SmolLM2-135M", "smollm2.gguf", {.type = "f16"});
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)

namespace weft {

struct ConvertParams {
  /// Of matrices: "f32", "f16", "bf16", "q8_0", or "auto", the type that most of the folder's weights have.
  /// Vectors and routers of experts are F32 in all of them, and rows that are no multiple of 32 are F16 in
  /// q8_0.
  std::string type = "auto";
  /// How the tokenizer cuts texts before merging (a name of tokenizer.ggml.pre), where its own description
  /// is not recognised. Empty: from tokenizer.json.
  std::string pre_tokenizer = {};
  /// Writes the folder's encoder of pictures instead of the text model: the file that stands beside it (see
  /// weft/vision.h).
  bool mmproj = false;
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct ConvertResult {
  std::string architecture;  ///< As GGUF names it.
  std::string type;
  std::size_t n_tensors = 0;
  std::uint64_t bytes = 0;  ///< Of all tensors.
};

/// Whether a path is a folder with a model to convert: it has a config.json.
bool is_model_folder(const std::filesystem::path& path);

/// What `config.json` may name in "architectures".
std::vector<std::string_view> convertible_architectures();

/// Writes one file: whole, or not at all. Holds one tensor of the result in memory at a time. The folder is
/// an untrusted input. Throws Error kUnsupported for architectures, tokenizers and weights that weft cannot
/// convert, kInvalidFile for what is damaged or contradicts itself, kInvalidArgument for an unknown type,
/// kNotFound, kIo, kCancelled.
ConvertResult convert(const std::filesystem::path& folder, const std::filesystem::path& to,
                      const ConvertParams& params = {});

struct ConvertedModel {
  std::filesystem::path file = {};
  std::optional<ConvertResult> made = {};  ///< Nothing where the file was there already.
};
/// The folder's model as a GGUF file in the folder `cache`, which is made where it is missing. The file is
/// written again where files of the model's folder have changed; it may be deleted at any time. `progress` as
/// ConvertParams has it. Throws Error as convert() does.
ConvertedModel converted(const std::filesystem::path& folder, const std::filesystem::path& cache,
                         const std::function<bool(double)>& progress = {});

}  // namespace weft

#pragma GCC visibility pop
