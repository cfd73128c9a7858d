#pragma once
// Writes the steps of a tokenizer.json as keys of a GGUF file (src/text/text_steps.h).
#include <vector>

#include "convert/config.h"
#include "weft/gguf.h"

namespace weft::convert_impl {

/// The steps of a part of tokenizer.json, with sequences flattened. They point into `tokenizer`. The list is
/// empty where the part is missing.
std::vector<const Json*> steps_of(const Json& tokenizer, const char* part, const char* list);
std::vector<const Json*> normalizers_of(const Json& tokenizer);
std::vector<const Json*> pre_tokenizers_of(const Json& tokenizer);

/// Sets weft.tokenizer.normalizers, weft.tokenizer.pre_tokenizers and tokenizer.ggml.precompiled_charsmap.
/// `cuts_by_name`: tokenizer.ggml.pre names the pre-tokenizer, so only its space in front is written. Throws
/// Error kUnsupported that names a step that weft does not apply, and kInvalidFile.
void add_steps(const Json& tokenizer, bool cuts_by_name, GgufWriter& file);

}  // namespace weft::convert_impl
