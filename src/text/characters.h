#pragma once
// Character classes as in the Rust crates of Hugging Face's tokenizers.
#include <string>
#include <string_view>

namespace weft::text {

/// The property White_Space.
bool is_white_space(char32_t c);
/// What \w matches: letters, marks, decimal digits, connectors and joiners.
bool is_word(char32_t c);
bool is_number(char32_t c);           ///< Nd, Nl, No.
bool is_punctuation(char32_t c);      ///< All P categories, and all of ASCII's punctuation.
bool is_mark(char32_t c);             ///< Mn, Mc, Me.
bool is_nonspacing_mark(char32_t c);  ///< Mn.
bool is_cjk(char32_t c);              ///< The blocks of ideographs that BERT splits.
bool is_invisible(char32_t c);        ///< Control, format and private use.

/// In lower case, character by character: a final sigma is not special.
std::string lowered(std::string_view text);

}  // namespace weft::text
