#pragma once
// Converts speech models of the class WhisperForConditionalGeneration. Tensors get the names of OpenAI's
// program, as in whisper.cpp's files.
#include <filesystem>
#include <string_view>
#include <vector>

#include "convert/config.h"
#include "convert/folder_weights.h"
#include "convert/tensors.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

inline constexpr std::string_view kWhisperClass = "WhisperForConditionalGeneration";

/// Sets the keys of a folder's model, except the tokenizer's, and returns its tensors. `generation`:
/// generation_config.json. `type`: of matrices. Throws Error kInvalidFile, kUnsupported.
std::vector<OutTensor> plan_whisper(const FolderWeights& weights, const Config& config,
                                    const Json& generation, DType type, GgufWriter& file);

}  // namespace weft::convert_impl
