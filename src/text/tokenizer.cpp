#include "weft/tokenizer.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/counted.h"
#include "base/to_size.h"
#include "text/characters.h"
#include "text/encoder.h"
#include "text/end_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/special_matcher.h"
#include "text/text_steps.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft {
namespace {

using text::Vocabulary;
using text::VocabularyKind;

constexpr std::size_t kMaxTextBytes = std::size_t{1}
                                      << 30;  // Three times as many fit 32-bit positions (U+2581).

bool is_special(TokenKind kind) { return kind == TokenKind::kControl || kind == TokenKind::kUnknown; }

/// Bytes of white space before `end`, not before `begin`; white_after() counts from `at` on.
std::size_t white_before(std::string_view text, std::size_t begin, std::size_t end) {
  std::size_t at = end;
  while (at > begin) {
    std::size_t last = at - 1;
    while (last > begin && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!text::is_white_space(text::first_char(text.substr(last)).code)) break;
    at = last;
  }
  return end - at;
}
std::size_t white_after(std::string_view text, std::size_t at) {
  const std::size_t begin = at;
  while (at < text.size() && text::is_white_space(text::first_char(text.substr(at)).code))
    at += text::char_size(text[at]);
  return at - begin;
}

/// The bytes that a token decodes to.
std::string piece_of(const Vocabulary& v, std::size_t id) {
  const TokenKind kind = text::kind_of(v, id);
  const std::string& written = v.tokens[id];
  if (is_special(kind) || kind == TokenKind::kUserDefined) return written;
  if (kind == TokenKind::kByte)
    if (const auto byte = text::byte_of_text(written)) return std::string(1, static_cast<char>(*byte));
  std::string result;
  if (v.kind == VocabularyKind::kBpe) return text::bytes_of_alphabet(written, result) ? result : written;
  if (v.kind == VocabularyKind::kRwkv) return text::bytes_of_literal(written);
  for (std::size_t done = 0; done < written.size();) {
    const std::size_t mark = std::min(written.find(text::kSpaceMark, done), written.size());
    result.append(written, done, mark - done);
    if (mark < written.size()) result += ' ';
    done = mark + text::kSpaceMark.size();
  }
  return result;
}

/// The ids of non-empty tokens, unused ones last: the first of equal strings is found.
std::vector<Token> ids_to_find(const Vocabulary& v) {
  std::vector<Token> ids;
  for (const bool unused : {false, true})
    for (std::size_t i = 0; i < v.tokens.size(); ++i)
      if (!v.tokens[i].empty() && (v.kinds[i] == TokenKind::kUnused) == unused)
        ids.push_back(static_cast<Token>(i));
  return ids;
}

Vocabulary mended(Vocabulary v) {
  text::mend(v);
  return v;
}

std::vector<Token> ids_of_kind(const Vocabulary& v, bool (*wanted)(TokenKind)) {
  std::vector<Token> ids;
  for (std::size_t i = 0; i < v.tokens.size(); ++i)
    if (wanted(text::kind_of(v, i))) ids.push_back(static_cast<Token>(i));
  return ids;
}

text::TokenTexts texts_of(const Vocabulary& v) {
  text::TokenTexts texts;
  for (const std::string& token : v.tokens) texts.add(token);
  return texts;
}

text::TokenTexts pieces_of(const Vocabulary& v) {
  text::TokenTexts pieces;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) pieces.add(piece_of(v, i));
  return pieces;
}

std::unique_ptr<text::Encoder> make_encoder(Vocabulary& v, text::TokenSet tokens,
                                            const text::TokenTexts& pieces) {
  switch (v.kind) {
    case VocabularyKind::kBpe:
    case VocabularyKind::kCharacterBpe:
      return text::make_bpe_encoder(v, tokens, pieces, &v.notes);
    case VocabularyKind::kSpm:
      return text::make_spm_encoder(v, tokens);
    case VocabularyKind::kWordPiece:
      return text::make_wordpiece_encoder(v, tokens);
    case VocabularyKind::kRwkv:
      return text::make_rwkv_encoder(v, pieces);
    case VocabularyKind::kUnigram:
      return text::make_unigram_encoder(v, tokens);
  }
  WEFT_CHECK(false);
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(Vocabulary v)
      : texts(texts_of(v)),
        index(texts, ids_to_find(v)),
        ends(text::find_ends(v, index)),
        pieces(pieces_of(v)),
        kinds(v.kinds),
        strip(v.tokens.size()),
        bos(v.kind == VocabularyKind::kWordPiece && v.bos == kNoToken ? v.cls : v.bos),
        eos(v.kind == VocabularyKind::kWordPiece && v.eos == kNoToken ? v.sep : v.eos),
        space_prefix(v.kind == VocabularyKind::kWordPiece ||
                     ((v.kind == VocabularyKind::kSpm || v.kind == VocabularyKind::kUnigram) &&
                      v.add_space_prefix.value_or(true))) {
    if (const Token twice = index.duplicate(); twice != kNoToken)
      v.notes.push_back("tokenizer.ggml.tokens[" + std::to_string(twice) + "] has the text of [" +
                        std::to_string(index.find(texts[twice])) + "], which text becomes" +
                        (index.n_duplicates() > 1
                             ? "; so have " + base::counted(index.n_duplicates() - 1, "more token")
                             : std::string()));
    for (const Token id : v.strip_left) strip[to_size(id)].left = true;
    for (const Token id : v.strip_right) strip[to_size(id)].right = true;
    set_matchers(v);
    set_frame(v);
    encoder = make_encoder(v, {texts, index}, pieces);
    notes = std::move(v.notes);
  }

  void set_matchers(const Vocabulary& v) {
    std::vector<Token> user = ids_of_kind(v, [](TokenKind k) { return k == TokenKind::kUserDefined; });
    std::vector<Token> all =
        ids_of_kind(v, [](TokenKind k) { return k == TokenKind::kUserDefined || is_special(k); });
    if (v.normalizers) {
      normalizer.emplace(*v.normalizers, v.charsmap);
      cutter.emplace(v.pre_tokenizers.value_or("[]"));
    }
    if (normalizer && !v.normalized.empty()) set_normalised(v, user, all);
    user_defined.emplace(texts, std::move(user), v.single_word);
    special.emplace(texts, std::move(all), v.single_word);
  }

  /// Moves tokens that are matched after normalising out of `user` and `all`. A control token that
  /// normalising does not change also remains there, because its position in a prompt of pieces decides
  /// whether it counts. `special_unnormalised` lacks it.
  void set_normalised(const Vocabulary& v, std::vector<Token>& user, std::vector<Token>& all) {
    const std::set<Token> flagged(v.normalized.begin(), v.normalized.end());
    std::set<Token> moved;
    std::vector<Token> unchanged;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto id = static_cast<Token>(i);
      const bool valid = text::valid_prefix(texts[id]) == texts[id].size();
      const std::string text = valid && flagged.contains(id) ? normalizer->apply(texts[id]) : "";
      bytes += text.size();
      if (bytes > 0xFFFF'FFFFu)
        throw Error(ErrorCode::kInvalidFile,
                    "the vocabulary's added tokens have more than 4 GiB once normalised");
      normalised_texts.add(text);
      if (text.empty()) continue;
      if (is_special(kinds[i]) && text == texts[id])
        unchanged.push_back(id);
      else
        moved.insert(id);
    }
    const auto split = [&](std::vector<Token>& ids) {
      const auto rest =
          std::stable_partition(ids.begin(), ids.end(), [&](Token id) { return !moved.contains(id); });
      std::vector<Token> found(rest, ids.end());
      ids.erase(rest, ids.end());
      return found;
    };
    normalised_user.emplace(normalised_texts, split(user), v.single_word);
    std::vector<Token> specials = split(all), rest = all;
    std::erase_if(rest, [&](Token id) { return std::binary_search(unchanged.begin(), unchanged.end(), id); });
    special_unnormalised.emplace(texts, std::move(rest), v.single_word);
    specials.insert(specials.end(), unchanged.begin(), unchanged.end());
    normalised_special.emplace(normalised_texts, std::move(specials), v.single_word);
  }

  /// Sets the tokens before and after an input.
  void set_frame(const Vocabulary& v) {
    const bool bert = v.kind == VocabularyKind::kWordPiece;
    const Token first = bert && v.cls != kNoToken ? v.cls : v.bos;
    const Token last = bert && v.sep != kNoToken ? v.sep : v.eos;
    const bool unigram = v.kind == VocabularyKind::kUnigram;
    const bool wants_bos = v.kind == VocabularyKind::kBpe || v.kind == VocabularyKind::kCharacterBpe
                               ? text::find_pre_tokenizer(v.pre).adds_bos
                               : v.kind == VocabularyKind::kSpm || v.kind == VocabularyKind::kWordPiece;
    if (v.add_bos.value_or(wants_bos)) front = first;
    // BERT's files set add_eos to false or omit it, but the models expect [CLS] input [SEP].
    if (bert || v.add_eos.value_or(unigram)) back = last;
  }

  std::size_t position(Token id) const {
    if (id < 0 || to_size(id) >= texts.size())
      throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(id) +
                                                   " is outside the vocabulary of " +
                                                   std::to_string(texts.size()) + " tokens");
    return to_size(id);
  }

  std::string_view piece(Token id, bool with_special) const {
    const bool left_out = is_special(kinds[position(id)]) && !with_special;
    return left_out ? std::string_view() : pieces[id];
  }

  /// Calls between(begin, end) for each part without tokens and appends the tokens; `find(at)` returns the
  /// next one. A token takes the white space next to it along where it strips. Tokens in that white space
  /// still count, as in Hugging Face's tokenizers.
  template <typename Find, typename Between>
  void each_part(std::string_view text, Find&& find, Between&& between, std::vector<Token>& out) const {
    std::size_t done = 0;
    for (std::size_t at = 0; at < text.size();) {
      const text::SpecialMatcher::Match match = find(at);
      if (match.id == kNoToken) break;
      at = match.begin + match.size;
      const Strip beside = strip[to_size(match.id)];
      const std::size_t left = beside.left ? white_before(text, done, match.begin) : 0;
      if (match.begin - left > done) between(done, match.begin - left);
      done = at + (beside.right ? white_after(text, at) : 0);
      out.push_back(match.id);
    }
    if (done < text.size()) between(done, text.size());
  }

  /// `text` is valid UTF-8; `find(done)` gives the next token that is written out in it.
  /// `takes_special(begin, end)`: control tokens that are matched after normalising count in that part.
  template <typename Find, typename TakesSpecial>
  void encode(std::string_view text, Find&& find, TakesSpecial&& takes_special,
              std::vector<Token>& out) const {
    const std::unique_ptr<text::Encoder::Session> session = encoder->session();
    const auto between = [&](std::size_t begin, std::size_t end) {
      const std::string_view part = text.substr(begin, end - begin);
      if (normalizer)
        encode_part(part, begin == 0, takes_special(begin, end), *session, out);
      else
        session->encode(part, out);
    };
    each_part(text, find, between, out);
  }

  /// A part between tokens: applies the steps, and matches tokens after normalising.
  void encode_part(std::string_view part, bool begins_text, bool takes_special,
                   text::Encoder::Session& session, std::vector<Token>& out) const {
    const std::string text = normalizer->apply(part);
    const auto& matcher = takes_special ? normalised_special : normalised_user;
    const auto find = [&](std::size_t done) {
      return matcher ? matcher->find(text, done) : text::SpecialMatcher::Match{text.size(), 0, kNoToken};
    };
    const auto between = [&](std::size_t begin, std::size_t end) {
      for (const text::PieceCutter::Piece& piece :
           cutter->cut({text.substr(begin, end - begin), begins_text && begin == 0}))
        session.encode(piece.text, out);
    };
    each_part(text, find, between, out);
  }

  struct Strip {
    bool left = false, right = false;
  };

  text::TokenTexts texts;  ///< As the vocabulary writes them.
  text::TokenIndex index;
  std::vector<Token> ends;  ///< Ascending.
  text::TokenTexts pieces;  ///< The bytes that tokens decode to.
  std::vector<TokenKind> kinds;
  std::vector<Strip> strip;
  Token bos, eos;
  bool space_prefix;                        ///< encode() puts a space before its input, decode() removes it.
  Token front = kNoToken, back = kNoToken;  ///< Around the input.
  std::optional<text::SpecialMatcher> user_defined, special;
  std::optional<text::Normalizer> normalizer;  ///< Set with the cutter where the file has steps.
  std::optional<text::PieceCutter> cutter;
  text::TokenTexts normalised_texts;  ///< For the next three, which are set where a token needs them.
  std::optional<text::SpecialMatcher> normalised_user, normalised_special, special_unnormalised;
  std::vector<std::string> notes;
  std::unique_ptr<text::Encoder> encoder;
};

Tokenizer::Tokenizer(Vocabulary vocabulary) : impl_(std::make_unique<Impl>(mended(std::move(vocabulary)))) {}
Tokenizer::~Tokenizer() = default;

std::vector<Token> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  if (text.size() > kMaxTextBytes)
    throw Error(ErrorCode::kInvalidArgument, "the text has " + std::to_string(text.size()) +
                                                 " bytes, at most " + std::to_string(kMaxTextBytes) +
                                                 " can be tokenized at a time");
  std::string valid;
  if (text::valid_prefix(text) != text.size()) {
    valid = text::repaired(text);
    text = valid;
  }
  std::vector<Token> tokens;
  if (options.add_special && impl_->front != kNoToken) tokens.push_back(impl_->front);
  const auto& special = impl_->special_unnormalised ? impl_->special_unnormalised : impl_->special;
  const text::SpecialMatcher& matcher = options.parse_special ? *special : *impl_->user_defined;
  impl_->encode(
      text, [&](std::size_t done) { return matcher.find(text, done); },
      [&](std::size_t, std::size_t) { return options.parse_special; }, tokens);
  if (options.add_special && impl_->back != kNoToken) tokens.push_back(impl_->back);
  return tokens;
}

std::vector<Token> Tokenizer::encode(std::span<const PromptPiece> pieces) const {
  std::string text;
  std::vector<std::pair<std::size_t, std::size_t>> trusted;  // What comes from the template, in order.
  for (const PromptPiece& piece : pieces) {
    if (piece.text.size() > kMaxTextBytes - std::min(text.size(), kMaxTextBytes))
      throw Error(ErrorCode::kInvalidArgument,
                  "the prompt has more than " + std::to_string(kMaxTextBytes) + " bytes");
    const std::size_t begin = text.size();
    text += text::valid_prefix(piece.text) == piece.text.size() ? piece.text : text::repaired(piece.text);
    if (!piece.from_template) continue;
    if (!trusted.empty() && trusted.back().second == begin) {
      trusted.back().second = text.size();
    } else {
      trusted.emplace_back(begin, text.size());
    }
  }
  const auto lies_in_template = [&](std::size_t begin, std::size_t end) {
    const auto after = std::upper_bound(trusted.begin(), trusted.end(), begin,
                                        [](std::size_t at, const auto& range) { return at < range.first; });
    return after != trusted.begin() && end <= std::prev(after)->second;
  };
  // The next token that user input may contain, found once, or a special token within the template's parts.
  text::SpecialMatcher::Match user = impl_->user_defined->find(text, 0);
  const auto find = [&](std::size_t done) {
    if (user.begin < done) user = impl_->user_defined->find(text, done);
    for (std::size_t at = done;;) {
      const text::SpecialMatcher::Match match = impl_->special->find(text, at);
      if (match.id == kNoToken || match.begin > user.begin) return user;
      if (lies_in_template(match.begin, match.begin + match.size)) return match;
      if (match.begin == user.begin) return user;
      at = match.begin + 1;
    }
  };
  std::vector<Token> tokens;
  impl_->encode(text, find, lies_in_template, tokens);
  // Most templates write the first token themselves.
  if (impl_->front != kNoToken && (tokens.empty() || tokens.front() != impl_->front))
    tokens.insert(tokens.begin(), impl_->front);
  return tokens;
}

std::string Tokenizer::decode(std::span<const Token> tokens, bool special) const {
  std::string result;
  bool first = impl_->space_prefix;
  for (const Token id : tokens) {
    std::string_view piece = impl_->piece(id, special);
    if (first && !is_special(kind(id))) {
      if (piece.starts_with(' ')) piece.remove_prefix(1);
      first = false;
    }
    result += piece;
  }
  return result;
}

std::string Tokenizer::piece(Token id, bool special) const { return std::string(impl_->piece(id, special)); }

int Tokenizer::n_vocab() const { return static_cast<int>(impl_->texts.size()); }
std::string_view Tokenizer::text(Token id) const {
  impl_->position(id);
  return impl_->texts[id];
}
TokenKind Tokenizer::kind(Token id) const { return impl_->kinds[impl_->position(id)]; }
Token Tokenizer::find(std::string_view text) const { return impl_->index.find(text); }

Token Tokenizer::bos() const { return impl_->bos; }
Token Tokenizer::eos() const { return impl_->eos; }
bool Tokenizer::adds_bos() const { return impl_->front != kNoToken; }
bool Tokenizer::is_end(Token id) const {
  return std::binary_search(impl_->ends.begin(), impl_->ends.end(), id);
}
std::span<const Token> Tokenizer::end_tokens() const { return impl_->ends; }
std::span<const std::string> Tokenizer::notes() const { return impl_->notes; }

}  // namespace weft
