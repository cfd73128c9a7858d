#pragma once
// A small handmade vocabulary, and strings constrained by grammars over it.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/encoder.h"
#include "text/vocabulary.h"
#include "weft/error.h"
#include "weft/grammar.h"

namespace weft::grammar {

inline Token add_token(text::Vocabulary& v, std::string_view bytes, TokenKind kind) {
  std::string text;
  for (const char c : bytes) {
    if (kind == TokenKind::kNormal) {
      text += text::alphabet_of_byte(static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  v.tokens.push_back(std::move(text));
  v.kinds.push_back(kind);
  return static_cast<Token>(v.tokens.size() - 1);
}

/// All bytes, some longer tokens, and special ones.
inline text::Vocabulary small_vocabulary() {
  text::Vocabulary v;
  v.kind = text::VocabularyKind::kBpe;
  v.pre = "gpt-2";
  for (int b = 0; b < 256; ++b) add_token(v, std::string(1, static_cast<char>(b)), TokenKind::kNormal);
  for (const std::string_view text :
       {"ab",       "abc", "\": ", "{\"", "\"}",         "\", \"", "name",   " the", "true", "12",  "123",
        "\xC3\xA9", "]]",  "}}",   ", ",  "hello world", "<tool",  "\": \"", "  ",   "    ", "\n\n"})
    add_token(v, text, TokenKind::kNormal);
  add_token(v, "<user>", TokenKind::kUserDefined);
  for (const std::string_view text : {"<call>", "</call>", "<|unused|>", "<bos>"})
    add_token(v, text, TokenKind::kControl);
  v.eos = add_token(v, "<eos>", TokenKind::kControl);
  return v;
}

inline const Tokenizer& small_tokenizer() {
  static const Tokenizer tokenizer(small_vocabulary());
  return tokenizer;
}
inline const GrammarCompiler& small_compiler() {
  static const GrammarCompiler compiler(small_tokenizer());
  return compiler;
}

inline GrammarLimits patient() { return {}; }

inline std::shared_ptr<const CompiledGrammar> compiled(const Grammar& grammar) {
  return small_compiler().compile(grammar, patient());
}
inline bool allows(const Grammar& grammar, std::string_view text) {
  return compiled(grammar)->allows_text(text);
}

/// The message of the Error that is thrown; empty where none is.
template <typename Function>
std::string error_of(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code() == ErrorCode::kInvalidArgument ? error.what()
                                                       : "of another kind: " + std::string(error.what());
  }
  return {};
}

/// The tokens that a constraint allows after its tokens and a draft.
inline std::vector<Token> allowed_tokens(TokenConstraint& constraint, std::span<const Token> draft = {},
                                         int n_vocab = small_tokenizer().n_vocab()) {
  std::vector<std::uint32_t> bits((static_cast<std::size_t>(n_vocab) + 31) / 32, 0);
  constraint.fill(draft, bits);
  std::vector<Token> tokens;
  for (Token t = 0; t < n_vocab; ++t)
    if ((bits[static_cast<std::size_t>(t) / 32] >> (t % 32) & 1) != 0) tokens.push_back(t);
  return tokens;
}

}  // namespace weft::grammar
