#include "api/banned_tokens.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include "api/error.h"
#include "api/served_request.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

constexpr std::size_t kBits = 32;

struct Bans {
  std::vector<std::vector<Token>> words;
  std::vector<std::uint32_t> always;  ///< A mask of tokens; ids beyond the vocabulary are banned as well.
  std::size_t n_before = 0;           ///< The most tokens before the last one of a word.
};

bool has(std::span<const std::uint32_t> mask, Token token) {
  return (mask[to_size(token) / kBits] >> to_size(token) % kBits & 1U) != 0;
}

class BanningConstraint final : public TokenConstraint {
 public:
  /// `grammar` may be null.
  BanningConstraint(std::unique_ptr<TokenConstraint> grammar, std::shared_ptr<const Bans> bans,
                    std::shared_ptr<GrammarFault> fault)
      : grammar_(std::move(grammar)), bans_(std::move(bans)), fault_(std::move(fault)) {}

  void accept(Token token) override {
    if (grammar_) grammar_->accept(token);
    if (bans_->n_before == 0) return;
    if (generated_.size() >= 2 * bans_->n_before)
      generated_.erase(generated_.begin(), generated_.end() - static_cast<std::ptrdiff_t>(bans_->n_before));
    generated_.push_back(token);
  }

  // A mask without tokens is for the sampler to refuse. Here it may belong to a draft that is never used.
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    if (grammar_)
      grammar_->fill(draft, allowed);
    else
      std::ranges::fill(allowed, ~std::uint32_t{0});
    for (std::size_t i = 0; i < allowed.size(); ++i) allowed[i] &= ~bans_->always[i];
    for (const std::vector<Token>& word : bans_->words) {
      const auto last = to_size(word.back());
      if (ends(draft, word)) allowed[last / kBits] &= ~(std::uint32_t{1} << last % kBits);
    }
    if (std::ranges::all_of(allowed, [](std::uint32_t bits) { return bits == 0; }))
      fault_->set(
          bad_request("logit_bias",
                      "no token is left to generate: 'logit_bias', 'allowed_token_ids' and 'bad_words' "
                      "ban all tokens that may follow; ban fewer tokens"));
  }

  bool allows(std::span<const Token> draft, Token next) override {
    if (has(bans_->always, next) || (grammar_ && !grammar_->allows(draft, next))) return false;
    return std::ranges::none_of(bans_->words, [&](const std::vector<Token>& word) {
      return word.back() == next && ends(draft, word);
    });
  }

  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override {
    if (grammar_) grammar_->forced(draft, tokens);
  }

 private:
  /// Whether the generated tokens and then `draft` end with all tokens of a word but its last.
  bool ends(std::span<const Token> draft, std::span<const Token> word) const {
    const std::size_t n = word.size() - 1;
    if (draft.size() + generated_.size() < n) return false;
    for (std::size_t i = 0; i < n; ++i) {
      const Token token = i < draft.size() ? draft[draft.size() - 1 - i]
                                           : generated_[generated_.size() - 1 - (i - draft.size())];
      if (token != word[n - 1 - i]) return false;
    }
    return true;
  }

  const std::unique_ptr<TokenConstraint> grammar_;
  const std::shared_ptr<const Bans> bans_;
  const std::shared_ptr<GrammarFault> fault_;
  std::vector<Token> generated_;  ///< The last of them.
};

}  // namespace

void ban_tokens(RequestParams& params, std::vector<std::vector<Token>> words, int n_vocab,
                std::shared_ptr<GrammarFault>& fault) {
  const auto is_ban = [](const std::pair<Token, float>& bias) { return std::isinf(bias.second); };
  const bool bans_always = std::ranges::any_of(params.sampler.logit_bias, is_ban);
  // Ends that min_tokens holds back are drawn earlier if no other token is left.
  const bool is_limited = params.constraint != nullptr || params.n_min > 0;
  if (words.empty() && !(bans_always && is_limited)) return;
  const std::size_t n = to_size(n_vocab);
  Bans bans{.words = std::move(words), .always = std::vector<std::uint32_t>((n + kBits - 1) / kBits)};
  const auto ban = [&](std::size_t id) { bans.always[id / kBits] |= std::uint32_t{1} << id % kBits; };
  for (const auto& bias : params.sampler.logit_bias)
    if (is_ban(bias)) ban(to_size(bias.first));
  for (std::size_t id = n; id < bans.always.size() * kBits; ++id) ban(id);
  for (const std::vector<Token>& word : bans.words) bans.n_before = std::max(bans.n_before, word.size() - 1);
  if (!fault) fault = std::make_shared<GrammarFault>();
  params.constraint = [grammar = std::move(params.constraint),
                       bans = std::make_shared<const Bans>(std::move(bans)), fault](int completion) {
    return std::make_unique<BanningConstraint>(grammar ? grammar(completion) : nullptr, bans, fault);
  };
}

}  // namespace weft::server
