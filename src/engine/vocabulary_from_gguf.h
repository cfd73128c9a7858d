#pragma once
// Reads the keys tokenizer.ggml.* of a GGUF file.
#include <string_view>

#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace weft::engine {

/// The file's vocabulary, for the tokenizer; Tokenizer's constructor checks it. Throws Error
/// kInvalidFile for a key that is missing or of another type. Throws kUnsupported for an unknown kind of
/// tokenizer. `pre`: the pre-tokenizer to use instead of the file's; empty: the file's.
text::Vocabulary vocabulary_from_gguf(const gguf::File& file, std::string_view pre = {});

}  // namespace weft::engine
