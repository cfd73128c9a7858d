#pragma once
#include <string>

#include "convert/config.h"

namespace weft::convert_impl {

/// GGUF's name of the pre-tokenizer of a tokenizer.json. Throws Error kUnsupported if it is unknown.
std::string pre_tokenizer_name(const Json& tokenizer);

}  // namespace weft::convert_impl
