#include "text/vocabulary.h"

#include <cmath>
#include <utility>

#include "base/counted.h"
#include "base/notes.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::text {
namespace {

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidFile, "the vocabulary is damaged: " + message);
}

std::string entry(const char* key, std::size_t i) {
  return "tokenizer.ggml." + std::string(key) + "[" + std::to_string(i) + "]";
}

bool has_bytes(VocabularyKind kind) {
  return kind == VocabularyKind::kSpm || kind == VocabularyKind::kUnigram ||
         kind == VocabularyKind::kCharacterBpe;
}

void check_sizes(const Vocabulary& v) {
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
      invalid(entry("tokens", i) + " has " + std::to_string(v.tokens[i].size()) + " bytes, at most " +
              std::to_string(kMaxTokenBytes) + " are accepted");
    bytes += v.tokens[i].size();
  }
  if (bytes > 0xFFFF'FFFFu) invalid("tokenizer.ggml.tokens has more than 4 GiB of text");
}

/// A list may be longer than the tokens: the last entries are then dropped.
template <typename T>
void fit(const char* key, std::vector<T>& list, Vocabulary& v) {
  const std::size_t n = v.tokens.size();
  const std::string counts = "tokenizer.ggml." + std::string(key) + " has " +
                             base::counted(list.size(), "entry", "entries") + ", tokenizer.ggml.tokens has " +
                             std::to_string(n);
  if (list.size() < n) invalid(counts);
  if (list.size() > n) v.notes.push_back(counts + "; the last ones are ignored");
  list.resize(n);
}

void mend_ids(Vocabulary& v) {
  const std::size_t n = v.tokens.size();
  const auto is_token = [n](Token id) { return id >= 0 && to_size(id) < n; };
  const auto reject = [&](const std::string& name, Token id) {
    base::add_note(v.notes, "tokenizer.ggml." + name + " is " + std::to_string(id) + ", but there are " +
                                std::to_string(n) + " tokens; it is ignored");
  };
  const std::pair<const char*, Token&> ids[] = {
      {"bos", v.bos},       {"eos", v.eos},     {"eot", v.eot}, {"eom", v.eom},   {"unknown", v.unk},
      {"seperator", v.sep}, {"padding", v.pad}, {"cls", v.cls}, {"mask", v.mask},
  };
  for (const auto& [name, id] : ids) {
    if (id == kNoToken || is_token(id)) continue;
    reject(std::string(name) + "_token_id", id);
    id = kNoToken;
  }
  for (const Token id : v.ends)
    if (!is_token(id)) reject("eos_token_ids", id);
  std::erase_if(v.ends, [&](Token id) { return !is_token(id); });
  for (const auto* list : {&v.strip_left, &v.strip_right, &v.single_word, &v.normalized})
    for (const Token id : *list)
      if (!is_token(id))
        invalid("an added token has the id " + std::to_string(id) + ", but there are " + std::to_string(n) +
                " tokens");
}

/// Derives missing types from the tokens' strings and special ids.
void derive_kinds(Vocabulary& v) {
  v.kinds.assign(v.tokens.size(), TokenKind::kNormal);
  if (has_bytes(v.kind))
    for (std::size_t i = 0; i < v.tokens.size(); ++i)
      if (byte_of_text(v.tokens[i])) v.kinds[i] = TokenKind::kByte;
  for (const Token id : {v.bos, v.eos, v.eot, v.eom, v.sep, v.pad, v.cls, v.mask})
    if (id != kNoToken) v.kinds[to_size(id)] = TokenKind::kControl;
  if (v.unk != kNoToken) v.kinds[to_size(v.unk)] = TokenKind::kUnknown;
  v.notes.emplace_back(
      "tokenizer.ggml.token_type is missing; weft derives the types from the tokens' strings and ids");
}

void mend_kinds(Vocabulary& v) {
  if (v.kinds.empty()) return derive_kinds(v);
  fit("token_type", v.kinds, v);
  if (!has_bytes(v.kind)) return;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.kinds[i] != TokenKind::kByte || byte_of_text(v.tokens[i])) continue;
    v.kinds[i] = TokenKind::kNormal;
    base::add_note(
        v.notes,
        entry("tokens", i) +
            " is of type byte but not of the form <0x00> to <0xFF>; weft treats it as an ordinary token");
  }
}

void mend_scores(Vocabulary& v) {
  if (v.kind != VocabularyKind::kSpm && v.kind != VocabularyKind::kUnigram) {
    v.scores.clear();  // Not used.
    return;
  }
  if (v.scores.empty() && v.kind == VocabularyKind::kSpm) {
    // SentencePiece's BPE scores tokens by the order in which it found them: the order of ids.
    for (std::size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-static_cast<float>(i));
    v.notes.emplace_back("tokenizer.ggml.scores is missing; tokens are merged in the order of their ids");
  }
  fit("scores", v.scores, v);
  for (std::size_t i = 0; i < v.scores.size(); ++i) {
    if (!std::isnan(v.scores[i])) continue;
    const TokenKind kind = v.kinds[i];
    if (kind == TokenKind::kNormal || kind == TokenKind::kUserDefined || kind == TokenKind::kUnused)
      invalid(entry("scores", i) + " is not a number");
    v.scores[i] = 0.0f;  // encode() never makes this token.
  }
}

/// Tokens that are added around the input must exist.
void mend_frame(Vocabulary& v) {
  const bool bert = v.kind == VocabularyKind::kWordPiece;
  const auto need = [&](std::optional<bool>& wanted, Token id, const std::string& name) {
    if (!wanted.value_or(false) || id != kNoToken) return;
    wanted = false;
    v.notes.push_back("tokenizer.ggml.add_" + name + "_token is true and tokenizer.ggml." + name +
                      "_token_id is not a token; none is added");
  };
  need(v.add_bos, bert && v.cls != kNoToken ? v.cls : v.bos, "bos");
  need(v.add_eos, bert && v.sep != kNoToken ? v.sep : v.eos, "eos");
}

}  // namespace

void mend(Vocabulary& v) {
  check_sizes(v);
  mend_ids(v);
  mend_kinds(v);
  mend_scores(v);
  mend_frame(v);
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
