#pragma once
#include <string>

#include "convert/config.h"

namespace weft::convert_impl {

/// Whether a piece that equals a token becomes that token, whatever the merges say.
bool ignores_merges(const Json& tokenizer);

/// Whether this is BPE on characters, not bytes, of words between white space.
bool cuts_at_spaces(const Json& tokenizer);

/// GGUF's name of the pre-tokenizer of a tokenizer.json. Throws Error kUnsupported if it is unknown.
std::string pre_tokenizer_name(const Json& tokenizer);

}  // namespace weft::convert_impl
