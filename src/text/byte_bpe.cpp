// BPE by a list of merges (Sennrich et al. 2016): on bytes as in GPT-2, or on characters.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>
#include <string>

#include "base/to_size.h"
#include "text/byte_fallback.h"
#include "text/characters.h"
#include "text/encoder.h"
#include "text/merger.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"
#include "weft/error.h"

namespace weft::text {
namespace {

/// GPT-2's alphabet: a printable byte is the character with the same number; other bytes are characters from
/// U+0100 on.
struct Alphabet {
  std::array<char16_t, 256> code_of;
  std::array<std::int16_t, 0x180> byte_of;
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  for (auto& byte : alphabet.byte_of) byte = -1;
  char16_t other = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xFF && b != 0xAD);
    alphabet.code_of[b] = printable ? static_cast<char16_t>(b) : other++;
    alphabet.byte_of[alphabet.code_of[b]] = static_cast<std::int16_t>(b);
  }
  return alphabet;
}
constexpr Alphabet kAlphabet = make_alphabet();

/// Pairs of ids that merge. Open addressing, linear probing.
class MergeTable {
 public:
  explicit MergeTable(std::size_t n)
      : slots_(std::bit_ceil(2 * n + 2)), shift_(64 - std::countr_zero(slots_.size())) {}

  /// The first of two equal pairs counts, because it has the lower rank. False if the file is made to cause
  /// collisions.
  bool add(Token left, Token right, Pair pair) {
    std::size_t at = place(left, right);
    for (int probes = 0; slots_[at].pair.id != kNoToken; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].left == left && slots_[at].right == right) return true;
      if (++probes > kMaxProbes) return false;
    }
    slots_[at] = {left, right, pair};
    return true;
  }
  Pair find(Token left, Token right) const {
    for (std::size_t at = place(left, right);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.left == left && slot.right == right) return slot.pair;
      if (slot.pair.id == kNoToken) return {};
    }
  }

 private:
  static constexpr int kMaxProbes = 4096;
  struct Slot {
    Token left = -2, right = -2;  // Neither a token nor kNoToken.
    Pair pair = {};
  };
  std::size_t place(Token left, Token right) const {
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    return (key * 0x9E3779B97F4A7C15u ^ (key >> 29) * 0xBF58476D1CE4E5B9u) * 0x94D049BB133111EBu >> shift_;
  }
  std::vector<Slot> slots_;
  int shift_;
};

std::vector<Token> bpe_ids(const Vocabulary& vocabulary) {
  std::vector<Token> ids;
  std::string bytes;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i)
    if (vocabulary.kind == VocabularyKind::kBpe && kind_of(vocabulary, i) == TokenKind::kNormal &&
        !vocabulary.tokens[i].empty() && bytes_of_alphabet(vocabulary.tokens[i], bytes))
      ids.push_back(static_cast<Token>(i));
  return ids;
}

class BpeEncoder final : public Encoder {
 public:
  BpeEncoder(const Vocabulary& vocabulary, TokenSet tokens, const TokenTexts& pieces,
             std::vector<std::string>* notes)
      : how_(find_pre_tokenizer(vocabulary.pre)),
        splitter_(how_.patterns),
        merges_(vocabulary.merges.size()),
        n_merges_(vocabulary.merges.size()),
        pieces_(pieces, bpe_ids(vocabulary)),
        whole_(std::make_unique<std::atomic<Whole>[]>(vocabulary.tokens.size())),
        texts_(tokens.index),
        characters_(vocabulary.kind == VocabularyKind::kCharacterBpe),
        ignore_merges_(vocabulary.ignore_merges.value_or(how_.ignore_merges)),
        are_words_(characters_ && how_.words && vocabulary.pre_tokenizers.has_value()),
        lowercase_(!vocabulary.normalizers && vocabulary.lowercase.value_or(false)),
        unk_(vocabulary.unk) {
    if (characters_ && !how_.words) fallback_.emplace(vocabulary);
    for (unsigned b = 0; b < 256; ++b)
      byte_ids_[b] = tokens.index.find(alphabet_of_byte(static_cast<unsigned char>(b)));
    add_merges(vocabulary, tokens, notes);
  }

  std::unique_ptr<Encoder::Session> session() const override { return std::make_unique<Session>(*this); }

  /// Called by the merger.
  Pair find(std::string_view, const Symbol& left, const Symbol& right, std::size_t) const {
    return merges_.find(left.id, right.id);
  }
  std::size_t n_ranks() const { return n_merges_; }

 private:
  /// Whether the merges turn a token's own bytes into that token. Computed at its first use, by any thread.
  /// All threads find the same, so memory order is irrelevant.
  enum class Whole : std::uint8_t { kUnknown, kYes, kNo };

  void add_merges(const Vocabulary& vocabulary, TokenSet tokens, std::vector<std::string>* notes) {
    std::size_t n_left_out = 0, first_left_out = 0;
    for (std::size_t rank = 0; rank < n_merges_; ++rank)
      if (!add_merge(vocabulary.merges[rank], rank, tokens) && n_left_out++ == 0) first_left_out = rank;
    if (n_left_out == 0 || notes == nullptr) return;
    notes->push_back(std::to_string(n_left_out) + " of " + std::to_string(n_merges_) +
                     " merges use or produce strings that are not in tokenizer.ggml.tokens, and are ignored; "
                     "the first is tokenizer.ggml.merges[" +
                     std::to_string(first_left_out) + "]");
  }

  /// False unless the merge is two tokens, with a space between, that make a third.
  bool add_merge(std::string_view merge, std::size_t rank, TokenSet tokens) {
    const std::size_t space = merge.find(' ', 1);
    if (merge.size() < 3 || space == std::string_view::npos || space + 1 == merge.size()) return false;
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const Token ids[] = {tokens.index.find(left), tokens.index.find(right),
                         tokens.index.find(std::string(left).append(right))};
    if (std::find(std::begin(ids), std::end(ids), kNoToken) != std::end(ids)) return false;
    if (!merges_.add(ids[0], ids[1], {static_cast<std::uint32_t>(rank), ids[2]}))
      throw Error(ErrorCode::kInvalidFile, "the vocabulary is damaged: tokenizer.ggml.merges[" +
                                               std::to_string(rank) +
                                               "]: the list was made to cause hash collisions");
    return true;
  }

  class Session final : public Encoder::Session {
   public:
    explicit Session(const BpeEncoder& encoder)
        : encoder_(encoder), splitter_(encoder.splitter_), merger_(encoder) {}

    void encode(std::string_view text, std::vector<Token>& out) override {
      const bool words = encoder_.characters_ && encoder_.how_.words;
      if (encoder_.are_words_) return encode_characters(text, out);
      if (words && encoder_.lowercase_) text = normalised_ = lowered(text);
      if (encoder_.fallback_) text = normalised_ = with_space_marks(text);
      std::size_t begin = 0;
      for (const std::uint32_t end : splitter_.split(text)) {
        const std::string_view piece = text.substr(begin, end - begin);
        if (!words || !is_white_space(first_char(piece).code))
          encoder_.characters_ ? encode_characters(piece, out) : encode_piece(piece, out);
        begin = end;
      }
    }
    std::uint64_t steps() const override { return merger_.steps(); }

   private:
    void encode_piece(std::string_view piece, std::vector<Token>& out) {
      const Token id = piece.size() == 1 ? encoder_.byte_ids_[static_cast<unsigned char>(piece[0])]
                                         : encoder_.pieces_.find(piece);
      const bool whole = id != kNoToken && (piece.size() == 1 || encoder_.ignore_merges_);
      std::atomic<Whole>* known = id == kNoToken ? nullptr : &encoder_.whole_[to_size(id)];
      if (whole || (known != nullptr && known->load(std::memory_order_relaxed) == Whole::kYes)) {
        out.push_back(id);
        return;
      }
      std::vector<Symbol>& symbols = merger_.symbols();
      symbols.clear();
      for (std::size_t i = 0; i < piece.size(); ++i)
        symbols.push_back(
            {static_cast<std::uint32_t>(i), encoder_.byte_ids_[static_cast<unsigned char>(piece[i])], {}});
      merger_.merge(piece);
      if (known != nullptr)
        known->store(symbols.size() == 1 && symbols[0].id == id ? Whole::kYes : Whole::kNo,
                     std::memory_order_relaxed);
      // A byte without a token is left out: the vocabulary has no id for it.
      for (const Symbol& symbol : symbols)
        if (symbol.id != kNoToken) out.push_back(symbol.id);
    }

    void encode_characters(std::string_view piece, std::vector<Token>& out) {
      std::vector<Symbol>& symbols = merger_.symbols();
      symbols.clear();
      for (std::size_t at = 0; at < piece.size(); at += char_size(piece[at])) {
        const Token id = encoder_.texts_.find(piece.substr(at, char_size(piece[at])));
        symbols.push_back({static_cast<std::uint32_t>(at), id, {}});
      }
      merger_.merge(piece);
      bool unknown = false;
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        const std::size_t end = i + 1 < symbols.size() ? symbols[i + 1].begin : piece.size();
        const Token id = symbols[i].id != kNoToken || encoder_.fallback_ ? symbols[i].id : encoder_.unk_;
        if (id != kNoToken) out.push_back(id);
        unknown =
            id == kNoToken && encoder_.fallback_ &&
            encoder_.fallback_->encode(piece.substr(symbols[i].begin, end - symbols[i].begin), unknown, out);
      }
    }

    const BpeEncoder& encoder_;
    std::string normalised_;
    Splitter::Session splitter_;
    Merger<BpeEncoder> merger_;
  };

  const PreTokenizer& how_;
  Splitter splitter_;
  MergeTable merges_;
  std::size_t n_merges_;
  TokenIndex pieces_;  ///< Normal tokens by their bytes.
  std::array<Token, 256> byte_ids_;
  std::unique_ptr<std::atomic<Whole>[]> whole_;
  const TokenIndex& texts_;
  bool characters_, ignore_merges_;
  bool are_words_;  ///< The steps of the file have cut the input into words.
  bool lowercase_;
  Token unk_;
  std::optional<ByteFallback> fallback_;  ///< Only for BPE on characters.
};

}  // namespace

bool bytes_of_alphabet(std::string_view text, std::string& bytes) {
  bytes.clear();
  while (!text.empty()) {
    const Utf8Char c = first_char(text);
    if (c.status != Utf8Status::kValid || c.code >= kAlphabet.byte_of.size() || kAlphabet.byte_of[c.code] < 0)
      return false;
    bytes += static_cast<char>(kAlphabet.byte_of[c.code]);
    text.remove_prefix(c.size);
  }
  return true;
}

std::string alphabet_of_byte(unsigned char byte) {
  std::string text;
  append_utf8(text, kAlphabet.code_of[byte]);
  return text;
}

std::unique_ptr<Encoder> make_bpe_encoder(const Vocabulary& vocabulary, TokenSet tokens,
                                          const TokenTexts& pieces, std::vector<std::string>* notes) {
  return std::make_unique<BpeEncoder>(vocabulary, tokens, pieces, notes);
}

}  // namespace weft::text
