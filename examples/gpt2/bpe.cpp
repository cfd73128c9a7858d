#include "bpe.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <weft/error.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "json_file.h"

namespace gpt2 {
namespace {

constexpr char kWords[] = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Maps each character of a vocabulary to its byte. Printable characters map to themselves; the other bytes,
/// in order, have the characters from U+0100 on.
std::array<int, 0x180> bytes_of_characters() {
  std::array<int, 0x180> result;
  result.fill(-1);
  std::size_t other = 0x100;
  for (int byte = 0; byte < 0x100; ++byte) {
    const bool printable = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    result[printable ? static_cast<std::size_t>(byte) : other++] = byte;
  }
  return result;
}

/// Characters without a byte, as in control tokens, are kept.
std::string to_bytes(std::string_view word) {
  static const std::array<int, 0x180> kBytes = bytes_of_characters();
  std::string bytes;
  for (std::size_t i = 0; i < word.size(); ++i) {
    auto character = static_cast<std::size_t>(static_cast<unsigned char>(word[i]));
    if (character >= 0xc0 && i + 1 < word.size())
      character = (character & 0x1f) << 6 | (static_cast<unsigned char>(word[++i]) & 0x3f);
    if (character >= kBytes.size() || kBytes[character] < 0) return std::string(word);
    bytes += static_cast<char>(kBytes[character]);
  }
  return bytes;
}

}  // namespace

void Bpe::FreeCode::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Bpe::Bpe(const std::filesystem::path& file, int n_vocab) : bytes_(static_cast<std::size_t>(n_vocab)) {
  byte_tokens_.fill(-1);
  const nlohmann::json json = read_json(file);
  std::unordered_map<std::string, Token> tokens;
  try {
    const auto add = [&](const std::string& word, const nlohmann::json& id) {
      const auto token = id.get<std::int64_t>();
      if (token < 0 || token >= n_vocab) refuse(file, word + " has a number that the model has not");
      const std::string& bytes = bytes_[static_cast<std::size_t>(token)] = to_bytes(word);
      tokens[word] = static_cast<Token>(token);
      if (bytes.size() == 1) byte_tokens_[static_cast<unsigned char>(bytes[0])] = static_cast<Token>(token);
    };
    for (const auto& [word, id] : json.at("model").at("vocab").items()) add(word, id);
    for (const nlohmann::json& merge : json.at("model").at("merges")) {
      std::string left, right;
      if (merge.is_array()) {
        left = merge.at(0).get<std::string>(), right = merge.at(1).get<std::string>();
      } else {
        const auto words = merge.get<std::string>();
        const std::size_t space = words.find(' ');
        left = words.substr(0, space);
        right = space == std::string::npos ? "" : words.substr(space + 1);
      }
      const auto a = tokens.find(left), b = tokens.find(right), whole = tokens.find(left + right);
      if (a == tokens.end() || b == tokens.end() || whole == tokens.end())
        refuse(file, "merges '" + left + "' and '" + right + "', which are not all tokens");
      merges_.try_emplace(pair_of(a->second, b->second), Merge{merges_.size(), whole->second});
    }
    if (json.contains("added_tokens"))
      for (const nlohmann::json& token : json.at("added_tokens"))
        add(token.at("content").get<std::string>(), token.at("id"));
  } catch (const nlohmann::json::exception& error) {
    refuse(file, std::string("is not what a tokenizer is: ") + error.what());
  }
  if (std::ranges::count(byte_tokens_, -1) > 0) refuse(file, "lacks a token for some byte");
  int error = 0;
  std::size_t at = 0;
  words_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kWords), PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
  if (words_ == nullptr) throw weft::Error(weft::ErrorCode::kUnsupported, "this PCRE2 has no Unicode");
}

std::vector<Token> Bpe::encode(std::string_view text) const {
  std::vector<Token> tokens;
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  for (std::size_t at = 0; at < text.size();) {
    // The first match has already validated the UTF-8.
    const int found = pcre2_match(words_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  at > 0 ? PCRE2_NO_UTF_CHECK : 0, match.get(), nullptr);
    if (found < 0) throw weft::Error(weft::ErrorCode::kInvalidArgument, "a prompt must be UTF-8");
    const std::size_t* const bounds = pcre2_get_ovector_pointer(match.get());
    append_word(text.substr(bounds[0], bounds[1] - bounds[0]), tokens);
    at = bounds[1];
  }
  return tokens;
}

void Bpe::append_word(std::string_view word, std::vector<Token>& tokens) const {
  // Parts in a list; of pairs that can be merged, the lowest rank first, then the first in the word.
  struct Part {
    Token token;
    std::size_t previous, next;
  };
  constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  std::vector<Part> parts(word.size());
  using Candidate =
      std::tuple<std::size_t, std::size_t, Token, Token>;  // Rank, part, its two tokens at that time.
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto push = [&](std::size_t left) {
    if (left == kNone || parts[left].next == kNone) return;
    const Token a = parts[left].token, b = parts[parts[left].next].token;
    if (const auto found = merges_.find(pair_of(a, b)); found != merges_.end())
      queue.emplace(found->second.rank, left, a, b);
  };
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = {byte_tokens_[static_cast<unsigned char>(word[i])], i - 1,
                i + 1 < parts.size() ? i + 1 : kNone};
  for (std::size_t i = 0; i < parts.size(); ++i) push(i);
  while (!queue.empty()) {
    const auto [rank, left, a, b] = queue.top();
    queue.pop();
    Part& part = parts[left];
    // Another merge has changed one of the two since.
    if (part.token != a || part.next == kNone || parts[part.next].token != b) continue;
    Part& right = parts[part.next];
    part.token = merges_.at(pair_of(a, b)).token;
    right.token = -1;
    part.next = right.next;
    if (part.next != kNone) parts[part.next].previous = left;
    push(part.previous);
    push(left);
  }
  for (const Part& part : parts)
    if (part.token >= 0) tokens.push_back(part.token);
}

std::string Bpe::decode(std::span<const Token> tokens) const {
  std::string text;
  for (const Token token : tokens)
    if (token >= 0 && token < std::ssize(bytes_)) text += bytes_[static_cast<std::size_t>(token)];
  return text;
}

}  // namespace gpt2
