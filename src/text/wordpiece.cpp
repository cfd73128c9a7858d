// WordPiece as in BERT (Devlin et al. 2018): each word of the normalised input becomes its longest known
// pieces from the left. Character classes are as in the original: white space, control, punctuation, CJK,
// the rest.
#include <utf8proc.h>

#include <algorithm>
#include <string>

#include "base/to_size.h"
#include "text/characters.h"
#include "text/encoder.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

constexpr std::size_t kMaxWordChars = 100;  ///< A longer word is unknown as a whole.

enum class CharClass { kWord, kAlone, kSpace, kDropped };

CharClass class_of(char32_t c) {
  if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return CharClass::kSpace;
  if (c == 0 || c == 0xFFFD) return CharClass::kDropped;
  if ((c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
      (c >= 0x7B && c <= 0x7E))
    return CharClass::kAlone;
  if (c < 0x7F) return c < 0x20 ? CharClass::kDropped : CharClass::kWord;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::kSpace;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
      return CharClass::kDropped;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return CharClass::kAlone;
    default:
      return is_cjk(c) ? CharClass::kAlone : CharClass::kWord;
  }
}

class WordPieceEncoder final : public Encoder {
 public:
  WordPieceEncoder(const Vocabulary& vocabulary, const TokenTexts& texts)
      : index_(texts, findable(vocabulary)),
        longest_(texts.longest()),
        unk_(vocabulary.unk),
        normalised_(vocabulary.normalizers.has_value()),
        lowercase_(!normalised_ && vocabulary.lowercase.value_or(true)),
        strip_accents_(!normalised_ && vocabulary.strip_accents.value_or(lowercase_)) {
    if (unk_ == kNoToken)
      throw Error(ErrorCode::kInvalidFile,
                  "the vocabulary is damaged: tokenizer.ggml.unknown_token_id is missing");
  }
  std::unique_ptr<Encoder::Session> session() const override { return std::make_unique<Session>(*this); }

 private:
  static std::vector<Token> findable(const Vocabulary& vocabulary) {
    std::vector<Token> ids;
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
      // User-defined tokens are matched as written and never become a piece of a word.
      if (const TokenKind kind = kind_of(vocabulary, i);
          !vocabulary.tokens[i].empty() && is_text(kind) && kind != TokenKind::kUserDefined)
        ids.push_back(static_cast<Token>(i));
    return ids;
  }

  class Session final : public Encoder::Session {
   public:
    explicit Session(const WordPieceEncoder& encoder) : encoder_(encoder) { start_word(); }

    void encode(std::string_view text, std::vector<Token>& out) override {
      while (!text.empty() && encoder_.normalised_) {  // A word.
        const Utf8Char c = first_char(text);
        text.remove_prefix(c.size);
        append(c.code);
      }
      while (!text.empty()) {
        const Utf8Char c = first_char(text);
        text.remove_prefix(c.size);
        add(c.code, out);
      }
      end_word(out);
    }
    std::uint64_t steps() const override { return steps_; }

   private:
    void add(char32_t c, std::vector<Token>& out) {
      const CharClass kind = class_of(c);
      if (kind == CharClass::kDropped) return;
      if (kind != CharClass::kWord) end_word(out);
      if (kind == CharClass::kSpace) return;
      utf8proc_int32_t parts[16];
      for (std::size_t n = normalised(c, parts), i = 0; i < n; ++i) {
        const auto part = static_cast<char32_t>(parts[i]);
        // Without its stroke, U+2260 is the punctuation "=".
        const bool alone = kind == CharClass::kWord && class_of(part) == CharClass::kAlone;
        if (alone) end_word(out);
        append(part);
        if (alone) end_word(out);
      }
      if (kind == CharClass::kAlone) end_word(out);
    }

    /// A character in lower case and without accents, where the model wants that; how many are left of it.
    template <std::size_t kSize>
    std::size_t normalised(char32_t c, utf8proc_int32_t (&parts)[kSize]) const {
      parts[0] = static_cast<utf8proc_int32_t>(c);
      std::size_t n = 1;
      if (encoder_.strip_accents_ && c >= 0x80) {
        // Character by character: no order of combining marks matters once the marks are gone.
        int boundary = 0;
        const utf8proc_ssize_t found = utf8proc_decompose_char(
            parts[0], parts, kSize, static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE), &boundary);
        if (found >= 0 && to_size(found) <= kSize) n = to_size(found);
        n = to_size(std::remove_if(parts, parts + n,
                                   [](utf8proc_int32_t part) {
                                     return utf8proc_category(part) == UTF8PROC_CATEGORY_MN;
                                   }) -
                    parts);
      }
      if (encoder_.lowercase_)
        for (std::size_t i = 0; i < n; ++i) parts[i] = utf8proc_tolower(parts[i]);
      return n;
    }
    void append(char32_t c) {
      // U+2581 marks the start of a word in the vocabulary. In the input it is a character without a token.
      if (++n_chars_ <= kMaxWordChars) append_utf8(word_, c == 0x2581 ? 0xFFFD : c);
    }

    void start_word() {
      word_ = kSpaceMark;
      n_chars_ = 0;
    }
    void end_word(std::vector<Token>& out) {
      if (n_chars_ > 0) {
        const std::size_t before = out.size();
        if (n_chars_ > kMaxWordChars || !match(out)) {
          out.resize(before);
          out.push_back(encoder_.unk_);
        }
      }
      start_word();
    }
    bool match(std::vector<Token>& out) {
      const std::string_view word = word_;
      for (std::size_t begin = 0; begin < word.size();) {
        std::size_t size = std::min(word.size() - begin, encoder_.longest_);
        Token id = kNoToken;
        for (; size > 0 && id == kNoToken; id == kNoToken ? --size : size) {
          ++steps_;
          id = encoder_.index_.find(word.substr(begin, size));
        }
        if (id == kNoToken) return false;
        out.push_back(id);
        begin += size;
      }
      return true;
    }

    const WordPieceEncoder& encoder_;
    std::string word_;         ///< Begins with U+2581, as the vocabulary's words do.
    std::size_t n_chars_ = 0;  ///< Without that; those over kMaxWordChars are counted and not kept.
    std::uint64_t steps_ = 0;
  };

  TokenIndex index_;
  std::size_t longest_;
  Token unk_;
  bool normalised_;  ///< The vocabulary's steps have already made words.
  bool lowercase_, strip_accents_;
};

}  // namespace

std::unique_ptr<Encoder> make_wordpiece_encoder(const Vocabulary& vocabulary, TokenSet tokens) {
  return std::make_unique<WordPieceEncoder>(vocabulary, tokens.texts);
}

}  // namespace weft::text
