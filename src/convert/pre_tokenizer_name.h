#pragma once
#include <string>

#include "convert/config.h"

namespace weft::convert_impl {

/// What GGUF calls the way in which a tokenizer.json cuts texts. Throws Error kUnsupported where it is none
/// that is known.
std::string pre_tokenizer_name(const Json& tokenizer);

}  // namespace weft::convert_impl
