#pragma once
// What weft's models have for granted, for want of a key of GGUF: a folder whose configuration says something
// else would become another model without a word.
#include "convert/config.h"
#include "convert/family.h"

namespace weft::convert_impl {

/// Throws Error kUnsupported that names the field.
void check_taken_for_granted(const Config& config, const Family& family);

}  // namespace weft::convert_impl
