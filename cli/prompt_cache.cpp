#include "prompt_cache.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <vector>

#include "arguments.h"
#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/read_file.h"
#include "weft/error.h"
#include "weft/prefix_state.h"

namespace weft::cli {
namespace {

constexpr SeqId kSequence = 0;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;

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

std::size_t restore_prompt(const PromptCacheOptions& options, Context& context, std::span<const Token> prompt,
                           const Talk& talk) {
  if (!std::filesystem::exists(options.file)) return 0;
  const auto usual = context.adapters(kSequence);
  const std::vector<AdapterUse> adapters(usual.begin(), usual.end());
  const std::vector<std::byte> bytes = base::read_file(options.file, kMaxBytes);
  std::size_t n = 0;
  try {
    const PrefixState saved = read_prefix_state(bytes);
    if (!context.restore(saved.state, kSequence)) {
      note(talk, fmt::format("({} holds {}, which do not fit into the context; it is not used)", options.file,
                             base::counted(saved.tokens.size(), "token")));
      return 0;
    }
    if (static_cast<std::size_t>(context.cache().next_pos(kSequence)) != saved.tokens.size())
      throw Error(ErrorCode::kInvalidFile, "its tokens do not match its state");
    n = static_cast<std::size_t>(
        std::mismatch(saved.tokens.begin(), saved.tokens.end(), prompt.begin(), prompt.end()).first -
        saved.tokens.begin());
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("--prompt-cache {}: {}; remove the file, or name another one",
                                          options.file, error.what()));
  }
  // Cells computed with other adapters cannot be reused.
  if (!std::ranges::equal(context.adapters(kSequence), adapters)) n = 0;
  // The last token is always computed: its logits are wanted.
  n = std::min(n, prompt.size() - 1);
  // A recurrent state cannot go back a few tokens, and a sliding window only within the cells it keeps.
  if (!context.cache().can_cut(kSequence, static_cast<Pos>(n))) n = 0;
  context.cache().remove(kSequence, static_cast<Pos>(n));
  return n;
}

void save_prompt(const PromptCacheOptions& options, const Context& context, std::span<const Token> tokens) {
  base::AtomicFile file(options.file);
  file.write(write_prefix_state(tokens, context.save(kSequence)));
  file.commit();
}

}  // namespace weft::cli
