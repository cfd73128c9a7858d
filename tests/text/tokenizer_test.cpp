#include "weft/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "text/utf8.h"
#include "text/vocabulary_testing.h"
#include "weft/error.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text::Vocabulary;

constexpr Tokenizer::EncodeOptions kPlain = {.add_special = false, .parse_special = false};
constexpr Tokenizer::EncodeOptions kSpecial = {.add_special = false, .parse_special = true};

/// "he" 256, "ll" 257, "llo" 258, "hello" 259, " h" 260
Vocabulary hello_bpe() {
  return text::bpe_vocabulary({{"h", "e"}, {"l", "l"}, {"ll", "o"}, {"he", "llo"}, {" ", "h"}});
}

TEST(Bpe, MergesInTheOrderOfTheList) {
  const Tokenizer t(hello_bpe());
  EXPECT_THAT(t.encode("hello"), ElementsAre(259));
  EXPECT_THAT(t.encode("hell"), ElementsAre(256, 257));
  EXPECT_THAT(t.encode("lllo"), ElementsAre(257, 'l', 'o'));  // The leftmost of equals first.
  EXPECT_THAT(t.encode(" hello"), ElementsAre(' ', 259));     // "h e" comes before " h".
  EXPECT_THAT(t.encode(" hx"), ElementsAre(260, 'x'));
  EXPECT_THAT(t.encode("hello hello"), ElementsAre(259, ' ', 259));
  EXPECT_THAT(t.encode(""), ElementsAre());
  EXPECT_EQ(t.decode(t.encode("hello wörld\n")), "hello wörld\n");
}

TEST(Bpe, IgnoreMergesTakesWholePieces) {
  Vocabulary v = text::bpe_vocabulary({{"h", "e"}}, "llama-bpe");
  const Token hello = add_token(v, "hello", TokenKind::kNormal);
  const Token secret = add_token(v, "secret", TokenKind::kControl);
  EXPECT_THAT(Tokenizer(v).encode("hello"), ElementsAre(hello));
  // Prompts never produce control tokens.
  EXPECT_THAT(Tokenizer(v).encode("secret"), testing::Not(testing::Contains(secret)));
  v.pre = "qwen2";
  EXPECT_THAT(Tokenizer(v).encode("hello"), ElementsAre(256, 'l', 'l', 'o'));
  // The piece cache returns the same tokens.
  const Tokenizer t(v);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(t.encode("hello he"), ElementsAre(256, 'l', 'l', 'o', ' ', 256));
}

TEST(Bpe, BytesThatTheVocabularyLacksAreLeftOut) {
  Vocabulary v;
  for (const char* text : {"a", "b", "ab"}) add_token(v, text, TokenKind::kNormal);
  v.merges = {"a b"};
  v.pre = "gpt-2";
  EXPECT_THAT(Tokenizer(v).encode("abcb"), ElementsAre(2, 1));
}

TEST(Spm, MergesTheBestScoreFirst) {
  // Ids: "▁a" 259, "bc" 260, "ab" 261, "▁" 262, a 263, b 264, c 265
  const Tokenizer t(text::spm_vocabulary({"▁a", "bc", "ab", "▁", "a", "b", "c"}));
  EXPECT_THAT(t.encode("abc", kPlain), ElementsAre(259, 260));
  EXPECT_THAT(t.encode("abc"), ElementsAre(1, 259, 260));
  EXPECT_THAT(t.encode("c ab", kPlain), ElementsAre(262, 265, 259, 264));
  EXPECT_THAT(t.encode("é", kPlain), ElementsAre(262, 3 + 0xC3, 3 + 0xA9));
  EXPECT_THAT(t.encode("", kPlain), ElementsAre());
  EXPECT_EQ(t.decode(t.encode("abc é")), "abc é");
  EXPECT_EQ(t.decode(t.encode("  abc")), "  abc");
  EXPECT_EQ(t.piece(259), " a");
}

TEST(Spm, SpacePrefixOnlyWhereAsked) {
  Vocabulary v = text::spm_vocabulary({"▁a", "▁", "a"});
  const Token user = add_token(v, "<u>", TokenKind::kUserDefined);
  EXPECT_THAT(Tokenizer(v).encode("a<u>a", kPlain), ElementsAre(259, user, 259));
  v.add_space_prefix = false;
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("a<u>a a", kPlain), ElementsAre(261, user, 261, 259));
  EXPECT_EQ(t.decode(t.encode(" a")), " a");
}

TEST(Spm, WordsAreCutOnlyWhereNoTokenCrosses) {
  // "b▁c" crosses the front of a space, so "ab c" may not be cut there. Ids from 259.
  const Tokenizer t(text::spm_vocabulary({"b▁", "b▁c", "ab", "▁", "a", "b", "c"}));
  EXPECT_THAT(t.encode("ab c", kPlain), ElementsAre(262, 263, 260));
  EXPECT_THAT(t.encode("ab a", kPlain), ElementsAre(262, 263, 259, 263));
}

TEST(Spm, UnknownTokenWithoutBytes) {
  Vocabulary v;
  v.kind = text::VocabularyKind::kSpm;
  v.unk = add_token(v, "<unk>", TokenKind::kUnknown);
  add_token(v, "a", TokenKind::kNormal);
  v.add_space_prefix = false;
  v.add_bos = false;
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("éèaé"), ElementsAre(0, 1, 0));  // A row of unknown characters is one token.
  v.unk = kNoToken;
  EXPECT_THROW(Tokenizer{v}, Error);
}

TEST(WordPiece, SplitsNormalisedWords) {
  // Ids from 3.
  const Tokenizer t(
      text::wordpiece_vocabulary({"▁hello", "▁un", "known", "▁,", "▁中", "▁e", "s", "▁ß", "▁="}));
  EXPECT_THAT(t.encode("Hello,unknown"), ElementsAre(1, 3, 6, 4, 5, 2));
  EXPECT_THAT(t.encode("HÉLLO  hello", kPlain), ElementsAre(3, 3));
  EXPECT_THAT(t.encode("É\u0301s x", kPlain), ElementsAre(8, 9, 0));  // Composed or not; then unknown.
  EXPECT_THAT(t.encode("中中", kPlain), ElementsAre(7, 7));
  EXPECT_THAT(t.encode("e\u2260e", kPlain), ElementsAre(8, 11, 8));  // "=" with a stroke.
  EXPECT_THAT(t.encode("e\u2581e", kPlain), ElementsAre(0));
  EXPECT_THAT(t.encode("hel\u200Dlo", kPlain), ElementsAre(3));  // Format characters vanish.
  EXPECT_THAT(t.encode("hello unknownx hello", kPlain), ElementsAre(3, 0, 3));
  EXPECT_THAT(t.encode(" \n ", kPlain), ElementsAre());
  EXPECT_EQ(t.decode(t.encode("hello unknown")), "hello unknown");
}

TEST(WordPiece, LongWordsAreUnknown) {
  const Tokenizer t(text::wordpiece_vocabulary({"▁a", "a"}));
  EXPECT_EQ(t.encode(std::string(100, 'a'), kPlain).size(), 100u);
  EXPECT_THAT(t.encode(std::string(101, 'a'), kPlain), ElementsAre(0));
}

TEST(WordPiece, CaseAndAccentsStayWhereTheModelWantsThem) {
  Vocabulary v = text::wordpiece_vocabulary({"▁É", "▁E", "▁é", "▁e"});
  v.lowercase = false;
  EXPECT_THAT(Tokenizer(v).encode("É", kPlain), ElementsAre(3));
  v.strip_accents = true;
  EXPECT_THAT(Tokenizer(v).encode("É", kPlain), ElementsAre(4));
  v.lowercase = true;
  v.strip_accents = false;
  EXPECT_THAT(Tokenizer(v).encode("É", kPlain), ElementsAre(5));
}

TEST(SpecialTokens, ControlTokensOnlyWhenAsked) {
  Vocabulary v = hello_bpe();
  const Token control = add_token(v, "<|im_end|>", TokenKind::kControl);
  const Token user = add_token(v, "he", TokenKind::kUserDefined);
  v.tokens[static_cast<std::size_t>(user)] = "<tool>";
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("he<|im_end|>he", kSpecial), ElementsAre(256, control, 256));
  EXPECT_THAT(t.encode("<|im_end|>", kPlain), ElementsAre('<', '|', 'i', 'm', '_', 'e', 'n', 'd', '|', '>'));
  EXPECT_THAT(t.encode("he<tool>he", kPlain), ElementsAre(256, user, 256));
  EXPECT_THAT(t.encode("he<tool><|im_end|>", kSpecial), ElementsAre(256, user, control));
  const std::vector<Token> tokens = {256, control, user};
  EXPECT_EQ(t.decode(tokens), "he<tool>");
  EXPECT_EQ(t.decode(tokens, true), "he<|im_end|><tool>");
  EXPECT_EQ(t.piece(control), "");
  EXPECT_EQ(t.piece(control, true), "<|im_end|>");
  EXPECT_EQ(t.kind(control), TokenKind::kControl);
  EXPECT_EQ(t.find("<|im_end|>"), control);
  EXPECT_EQ(t.find("nothing"), kNoToken);
}

TEST(SpecialTokens, ControlTokensNeverComeOutOfMerging) {
  Vocabulary spm = text::spm_vocabulary({"▁a", "▁", "a", "b"});
  const Token merged = add_token(spm, "▁ab", TokenKind::kControl, 1.0f);
  EXPECT_THAT(Tokenizer(spm).encode("ab", kPlain), ElementsAre(259, 262));
  EXPECT_THAT(Tokenizer(spm).encode("▁ab", kSpecial), ElementsAre(merged));
  EXPECT_THAT(Tokenizer(spm).encode("<0x41>", kPlain), testing::Not(testing::Contains(3 + 0x41)));
  Vocabulary bert = text::wordpiece_vocabulary({"▁a", "b"});
  add_token(bert, "▁ab", TokenKind::kControl);
  EXPECT_THAT(Tokenizer(bert).encode("ab", kPlain), ElementsAre(3, 4));
}

TEST(Prompt, SpecialTokensOnlyInTheTemplatesText) {
  Vocabulary v = hello_bpe();
  const Token start = add_token(v, "<|s|>", TokenKind::kControl);
  const Token mark = add_token(v, "<mark>", TokenKind::kUserDefined);
  const Tokenizer t(v);
  const auto encode = [&](std::vector<PromptPiece> pieces) { return t.encode(pieces); };
  EXPECT_THAT(encode({{"<|s|>he", true}, {"llo", false}}),
              ElementsAre(start, 259));  // Merged across the border.
  EXPECT_EQ(encode({{"<|s|>", false}}), t.encode("<|s|>", kPlain));
  // A mark that is half from the user is not a token, and does not hide a real token after it.
  EXPECT_THAT(encode({{"<|", false}, {"s|>", true}}), testing::Not(testing::Contains(start)));
  EXPECT_THAT(
      encode({{"x<|s|>", false}, {"<|s|>", true}, {"<|s|>y", false}, {"<|s|>", true}}),
      testing::ResultOf([&](const auto& ids) { return std::count(ids.begin(), ids.end(), start); }, 2));
  // What users may write is found in both.
  EXPECT_THAT(encode({{"<mark>", false}, {"<|s|>", true}, {"<mark>he", false}}),
              ElementsAre(mark, start, mark, 256));
  EXPECT_THAT(encode({}), ElementsAre());
}

TEST(Prompt, GetsItsFirstTokenOnce) {
  Vocabulary v = text::spm_vocabulary({"a"});
  v.add_bos = true;
  const Tokenizer t(v);
  const std::vector<PromptPiece> without = {{"a", true}}, with = {{"<s>a", true}}, users = {{"<s>a", false}};
  EXPECT_EQ(t.encode(without).front(), 1);
  const std::vector<Token> ids = t.encode(with);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 1);
  EXPECT_EQ(t.encode(users).front(), 1);
  EXPECT_GT(t.encode(users).size(), 4u);
}

TEST(SpecialTokens, StripWhitespaceIfTheyAreMarkedSo) {
  Vocabulary v = hello_bpe();
  const Token control = add_token(v, "<m>", TokenKind::kControl);
  v.strip_left = {control};
  EXPECT_THAT(Tokenizer(v).encode("he \n<m> he", kSpecial), ElementsAre(256, control, ' ', 256));
  v.strip_right = {control};
  EXPECT_THAT(Tokenizer(v).encode("  <m> \t<m>  he", kSpecial), ElementsAre(control, control, 256));
  EXPECT_THAT(Tokenizer(v).encode("<m>  ", kSpecial), ElementsAre(control));
}

TEST(SpecialTokens, FrameAndEnds) {
  Vocabulary v = hello_bpe();
  v.bos = add_token(v, "<bos>", TokenKind::kControl);
  v.eos = add_token(v, "<x>", TokenKind::kControl);
  v.eot = add_token(v, "<y>", TokenKind::kControl);
  const Token end = add_token(v, "<|eot_id|>", TokenKind::kControl);
  const Token plain = add_token(v, "<x1>", TokenKind::kNormal);
  {
    const Tokenizer t(v);
    EXPECT_FALSE(t.adds_bos());  // Byte-level BPE adds none by itself.
    EXPECT_THAT(t.encode("he"), ElementsAre(256));
    EXPECT_THAT(t.end_tokens(), ElementsAre(v.eos, v.eot, end));
    EXPECT_TRUE(t.is_end(end));
    EXPECT_FALSE(t.is_end(plain));
    EXPECT_FALSE(t.is_end(kNoToken));
    EXPECT_EQ(t.bos(), v.bos);
    EXPECT_EQ(t.eos(), v.eos);
  }
  v.add_bos = v.add_eos = true;
  EXPECT_THAT(Tokenizer(v).encode("he"), ElementsAre(v.bos, 256, v.eos));
  EXPECT_THAT(Tokenizer(v).encode(""), ElementsAre(v.bos, v.eos));
  v.add_bos = v.add_eos = std::nullopt;
  v.pre = "llama-bpe";
  EXPECT_TRUE(Tokenizer(v).adds_bos());
}

TEST(SpecialTokens, EndOfMessageIsNoEndInHarmony) {
  Vocabulary v = hello_bpe();
  const Token end = add_token(v, "<|end|>", TokenKind::kControl);
  EXPECT_TRUE(Tokenizer(v).is_end(end));
  const Token back = add_token(v, "<|return|>", TokenKind::kControl);
  const Token call = add_token(v, "<|call|>", TokenKind::kControl);
  EXPECT_THAT(Tokenizer(v).end_tokens(), ElementsAre(back, call));
}

TEST(Encode, InvalidUtf8BecomesReplacementCharacters) {
  for (const Tokenizer& t : {Tokenizer(hello_bpe()), Tokenizer(text::spm_vocabulary({"▁", "a"}))}) {
    EXPECT_EQ(t.decode(t.encode("a\xFF\xE4\xB8")), "a\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT_EQ(t.decode(t.encode(std::string_view("a\0b", 3))), std::string("a\0b", 3));
  }
  // Any bytes at all.
  const Tokenizer t(hello_bpe());
  std::mt19937 random(9);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (std::size_t n = random() % 40; n > 0; --n)
      text += static_cast<char>(random() % 4 == 0 ? random() : 'h');
    EXPECT_EQ(t.encode(text), t.encode(t.decode(t.encode(text))));
  }
}

TEST(Decode, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer t(hello_bpe());
  for (const Token id :
       {-1, t.n_vocab(), std::numeric_limits<Token>::max(), std::numeric_limits<Token>::min()}) {
    EXPECT_THROW(t.piece(id), Error);
    EXPECT_THROW(t.text(id), Error);
    EXPECT_THROW(t.kind(id), Error);
    EXPECT_THROW(t.decode(std::vector<Token>{id}), Error);
    EXPECT_FALSE(t.is_end(id));
  }
}

std::string vocabulary_error(Vocabulary v) {
  try {
    Tokenizer t(std::move(v));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidFile) << error.what();
    return error.what();
  }
  return "";
}

TEST(VocabularyCheck, NamesTheOffendingEntry) {
  const auto bpe = [](auto change) {
    Vocabulary v = hello_bpe();
    change(v);
    return vocabulary_error(std::move(v));
  };
  const auto spm = [](auto change) {
    Vocabulary v = text::spm_vocabulary({"▁", "a"});
    change(v);
    return vocabulary_error(std::move(v));
  };
  EXPECT_EQ(bpe([](Vocabulary&) {}), "");
  EXPECT_EQ(spm([](Vocabulary&) {}), "");
  EXPECT_THAT(vocabulary_error({}), HasSubstr("tokenizer.ggml.tokens is empty"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.tokens[7].assign(5000, 'x'); }),
              HasSubstr("tokenizer.ggml.tokens[7]"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.kinds.pop_back(); }), HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(spm([](Vocabulary& v) { v.scores.pop_back(); }), HasSubstr("tokenizer.ggml.scores"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.strip_left = {261}; }), HasSubstr("261"));
  EXPECT_THAT(spm([](Vocabulary& v) { v.scores.back() = std::numeric_limits<float>::quiet_NaN(); }),
              HasSubstr("tokenizer.ggml.scores["));
  EXPECT_THAT(spm([](Vocabulary& v) {
                v.unk = kNoToken;
                v.kinds[20] = TokenKind::kNormal;
              }),
              HasSubstr("tokenizer.ggml.unknown_token_id"));
  Vocabulary bert = text::wordpiece_vocabulary({"a"});
  bert.unk = kNoToken;
  EXPECT_THAT(vocabulary_error(bert), HasSubstr("tokenizer.ggml.unknown_token_id"));
}

/// What is noted of a vocabulary that loads.
std::vector<std::string> notes_of(Vocabulary v) {
  const Tokenizer t(std::move(v));
  return {t.notes().begin(), t.notes().end()};
}

TEST(VocabularyNotes, NameRepairedEntries) {
  const auto bpe = [](auto change) {
    Vocabulary v = hello_bpe();
    change(v);
    return notes_of(std::move(v));
  };
  const auto spm = [](auto change) {
    Vocabulary v = text::spm_vocabulary({"▁", "a"});
    change(v);
    return notes_of(std::move(v));
  };
  const auto one = [](const char* text) { return ElementsAre(HasSubstr(text)); };
  EXPECT_THAT(bpe([](Vocabulary&) {}), ElementsAre());
  EXPECT_THAT(spm([](Vocabulary&) {}), ElementsAre());
  EXPECT_THAT(bpe([](Vocabulary& v) { v.scores.pop_back(); }), ElementsAre());  // Of no use.
  EXPECT_THAT(bpe([](Vocabulary& v) { v.kinds.clear(); }), one("tokenizer.ggml.token_type is missing"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.kinds.push_back(TokenKind::kNormal); }),
              one("tokenizer.ggml.token_type"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.bos = 261; }), one("tokenizer.ggml.bos_token_id is 261"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.sep = 1 << 30; }), one("tokenizer.ggml.seperator_token_id"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.pad = -5; }), one("tokenizer.ggml.padding_token_id is -5"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.mask = -2; }), one("tokenizer.ggml.mask_token_id"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.add_bos = true; }), one("tokenizer.ggml.add_bos_token"));
  EXPECT_THAT(bpe([](Vocabulary& v) { v.add_eos = true; }), one("tokenizer.ggml.add_eos_token"));
  for (const char* merge : {"", " ", "  ", "h", "he", "h ", " h", "h e l", "h zz", "zz h", "e h"})
    EXPECT_THAT(bpe([&](Vocabulary& v) { v.merges[3] = merge; }), one("tokenizer.ggml.merges[3]")) << merge;
  EXPECT_THAT(spm([](Vocabulary& v) { v.scores.clear(); }), one("tokenizer.ggml.scores is missing"));
  EXPECT_THAT(spm([](Vocabulary& v) { v.scores[9] = std::numeric_limits<float>::quiet_NaN(); }),
              ElementsAre());
  for (const char* byte : {"<0xZZ>", "<0x-1>", "<0x1>", "<0x 1>", "<0x123>", "<0x+1>", "a byte", ""})
    EXPECT_THAT(spm([&](Vocabulary& v) { v.tokens[13] = byte; }), one("tokenizer.ggml.tokens[13]")) << byte;
}

TEST(VocabularyNotes, OfEqualTextsTheFirstThatIsInUseIsFound) {
  Vocabulary v = hello_bpe();
  const Token unused = add_token(v, "<unused7>", TokenKind::kUnused);
  add_token(v, "<unused7>", TokenKind::kUnused);
  v.tokens[7] = v.tokens[5];
  const Tokenizer t(v);
  EXPECT_EQ(t.find(v.tokens[5]), 5);
  EXPECT_EQ(t.find("<unused7>"), unused);
  EXPECT_THAT(t.notes(), ElementsAre(HasSubstr("tokenizer.ggml.tokens[7] has the text of [5]")));
  EXPECT_THAT(t.notes()[0], HasSubstr("1 more"));

  Vocabulary late = hello_bpe();
  late.kinds[259] = TokenKind::kUnused;
  const Token hello = add_token(late, "hello", TokenKind::kNormal);
  EXPECT_THAT(Tokenizer(late).encode("hello"), ElementsAre(hello));
  // The same for control tokens.
  Vocabulary twice = hello_bpe();
  const Token first = add_token(twice, "<m>", TokenKind::kControl);
  add_token(twice, "<m>", TokenKind::kControl);
  add_token(twice, "<m>x", TokenKind::kControl);
  EXPECT_THAT(Tokenizer(twice).encode("<m>he", kSpecial), ElementsAre(first, 256));
}

TEST(VocabularyNotes, TypesFollowFromTextsAndIds) {
  Vocabulary v = text::spm_vocabulary({"▁", "a"});
  v.kinds.clear();
  const Tokenizer t(v);
  EXPECT_EQ(t.kind(v.unk), TokenKind::kUnknown);
  EXPECT_EQ(t.kind(v.bos), TokenKind::kControl);
  EXPECT_EQ(t.kind(3), TokenKind::kByte);
  EXPECT_EQ(t.kind(260), TokenKind::kNormal);
  EXPECT_EQ(t.decode(t.encode("a é")), "a é");
}

TEST(VocabularyNotes, ScoresFollowFromTheOrderOfTokens) {
  Vocabulary v = text::spm_vocabulary({"▁", "a", "b", "ab", "▁a", "bb"});
  const std::vector<Token> ids = Tokenizer(v).encode("abb ab");
  v.scores.clear();
  EXPECT_EQ(Tokenizer(v).encode("abb ab"), ids);
}

TEST(VocabularyCheck, OddButPossibleOnesLoad) {
  Vocabulary v = hello_bpe();
  v.scores.clear();
  v.kinds.clear();
  for (int i = 0; i < 3; ++i) v.tokens.emplace_back();  // Empty tokens: never matched.
  v.tokens.emplace_back("\xFF\x00", 2);
  v.tokens.emplace_back("中");  // Outside the byte alphabet: can be generated, but never matches input.
  v.merges.push_back(v.merges[0]);
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("hello"), ElementsAre(259));
  EXPECT_EQ(t.find(""), kNoToken);
  EXPECT_EQ(t.piece(261), "");
  EXPECT_EQ(t.piece(264), std::string("\xFF\x00", 2));
  EXPECT_EQ(t.piece(265), "中");
}

TEST(VocabularyCheck, UnknownPreTokenizersAreUnsupported) {
  const Vocabulary v = text::bpe_vocabulary({}, "unheard-of");
  try {
    Tokenizer t(v);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
  }
}

TEST(Detokenizer, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer t(hello_bpe());
  for (const Token id : {-1, -1'000'000, t.n_vocab(), 1'000'000'000})
    for (const bool special : {false, true}) {
      EXPECT_THROW(t.piece(id, special), Error);
      EXPECT_THROW(t.decode(std::vector<Token>{'a', id}, special), Error);
      EXPECT_THROW(Detokenizer(t, special).push(id), Error);
      EXPECT_THROW(t.text(id), Error);
      EXPECT_THROW(t.kind(id), Error);
      EXPECT_FALSE(t.is_end(id));
    }
}

TEST(Detokenizer, NeverSplitsACharacter) {
  const Tokenizer t(hello_bpe());
  Detokenizer d(t);
  EXPECT_EQ(d.push('a'), "a");
  EXPECT_EQ(d.push(0xF0), "");
  EXPECT_EQ(d.push(0x9F), "");
  EXPECT_EQ(d.push(0xA6), "");
  EXPECT_EQ(d.push(0x99), "🦙");
  EXPECT_EQ(d.push(0xE4), "");
  EXPECT_EQ(d.push(256), "\xEF\xBF\xBDhe");  // No tail of a character.
  EXPECT_EQ(d.push(0xFF), "\xEF\xBF\xBD");
  EXPECT_EQ(d.push(0xE4), "");
  EXPECT_EQ(d.push(0xB8), "");
  EXPECT_EQ(d.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(d.finish(), "");
}

TEST(Detokenizer, StreamIsTheRepairedText) {
  const Tokenizer t(hello_bpe());
  std::mt19937 random(10);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Token> tokens;
    for (std::size_t n = random() % 30; n > 0; --n) tokens.push_back(static_cast<Token>(random() % 261));
    Detokenizer d(t);
    std::string streamed;
    for (const Token id : tokens) streamed += d.push(id);
    streamed += d.finish();
    ASSERT_EQ(streamed, text::repaired(t.decode(tokens)));
  }
}

}  // namespace
}  // namespace weft
