#include "weft/token_bans.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/refuse.h"

namespace weft {
namespace {

constexpr std::size_t kMaskBits = 32;

struct CheckedBans {
  std::vector<std::vector<Token>> sequences;
  std::vector<std::uint32_t> always;  ///< A mask of tokens; ids beyond the vocabulary are banned as well.
  std::size_t n_before = 0;           ///< The most tokens before the last one of a sequence.
  std::function<void()> on_none_left;
};

class BanningConstraint final : public TokenConstraint {
 public:
  /// `inner` may be null.
  BanningConstraint(std::unique_ptr<TokenConstraint> inner, std::shared_ptr<const CheckedBans> bans)
      : inner_(std::move(inner)), bans_(std::move(bans)) {}

  void accept(Token token) override {
    if (inner_) inner_->accept(token);
    if (bans_->n_before == 0) return;
    if (generated_.size() >= 2 * bans_->n_before)
      generated_.erase(generated_.begin(), generated_.end() - static_cast<std::ptrdiff_t>(bans_->n_before));
    generated_.push_back(token);
  }

  // A mask without tokens is for the sampler to refuse. Here it may belong to a draft that is never used.
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    if (inner_)
      inner_->fill(draft, allowed);
    else
      std::ranges::fill(allowed, ~std::uint32_t{0});
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] &= ~bans_->always[i];
    for (const std::vector<Token>& sequence : bans_->sequences) {
      const auto last = to_size(sequence.back());
      if (ends(draft, sequence)) allowed[last / kMaskBits] &= ~(std::uint32_t{1} << last % kMaskBits);
    }
    if (bans_->on_none_left && std::ranges::all_of(allowed, [](std::uint32_t bits) { return bits == 0; }))
      bans_->on_none_left();
  }

  bool allows(std::span<const Token> draft, Token next) override {
    const bool is_banned = (bans_->always[to_size(next) / kMaskBits] >> to_size(next) % kMaskBits & 1U) != 0;
    if (is_banned || (inner_ && !inner_->allows(draft, next))) return false;
    return std::ranges::none_of(bans_->sequences, [&](const std::vector<Token>& sequence) {
      return sequence.back() == next && ends(draft, sequence);
    });
  }

  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override {
    if (inner_) inner_->forced(draft, tokens);
  }

 private:
  /// Whether the generated tokens and then `draft` end with all tokens of a sequence but its last.
  bool ends(std::span<const Token> draft, std::span<const Token> sequence) const {
    const std::size_t n = sequence.size() - 1;
    if (draft.size() + generated_.size() < n) return false;
    for (std::size_t i = 0; i < n; ++i) {
      const Token token = i < draft.size() ? draft[draft.size() - 1 - i]
                                           : generated_[generated_.size() - 1 - (i - draft.size())];
      if (token != sequence[n - 1 - i]) return false;
    }
    return true;
  }

  const std::unique_ptr<TokenConstraint> inner_;
  const std::shared_ptr<const CheckedBans> bans_;
  std::vector<Token> generated_;  ///< The last of them.
};

void check_ids(std::span<const Token> ids, std::size_t n_vocab, const char* what) {
  for (const Token id : ids)
    if (id < 0 || to_size(id) >= n_vocab)
      engine::refuse(std::string("the ") + what + " token " + std::to_string(id) +
                     " is outside the vocabulary of " + base::counted(n_vocab, "token"));
}

}  // namespace

void TokenBans::add_word(std::string_view word, const Tokenizer& tokenizer) {
  const auto encode = [&](const std::string& text) { return tokenizer.encode(text, {.add_special = false}); };
  std::vector<Token> plain = encode(std::string(word)), spaced = encode(" " + std::string(word));
  if (plain.empty()) engine::refuse("the word has no tokens; leave it out");
  for (std::vector<Token>* sequence : {&plain, &spaced}) {
    if (sequence->size() > kMaxWordTokens)
      engine::refuse("the word has " + base::counted(sequence->size(), "token") + "; the limit is " +
                     std::to_string(kMaxWordTokens));
    if (!sequence->empty()) sequences.push_back(std::move(*sequence));
  }
}

void ban_tokens(RequestParams& params, TokenBans bans, const Tokenizer& tokenizer) {
  constexpr float kBanned = -std::numeric_limits<float>::infinity();
  const std::size_t n = to_size(tokenizer.n_vocab());
  std::vector<std::pair<Token, float>>& biases = params.sampler.logit_bias;
  for (const std::vector<Token>& sequence : bans.sequences) check_ids(sequence, n, "banned");
  check_ids(bans.allowed, n, "allowed");

  std::erase_if(bans.sequences, [](const std::vector<Token>& sequence) { return sequence.empty(); });
  std::vector<bool> is_banned(n, !bans.allowed.empty());
  for (const Token id : bans.allowed) is_banned[to_size(id)] = false;
  for (const std::vector<Token>& sequence : bans.sequences)
    if (sequence.size() == 1) is_banned[to_size(sequence.front())] = true;
  std::erase_if(bans.sequences,
                [&](const std::vector<Token>& sequence) { return is_banned[to_size(sequence.back())]; });
  // The sampler refuses wrong ids of the bias.
  std::erase_if(biases, [&](const auto& bias) {
    return bias.first >= 0 && to_size(bias.first) < n && is_banned[to_size(bias.first)];
  });
  for (std::size_t id = 0; id < n; ++id)
    if (is_banned[id]) biases.emplace_back(static_cast<Token>(id), kBanned);

  const auto bans_token = [](const std::pair<Token, float>& bias) { return bias.second == kBanned; };
  // Ends that n_min holds back are drawn earlier if no other token is left.
  const bool is_limited = params.constraint != nullptr || params.n_min > 0;
  if (bans.sequences.empty() && !(is_limited && std::ranges::any_of(biases, bans_token))) return;
  CheckedBans checked{.sequences = std::move(bans.sequences),
                      .always = std::vector<std::uint32_t>((n + kMaskBits - 1) / kMaskBits),
                      .n_before = 0,
                      .on_none_left = std::move(bans.on_none_left)};
  const auto ban = [&](std::size_t id) {
    checked.always[id / kMaskBits] |= std::uint32_t{1} << id % kMaskBits;
  };
  for (const auto& bias : biases)
    if (bans_token(bias) && bias.first >= 0 && to_size(bias.first) < n) ban(to_size(bias.first));
  for (std::size_t id = n; id < checked.always.size() * kMaskBits; ++id) ban(id);
  for (const std::vector<Token>& sequence : checked.sequences)
    checked.n_before = std::max(checked.n_before, sequence.size() - 1);
  params.constraint = [inner = std::move(params.constraint),
                       shared = std::make_shared<const CheckedBans>(std::move(checked))](int completion) {
    return std::make_unique<BanningConstraint>(inner ? inner(completion) : nullptr, shared);
  };
}

}  // namespace weft
