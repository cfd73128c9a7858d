#include "text/utf8.h"
#include "weft/tokenizer.h"

namespace weft {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool special)
    : tokenizer_(&tokenizer), special_(special) {}

std::string Detokenizer::push(Token id) {
  pending_ += tokenizer_->piece(id, special_);
  std::string result;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const std::size_t valid = text::valid_prefix(rest);
    result += rest.substr(0, valid);
    rest.remove_prefix(valid);
    if (rest.empty()) break;
    const text::Utf8Char c = text::first_char(rest);
    if (c.status == text::Utf8Status::kIncomplete) break;  // At most three bytes.
    result += text::kReplacement;
    rest.remove_prefix(c.size);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return result;
}

std::string Detokenizer::finish() {
  std::string result = text::repaired(pending_);
  pending_.clear();
  return result;
}

}  // namespace weft
