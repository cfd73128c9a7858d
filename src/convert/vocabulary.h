#pragma once
// The tokenizer of a folder as GGUF's keys: from tokenizer.json, or a file of SentencePiece,
// or vocab.txt of BERT; with what tokenizer_config.json, generation_config.json and chat_template.jinja say
// beside it.
#include <cstdint>
#include <filesystem>
#include <string>

#include "convert/config.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// Of `n_tokens` rows of embeddings; rows without a token get one that nothing is cut into. `pre` as in
/// ConvertParams. Throws Error kUnsupported for kinds that weft has not, and for an unknown way to cut texts;
/// kInvalidFile, kNotFound.
void add_vocabulary(const std::filesystem::path& folder, const Config& config, std::int64_t n_tokens,
                    const std::string& pre, GgufWriter& file);

}  // namespace weft::convert_impl
