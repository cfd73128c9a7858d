#pragma once
// The tokenizer of a folder as GGUF's keys: from tokenizer.json, a file of SentencePiece, or vocab.txt of
// BERT. docs/convert.md lists the files that complete it.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "convert/config.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// Sets the keys of `n_tokens` tokens, one for each row of embeddings; a row without a token gets an
/// unused one. `pre` as in ConvertParams. Appends sentences for the user to `notes`. Throws Error
/// kUnsupported for a kind of tokenizer or a step that weft does not have, kInvalidFile, kNotFound.
void add_vocabulary(const std::filesystem::path& folder, const Config& config, std::int64_t n_tokens,
                    const std::string& pre, GgufWriter& file, std::vector<std::string>& notes);

}  // namespace weft::convert_impl
