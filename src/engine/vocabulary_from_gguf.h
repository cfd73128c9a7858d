#pragma once
// Reads the keys tokenizer.ggml.* of a GGUF file.
#include <string_view>

#include "gguf/gguf.h"
#include "text/vocabulary.h"

namespace weft::engine {

/// What the file says, in the words of the text layer; Tokenizer's constructor checks it. Throws Error
/// kInvalidFile for a key that is missing or of another type, kUnsupported for a kind of tokenizer that weft
/// does not know. `pre`: the pre-tokenizer to use, whatever the file names; empty: the file's.
text::Vocabulary vocabulary_from_gguf(const gguf::File& file, std::string_view pre = {});

}  // namespace weft::engine
