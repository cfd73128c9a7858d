// The steps of a tokenizer.json, converted and applied, give the ids of Hugging Face's tokenizers
// (scripts/make_step_vectors.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert_testing.h"
#include "convert/folder_testing.h"
#include "engine/vocabulary_from_gguf.h"
#include "text/splitter_patterns.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;

const json& vectors() {
  static const json data = [] {
    std::ifstream file(kData / "tokenizers/steps.json");
    return json::parse(file);
  }();
  return data;
}

std::int64_t n_tokens(const json& tokenizer) {
  auto n = static_cast<std::int64_t>(tokenizer["model"]["vocab"].size());
  for (const json& token : tokenizer["added_tokens"]) n = std::max(n, token["id"].get<std::int64_t>() + 1);
  return n;
}

class Steps : public ConvertTest {
 protected:
  static json tokenizer_of(const json& one) {
    return {{"added_tokens", one["added_tokens"]},
            {"normalizer", one["normalizer"]},
            {"pre_tokenizer", one["pre_tokenizer"]},
            {"model", vectors()["models"][one["model"].get<std::string>()]}};
  }
  static json tokenizer_named(const std::string& name) {
    for (const json& one : vectors()["cases"])
      if (one["name"] == name) return tokenizer_of(one);
    ADD_FAILURE() << "no case " << name;
    return {};
  }

  void write_folder(const json& tokenizer) {
    test::write_small_model(scratch_, n_tokens(tokenizer));
    write(scratch_ / "tokenizer.json", tokenizer.dump());
  }

  Tokenizer converted() const {
    convert(scratch_, scratch_ / "made.gguf");
    return Tokenizer(engine::vocabulary_from_gguf(gguf::File::open(scratch_ / "made.gguf")));
  }

  static std::vector<Token> ids_of(const Tokenizer& tokenizer, const std::string& text) {
    return tokenizer.encode(text, {.add_special = false, .parse_special = true});
  }
};

TEST_F(Steps, GiveTheIdsOfTokenizers) {
  for (const json& one : vectors()["cases"]) {
    write_folder(tokenizer_of(one));
    const Tokenizer tokenizer = converted();
    for (std::size_t i = 0; i < one["texts"].get<std::size_t>(); ++i) {
      const auto text = vectors()["texts"][i].get<std::string>();
      EXPECT_EQ(ids_of(tokenizer, text), one["ids"][i].get<std::vector<Token>>())
          << one["name"] << ": " << text;
    }
  }
}

// Its table of replacements and its removal of spaces, as SentencePiece applies them.
TEST_F(Steps, SentencePiecesBpeGivesItsIds) {
  constexpr std::int64_t kTokens = 800;
  test::write_small_model(scratch_, kTokens);
  std::filesystem::copy(kData / "tokenizers/sentencepiece-bpe.model", scratch_ / "tokenizer.model");
  const Tokenizer tokenizer = converted();
  std::ifstream file(kData / "tokenizers/sentencepiece-bpe.json");
  for (const json& one : json::parse(file))
    EXPECT_EQ(
        tokenizer.encode(one["text"].get<std::string>(), {.add_special = false, .parse_special = false}),
        one["ids"].get<std::vector<Token>>())
        << one["text"];
}

// No merges make this token.
TEST_F(Steps, IgnoredMergesAreKept) {
  json tokenizer = tokenizer_named("bytes");
  json& vocabulary = tokenizer["model"]["vocab"];
  Token id = kNoToken;  // In place of the last token.
  std::string last;
  for (const auto& [text, number] : vocabulary.items())
    if (number.get<Token>() > id) id = number.get<Token>(), last = text;
  vocabulary.erase(last);
  vocabulary["xyzzy"] = id;
  tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  for (const bool ignores : {false, true}) {
    tokenizer["model"]["ignore_merges"] = ignores;
    write_folder(tokenizer);
    const std::vector<Token> ids = ids_of(converted(), "xyzzy");
    EXPECT_EQ(ids == std::vector{id}, ignores);
    // Only where the pre-tokenizer's name says something else.
    EXPECT_EQ(gguf::File::open(scratch_ / "made.gguf").get_bool("weft.tokenizer.ignore_merges"),
              ignores ? std::optional(true) : std::nullopt);
    convert(scratch_, scratch_ / "named.gguf", {.pre_tokenizer = "llama-bpe"});
    EXPECT_EQ(gguf::File::open(scratch_ / "named.gguf").get_bool("weft.tokenizer.ignore_merges"),
              ignores ? std::nullopt : std::optional(false));
  }
}

TEST_F(Steps, UnknownOnesAreRefusedByName) {
  const auto refused = [&](const char* part, const json& step, const std::string& text) {
    json tokenizer = tokenizer_named("first");
    tokenizer[part] = step;
    write_folder(tokenizer);
    expect_refused(scratch_, ErrorCode::kUnsupported, text);
  };
  refused("normalizer", {{"type", "ByteLevel"}},
          "a normalizer that weft does not support ({\"type\":\"ByteLevel\"})");
  refused("normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "Reverse"}}}}},
          "Reverse");
  refused("normalizer", {{"type", "Replace"}, {"pattern", {{"Regex", "("}}}, {"content", ""}},
          "expression '('");
  refused("pre_tokenizer", {{"type", "UnicodeScripts"}}, "a pre-tokenizer that weft does not support");
  refused("pre_tokenizer", {{"type", "FixedLength"}, {"length", 5}}, "FixedLength");
  json tokenizer = tokenizer_named("bytes");
  tokenizer["model"]["end_of_word_suffix"] = "</w>";
  write_folder(tokenizer);
  expect_refused(scratch_, ErrorCode::kUnsupported, "'</w>' (end_of_word_suffix)");
}

TEST_F(Steps, DamagedOnesAreRefused) {
  const auto refused = [&](const char* part, const json& step, const std::string& text) {
    json tokenizer = tokenizer_named("first");
    tokenizer[part] = step;
    write_folder(tokenizer);
    expect_refused(scratch_, ErrorCode::kInvalidFile, text);
  };
  refused("normalizer", {{"type", "Replace"}, {"content", "x"}}, "has no pattern");
  refused("normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}, "not base64");
  refused("normalizer", {{"type", "Strip"}, {"strip_left", 1}}, "no flag strip_left");
  refused("pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "last"}}, "unknown prepend_scheme");
  refused("pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Lost"}}, "unknown behavior");
}

/// An added token that is not special, unless `flags` say so.
json added(Token id, const std::string& content, const json& flags) {
  json token = {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", false}};
  token.update(flags);
  return token;
}

// Hugging Face's tokenizers 0.23 gave the ids in these tests.
TEST_F(Steps, TokensInStrippedSpaceCount) {
  json tokenizer = tokenizer_named("bytes");
  const auto end = static_cast<Token>(n_tokens(tokenizer));
  tokenizer["added_tokens"].push_back(added(end, "<|end|>", {{"rstrip", true}, {"special", true}}));
  tokenizer["added_tokens"].push_back(added(end + 1, "\n\n", json::object()));
  tokenizer["added_tokens"].push_back(added(end + 2, "  ", json::object()));
  write_folder(tokenizer);
  const Tokenizer made = converted();
  using Ids = std::vector<Token>;
  EXPECT_EQ(ids_of(made, "hi<|end|>\n\nbye"), (Ids{73, 74, end, end + 1, 67, 90, 70}));
  EXPECT_EQ(ids_of(made, "hi<|end|>\nbye"), (Ids{73, 74, end, 67, 90, 70}));
  EXPECT_EQ(ids_of(made, "hi<|end|>  bye"), (Ids{73, 74, end, end + 2, 67, 90, 70}));
  EXPECT_EQ(ids_of(made, "hi<|end|> \n\nbye"), (Ids{73, 74, end, end + 1, 67, 90, 70}));
}

TEST_F(Steps, NormalizersSeeTheTextAroundNormalizedTokens) {
  json tokenizer = tokenizer_named("bytes");
  const auto token = static_cast<Token>(n_tokens(tokenizer));
  tokenizer["normalizer"] = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};
  tokenizer["added_tokens"].push_back(added(token, "<|x|>", {{"normalized", true}, {"special", true}}));
  write_folder(tokenizer);
  const Tokenizer made = converted();
  using Ids = std::vector<Token>;
  EXPECT_EQ(ids_of(made, "hello <|x|>"), (Ids{73, 70, 77, 77, 80, 222, token}));
  EXPECT_EQ(ids_of(made, "hello <|x|> "), (Ids{73, 70, 77, 77, 80, 222, token}));
  EXPECT_EQ(ids_of(made, "hello "), (Ids{73, 70, 77, 77, 80}));
}

TEST_F(Steps, SingleWordsOfUnigramModelsRemainPieces) {
  json tokenizer = tokenizer_named("unigram-always");
  constexpr Token kEn = 23;
  ASSERT_EQ(tokenizer["model"]["vocab"][kEn][0], "en");
  tokenizer["added_tokens"].push_back(added(kEn, "en", {{"single_word", true}}));
  write_folder(tokenizer);
  const Tokenizer made = converted();
  using Ids = std::vector<Token>;
  EXPECT_EQ(ids_of(made, "aenx en"), (Ids{3, 11, 23, 172, 23}));
  EXPECT_EQ(ids_of(made, "enen"), (Ids{3, 23, 23}));
}

TEST_F(Steps, AddedCharactersAreNoPieces) {
  json tokenizer = tokenizer_named("prepend-normalized");
  const auto tab = static_cast<Token>(n_tokens(tokenizer));
  tokenizer["added_tokens"].push_back(added(tab, "\t", {{"normalized", true}}));
  write_folder(tokenizer);
  const Tokenizer made = converted();
  using Ids = std::vector<Token>;
  EXPECT_EQ(ids_of(made, "a\tb"), (Ids{407, 12, 285}));
  EXPECT_EQ(ids_of(made, "\ta"), (Ids{tab, 284}));
}

TEST_F(Steps, BpeOnCharactersOfWords) {
  const json model = {
      {"type", "BPE"},
      {"unk_token", "<unk>"},
      {"vocab", {{"<unk>", 0}, {"a", 1}, {"b", 2}, {",", 3}, {"ab", 4}, {"ab,", 5}, {"ab,a", 6}}},
      {"merges", {"a b", "ab ,", "ab, a"}}};
  json tokenizer = {{"added_tokens", json::array()}, {"model", model}};
  using Ids = std::vector<Token>;
  for (const auto& [type, expected] :
       {std::pair("WhitespaceSplit", Ids{6, 2}), std::pair("Whitespace", Ids{4, 3, 1, 2})}) {
    tokenizer["pre_tokenizer"] = {{"type", type}};
    write_folder(tokenizer);
    const Tokenizer made = converted();
    EXPECT_EQ(ids_of(made, "ab,a b"), expected) << type;
    EXPECT_EQ(ids_of(made, " a  zb\nab"), (Ids{1, 0, 2, 4})) << type;
    expect_refused(scratch_, ErrorCode::kInvalidArgument, "leave --pre", {.pre_tokenizer = "gpt-2"});
  }
  tokenizer["model"]["fuse_unk"] = true;
  write_folder(tokenizer);
  expect_refused(scratch_, ErrorCode::kUnsupported, "fuse_unk");
}

TEST_F(Steps, WordPiecesUnknownTokenIsTheModels) {
  std::string text = tokenizer_named("wordpiece").dump();
  for (std::size_t at; (at = text.find("[UNK]")) != text.npos;) text.replace(at, 5, "<unk>");
  json tokenizer = json::parse(text);
  const Token unknown = tokenizer["model"]["vocab"]["<unk>"];
  tokenizer["model"]["unk_token"] = "<unk>";
  write_folder(tokenizer);
  EXPECT_EQ(ids_of(converted(), "\u0bb5"), std::vector{unknown});
}

TEST_F(Steps, SplitsThatDropTheirMatchesAreUnknown) {
  json tokenizer = tokenizer_named("bytes");
  const auto with = [&](const char* behaviour, bool invert) {
    const json split = {{"type", "Split"},
                        {"pattern", {{"Regex", text::patterns::kQwen2}}},
                        {"behavior", behaviour},
                        {"invert", invert}};
    const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
    tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
    write_folder(tokenizer);
  };
  with("Isolated", false);
  EXPECT_EQ(convert(scratch_, scratch_ / "made.gguf").architecture, "llama");
  with("Removed", true);
  EXPECT_EQ(convert(scratch_, scratch_ / "made.gguf").architecture, "llama");
  with("Removed", false);
  expect_refused(scratch_, ErrorCode::kUnsupported, "behavior Removed");
}

// Control tokens that are found after normalising: a user must not be able to write them.
TEST_F(Steps, NormalisedControlTokensCountOnlyInTheTemplate) {
  write_folder(tokenizer_named("prepend-normalized"));
  const Tokenizer tokenizer = converted();
  const Token start = tokenizer.find("<|im_start|>");
  const auto holds = [&](bool from_template) {
    const std::vector<PromptPiece> pieces = {{"a <|im_start|> b", from_template}};
    const std::vector<Token> ids = tokenizer.encode(pieces);
    return std::find(ids.begin(), ids.end(), start) != ids.end();
  };
  EXPECT_TRUE(holds(true));
  EXPECT_FALSE(holds(false));
}

}  // namespace
}  // namespace weft
