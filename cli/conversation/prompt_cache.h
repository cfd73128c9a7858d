#pragma once
// A prompt's prefix in a file, with its cache cells, so that another run with the same prefix does not
// compute it again. The format is weft/prefix_state.h's, as for the server's sessions.
#include <span>
#include <string>

#include "conversation/completer.h"
#include "options/option_types.h"
#include "terminal/terminal.h"
#include "weft/types.h"

namespace weft::cli {

struct PromptCacheOptions {
  std::string file;
  bool all = false;
  bool read_only = false;
};
/// --prompt-cache, --prompt-cache-all, --prompt-cache-ro
void add_prompt_cache_options(CLI::App& app, PromptCacheOptions& options, const std::string& group);
/// Throws UsageError for the other options without a file.
void check(const PromptCacheOptions& options);

/// Puts the file's tokens into the prefix cache. Returns whether it then holds all of `prompt`; false if the
/// file is missing, has another prefix, does not fit, or was computed with other adapters. Throws Error for
/// another model's file, with a way out.
bool restore_prompt(const PromptCacheOptions& options, Completer& completer, std::span<const Token> prompt,
                    const Verbosity& talk);
/// Writes these tokens, if the prefix cache holds them, perhaps all but the last. The file is replaced
/// atomically.
void save_prompt(const PromptCacheOptions& options, Completer& completer, std::span<const Token> tokens);

}  // namespace weft::cli
