#include "weft/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "text/encoder.h"
#include "text/end_tokens.h"
#include "text/pre_tokenizer.h"
#include "text/special_matcher.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft {
namespace {

using text::Vocabulary;
using text::VocabularyKind;

constexpr std::size_t kMaxTextBytes = std::size_t{1}
                                      << 30;  // Three times as many fit 32-bit positions (U+2581).

bool is_special(TokenKind kind) { return kind == TokenKind::kControl || kind == TokenKind::kUnknown; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The bytes of a token inside a text.
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

/// Of tokens with the same text the first is found; one that is in use before one that is not.
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
                             ? "; so have " + std::to_string(index.n_duplicates() - 1) + " more tokens"
                             : std::string()));
    for (const Token id : v.strip_left) strip[static_cast<std::size_t>(id)].left = true;
    for (const Token id : v.strip_right) strip[static_cast<std::size_t>(id)].right = true;
    user_defined.emplace(texts, ids_of_kind(v, [](TokenKind k) { return k == TokenKind::kUserDefined; }));
    special.emplace(
        texts, ids_of_kind(v, [](TokenKind k) { return k == TokenKind::kUserDefined || is_special(k); }));
    set_frame(v);
    encoder = make_encoder(v, {texts, index}, pieces);
    notes = std::move(v.notes);
  }

  /// What stands around a text.
  void set_frame(const Vocabulary& v) {
    const bool bert = v.kind == VocabularyKind::kWordPiece;
    const Token first = bert && v.cls != kNoToken ? v.cls : v.bos;
    const Token last = bert && v.sep != kNoToken ? v.sep : v.eos;
    const bool unigram = v.kind == VocabularyKind::kUnigram;
    const bool wants_bos = v.kind == VocabularyKind::kBpe || v.kind == VocabularyKind::kCharacterBpe
                               ? text::find_pre_tokenizer(v.pre).adds_bos
                               : v.kind == VocabularyKind::kSpm || v.kind == VocabularyKind::kWordPiece;
    if (v.add_bos.value_or(wants_bos)) front = first;
    // BERT's files say add_eos false or nothing at all and mean [CLS] text [SEP].
    if (bert || v.add_eos.value_or(unigram)) back = last;
  }

  std::size_t position(Token id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= texts.size())
      throw Error(ErrorCode::kInvalidArgument, "token " + std::to_string(id) +
                                                   " is outside the vocabulary of " +
                                                   std::to_string(texts.size()) + " tokens");
    return static_cast<std::size_t>(id);
  }

  std::string_view piece(Token id, bool with_special) const {
    const bool left_out = is_special(kinds[position(id)]) && !with_special;
    return left_out ? std::string_view() : pieces[id];
  }

  /// `text` is valid UTF-8; `find(done)` gives the next token that is written out in it.
  template <typename Find>
  void encode(std::string_view text, Find&& find, std::vector<Token>& out) const {
    const std::unique_ptr<text::Encoder::Session> session = encoder->session();
    bool first = true;
    for (std::size_t done = 0; done < text.size();) {
      const text::SpecialMatcher::Match match = find(done);
      const Strip beside = match.id == kNoToken ? Strip{} : strip[static_cast<std::size_t>(match.id)];
      std::size_t end = match.begin;
      while (beside.left && end > done && is_space(text[end - 1])) --end;
      if (end > done) {
        session->encode(text.substr(done, end - done), first, out);
        first = false;
      }
      done = match.begin + match.size;
      if (match.id == kNoToken) continue;
      out.push_back(match.id);
      first = true;
      while (beside.right && done < text.size() && is_space(text[done])) ++done;
    }
  }

  struct Strip {
    bool left = false, right = false;
  };

  text::TokenTexts texts;  ///< As the vocabulary writes them.
  text::TokenIndex index;
  std::vector<Token> ends;  ///< Ascending.
  text::TokenTexts pieces;  ///< The bytes they stand for.
  std::vector<TokenKind> kinds;
  std::vector<Strip> strip;
  Token bos, eos;
  bool space_prefix;                        ///< encode() puts a space before a text, decode() takes it away.
  Token front = kNoToken, back = kNoToken;  ///< Around a text.
  std::optional<text::SpecialMatcher> user_defined, special;
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
  const text::SpecialMatcher& matcher = options.parse_special ? *impl_->special : *impl_->user_defined;
  impl_->encode(text, [&](std::size_t done) { return matcher.find(text, done); }, tokens);
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
  const auto lies_in_template = [&](const text::SpecialMatcher::Match& match) {
    const auto after = std::upper_bound(trusted.begin(), trusted.end(), match.begin,
                                        [](std::size_t at, const auto& range) { return at < range.first; });
    return after != trusted.begin() && match.begin + match.size <= std::prev(after)->second;
  };
  // The next token that users may write, found once, and the next of all that lies in the template.
  text::SpecialMatcher::Match user = impl_->user_defined->find(text, 0);
  const auto find = [&](std::size_t done) {
    if (user.begin < done) user = impl_->user_defined->find(text, done);
    for (std::size_t at = done;;) {
      const text::SpecialMatcher::Match match = impl_->special->find(text, at);
      if (match.id == kNoToken || match.begin > user.begin) return user;
      if (lies_in_template(match)) return match;
      if (match.begin == user.begin) return user;
      at = match.begin + 1;
    }
  };
  std::vector<Token> tokens;
  impl_->encode(text, find, tokens);
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
