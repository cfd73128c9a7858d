#pragma once
// Folders of Hugging Face as models: converted when they are first asked for.
#include <filesystem>
#include <functional>

#include "terminal.h"

namespace weft::cli {

/// The folder's model as a GGUF file in the cache (${WEFT_CACHE:-$HOME/.cache/weft}/converted), which is made
/// anew where files of the folder have changed. The file may be deleted at any time. Throws Error as convert,
/// kNotFound where there is no cache.
std::filesystem::path converted_model(const std::filesystem::path& folder, const Talk& talk,
                                      const std::function<bool()>& keep_going);

}  // namespace weft::cli
