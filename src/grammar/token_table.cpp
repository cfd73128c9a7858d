#include "grammar/token_table.h"

namespace weft::grammar {
namespace {

bool stands_for_text(const Tokenizer& tokenizer, Token id) {
  const TokenKind kind = tokenizer.kind(id);
  return (kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kByte) &&
         !tokenizer.is_end(id);
}

}  // namespace

TokenTable::TokenTable(const Tokenizer& tokenizer) : tokenizer_(tokenizer), special_(tokenizer), begins_{0} {
  for (Token id = 0; id < tokenizer.n_vocab(); ++id) {
    if (stands_for_text(tokenizer, id)) bytes_ += tokenizer.piece(id);
    begins_.push_back(static_cast<std::uint32_t>(bytes_.size()));
  }
  std::vector<TokenTrie::Entry> short_entries, long_entries;
  for (Token id = 0; id < tokenizer.n_vocab(); ++id)
    (bytes_of(id).size() <= kShort ? short_entries : long_entries).push_back({bytes_of(id), id});
  short_ = TokenTrie(std::move(short_entries));
  long_ = TokenTrie(std::move(long_entries));
}

std::string TokenTable::joined(const std::vector<Token>& tokens, std::size_t n) const {
  std::string text;
  for (std::size_t i = 0; i < n; ++i) text += bytes_of(tokens[i]);
  return text;
}

std::vector<Token> TokenTable::encode(std::string_view text) const {
  constexpr Tokenizer::EncodeOptions kPlain{.add_special = false, .parse_special = false};
  std::vector<Token> tokens = tokenizer_.encode(text, kPlain);
  if (joined(tokens, tokens.size()) == text) return tokens;
  // Some tokenizers put a space before the input. A line break takes it, and its tokens are removed.
  std::vector<Token> line = tokenizer_.encode("\n" + std::string(text), kPlain);
  const std::string whole = joined(line, line.size());
  if (whole.size() > text.size() && whole.ends_with(text)) {
    std::size_t before = whole.size() - text.size(), n = 0;
    while (n < line.size() && before >= bytes_of(line[n]).size() && before > 0)
      before -= bytes_of(line[n++]).size();
    if (before == 0) return std::vector<Token>(line.begin() + static_cast<std::ptrdiff_t>(n), line.end());
  }
  // The longest tokens, from the front.
  tokens.clear();
  for (std::size_t done = 0; done < text.size();) {
    std::size_t node = 0, size = 0;
    Token longest = kNoToken;
    for (std::size_t i = done; i < text.size(); ++i) {
      node = short_.child(node, static_cast<std::uint8_t>(text[i]));
      if (node == 0) break;
      if (short_.tokens_at(node).empty()) continue;
      longest = short_.tokens_at(node)[0];
      size = i + 1 - done;
    }
    if (longest == kNoToken) break;
    tokens.push_back(longest);
    done += size;
  }
  return tokens;
}

}  // namespace weft::grammar
