// Saving, restoring and dropping cached prefixes.
#include <algorithm>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "engine/batching/batcher_impl.h"
#include "engine/refuse.h"
#include "engine/sequence_adapters.h"
#include "weft/prefix_state.h"

namespace weft {
namespace {

void check_tokens(std::span<const Token> tokens, int n_vocab) {
  for (const Token token : tokens)
    if (token < 0 || token >= n_vocab)
      engine::refuse("token " + std::to_string(token) +
                     " of the saved sequence is outside the vocabulary of " + std::to_string(n_vocab));
}

std::span<const Token> before_media(std::span<const Token> tokens) {
  return {tokens.begin(), std::ranges::find(tokens, kMediaToken)};
}

}  // namespace

template <typename F>
auto Batcher::Impl::between_steps(F f) {
  if (outbox.delivering())
    engine::refuse("sequences cannot be saved or restored from on_output; do it between steps");
  return stepper.between_steps(std::move(f));
}

std::vector<AdapterUse> Batcher::Impl::usual_adapters() const {
  return engine::checked_adapters(context.model(), context.params().adapters);
}

SavedPrefix Batcher::Impl::save_prefix(std::span<const Token> tokens,
                                       const std::optional<std::vector<AdapterUse>>& adapters) {
  engine::TextOrigin origin{adapters ? engine::checked_adapters(context.model(), *adapters)
                                     : usual_adapters()};
  // Ids of embedded parts are valid in this process only, so the saved prefix ends before them.
  tokens = before_media(tokens);
  const bool is_source = context.model().info().reads_source;
  if (is_source) origin.source.assign(tokens.begin(), tokens.end());
  return between_steps([&]() -> SavedPrefix {
    const engine::PrefixCache::Saved saved =
        cache.save(is_source ? std::span<const Token>() : tokens, origin);
    if (saved.state.empty()) return {};
    const int n = is_source ? static_cast<int>(tokens.size()) : saved.n;
    return {n, write_prefix_state(tokens.first(to_size(n)), saved.state)};
  });
}

RestoredPrefix Batcher::Impl::restore_prefix(std::span<const std::byte> state) {
  if (!params.reuse_prefixes)
    throw Error(ErrorCode::kUnsupported,
                "this batcher keeps no finished sequences; set reuse_prefixes to restore one");
  // Errors of the saved bytes do not depend on devices.
  PrefixState text = read_prefix_state(state);
  check_tokens(text.tokens, context.model().info().n_vocab);
  return between_steps([&] {
    RestoredPrefix restored{std::move(text.tokens), {}};
    engine::TextOrigin origin;
    const bool is_source = context.model().info().reads_source;
    if (is_source) origin.source = restored.tokens;
    const bool is_there =
        cache.restore(text.state, is_source ? std::span<const Token>() : restored.tokens, origin);
    restored.adapters = std::move(origin.adapters);
    if (!is_there)
      throw Error(ErrorCode::kOverloaded,
                  "the cache has no room for the " + std::to_string(restored.tokens.size()) +
                      " tokens of the saved sequence while requests run; try again later");
    return restored;
  });
}

int Batcher::Impl::forget_prefix(std::span<const Token> tokens) {
  return between_steps([&] { return cache.forget_idle(tokens); });
}

}  // namespace weft
