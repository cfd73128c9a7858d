#include "speech/vocabulary.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <set>
#include <unordered_map>

#include "base/to_size.h"
#include "speech/languages.h"
#include "text/encoder.h"
#include "weft/error.h"

namespace weft::speech {
namespace {

// Published models for several languages have at least so many tokens.
constexpr int kMultilingual = 51865;
constexpr int kTimestamps = 1501;
constexpr int kTasks = 8;  // End, start, the two tasks, start of LM, previous text, no speech, no timestamps.

[[noreturn]] void refuse(const std::string& reason) { throw Error(ErrorCode::kInvalidFile, reason); }

/// The pair of tokens whose merge makes a token: BPE with all tokens of lower ids gives it. Nullopt if that
/// gives more than two.
std::optional<std::pair<std::string_view, std::string_view>> merge_of(
    std::string_view token, int rank, const std::unordered_map<std::string_view, int>& ranks) {
  std::vector<std::string_view> parts;
  for (std::size_t i = 0; i < token.size(); ++i) parts.push_back(token.substr(i, 1));
  while (parts.size() > 2) {
    int best = rank;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const auto found = ranks.find({parts[i].data(), parts[i].size() + parts[i + 1].size()});
      if (found != ranks.end() && found->second < best) {
        best = found->second;
        at = i;
      }
    }
    if (best == rank) return std::nullopt;
    parts[at] = {parts[at].data(), parts[at].size() + parts[at + 1].size()};
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  if (parts.size() != 2) return std::nullopt;
  return std::pair{parts[0], parts[1]};
}

std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += text::alphabet_of_byte(static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

text::Vocabulary complete_vocabulary(std::span<const std::string> tokens, int n_vocab) {
  const int n_text = static_cast<int>(tokens.size());
  const int n_languages = n_vocab - n_text - kTimestamps - kTasks;
  if (n_languages < 1 || n_languages > static_cast<int>(languages().size()))
    refuse("the vocabulary has " + std::to_string(n_text) + " tokens of text and the model " +
           std::to_string(n_vocab) +
           " tokens in total, which leaves no room for Whisper's special tokens, or too much");
  text::Vocabulary v;
  v.kind = text::VocabularyKind::kBpe;
  v.pre = "gpt-2";
  std::unordered_map<std::string_view, int> ranks;
  for (int i = 0; i < n_text; ++i) ranks.emplace(tokens[to_size(i)], i);
  for (int i = 0; i < n_text; ++i) {
    const std::string& token = tokens[to_size(i)];
    v.tokens.push_back(in_alphabet(token));
    if (const auto merge = merge_of(token, i, ranks))
      v.merges.push_back(in_alphabet(merge->first) + " " + in_alphabet(merge->second));
  }
  v.kinds.assign(tokens.size(), TokenKind::kNormal);
  const auto add = [&](const std::string& name) {
    v.tokens.push_back("<|" + name + "|>");
    v.kinds.push_back(TokenKind::kControl);
  };
  add("endoftext");
  add("startoftranscript");
  for (const Language& language : languages().first(to_size(n_languages))) add(std::string(language.code));
  for (const char* task : {"translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"})
    add(task);
  for (int i = 0; i < kTimestamps; ++i) {
    char name[16];
    std::snprintf(name, sizeof name, "%.2f", i * kSecondsPerTimestamp);
    add(name);
  }
  return v;
}

Vocabulary::Vocabulary(text::Vocabulary vocabulary, int n_vocab, std::optional<bool> multilingual)
    : tokenizer_(std::move(vocabulary)), n_vocab_(n_vocab) {
  const auto find = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (const Token token = tokenizer_.find(name); token != kNoToken && token < n_vocab) return token;
    refuse("the vocabulary has no token " + std::string(*names.begin()) + ", which Whisper models have");
  };
  end = find({"<|endoftext|>"});
  start = find({"<|startoftranscript|>"});
  translate = find({"<|translate|>"});
  transcribe = find({"<|transcribe|>"});
  previous = find({"<|startofprev|>"});
  no_speech = find({"<|nospeech|>", "<|nocaptions|>"});
  no_timestamps = find({"<|notimestamps|>"});
  first_timestamp = no_timestamps + 1;
  if (first_timestamp >= n_vocab) refuse("the vocabulary has no tokens for timestamps");
  for (const Token token : {start, translate, transcribe, previous, no_speech, no_timestamps})
    if (token < end) refuse("the vocabulary has special tokens before the end of text");
  if (multilingual.value_or(n_vocab >= kMultilingual))
    for (const Language& language : speech::languages())
      if (const Token token = tokenizer_.find("<|" + std::string(language.code) + "|>");
          token > start && token < no_timestamps)
        languages.emplace_back(language.code, token);
  suppressed = non_speech();
  suppressed_at_start = encode(" ");
  suppressed_at_start.push_back(end);
}

std::string Vocabulary::text(std::span<const Token> tokens) const {
  Detokenizer detokenizer(tokenizer_);
  std::string text;
  for (const Token token : tokens)
    if (token < end) text += detokenizer.push(token);
  return text + detokenizer.finish();
}

Token Vocabulary::language(std::string_view code) const {
  for (const auto& [name, token] : languages)
    if (name == code) return token;
  return kNoToken;
}

std::vector<Token> Vocabulary::non_speech() const {
  // Tokens of annotations, such as "(laughs)" and notes of music, as OpenAI's program lists them.
  constexpr const char* kMarks[] = {
      "\"",  "#",  "(",  ")",  "*",   "+",  "/",  ":",   ";",   "<",  "=",  ">",  "@",  "[",   "\\",  "]",
      "^",   "_",  "`",  "{",  "|",   "}",  "~",  "「",  "」",  "『", "』", "<<", ">>", "<<<", ">>>", "--",
      "---", "-(", "-[", "('", "(\"", "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪",  "♪♪♪"};
  constexpr const char* kMusic[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
  std::set<Token> found;
  const auto add = [&](const std::string& text, bool whole) {
    const std::vector<Token> tokens = encode(text);
    if (!tokens.empty() && (!whole || tokens.size() == 1)) found.insert(tokens.front());
  };
  for (const char* quote : {" -", " '"}) add(quote, false);
  for (const char* mark : kMarks)
    for (const char* space : {"", " "}) add(space + std::string(mark), true);
  for (const char* note : kMusic)
    for (const char* space : {"", " "}) add(space + std::string(note), false);
  return {found.begin(), found.end()};
}

}  // namespace weft::speech
