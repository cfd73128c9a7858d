#pragma once
// The beginning of a text in a file, with what the context's cache holds of it: another run that begins alike
// does not compute it again. The file is a saved text (weft/text_state.h), as the server's sessions are.
#include <CLI/CLI.hpp>
#include <span>
#include <string>

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
/// Throws UsageError for the others without a file.
void check(const PromptCacheOptions& options);

/// Sequence 0 of the context, which is empty, gets what the file holds of the prompt's beginning, without its
/// last token. Returns how many tokens; 0 where there is no file yet, or it begins otherwise or was written
/// with other adapters than the context's. Throws Error for a file that is none of this model, with the way
/// out.
std::size_t restore_prompt(const PromptCacheOptions& options, Context& context, std::span<const Token> prompt,
                           const Talk& talk);
/// Writes what sequence 0 holds, which are these tokens. The file appears whole or stays as it was.
void save_prompt(const PromptCacheOptions& options, const Context& context, std::span<const Token> tokens);

}  // namespace weft::cli
