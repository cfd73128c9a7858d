#include "chat/divergences.h"

#include <algorithm>
#include <span>

#include "base/to_size.h"
#include "weft/chat.h"

namespace weft {
namespace chat {
namespace {

/// Content that differs from any other from its first byte on.
constexpr std::string_view kOtherContent = "\xEE\x80\x81";

/// The bytes that two prompts have in common, up to the end of a character.
std::size_t n_common_bytes(std::string_view a, std::string_view b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t at = to_size(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first - a.begin());
  while (at > 0 && at < a.size() && (static_cast<unsigned char>(a[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

std::vector<std::size_t> find_divergences(
    const std::string& prompt, const std::vector<Message>& messages,
    const std::function<std::string(const std::vector<Message>& messages)>& render) {
  std::vector<std::size_t> offsets;
  const auto compare = [&](const std::vector<Message>& other) {
    try {
      const std::size_t n = n_common_bytes(prompt, render(other));
      if (n > 0 && n < prompt.size() && (offsets.empty() || n > offsets.back())) offsets.push_back(n);
    } catch (const Error&) {  // The template rejects such messages.
    }
  };
  const auto last_user = std::find_if(messages.rbegin(), messages.rend(),
                                      [](const Message& message) { return message.role == "user"; });
  if (last_user != messages.rend()) {
    std::vector<Message> edited(messages.begin(), last_user.base());
    edited.back().content = kOtherContent;
    compare(edited);
  }
  std::vector<Message> next = messages;
  next.push_back({.role = "assistant", .content = std::string(kOtherContent)});
  next.push_back({.role = "user", .content = std::string(kOtherContent)});
  compare(next);
  return offsets;
}

}  // namespace chat

namespace {

/// The part of a prompt after its first `offset` bytes.
std::vector<PromptPiece> tail_of(std::span<const PromptPiece> prompt, std::size_t offset) {
  std::vector<PromptPiece> tail;
  for (const PromptPiece& piece : prompt) {
    const std::size_t n_before = std::min(offset, piece.text.size());
    offset -= n_before;
    if (n_before < piece.text.size()) tail.push_back({piece.text.substr(n_before), piece.from_template});
  }
  return tail;
}

}  // namespace

std::vector<int> token_counts(const Tokenizer& tokenizer, std::span<const PromptPiece> prompt,
                              std::span<const std::size_t> offsets, std::span<const Token> tokens) {
  // At its start a tokenizer may add a token, or write the first one in another way.
  constexpr std::ptrdiff_t kUnlike = 2;
  std::vector<int> counts;
  for (const std::size_t offset : offsets) {
    std::vector<Token> tail = tokenizer.encode(tail_of(prompt, offset));
    if (!tail.empty() && tail.front() == tokenizer.bos()) tail.erase(tail.begin());
    if (tail.empty() || tail.size() >= tokens.size()) continue;
    const auto alike = std::mismatch(tail.rbegin(), tail.rend(), tokens.rbegin()).first - tail.rbegin();
    if (alike + kUnlike >= std::ssize(tail)) counts.push_back(static_cast<int>(tokens.size() - tail.size()));
  }
  return counts;
}

}  // namespace weft
