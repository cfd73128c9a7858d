#include "chat/reasoning_limit.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/to_size.h"
#include "chat/json_scanner.h"
#include "chat/request_json.h"
#include "weft/tokenizer.h"

namespace weft {

namespace chat {

ReasoningEnd reasoning_end(const Format& format, const std::string& message) {
  constexpr std::string_view kEnd = "<|end|>", kNext = "<|end|><|start|>assistant",
                             kFinal = "<|end|><|start|>assistant<|channel|>final<|message|>";
  if (message.size() > ChatTurn::kMaxBudgetMessageBytes)
    refuse("the message at the end of the reasoning budget has " + std::to_string(message.size()) +
           " bytes; the limit is " + std::to_string(ChatTurn::kMaxBudgetMessageBytes));
  const std::string_view tag = format.channels ? kEnd : trimmed(format.reasoning_end);
  if (!tag.empty() && message.find(tag) != std::string::npos)
    refuse("the message at the end of the reasoning budget contains the closing tag \"" + std::string(tag) +
           "\"; leave it out, it is added");
  if (format.channels) return {message, std::string(kNext), std::string(kFinal)};
  return {message, format.reasoning_end, format.reasoning_end};
}

namespace {

constexpr std::size_t kNotClosing = std::numeric_limits<std::size_t>::max();

/// The tokens that close reasoning.
struct ClosingTokens {
  std::vector<Token> first;
  std::vector<Token> later;
};

std::string joined(const Tokenizer& tokenizer, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) text += tokenizer.piece(token, true);
  return text;
}

/// Tokens of a string in the middle of a response. Some tokenizers put a space before their input: a line
/// break before the string takes it, and both are removed.
std::vector<Token> encode_inside(const Tokenizer& tokenizer, const std::string& text, bool special) {
  const Tokenizer::EncodeOptions options{.add_special = false, .parse_special = special};
  std::vector<Token> tokens = tokenizer.encode(text, options);
  if (joined(tokenizer, tokens) == text) return tokens;
  const std::vector<Token> line = tokenizer.encode("\n" + text, options);
  for (std::size_t n = 1; n < line.size() && n < 4; ++n)
    if (const auto rest = std::span(line).subspan(n); joined(tokenizer, rest) == text)
      return {rest.begin(), rest.end()};
  return tokens;
}

/// Bytes that are still missing of a character, in UTF-8.
int missing_after(std::string_view bytes, int missing) {
  for (const char byte : bytes) {
    const auto b = static_cast<std::uint8_t>(byte);
    if (b >= 0x80 && b < 0xC0)
      missing = std::max(missing - 1, 0);
    else
      missing = b >= 0xF0 ? 3 : b >= 0xE0 ? 2 : b >= 0xC0 ? 1 : 0;
  }
  return missing;
}

/// The limit of one completion. It reads the response as a ResponseReader does, so both find the same
/// reasoning.
class LimitedReasoning final : public TokenConstraint {
 public:
  LimitedReasoning(const Tokenizer& tokenizer, std::shared_ptr<const ClosingTokens> closing,
                   ReaderState answer, int budget, std::unique_ptr<TokenConstraint> inner)
      : tokenizer_(tokenizer),
        closing_(std::move(closing)),
        inner_(std::move(inner)),
        place_{.answer = std::move(answer), .n_left = budget} {
    close_if_spent(place_);
  }

  void accept(Token token) override {
    if (inner_) inner_->accept(token);
    advance(place_, token);
  }

  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    if (const auto token = forced_after(draft)) {
      allowed[to_size(*token) / 32] |= std::uint32_t{1} << to_size(*token) % 32;
    } else if (inner_) {
      inner_->fill(draft, allowed);
    } else {
      std::ranges::fill(allowed, ~std::uint32_t{0});
    }
  }

  bool allows(std::span<const Token> draft, Token next) override {
    if (const auto token = forced_after(draft)) return next == *token;
    return !inner_ || inner_->allows(draft, next);
  }

  void forced(std::span<const Token> draft, std::vector<Token>& tokens) override {
    const std::span<const Token> closing = closing_after(draft);
    if (closing.empty()) {
      if (inner_) inner_->forced(draft, tokens);
      return;
    }
    tokens.insert(tokens.end(), closing.begin(), closing.end());
  }

  bool allows_all(int n_ahead) override {
    return is_far(n_ahead) && (!inner_ || inner_->allows_all(n_ahead));
  }

 private:
  struct Place {
    ReaderState answer;
    int n_left = 0;                ///< Tokens of reasoning that may follow.
    int n_undecided = 0;           ///< The last tokens, which may begin a closing tag.
    int n_missing = 0;             ///< Bytes that the last character lacks.
    std::size_t at = kNotClosing;  ///< The next one of the closing tokens.
    bool closed_before = false;
  };

  /// Nothing is forced after any `n_ahead` tokens.
  bool is_far(int n_ahead) const {
    return place_.at == kNotClosing && (n_ahead == 0 || place_.n_left - place_.n_undecided > n_ahead);
  }

  const std::vector<Token>& closing_of(const Place& place) const {
    return place.closed_before ? closing_->later : closing_->first;
  }

  Place after(std::span<const Token> draft) const {
    Place place = place_;
    for (const Token token : draft) advance(place, token);
    return place;
  }

  /// The closing tokens that follow. Empty: none are forced there.
  std::span<const Token> closing_after(std::span<const Token> draft) const {
    if (is_far(static_cast<int>(draft.size()))) return {};
    const Place place = after(draft);
    if (place.at == kNotClosing) return {};
    return std::span(closing_of(place)).subspan(place.at);
  }

  /// The forced token, where `inner` allows it.
  std::optional<Token> forced_after(std::span<const Token> draft) {
    const std::span<const Token> closing = closing_after(draft);
    if (closing.empty() || (inner_ && !inner_->allows(draft, closing.front()))) return std::nullopt;
    return closing.front();
  }

  void advance(Place& place, Token token) const {
    const std::string bytes = tokenizer_.is_end(token) ? std::string() : tokenizer_.piece(token, true);
    const bool reasoned = place.answer.is_reasoning();
    (void)place.answer.read(bytes, false);
    place.n_missing = missing_after(bytes, place.n_missing);
    if (place.at != kNotClosing) {
      const std::vector<Token>& closing = closing_of(place);
      if (token == closing[place.at] && ++place.at < closing.size()) return;
      place.at = kNotClosing;
      place.closed_before = true;
    } else if (!reasoned || !place.answer.is_reasoning()) {
      place.n_undecided = 0;
    } else if (place.answer.is_undecided()) {
      ++place.n_undecided;
    } else {
      place.n_left = std::max(place.n_left - place.n_undecided - 1, 0);
      place.n_undecided = 0;
    }
    close_if_spent(place);
  }

  void close_if_spent(Place& place) const {
    if (place.n_left > 0 || place.n_missing > 0 || !place.answer.is_reasoning()) return;
    if (!place.answer.is_undecided()) place.at = 0;
  }

  const Tokenizer& tokenizer_;
  const std::shared_ptr<const ClosingTokens> closing_;
  const std::unique_ptr<TokenConstraint> inner_;
  Place place_;
};

}  // namespace

}  // namespace chat

ReasoningLimit::MakeConstraint ReasoningLimit::constraint(const Tokenizer& tokenizer,
                                                          MakeConstraint inner) const {
  const auto closing = std::make_shared<chat::ClosingTokens>();
  for (const auto& [tag, tokens] :
       {std::pair{&state_->end.tag, &closing->first}, std::pair{&state_->end.later_tag, &closing->later}}) {
    *tokens = chat::encode_inside(tokenizer, state_->end.message, false);
    const std::vector<Token> end = chat::encode_inside(tokenizer, *tag, true);
    tokens->insert(tokens->end(), end.begin(), end.end());
  }
  return [&tokenizer, closing, state = state_, inner = std::move(inner)](int completion) {
    return std::make_unique<chat::LimitedReasoning>(tokenizer, closing, state->answer, state->budget,
                                                    inner ? inner(completion) : nullptr);
  };
}

}  // namespace weft
