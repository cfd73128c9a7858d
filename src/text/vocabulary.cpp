#include "text/vocabulary.h"

#include <cmath>
#include <utility>

#include "weft/error.h"

namespace weft::text {
namespace {

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidFile, "the vocabulary is damaged: " + message);
}

void check_count(const char* key, std::size_t found, std::size_t wanted) {
  if (found != wanted)
    invalid(std::string(key) + " has " + std::to_string(found) + " entries, tokenizer.ggml.tokens has " +
            std::to_string(wanted));
}

}  // namespace

void check(const Vocabulary& v) {
  const std::size_t n = v.tokens.size();
  if (n == 0) invalid("tokenizer.ggml.tokens is empty");
  if (n > kMaxTokens)
    invalid("tokenizer.ggml.tokens has " + std::to_string(n) + " entries, at most " +
            std::to_string(kMaxTokens) + " are accepted");
  if (v.merges.size() > 8 * kMaxTokens)
    invalid("tokenizer.ggml.merges has " + std::to_string(v.merges.size()) + " entries");
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (v.tokens[i].size() > kMaxTokenBytes)
      invalid("tokenizer.ggml.tokens[" + std::to_string(i) + "] has " + std::to_string(v.tokens[i].size()) +
              " bytes, at most " + std::to_string(kMaxTokenBytes) + " are accepted");
    bytes += v.tokens[i].size();
  }
  if (bytes > 0xFFFF'FFFFu) invalid("tokenizer.ggml.tokens has more than 4 GiB of text");

  if (!v.kinds.empty()) check_count("tokenizer.ggml.token_type", v.kinds.size(), n);
  if (!v.scores.empty() || v.kind == VocabularyKind::kSpm || v.kind == VocabularyKind::kUnigram)
    check_count("tokenizer.ggml.scores", v.scores.size(), n);
  for (std::size_t i = 0; i < v.scores.size(); ++i)
    if (std::isnan(v.scores[i])) invalid("tokenizer.ggml.scores[" + std::to_string(i) + "] is not a number");

  const std::pair<const char*, Token> ids[] = {
      {"bos", v.bos},       {"eos", v.eos},     {"eot", v.eot}, {"eom", v.eom},   {"unknown", v.unk},
      {"seperator", v.sep}, {"padding", v.pad}, {"cls", v.cls}, {"mask", v.mask},
  };
  for (const auto& [name, id] : ids)
    if (id != kNoToken && (id < 0 || static_cast<std::size_t>(id) >= n))
      invalid("tokenizer.ggml." + std::string(name) + "_token_id is " + std::to_string(id) + ", there are " +
              std::to_string(n) + " tokens");
  for (const auto* list : {&v.strip_left, &v.strip_right, &v.single_word, &v.normalized})
    for (const Token id : *list)
      if (id < 0 || static_cast<std::size_t>(id) >= n)
        invalid("an added token has the id " + std::to_string(id) + ", there are " + std::to_string(n) +
                " tokens");

  const Token front = v.kind == VocabularyKind::kWordPiece && v.cls != kNoToken ? v.cls : v.bos;
  const Token back = v.kind == VocabularyKind::kWordPiece && v.sep != kNoToken ? v.sep : v.eos;
  if (v.add_bos.value_or(false) && front == kNoToken)
    invalid("tokenizer.ggml.add_bos_token is true and there is no tokenizer.ggml.bos_token_id");
  if (v.add_eos.value_or(false) && back == kNoToken)
    invalid("tokenizer.ggml.add_eos_token is true and there is no tokenizer.ggml.eos_token_id");
}

std::optional<unsigned char> byte_of_text(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  unsigned value = 0;
  for (const char c : text.substr(3, 2)) {
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<unsigned>(c - '0');
    else if (c >= 'A' && c <= 'F')
      value = value * 16 + static_cast<unsigned>(c - 'A' + 10);
    else if (c >= 'a' && c <= 'f')
      value = value * 16 + static_cast<unsigned>(c - 'a' + 10);
    else
      return std::nullopt;
  }
  return static_cast<unsigned char>(value);
}

}  // namespace weft::text
