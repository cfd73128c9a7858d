#pragma once
// Hugging Face folders as models: converted at first use.
#include <filesystem>
#include <functional>

#include "terminal.h"

namespace weft::cli {

/// Returns the folder's model as a GGUF file in the cache (${WEFT_CACHE:-$HOME/.cache/weft}/converted).
/// Converts again if files of the folder have changed. The file may be deleted at any time. Throws Error as
/// convert, kNotFound without a cache.
std::filesystem::path converted_model(const std::filesystem::path& folder, const Talk& talk,
                                      const std::function<bool()>& keep_going);

}  // namespace weft::cli
