#pragma once
// Folders as models: Hugging Face folders are converted at first use, folders with a GGUF file are opened.
#include <filesystem>
#include <functional>
#include <optional>

#include "terminal/terminal.h"

namespace weft::cli {

/// Returns the folder's model as a GGUF file in the cache (${WEFT_CACHE:-$HOME/.cache/weft}/converted).
/// Converts again if files of the folder have changed. The file may be deleted at any time. Throws Error as
/// convert, kNotFound without a cache.
std::filesystem::path converted_model(const std::filesystem::path& folder, const Verbosity& talk,
                                      const std::function<bool()>& keep_going);

/// Returns the only GGUF model in a folder, or the first part of the only split model. Image encoders and
/// adapters do not count. nullopt for other paths, and for Hugging Face folders with their own weights.
/// Throws Error kNotFound for a folder without a model, kInvalidArgument for several models, with their
/// names.
std::optional<std::filesystem::path> gguf_in_folder(const std::filesystem::path& folder);

}  // namespace weft::cli
