#include "text/text_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "text/vocabulary_testing.h"
#include "weft/error.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Tokenizer::EncodeOptions kStepSpecial = {.add_special = false, .parse_special = true};

std::string normalised(const std::string& step, std::string_view text) {
  return text::Normalizer("[" + step + "]", {}).apply(text);
}

std::vector<std::string> cut(const std::string& steps, const std::string& text, bool begins = true) {
  std::vector<std::string> texts;
  for (const auto& piece : text::PieceCutter("[" + steps + "]").cut({text, begins}))
    texts.push_back(piece.text);
  return texts;
}

std::string message_of(const std::string& steps) {
  try {
    text::Normalizer{steps, {}};
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Normalizer, NormalForms) {
  EXPECT_EQ(normalised(R"({"type": "NFC"})", "e\u0301 \u1112\u1161\u11ab"), "\u00e9 \ud55c");
  EXPECT_EQ(normalised(R"({"type": "NFD"})", "\u00e9 \ud55c"), "e\u0301 \u1112\u1161\u11ab");
  EXPECT_EQ(normalised(R"({"type": "NFKC"})", "\uff21 \ufb01 \u00bd"), "A fi 1\u20442");
  EXPECT_EQ(normalised(R"({"type": "NFKD"})", "\uac00\u2460"), "\u1100\u11611");
  // Characters that never compose again, and a zero byte.
  EXPECT_EQ(normalised(R"({"type": "NFC"})", "\u0958"), "\u0915\u093c");
  EXPECT_EQ(normalised(R"({"type": "NFC"})", std::string_view("a\0e\u0301", 5)), std::string("a\0\u00e9", 4));
}

TEST(Normalizer, LongRunsOfMarksTakeLinearTime) {
  constexpr std::size_t kMarks = 1 << 18;  // Quadratic ordering would take hours.
  std::string marks = "a";
  for (const char* mark : {"\u0301", "\u0316"})
    for (std::size_t i = 0; i < kMarks; ++i) marks += mark;
  const std::string ordered = normalised(R"({"type": "NFC"})", marks);
  EXPECT_TRUE(ordered.starts_with("\u00e1\u0316\u0316") && ordered.ends_with("\u0301\u0301"));
}

TEST(Normalizer, Replacements) {
  EXPECT_EQ(normalised(R"({"type": "Replace", "pattern": {"String": "aa"}, "content": "b"})", "aaaa a"),
            "bb a");
  EXPECT_EQ(
      normalised(R"({"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "})", "a \t\u00a0b\n"),
      "a b ");
  EXPECT_EQ(
      normalised(R"({"type": "Replace", "pattern": {"Regex": "\\w+"}, "content": "x"})", "e\u0301_1 \u00bd"),
      "x \u00bd");
  EXPECT_EQ(normalised(R"({"type": "Replace", "pattern": {"String": ""}, "content": "b"})", "a"), "a");
  EXPECT_EQ(normalised(R"({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"})", "axxb"), "a-b");
  EXPECT_EQ(normalised(R"({"type": "Prepend", "prepend": "_"})", ""), "");
  EXPECT_EQ(normalised(R"({"type": "Prepend", "prepend": "_"})", "_a"), "__a");
  EXPECT_EQ(normalised(R"({"type": "Strip", "strip_left": true, "strip_right": false})", "\u3000 a "), "a ");
}

TEST(PieceCutter, MetaspaceKnowsThreeSchemes) {
  const auto scheme = [](const char* name) {
    return R"({"type": "Metaspace", "replacement": "_", "split": false, "prepend_scheme": ")" +
           std::string(name) + "\"}";
  };
  EXPECT_THAT(cut(scheme("first"), "a b"), ElementsAre("_a_b"));
  EXPECT_THAT(cut(scheme("first"), "a b", false), ElementsAre("a_b"));
  EXPECT_THAT(cut(scheme("always"), "a b", false), ElementsAre("_a_b"));
  EXPECT_THAT(cut(scheme("never"), "a b"), ElementsAre("a_b"));
  // A space that is there already is enough.
  EXPECT_THAT(cut(scheme("always"), " a"), ElementsAre("_a"));
  // Older files have a flag; words are cut unless a file says otherwise.
  EXPECT_THAT(cut(R"({"type": "Metaspace", "add_prefix_space": false})", "a  b"),
              ElementsAre("a", "\u2581", "\u2581b"));
}

TEST(PieceCutter, Behaviours) {
  const auto split = [](const char* behaviour) {
    return R"({"type": "Split", "pattern": {"String": "-"}, "behavior": ")" + std::string(behaviour) + "\"}";
  };
  EXPECT_THAT(cut(split("Removed"), "a--b-c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(cut(split("Isolated"), "a--b"), ElementsAre("a", "-", "-", "b"));
  EXPECT_THAT(cut(split("Contiguous"), "a--b"), ElementsAre("a", "--", "b"));
  EXPECT_THAT(cut(split("MergedWithPrevious"), "a--b-"), ElementsAre("a-", "-", "b-"));
  EXPECT_THAT(cut(split("MergedWithNext"), "-a--b"), ElementsAre("-a", "-", "-b"));
  EXPECT_THAT(cut(R"({"type": "WhitespaceSplit"})", " a\u2003b "), ElementsAre("a", "b"));
  EXPECT_THAT(cut(R"({"type": "WhitespaceSplit"})", " "), ElementsAre());
}

TEST(TextSteps, RejectsUnknownAndDamagedStepsByName) {
  EXPECT_THAT(message_of(R"([{"type": "Reverse"}])"), HasSubstr("Reverse"));
  EXPECT_THAT(message_of(R"([3])"), HasSubstr("does not support (3)"));
  EXPECT_THAT(message_of(R"({"type": "NFC"})"), HasSubstr("weft.tokenizer.normalizers is not a JSON list"));
  EXPECT_THAT(message_of("[{"), HasSubstr("weft.tokenizer.normalizers is not a JSON list"));
  EXPECT_THAT(message_of(std::string(1000, '[')), HasSubstr("is not a JSON list"));
  std::string many = "[";
  for (int i = 0; i < 65; ++i) many += std::string(i > 0 ? "," : "") + R"({"type": "NFC"})";
  EXPECT_THAT(message_of(many + "]"), HasSubstr("at most 64 steps"));
  EXPECT_THAT(message_of(R"([{"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""}])"),
              HasSubstr("'(a'"));
  EXPECT_THAT(message_of(R"([{"type": "Replace", "pattern": {"Regex": "\\C"}, "content": ""}])"),
              HasSubstr("\\C"));
}

// An expression that backtracks without end stops at a count of steps.
TEST(TextSteps, WildExpressionsEndInAnError) {
  EXPECT_THROW(normalised(R"({"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""})",
                          std::string(64, 'a') + "!"),
               Error);
}

TEST(AddedTokens, SingleWordsCountBetweenOtherCharactersOnly) {
  text::Vocabulary v = text::bpe_vocabulary({});
  const Token word = add_token(v, "he", TokenKind::kUserDefined);
  v.single_word = {word};
  const Tokenizer t(v);
  const auto found = [&](const char* text) {
    const std::vector<Token> ids = t.encode(text, kStepSpecial);
    return std::count(ids.begin(), ids.end(), word);
  };
  EXPECT_EQ(found("he he"), 2);
  EXPECT_EQ(found("(he)-he."), 2);
  EXPECT_EQ(found("hehe the he_ \u00e9he he\u0301"), 0);
  EXPECT_EQ(found("hehe he"), 1);
}

TEST(AddedTokens, NormalisedOnesAreFoundInNormalisedText) {
  text::Vocabulary v = text::bpe_vocabulary({});
  const Token user = add_token(v, "Word", TokenKind::kUserDefined);
  const Token raw = add_token(v, "RAW", TokenKind::kUserDefined);
  v.normalizers = R"([{"type": "Lowercase"}])";
  v.normalized = {user};
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("WORD", kStepSpecial), ElementsAre(user));
  EXPECT_THAT(t.encode("RAW", kStepSpecial), ElementsAre(raw));
  EXPECT_THAT(t.encode("raw", kStepSpecial), ElementsAre('r', 'a', 'w'));
}

TEST(AddedTokens, NormalisedControlTokensAreFoundButNotInAUsersMessage) {
  text::Vocabulary v = text::bpe_vocabulary({});
  const Token end = add_token(v, "<e>", TokenKind::kControl);
  v.normalizers = R"([{"type": "Lowercase"}])";
  v.normalized = {end};
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("<e>x<E>", kStepSpecial), ElementsAre(end, 'x', end));
  for (const char* text : {"<e>", "<E>"}) {
    EXPECT_THAT(t.encode(text, {.add_special = false}), ElementsAre('<', 'e', '>'));
    const std::vector<PromptPiece> pieces = {{"<E>", true}, {text, false}, {"<e>", true}};
    EXPECT_THAT(t.encode(pieces), ElementsAre('<', 'e', '>', '<', 'e', '>', end)) << text;
  }
}

TEST(AddedTokens, NormalisedOnesComeAfterTheOthersEvenWithoutNormalizers) {
  text::Vocabulary v = text::bpe_vocabulary({});
  const Token word = add_token(v, "word", TokenKind::kUserDefined);
  const Token part = add_token(v, "or", TokenKind::kUserDefined);
  EXPECT_THAT(Tokenizer(v).encode("word", kStepSpecial), ElementsAre(word));
  v.normalizers = "[]";
  v.normalized = {word};
  EXPECT_THAT(Tokenizer(v).encode("word", kStepSpecial), ElementsAre('w', part, 'd'));
}

TEST(AddedTokens, StripsUnicodeWhitespace) {
  text::Vocabulary v = text::bpe_vocabulary({});
  const Token both = add_token(v, "<b>", TokenKind::kControl);
  v.strip_left = v.strip_right = {both};
  EXPECT_THAT(Tokenizer(v).encode("a\u3000\u00a0<b> \u2003b", kStepSpecial), ElementsAre('a', both, 'b'));
}

TEST(Steps, ReplaceWhatTheKindDoesByItself) {
  text::Vocabulary v = text::spm_vocabulary({"▁a", "▁", "a"});
  v.add_space_prefix = true;
  v.normalizers = "[]";
  v.pre_tokenizers = R"([{"type": "Metaspace", "prepend_scheme": "first", "split": false}])";
  const Tokenizer t(v);
  EXPECT_THAT(t.encode("a", kStepSpecial), ElementsAre(259));
  EXPECT_THAT(t.encode("<s>a", kStepSpecial), ElementsAre(1, 261));
  EXPECT_THAT(t.encode("<s> a", kStepSpecial), ElementsAre(1, 259));
  EXPECT_EQ(t.decode(t.encode("a")), "a");
}

TEST(Steps, SentencePiecesTableIsOfBothModels) {
  text::Vocabulary v = text::spm_vocabulary({"▁a", "▁", "a"});
  v.remove_extra_spaces = true;
  EXPECT_THAT(Tokenizer(v).encode("  a   a ", kStepSpecial), ElementsAre(259, 259));
}

}  // namespace
}  // namespace weft
