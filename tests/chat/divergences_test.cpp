// Where the prompts of later turns diverge from a prompt, in bytes and in tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/to_size.h"
#include "chat/chat_testing.h"
#include "text/encoder.h"
#include "text/vocabulary.h"
#include "weft/error.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kTurns =
    R"([{"role": "user", "content": "What is a loom?"}, {"role": "assistant", "content": "A machine."},
        {"role": "user", "content": "And weft?"}])";
constexpr const char* kNextTurn =
    R"([{"role": "user", "content": "What is a loom?"}, {"role": "assistant", "content": "A machine."},
        {"role": "user", "content": "And weft?"}, {"role": "assistant", "content": "Yarn."},
        {"role": "user", "content": "Thanks."}])";
constexpr const char* kEditedTurn =
    R"([{"role": "user", "content": "What is a loom?"}, {"role": "assistant", "content": "A machine."},
        {"role": "user", "content": "Who made it?"}])";

ChatOpening open_family(const std::filesystem::path& path, const char* messages) {
  const Chat chat(
      ChatTemplate(read_test_file("templates/families/" + path.filename().string()), "<s>", "</s>"));
  return chat.open({.messages_json = messages, .find_divergences = true});
}

std::vector<std::string> texts_before(const ChatOpening& opening, std::size_t n_shown) {
  const std::string prompt = join(opening.prompt);
  std::vector<std::string> texts;
  for (const std::size_t at : opening.divergences)
    texts.push_back(prompt.substr(at - std::min(at, n_shown), std::min(at, n_shown)));
  return texts;
}

std::size_t n_in_common(const std::string& a, const std::string& b) {
  return to_size(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

TEST(ChatDivergences, ATemplateThatDropsReasoningDivergesBeforeIt) {
  // The prompt ends with the tag that begins reasoning, which later prompts do not have.
  const ChatOpening opening = open_family("qwen35.jinja", kTurns);
  EXPECT_THAT(texts_before(opening, 13), ElementsAre("_start|>user\n", "t|>assistant\n"));
  EXPECT_TRUE(join(opening.prompt).substr(opening.divergences[1]).starts_with("<think>"));
}

TEST(ChatDivergences, OtherPromptsContinueAtTheirEnd) {
  EXPECT_THAT(texts_before(open_family("gemma2.jinja", kTurns), 5), ElementsAre("user\n"));
}

TEST(ChatDivergences, AreFoundOnlyIfWanted) {
  const Chat chat(ChatTemplate("chatml", "<s>", "</s>"));
  EXPECT_THAT(chat.open({.messages_json = kTurns}).divergences, IsEmpty());
  // A continued message has no next turn.
  EXPECT_THAT(chat.open({.messages_json = R"([{"role": "assistant", "content": "Yarn"}])",
                         .add_generation_prompt = false,
                         .find_divergences = true})
                  .divergences,
              IsEmpty());
}

TEST(ChatDivergences, ATemplateThatRejectsOtherTurnsHasNone) {
  const Chat chat(
      ChatTemplate("{% if messages | length > 1 or messages[0].content != 'Hi' %}{{ raise_exception('no') "
                   "}}{% endif %}Hi"));
  const ChatOpening opening =
      chat.open({.messages_json = R"([{"role": "user", "content": "Hi"}])", .find_divergences = true});
  EXPECT_EQ(join(opening.prompt), "Hi");
  EXPECT_THAT(opening.divergences, IsEmpty());
}

TEST(ChatDivergences, OtherTurnsOfAllFamiliesHaveThePromptUpToThere) {
  int n = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(WEFT_TEST_DATA) + "/templates/families")) {
    SCOPED_TRACE(entry.path().filename().string());
    ++n;
    const ChatOpening opening = open_family(entry.path(), kTurns);
    const std::string prompt = join(opening.prompt);
    ASSERT_FALSE(opening.divergences.empty());
    EXPECT_LE(opening.divergences.size(), 2u);
    EXPECT_LE(opening.divergences.front(),
              n_in_common(prompt, join(open_family(entry.path(), kEditedTurn).prompt)));
    const std::size_t next = opening.divergences.size() == 2 ? opening.divergences.back() : prompt.size();
    EXPECT_LE(next, n_in_common(prompt, join(open_family(entry.path(), kNextTurn).prompt)));
  }
  EXPECT_GT(n, 40);
}

/// The bytes, and two tags as control tokens.
Tokenizer byte_tokenizer(bool adds_bos) {
  text::Vocabulary v;
  v.kind = text::VocabularyKind::kBpe;
  v.pre = "gpt-2";
  for (int b = 0; b < 256; ++b) {
    v.tokens.push_back(std::string(text::alphabet_of_byte(static_cast<unsigned char>(b))));
    v.kinds.push_back(TokenKind::kNormal);
  }
  for (const char* tag : {"<s>", "<|im_start|>", "<|im_end|>"}) {
    v.tokens.emplace_back(tag);
    v.kinds.push_back(TokenKind::kControl);
  }
  v.bos = 256;
  v.add_bos = adds_bos;
  v.eos = 258;
  return Tokenizer(std::move(v));
}

TEST(ChatDivergences, TokensEndWhereTheOffsetsAre) {
  for (const bool adds_bos : {false, true}) {
    const Tokenizer tokenizer = byte_tokenizer(adds_bos);
    const std::vector<PromptPiece> prompt = {{"<|im_start|>user\n", true},
                                             {"H\xC3\xA9 <|im_end|>?", false},
                                             {"<|im_end|>\n<|im_start|>assistant\n", true}};
    const std::vector<Token> tokens = tokenizer.encode(prompt);
    const std::string text = join(prompt);
    std::vector<std::size_t> offsets;
    for (const char* mark : {"H\xC3\xA9", "<|im_end|>?", "?", "assistant"})
      offsets.push_back(text.find(mark));
    const std::vector<int> counts = token_counts(tokenizer, prompt, offsets, tokens);
    ASSERT_EQ(counts.size(), offsets.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::span<const Token> head = std::span(tokens).first(to_size(counts[i]));
      EXPECT_EQ(tokenizer.decode(head.subspan(adds_bos ? 1 : 0), true), text.substr(0, offsets[i]));
    }
    // Inside of a control token, and of a prompt with other tokens.
    const std::size_t inside[] = {text.size() - 15};
    EXPECT_THAT(token_counts(tokenizer, prompt, inside, tokens), IsEmpty());
    const std::size_t begin[] = {0};
    EXPECT_THAT(token_counts(tokenizer, prompt, begin, std::vector<Token>(30, 5)), IsEmpty());
  }
}

}  // namespace
}  // namespace weft
