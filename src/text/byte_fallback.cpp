#include "text/byte_fallback.h"

#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "text/encoder.h"
#include "weft/error.h"

namespace weft::text {

ByteFallback::ByteFallback(const Vocabulary& vocabulary) : unk_(vocabulary.unk) {
  byte_ids_.fill(kNoToken);
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (kind_of(vocabulary, i) != TokenKind::kByte) continue;
    const std::optional<unsigned char> byte = byte_of_text(vocabulary.tokens[i]);
    WEFT_CHECK(byte.has_value());  // Ensured by mend().
    if (byte_ids_[*byte] == kNoToken) byte_ids_[*byte] = static_cast<Token>(i);
  }
  if (unk_ == kNoToken && std::find(byte_ids_.begin(), byte_ids_.end(), kNoToken) != byte_ids_.end())
    throw Error(ErrorCode::kInvalidFile,
                "the vocabulary is damaged: there are neither all 256 byte tokens nor "
                "tokenizer.ggml.unknown_token_id");
}

bool ByteFallback::encode(std::string_view text, bool after_unknown, std::vector<Token>& out) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)]; };
  if (std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) != kNoToken; })) {
    for (const char c : text) out.push_back(id_of(c));
    return false;
  }
  if (!after_unknown) out.push_back(unk_);
  return true;
}

}  // namespace weft::text
