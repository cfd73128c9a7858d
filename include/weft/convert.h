#pragma once
// Converts models and LoRA adapters to GGUF. A model is a folder as on Hugging Face, with config.json,
// safetensors and a tokenizer. An adapter is a folder as PEFT saves it, with adapter_config.json.
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
  /// The pre-tokenizer (a value of tokenizer.ggml.pre), for a tokenizer that weft does not recognise. Empty:
  /// from tokenizer.json.
  std::string pre_tokenizer = {};
  /// Convert the folder's image encoder instead of its language model, to an mmproj file (weft/vision.h).
  bool mmproj = false;
  /// For an adapter: the folder of its base model. The adapter is checked against its config.json and, if the
  /// folder has them, the shapes of its weights. Empty: the adapter's folder, if that has a config.json.
  std::filesystem::path base = {};
  /// The calling thread calls it with the progress, 0 to 1. Returning false cancels (Error kCancelled).
  std::function<bool(double)> progress = {};
};

struct ConvertResult {
  std::string architecture;  ///< As GGUF names it.
  std::string type;
  std::size_t n_tensors = 0;
  std::uint64_t bytes = 0;  ///< The bytes of all tensors.
  /// Notes for the user, a sentence each; usually none.
  std::vector<std::string> notes = {};
};

/// Whether a path is a folder with a config.json: a model.
bool is_model_folder(const std::filesystem::path& path);
/// Whether a path is a folder with an adapter_config.json and without a model's weights: a PEFT adapter.
bool is_adapter_folder(const std::filesystem::path& path);

/// The supported values of "architectures" in `config.json`.
std::vector<std::string_view> convertible_architectures();

/// Converts a folder and writes the file atomically. Holds one tensor of the result in memory at a time. The
/// folder is untrusted. A folder with an adapter becomes a GGUF adapter (ModelParams::adapters). Throws Error
/// kUnsupported for architectures, tokenizers, weights and adapters that weft cannot convert. Throws
/// kInvalidFile if the folder is damaged, lacks a weight or contradicts itself. Throws kInvalidArgument for
/// an unknown type, and for an adapter without ConvertParams::base. Also kNotFound, kIo and kCancelled.
ConvertResult convert(const std::filesystem::path& folder, const std::filesystem::path& to,
                      const ConvertParams& params = {});

struct ConvertedModel {
  std::filesystem::path file = {};
  std::optional<ConvertResult> made = {};  ///< nullopt: the file existed already.
};
/// Converts a model to a GGUF file in the folder `cache`, or returns the file from there. The folder is
/// created if it does not exist. The file is written again if the model's files have changed; it may be
/// deleted at any time. `progress` is as ConvertParams::progress. Throws like convert().
ConvertedModel converted(const std::filesystem::path& folder, const std::filesystem::path& cache,
                         const std::function<bool(double)>& progress = {});

}  // namespace weft

#pragma GCC visibility pop
