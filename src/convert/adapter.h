#pragma once
// Adapters as PEFT saves them (adapter_config.json with adapter_model.safetensors) to GGUF's: for each matrix
// W of the model a pair "W.lora_a" {rank, n_in} and "W.lora_b" {n_out, rank}, of which alpha / rank times
// lora_b lora_a is added to W (https://huggingface.co/docs/peft/developer_guides/checkpoint).
#include <filesystem>
#include <string>
#include <vector>

#include "convert/config.h"
#include "convert/family.h"
#include "convert/folder_weights.h"
#include "convert/tensors.h"
#include "weft/dtype.h"

namespace weft::convert_impl {

/// The file with an adapter's weights. Throws Error kNotFound, and kUnsupported where they are pickled.
std::filesystem::path adapter_file(const std::filesystem::path& folder);

struct AdapterPlan {
  std::vector<OutTensor> tensors;
  float alpha = 0.0f;
  std::vector<std::string> notes;
};

/// `adapter` is adapter_config.json, `config` and `family` are the base model's. The tensors refer to
/// `weights`. Throws Error kUnsupported for other adapters than LoRA and for weights that are no part of one,
/// kInvalidFile for damaged ones; both name the key or the tensor.
AdapterPlan plan_adapter(const Json& adapter, const FolderWeights& weights, const Config& config,
                         const Family& family, DType type);

}  // namespace weft::convert_impl
