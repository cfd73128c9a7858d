#include "conversation/prompt_cache.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/read_file.h"
#include "base/to_size.h"
#include "options/arguments.h"
#include "weft/batcher.h"
#include "weft/error.h"
#include "weft/prefix_state.h"

namespace weft::cli {
namespace {

constexpr std::uint64_t kMaxCacheBytes = std::uint64_t{1} << 40;

}  // namespace

void add_prompt_cache_options(CLI::App& app, PromptCacheOptions& options, const std::string& group) {
  app.add_option("--prompt-cache", options.file,
                 "save the KV cache of the prompt in this file; later prompts with the same prefix reuse it")
      ->type_name("FILE")
      ->group(group);
  app.add_flag("--prompt-cache-all", options.all, "save generated tokens in that file, too")->group(group);
  app.add_flag("--prompt-cache-ro", options.read_only, "read that file but do not write it")->group(group);
}

void check(const PromptCacheOptions& options) {
  if (options.file.empty() && (options.all || options.read_only))
    throw UsageError("--prompt-cache-all and --prompt-cache-ro need --prompt-cache FILE");
  if (options.all && options.read_only)
    throw UsageError("--prompt-cache-all writes the file, --prompt-cache-ro forbids that; give one of them");
}

bool restore_prompt(const PromptCacheOptions& options, Completer& completer, std::span<const Token> prompt,
                    const Verbosity& talk) {
  if (!std::filesystem::exists(options.file)) return false;
  const std::vector<std::byte> bytes = base::read_file(options.file, kMaxCacheBytes);
  const auto usual = completer.context().adapters(0);  // Of the empty sequence.
  const std::vector<AdapterUse> adapters(usual.begin(), usual.end());
  const auto n_saved = [&] { return base::counted(read_prefix_state(bytes).tokens.size(), "token"); };
  try {
    const RestoredPrefix restored = completer.batcher().restore_prefix(bytes);
    const auto end =
        std::mismatch(restored.tokens.begin(), restored.tokens.end(), prompt.begin(), prompt.end()).second;
    const bool is_usable =
        restored.tokens.size() == prompt.size() || completer.context().cache().cuts_anywhere();
    return end == prompt.end() && is_usable && restored.adapters == adapters;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOverloaded) {
      note(talk, fmt::format("({} holds {}, which do not fit into the context; it is not used)", options.file,
                             n_saved()));
      return false;
    }
    throw Error(error.code(), fmt::format("--prompt-cache {}: {}; remove the file, or name another one",
                                          options.file, error.what()));
  }
}

void save_prompt(const PromptCacheOptions& options, Completer& completer, std::span<const Token> tokens) {
  const SavedPrefix saved = completer.batcher().save_prefix(tokens);
  // The prefix cache does not hold sequences after a context shift.
  if (to_size(saved.n_tokens) + 1 < tokens.size() || saved.n_tokens == 0) return;
  base::AtomicFile file(options.file);
  file.write(saved.state);
  file.commit();
}

}  // namespace weft::cli
