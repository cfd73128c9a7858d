#pragma once
// A file's vocabulary: plain data, not yet checked. Tokenizer's constructor checks all of it.
//
// The rule for files: a vocabulary is refused only where its tokens would be wrong or could not be read
// safely. The error names the entry by its GGUF key. Other defects are repaired, and a note names the key:
// ids without a token, duplicate tokens, merges that make no token, missing types and scores.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "weft/tokenizer.h"
#include "weft/types.h"

namespace weft::text {

enum class VocabularyKind {
  kBpe,  ///< Byte-level BPE (GPT-2, Llama 3, Qwen ...): tokens are written in GPT-2's alphabet of bytes.
  kCharacterBpe,  ///< BPE on characters (Gemma 4): merges as kBpe's, tokens written as kSpm's, or as they
                  ///< are.
  kSpm,           ///< SentencePiece's BPE by score (Llama 2, Gemma ...): U+2581 is a space, <0xHH> a byte.
  kWordPiece,     ///< BERT: tokens that begin a word start with U+2581; the others continue a word.
  kRwkv,          ///< RWKV's world tokenizer: bytes, written as in a Python literal.
  kUnigram,       ///< SentencePiece's unigram model (T5, XLM-RoBERTa): written as kSpm's, normalised first.
};

struct Vocabulary {
  VocabularyKind kind = VocabularyKind::kBpe;
  std::string pre;  ///< BPE: name of the pre-tokenizer (pre_tokenizer.h); empty means "default".
  std::vector<std::string> tokens;  ///< Position = id.
  std::vector<float> scores;  ///< SPM, unigram: one per token, the higher is taken first. SPM: no merge gives
                              ///< a token with minus infinity. Others: empty or one per token.
  std::vector<TokenKind> kinds;     ///< One per token, or empty: all normal.
  std::vector<std::string> merges;  ///< BPE: "left right", the most urgent first.

  Token bos = kNoToken, eos = kNoToken, eot = kNoToken, eom = kNoToken, unk = kNoToken;
  Token sep = kNoToken, pad = kNoToken, cls = kNoToken, mask = kNoToken;
  std::vector<Token> ends;    ///< Further end tokens of the file.
  std::string chat_template;  ///< In Jinja; gives the end of an assistant's message. Empty: none.

  // Absent: the default of the kind of tokenizer (or its pre-tokenizer).
  std::optional<bool> add_bos, add_eos;     ///< Around the input. WordPiece: [CLS] before and [SEP] after it.
  std::optional<bool> add_space_prefix;     ///< SPM, unigram: encode() puts a space before the input.
  std::optional<bool> remove_extra_spaces;  ///< Unigram: none around the input, one between words.
  std::optional<bool> lowercase;            ///< WordPiece: true. BPE on words: false.
  std::optional<bool> strip_accents;        ///< WordPiece: as lowercase.

  std::string charsmap;  ///< SPM, unigram: how the input is normalised (charsmap.h); empty: not at all.

  /// The steps before the model, as JSON (text_steps.h). Where `normalizers` is set, these lists replace
  /// add_space_prefix, remove_extra_spaces, charsmap, lowercase and strip_accents.
  std::optional<std::string> normalizers, pre_tokenizers;

  std::optional<bool> ignore_merges;  ///< Byte-level BPE: replaces the pre-tokenizer's own (pre_tokenizer.h).

  // How the tokenizer finds added tokens in its input.
  std::vector<Token> strip_left, strip_right;  ///< Take the white space at that side with them.
  std::vector<Token> single_word;              ///< Count only where no word character is next to them.
  std::vector<Token> normalized;               ///< Are looked for, normalised, in the normalised input.

  std::vector<std::string> notes;  ///< The repairs, a sentence each (Tokenizer::notes).
};

inline constexpr std::size_t kMaxTokens = std::size_t{1} << 24;
inline constexpr std::size_t kMaxTokenBytes = 4096;  ///< Of one token's string. Real ones stay below 1024.

/// Repairs harmless defects, each with a note. Throws Error kInvalidFile where sizes or values contradict
/// each other. Afterwards `kinds` has an entry for each token. The encoder checks the merges.
void mend(Vocabulary& vocabulary);

/// The byte that "<0xHH>" means; nothing for any other string.
std::optional<unsigned char> byte_of_text(std::string_view text);

}  // namespace weft::text
