// Vocabularies of real files: their expected ids, and files that say too little or nonsense.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/vocabulary_from_gguf.h"
#include "gguf/writer.h"
#include "text/text_steps.h"
#include "weft/error.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr Tokenizer::EncodeOptions kPlain = {.add_special = false, .parse_special = false};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Tokenizer load(const fs::path& path) {
  return Tokenizer(engine::vocabulary_from_gguf(gguf::File::open(path)));
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  if (fs::exists(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

/// Compares the strings of each tokenize.json below a folder with the ids of the model's trainer. Returns
/// their number.
int compare_golden(const fs::path& folder) {
  int n_texts = 0;
  for (const fs::path& path : files_in(folder, "tokenize.json")) {
    const Tokenizer tokenizer = load(path.parent_path() / "model.gguf");
    for (const auto& entry : nlohmann::json::parse(read_file(path))) {
      const auto text = entry["text"].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text, kPlain), entry["ids"].get<std::vector<Token>>())
          << path << ": " << text;
      ++n_texts;
    }
  }
  return n_texts;
}

TEST(Vocabulary, GoldenTextsHaveTheirTokens) {
  EXPECT_GE(compare_golden(fs::path(WEFT_TEST_DATA) / "golden"), 40);
}

// Small vocabularies of the kinds that the golden models do not have, with ids by SentencePiece and others.
TEST(Vocabulary, SmallVocabulariesGiveTheirReferenceTokens) {
  int n_texts = 0;
  for (const fs::path& path : files_in(fs::path(WEFT_TEST_DATA) / "tokenizers", ".gguf")) {
    const Tokenizer tokenizer = load(path);
    for (const auto& entry : nlohmann::json::parse(read_file(fs::path(path).replace_extension(".json")))) {
      const auto text = entry["text"].get<std::string>();
      EXPECT_EQ(tokenizer.encode(text, kPlain), entry["ids"].get<std::vector<Token>>())
          << path << ": " << text;
      ++n_texts;
    }
  }
  EXPECT_GE(n_texts, 400);
}

/// Files NAME.gguf, NAME.gguf.inp with strings and NAME.gguf.out with their tokens, as in models/ of
/// llama.cpp.
TEST(Vocabulary, RealVocabulariesGiveTheirReferenceTokens) {
  const char* const folder = std::getenv("WEFT_VOCABULARIES");
  if (folder == nullptr) GTEST_SKIP() << "WEFT_VOCABULARIES names no folder of real vocabularies";
  const std::string mark = "\n__ggml_vocab_test__\n";
  int n_files = 0;
  for (const fs::path& path : files_in(folder, ".gguf")) {
    const Tokenizer tokenizer = load(path);
    const std::string texts = read_file(path.string() + ".inp");
    std::istringstream lines(read_file(path.string() + ".out"));
    int n_texts = 0;
    std::size_t begin = 0;
    for (std::size_t end; (end = texts.find(mark, begin)) != std::string::npos; begin = end + mark.size()) {
      const std::string text = texts.substr(begin, end - begin);
      std::string line;
      ASSERT_TRUE(std::getline(lines, line)) << path;
      std::istringstream numbers(line);
      const std::vector<Token> expected(std::istream_iterator<Token>(numbers), {});
      EXPECT_EQ(tokenizer.encode(text, kPlain), expected) << path << ": " << text;
      ++n_texts;
    }
    EXPECT_GE(n_texts, 40) << path;
    ++n_files;
  }
  EXPECT_GE(n_files, 10);
}

/// A string of characters that tokenizers treat differently.
std::string random_text(std::mt19937& random, bool space_mark) {
  static const std::vector<std::string> pieces = {
      "a",   "e", "t",      "Th",     "ing",    "  ",   " ",   " ",          "\n", "\r\n", "\t", "'s",
      "'LL", "0", "12",     "345",    ".",      ",",    "!?",  "--",         "_",  "/",    "é",  "Ä",
      "ß",   "ñ", "я",      "Бъл",    "中",     "文字", "あ",  "ア",         "한", "ก",    "ន់",  "अ",
      "ि",   "ا", "\u00A0", "\u3000", "\u200D", "🦙",   "🚀",  "👩\u200D🚀", "½",  "²",    "①",  "€",
      "“",   "’", "…",      "̈",       "<|",     "|>",   "<s>", "</s>",       "{",  "}",    "=",  "\\"};
  std::string text;
  const int n = static_cast<int>(random() % 24);
  for (int i = 0; i < n; ++i) {
    if (random() % 8 != 0) {
      text += pieces[random() % pieces.size()];
      continue;
    }
    // Any character at all, but no surrogate.
    char32_t c = random() % 0x11'0000;
    if (random() % 2 == 0) c %= 0x3000;
    if ((c >= 0xD800 && c < 0xE000) || (!space_mark && c == 0x2581)) continue;
    if (c < 0x80) {
      text += static_cast<char>(c);
      continue;
    }
    const int tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text += static_cast<char>((tails == 1 ? 0xC0 : tails == 2 ? 0xE0 : 0xF0) | c >> 6 * tails);
    for (int tail = tails - 1; tail >= 0; --tail) text += static_cast<char>(0x80 | (c >> 6 * tail & 0x3F));
  }
  return text;
}

void expect_round_trips(const fs::path& path, bool space_mark, bool composes = false) {
  const Tokenizer tokenizer = load(path);
  const text::Normalizer composed(composes ? R"([{"type": "NFC"}])" : "[]", {});
  std::mt19937 random(1);
  int wrong = 0;
  for (int i = 0; i < 100'000 && wrong < 3; ++i) {
    const std::string text = composed.apply(random_text(random, space_mark));
    const std::vector<Token> tokens =
        tokenizer.encode(text, {.add_special = i % 2 == 0, .parse_special = false});
    if (tokenizer.decode(tokens) != text) {
      ADD_FAILURE() << path << ": " << text << " came back as " << tokenizer.decode(tokens);
      ++wrong;
    }
    Detokenizer detokenizer(tokenizer);
    std::string streamed;
    for (const Token id : tokens) streamed += detokenizer.push(id);
    streamed += detokenizer.finish();
    if (!streamed.ends_with(text) || streamed.size() > text.size() + 1) {
      ADD_FAILURE() << path << ": " << text << " was streamed as " << streamed;
      ++wrong;
    }
  }
}

// The two vocabularies have all 256 bytes, so nothing may get lost. U+2581 is a space to SentencePiece.
TEST(Vocabulary, DecodeGivesBackWhatWasEncodedBpe) {
  // Qwen 2 composes characters (NFC).
  expect_round_trips(fs::path(WEFT_TEST_DATA) / "golden/qwen2/model.gguf", true, true);
}
TEST(Vocabulary, DecodeGivesBackWhatWasEncodedSpm) {
  expect_round_trips(fs::path(WEFT_TEST_DATA) / "golden/llama/model.gguf", false);
}

TEST(Vocabulary, KeysOfTheFileReachTheTokenizer) {
  const Tokenizer llama = load(fs::path(WEFT_TEST_DATA) / "golden/llama/model.gguf");
  EXPECT_EQ(llama.n_vocab(), 512);
  EXPECT_EQ(llama.bos(), 1);
  EXPECT_EQ(llama.eos(), 2);
  EXPECT_TRUE(llama.adds_bos());
  EXPECT_EQ(llama.encode("").size(), 1u);
  EXPECT_EQ(llama.kind(0), TokenKind::kUnknown);
  EXPECT_EQ(llama.kind(1), TokenKind::kControl);
  EXPECT_EQ(llama.kind(3), TokenKind::kByte);
  EXPECT_EQ(llama.text(2), "</s>");
  EXPECT_TRUE(llama.is_end(2));
  EXPECT_FALSE(llama.is_end(1));
  const Tokenizer qwen = load(fs::path(WEFT_TEST_DATA) / "golden/qwen2/model.gguf");
  EXPECT_FALSE(qwen.adds_bos());
  EXPECT_EQ(qwen.encode("<|endoftext|>", {.add_special = false, .parse_special = true}),
            std::vector<Token>{511});
}

/// The error that a file of these keys gives; empty if there is none.
std::string error_of(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  try {
    Tokenizer(engine::vocabulary_from_gguf(gguf::File::parse(bytes)));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

gguf::Writer small_bpe(const std::vector<std::string>& merges) {
  gguf::Writer writer;
  writer.set("tokenizer.ggml.model", "gpt2");
  writer.set("tokenizer.ggml.pre", "gpt-2");
  writer.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab"});
  if (!merges.empty()) writer.set_array("tokenizer.ggml.merges", merges);
  return writer;
}

TEST(Vocabulary, AnotherPreTokenizerThanTheFiles) {
  gguf::Writer writer = small_bpe({"a b"});
  writer.set("tokenizer.ggml.pre", "unheard-of");
  EXPECT_THAT(error_of(writer),
              testing::AllOf(testing::HasSubstr("unheard-of"), testing::HasSubstr("--pre")));
  const std::vector<std::byte> bytes = writer.to_bytes();
  const gguf::File file = gguf::File::parse(bytes);
  EXPECT_EQ(Tokenizer(engine::vocabulary_from_gguf(file, "gpt-2")).encode("ab"), std::vector<Token>{2});
  EXPECT_THROW(Tokenizer(engine::vocabulary_from_gguf(file, "gpt2000")), Error);
}

TEST(Vocabulary, DamagedKeysAreNamed) {
  using testing::HasSubstr;
  using Strings = std::vector<std::string>;
  using Ints = std::vector<std::int32_t>;
  const auto with = [](const char* key, const auto& value) {
    gguf::Writer writer = small_bpe({"a b"});
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, Ints> ||
                  std::is_same_v<std::decay_t<decltype(value)>, Strings>)
      writer.set_array(key, value);
    else
      writer.set(key, value);
    return error_of(writer);
  };
  EXPECT_EQ(error_of(small_bpe({"a b"})), "");
  EXPECT_EQ(with("tokenizer.ggml.token_type", Ints{1, 1, 1}), "");
  EXPECT_THAT(error_of({}), HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(with("tokenizer.ggml.model", "rwkv5"), HasSubstr("rwkv5"));
  EXPECT_THAT(with("tokenizer.ggml.model", std::uint32_t{1}), HasSubstr("tokenizer.ggml.model"));
  EXPECT_THAT(with("tokenizer.ggml.pre", "unheard-of"), HasSubstr("unheard-of"));
  EXPECT_THAT(with("tokenizer.ggml.tokens", Ints{1, 2, 3}), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(error_of(small_bpe({})), HasSubstr("tokenizer.ggml.merges"));
  EXPECT_THAT(with("tokenizer.ggml.token_type", Ints{1, 1}), HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(with("tokenizer.ggml.token_type", Ints{}), HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(with("tokenizer.ggml.token_type", Strings{"1", "1", "1"}),
              HasSubstr("tokenizer.ggml.token_type"));
  EXPECT_THAT(with("tokenizer.ggml.add_bos_token", std::uint32_t{2}),
              HasSubstr("tokenizer.ggml.add_bos_token"));
  EXPECT_THAT(with("tokenizer.ggml.add_bos_token", "yes"), HasSubstr("tokenizer.ggml.add_bos_token"));
}

Tokenizer tokenizer_of(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  return Tokenizer(engine::vocabulary_from_gguf(gguf::File::parse(bytes)));
}

gguf::Writer typed_bpe() {
  gguf::Writer writer = small_bpe({"a b"});
  writer.set_array("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 1});
  return writer;
}

TEST(Vocabulary, OddKeysAreReadWithANote) {
  using testing::ElementsAre;
  using testing::HasSubstr;
  const auto notes = [](const char* key, const auto& value) {
    gguf::Writer writer = typed_bpe();
    if constexpr (requires { value.data(); })
      writer.set_array(key, value);
    else
      writer.set(key, value);
    const Tokenizer tokenizer = tokenizer_of(writer);
    return std::vector<std::string>(tokenizer.notes().begin(), tokenizer.notes().end());
  };
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "cls", "mask"}) {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    EXPECT_THAT(notes(key.c_str(), 0xFFFF'FFFFu), ElementsAre(HasSubstr(key + " is 4294967295")));
    EXPECT_THAT(notes(key.c_str(), std::int32_t{-1}), ElementsAre(HasSubstr(key + " is -1")));
    EXPECT_THAT(notes(key.c_str(), std::uint32_t{3}), ElementsAre(HasSubstr(key + " is 3")));
    EXPECT_THAT(notes(key.c_str(), ~std::uint64_t{0}), ElementsAre(HasSubstr(key)));
    EXPECT_THAT(notes(key.c_str(), "1"), ElementsAre(HasSubstr(key)));
    EXPECT_THAT(notes(key.c_str(), 2.0f), ElementsAre());
  }
  EXPECT_THAT(notes("tokenizer.ggml.merges", std::vector<std::string>{"a b", "a c"}),
              ElementsAre(HasSubstr("tokenizer.ggml.merges[1]")));
  EXPECT_THAT(notes("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "b"}),
              testing::Contains(HasSubstr("tokenizer.ggml.tokens[2]")));
  EXPECT_THAT(notes("tokenizer.ggml.scores", std::vector<float>{1.0f}), ElementsAre());
  EXPECT_THAT(notes("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 1, 7}),
              ElementsAre(HasSubstr("tokenizer.ggml.token_type[2] is 7")));
  EXPECT_THAT(notes("tokenizer.ggml.token_type", std::vector<std::uint32_t>{1, 1, 4}), ElementsAre());
  EXPECT_THAT(notes("tokenizer.ggml.token_type", std::vector<std::int64_t>{1, 1, 4}), ElementsAre());
  EXPECT_THAT(notes("tokenizer.ggml.token_type", std::vector<float>{1, 1, 4}), ElementsAre());
  EXPECT_THAT(notes("tokenizer.ggml.add_bos_token", true),
              ElementsAre(HasSubstr("tokenizer.ggml.add_bos_token")));
  EXPECT_THAT(notes("tokenizer.ggml.add_bos_token", std::uint8_t{0}), ElementsAre());
  EXPECT_THAT(notes("tokenizer.chat_template", std::uint32_t{1}),
              ElementsAre(HasSubstr("tokenizer.chat_template")));
  EXPECT_THAT(tokenizer_of(small_bpe({"a b"})).notes(), ElementsAre(HasSubstr("token_type is missing")));
}

TEST(Vocabulary, FlagsOfOtherTypesCount) {
  gguf::Writer writer = typed_bpe();
  writer.set("tokenizer.ggml.bos_token_id", std::uint64_t{1});
  writer.set("tokenizer.ggml.add_bos_token", std::uint32_t{1});
  EXPECT_EQ(tokenizer_of(writer).encode("ab"), (std::vector<Token>{1, 2}));
}

TEST(Vocabulary, ListsOfEndsAreRead) {
  const auto ends = [](const char* key, const auto& ids) {
    gguf::Writer writer = typed_bpe();
    writer.set_array(key, ids);
    const Tokenizer tokenizer = tokenizer_of(writer);
    return std::pair(tokenizer.eos(),
                     std::vector<Token>(tokenizer.end_tokens().begin(), tokenizer.end_tokens().end()));
  };
  const std::vector<Token> both = {0, 2};
  for (const char* key : {"tokenizer.ggml.eos_token_ids", "tokenizer.ggml.eos_token_id"}) {
    EXPECT_EQ(ends(key, std::vector<std::int32_t>{2, 0}), std::pair(Token{2}, both));
    EXPECT_EQ(ends(key, std::vector<std::uint32_t>{2, 0}), std::pair(Token{2}, both));
    EXPECT_EQ(ends(key, std::vector<std::int64_t>{2, 0, 9, -1}), std::pair(Token{2}, both));
  }
  gguf::Writer code = typed_bpe();
  code.set("tokenizer.ggml.eos_token_id", std::uint32_t{0});
  code.set("tokenizer.ggml.fim_sep_token_id", std::uint32_t{1});
  code.set("tokenizer.ggml.fim_pre_token_id", std::uint32_t{2});
  EXPECT_THAT(tokenizer_of(code).end_tokens(), testing::ElementsAre(0, 1));
}

}  // namespace
}  // namespace weft
