#pragma once
// Checks fields of config.json that weft's models hard-code because GGUF has no key for them. Without the
// check, a folder with other values would silently become a different model.
#include "convert/config.h"
#include "convert/family.h"

namespace weft::convert_impl {

/// Throws Error kUnsupported that names the field.
void check_taken_for_granted(const Config& config, const Family& family);

}  // namespace weft::convert_impl
