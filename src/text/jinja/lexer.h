#pragma once
// Splits a template's source into tokens, with the settings of chat templates: trim_blocks (drops the newline
// after a block tag), lstrip_blocks (drops spaces before a block tag at the start of a line), and without one
// newline at the end of the source. As lexer.py of jinja2 3.1.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/text.h"

namespace weft::text::jinja {

enum class TokenKind : std::uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;  ///< Strings: without quotes, escapes resolved. Numbers: without underscores.
  int line;
};

/// Throws SyntaxProblem. The last token is kEnd. Time is linear in the source.
std::vector<Token> tokenize(std::string_view source);

}  // namespace weft::text::jinja
