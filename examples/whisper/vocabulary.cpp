#include "vocabulary.h"

#include <weft/error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bytes.h"

namespace whisper {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw weft::Error(weft::ErrorCode::kInvalidFile, path.string() + ": " + reason);
}

json read_json(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  json result = json::parse(text, text + bytes.size(), nullptr, false);
  if (!result.is_object()) fail(path, "is no JSON object");
  return result;
}

/// The length of the UTF-8 character at the start, or 0 where there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t n = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (n == 0 || n > text.size() || first > 0xf4) return 0;
  for (std::size_t i = 1; i < n; ++i)
    if (byte(i) >> 6 != 2) return 0;
  // Longer than needed, a half of a pair, or past the last character.
  if (n > 2) {
    if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f)) return 0;
    if ((first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f)) return 0;
  }
  return n;
}

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t n = character_length(bytes);
    text += n > 0 ? bytes.substr(0, n) : std::string_view("\xef\xbf\xbd");
    bytes.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return text;
}

/// Maps each character of a word to its byte, as GPT-2 encodes bytes. Printable characters map to themselves;
/// the other bytes, in order, have the characters from U+0100 on.
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

/// Nothing where it is not written as GPT-2 writes words.
std::string word_bytes(std::string_view word) {
  static const std::array<int, 0x180> kBytes = bytes_of_characters();
  std::string bytes;
  for (std::size_t i = 0; i < word.size(); ++i) {
    auto character = static_cast<std::size_t>(static_cast<unsigned char>(word[i]));
    if (character >= 0xc0 && i + 1 < word.size())
      character = (character & 0x1f) << 6 | (static_cast<unsigned char>(word[++i]) & 0x3f);
    if (character >= kBytes.size() || kBytes[character] < 0) return {};
    bytes += static_cast<char>(kBytes[character]);
  }
  return bytes;
}

}  // namespace

Vocabulary::Vocabulary(const std::filesystem::path& folder, int n_vocab) : n_vocab_(n_vocab) {
  const std::filesystem::path path = folder / "tokenizer.json", config_path = folder / "config.json";
  const json tokenizer = read_json(path), config = read_json(config_path);
  bytes_.resize(static_cast<std::size_t>(n_vocab));
  std::map<std::string, Token> special;
  try {
    const auto check = [&](const json& id) {
      const auto token = id.get<Token>();
      if (token < 0 || token >= n_vocab) fail(path, "has a token that the model has not");
      return token;
    };
    for (const auto& [word, id] : tokenizer.at("model").at("vocab").items())
      bytes_[static_cast<std::size_t>(check(id))] = word_bytes(word);
    for (const json& token : tokenizer.at("added_tokens"))
      special[token.at("content").get<std::string>()] = check(token.at("id"));
    const auto list = [&](const char* name) {
      Tokens tokens;
      for (const json& id : config.at(name)) tokens.push_back(check(id));
      return tokens;
    };
    suppressed = list("suppress_ids");
    suppressed_at_start = list("suppress_ids_begin");
  } catch (const json::exception& error) {
    fail(path, std::string("is not what a tokenizer is, or config.json: ") + error.what());
  }
  const auto find = [&](const std::string& name) {
    const auto found = special.find(name);
    if (found == special.end()) fail(path, "has no token " + name);
    return found->second;
  };
  end = find("<|endoftext|>");
  start = find("<|startoftranscript|>");
  transcribe = find("<|transcribe|>");
  translate = find("<|translate|>");
  no_timestamps = find("<|notimestamps|>");
  no_speech = special.contains("<|nospeech|>") ? special["<|nospeech|>"] : find("<|nocaptions|>");
  first_timestamp = no_timestamps + 1;
  if (first_timestamp >= n_vocab) fail(path, "leaves no tokens for timestamps");
  // Languages stand between the start and the tasks. The models for English have them, too, and never used
  // them: their vocabularies are a token smaller.
  constexpr int kEnglishOnly = 51864;
  if (n_vocab > kEnglishOnly)
    for (const auto& [name, token] : special)
      if (token > start && token < std::min(transcribe, translate) && name.size() > 4)
        languages[name.substr(2, name.size() - 4)] = token;
}

std::string Vocabulary::text(std::span<const Token> tokens) const {
  std::string bytes;
  for (const Token token : tokens)
    if (token >= 0 && token < end) bytes += bytes_[static_cast<std::size_t>(token)];
  return valid_utf8(bytes);
}

}  // namespace whisper
