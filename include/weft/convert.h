#pragma once
// Models as they are published on Hugging Face (a folder with config.json, safetensors and a tokenizer) to
// GGUF, and adapters as PEFT saves them (a folder with adapter_config.json).
//
//   weft::convert("SmolLM2-135M", "smollm2.gguf", {.type = "f16"});
//   weft::convert("my-lora", "my-lora.gguf", {.base = "SmolLM2-135M"});
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
  /// The type of matrices: "f32", "f16", "bf16", "q8_0", or "auto", the type of most weights in the folder.
  /// Vectors and routers of experts are always F32. With q8_0, rows that are not a multiple of 32 are F16.
  std::string type = "auto";
  /// The pre-tokenizer (a name of tokenizer.ggml.pre), where the tokenizer's own description is not
  /// recognised. Empty: from tokenizer.json.
  std::string pre_tokenizer = {};
  /// Writes the folder's image encoder instead of the language model: the file for --mmproj (see
  /// weft/vision.h).
  bool mmproj = false;
  /// For a folder with an adapter: the folder of its base model. Its config.json is read, and the shapes of
  /// its weights where they are there: the adapter must fit them. Empty: the adapter's folder, where it has a
  /// config.json.
  std::filesystem::path base = {};
  /// Called from the calling thread with 0 to 1. False cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct ConvertResult {
  std::string architecture;  ///< As GGUF names it.
  std::string type;
  std::size_t n_tensors = 0;
  std::uint64_t bytes = 0;  ///< Of all tensors.
  /// Sentences for the user about the result; mostly empty.
  std::vector<std::string> notes = {};
};

/// Whether a path is a folder with a model to convert: it has a config.json.
bool is_model_folder(const std::filesystem::path& path);
/// Whether it is a folder with an adapter of PEFT: it has an adapter_config.json and no model's weights.
bool is_adapter_folder(const std::filesystem::path& path);

/// The supported values of "architectures" in `config.json`.
std::vector<std::string_view> convertible_architectures();

/// Writes one file: whole, or not at all. Holds one tensor of the result in memory at a time. The folder is
/// an untrusted input. A folder with an adapter gives a GGUF adapter (ModelParams::adapters). Throws Error
/// kUnsupported for architectures, tokenizers, weights and adapters that weft cannot convert. It throws
/// kInvalidFile where the folder is damaged, lacks a weight or contradicts itself. It throws kInvalidArgument
/// for an unknown type, and for an adapter without ConvertParams::base. Also kNotFound, kIo, kCancelled.
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
