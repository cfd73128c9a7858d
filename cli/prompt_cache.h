#pragma once
// A prompt's prefix in a file, with its cache cells, so that another run with the same prefix does not
// compute it again. The format is weft/prefix_state.h's, as for the server's sessions.
#include <span>
#include <string>

#include "option_types.h"
#include "terminal.h"
#include "weft/context.h"

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

/// Restores into the empty sequence 0 the longest common prefix of the file and the prompt, without the
/// prompt's last token. Returns its number of tokens; 0 if the file is missing, has another prefix, or was
/// computed with other adapters. Throws Error for another model's file, with a way out.
std::size_t restore_prompt(const PromptCacheOptions& options, Context& context, std::span<const Token> prompt,
                           const Talk& talk);
/// Writes sequence 0, which consists of these tokens. The file is replaced atomically.
void save_prompt(const PromptCacheOptions& options, const Context& context, std::span<const Token> tokens);

}  // namespace weft::cli
