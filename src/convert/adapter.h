#pragma once
// Adapters of PEFT (adapter_config.json with adapter_model.safetensors) to GGUF adapters. Each adapted matrix
// W has a pair "W.lora_a" {rank, n_in} and "W.lora_b" {n_out, rank}. The adapter adds alpha / rank times
// lora_b lora_a to W (https://huggingface.co/docs/peft/developer_guides/checkpoint).
#include <filesystem>
#include <string>
#include <vector>

#include "convert/adapter_base.h"
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
/// `weights`. Throws Error kUnsupported for other adapters than LoRA and for weights outside of pairs,
/// kInvalidFile for damaged ones and for pairs that do not fit `base`. Both name the key or the tensor.
AdapterPlan plan_adapter(const Json& adapter, const FolderWeights& weights, const Config& config,
                         const Family& family, const AdapterBase& base, DType type);

}  // namespace weft::convert_impl
