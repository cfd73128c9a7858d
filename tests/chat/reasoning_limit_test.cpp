// Limits of reasoning (ChatTurn::reasoning_budget), with a scripted model that writes a byte or a tag at a
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "chat/chat_testing.h"
#include "chat/format.h"
#include "chat/json_scanner.h"
#include "grammar/grammar_testing.h"

namespace weft {
namespace {

/// All bytes are tokens; the tags of many formats are special tokens, too, if `special`.
const Tokenizer& tag_tokenizer(bool special) {
  static const auto make = [](bool with_tags) {
    text::Vocabulary v = grammar::small_vocabulary();
    if (with_tags)
      for (const char* tag : {"<think>", "</think>", "<|channel|>", "<|message|>", "<|end|>", "<|start|>",
                              "[THINK]", "[/THINK]", "<channel|>", "<|END_THINKING|>"})
        grammar::add_token(v, tag, TokenKind::kControl);
    return v;
  };
  static const Tokenizer plain(make(false)), tagged(make(true));
  return special ? tagged : plain;
}

/// What a model writes that a constraint does not force: the tokens of `wishes`, one by one.
struct Written {
  std::string text;
  std::string reasoning;
  std::string content;
  int n_forced = 0;
};

class Writing {
 public:
  Writing(const Tokenizer& tokenizer, const ChatOpening& opening,
          const ReasoningLimit::MakeConstraint& inner = nullptr)
      : tokenizer_(tokenizer), reader_(opening.reader) {
    if (opening.reasoning_limit) constraint_ = opening.reasoning_limit->constraint(tokenizer, inner)(0);
  }

  /// Writes the string; forced tokens come in between.
  Writing& wish(std::string_view text) {
    for (const Token token : tokenizer_.encode(text, {.add_special = false, .parse_special = true})) {
      write_forced();
      write(token);
    }
    write_forced();
    return *this;
  }
  const Written& done() {
    note(reader_.finish());
    return written_;
  }
  bool allows(Token token) const { return !constraint_ || mask({})[0].empty() || has(mask({})[0], token); }

 private:
  using Mask = std::vector<std::uint32_t>;
  static bool has(const Mask& mask, Token token) {
    return (mask[static_cast<std::size_t>(token) / 32] >> token % 32 & 1u) != 0;
  }
  std::vector<Mask> mask(std::span<const Token> draft) const {
    Mask allowed(static_cast<std::size_t>(tokenizer_.n_vocab() + 31) / 32);
    constraint_->fill(draft, allowed);
    return {allowed};
  }
  void write_forced() {
    if (!constraint_) return;
    std::vector<Token> forced;
    constraint_->forced({}, forced);
    EXPECT_TRUE(forced.empty() || !constraint_->allows_all(0));
    for (std::size_t i = 0; i < forced.size(); ++i) {
      // The mask after a draft of forced tokens has the next one only.
      const Mask allowed = mask(std::span(forced).first(i)).front();
      for (Token token = 0; token < tokenizer_.n_vocab(); ++token)
        EXPECT_EQ(has(allowed, token), token == forced[i]);
      EXPECT_TRUE(constraint_->allows(std::span(forced).first(i), forced[i]));
      EXPECT_FALSE(constraint_->allows(std::span(forced).first(i), forced[i] + 1));
    }
    for (const Token token : forced) write(token);
    written_.n_forced += static_cast<int>(forced.size());
  }
  void write(Token token) {
    if (constraint_) constraint_->accept(token);
    const std::string piece = tokenizer_.piece(token, true);
    written_.text += piece;
    note(reader_.push(piece));
  }
  void note(const std::vector<ResponseEvent>& events) {
    for (const ResponseEvent& event : events) {
      if (event.kind == ResponseEvent::Kind::kReasoning) written_.reasoning += event.text;
      if (event.kind == ResponseEvent::Kind::kContent) written_.content += event.text;
    }
  }

  const Tokenizer& tokenizer_;
  ResponseReader reader_;
  std::unique_ptr<TokenConstraint> constraint_;
  Written written_;
};

ChatOpening open(std::string_view format, int budget, std::string message = {},
                 std::string_view prompt_end = {}) {
  const Chat chat(ChatTemplate("{{ messages[0].content }}" + std::string(prompt_end)), format);
  ChatTurn turn{.messages_json = R"([{"role": "user", "content": "Hi"}])", .reasoning_budget = budget};
  turn.reasoning_budget_message = std::move(message);
  return chat.open(turn);
}

constexpr std::string_view kFinal = "<|channel|>final<|message|>";

TEST(ReasoningLimit, ClosesTheReasoningOfEveryFormat) {
  int n_formats = 0;
  for (const bool special : {false, true}) {
    for (const chat::Format& format : chat::known_formats()) {
      if (format.reasoning_end.empty() && !format.channels) continue;
      ++n_formats;
      SCOPED_TRACE(format.name);
      const std::string begin = format.channels ? "<|channel|>analysis<|message|>"
                                                : std::string(chat::trimmed(format.reasoning_begin));
      Writing writing(tag_tokenizer(special), open(format.name, 10, " Enough."));
      writing.wish(begin).wish("0123456789");
      if (format.channels) writing.wish(kFinal);
      const Written& written = writing.wish("Hello").done();
      EXPECT_EQ(written.reasoning, "0123456789 Enough.");
      EXPECT_EQ(written.content, "Hello");
      EXPECT_GT(written.n_forced, 0);
    }
  }
  EXPECT_GT(n_formats, 20);
}

TEST(ReasoningLimit, CountsReasoningThatThePromptOpens) {
  Writing writing(tag_tokenizer(true), open("qwen3-coder", 3, {}, "<think>\n"));
  const Written& written = writing.wish("abc").wish("Hello").done();
  EXPECT_EQ(written.text, "abc\n</think>\n\nHello");
  EXPECT_EQ(written.reasoning, "abc");
  EXPECT_EQ(written.content, "Hello");
}

TEST(ReasoningLimit, ABudgetOfZeroClosesAtOnce) {
  EXPECT_EQ(Writing(tag_tokenizer(true), open("qwen3-coder", 0, {}, "<think>\n")).wish("Hello").done().text,
            "\n</think>\n\nHello");
  EXPECT_EQ(Writing(tag_tokenizer(true), open("kimi-k2", 0)).wish("<think>").wish("Hello").done().text,
            "<think></think>Hello");
  EXPECT_EQ(Writing(tag_tokenizer(true), open("kimi-k2", 0)).wish("Hello").done().text, "Hello");
}

TEST(ReasoningLimit, DoesNothingToReasoningWithinTheBudget) {
  for (const bool special : {false, true}) {
    // The closing tag begins with the last token of the budget, or before it.
    for (const int budget : {5, 6, 7, 100}) {
      Writing writing(tag_tokenizer(special), open("kimi-k2", budget, "No."));
      const Written& written =
          writing.wish("<think>").wish("01234").wish("</think>").wish("A long response").done();
      if (budget > 5 || written.n_forced == 0) {
        EXPECT_EQ(written.text, "<think>01234</think>A long response") << budget;
      } else {
        EXPECT_EQ(written.reasoning, "01234No.");
      }
    }
  }
}

TEST(ReasoningLimit, WaitsForTheEndOfACharacter) {
  Writing writing(tag_tokenizer(true), open("kimi-k2", 1, "!"));
  EXPECT_EQ(writing.wish("<think>").wish("\xE2\x82\xAC").wish("x").done().text,
            "<think>\xE2\x82\xAC!</think>x");
}

TEST(ReasoningLimit, ClosesLaterSectionsAtOnce) {
  Writing writing(tag_tokenizer(true), open("kimi-k2", 4, "!"));
  EXPECT_EQ(writing.wish("<think>").wish("abcd").wish("<think>").wish("Hello").done().text,
            "<think>abcd!</think><think>!</think>Hello");
  // Models with channels begin the response itself the second time.
  Writing channels(tag_tokenizer(true), open("harmony", 2));
  const Written& written = channels.wish("<|channel|>analysis<|message|>")
                               .wish("ab")
                               .wish("<|channel|>analysis<|message|>")
                               .wish("Hello")
                               .done();
  EXPECT_EQ(written.reasoning, "ab");
  EXPECT_EQ(written.content, "Hello");
}

TEST(ReasoningLimit, CountsAllSectionsTogether) {
  Writing writing(tag_tokenizer(true), open("kimi-k2", 6));
  EXPECT_EQ(writing.wish("<think>")
                .wish("abcd")
                .wish("</think>")
                .wish("<think>")
                .wish("ef")
                .wish("Hello")
                .done()
                .text,
            "<think>abcd</think><think>ef</think>Hello");
}

TEST(ReasoningLimit, ARepeatedClosingTagIsNotContent) {
  Writing writing(tag_tokenizer(true), open("qwen3-coder", 0, {}, "<think>\n"));
  EXPECT_EQ(writing.wish("\n\n</think>\n\nHello </think>").done().content, "Hello </think>");
}

TEST(ReasoningLimit, GoesOnWithTheGrammarOfTheContent) {
  const Tokenizer& tokenizer = tag_tokenizer(true);
  const Chat chat(ChatTemplate("{{ messages[0].content }}<think>\n"), "qwen3-coder");
  ChatTurn turn{.messages_json = R"([{"role": "user", "content": "Hi"}])", .reasoning_budget = 3};
  turn.content_grammar = Grammar::regex("yes|no");
  const ChatOpening opening = chat.open(turn);
  ASSERT_TRUE(opening.grammar && opening.reasoning_limit);
  const auto compiled = GrammarCompiler(tokenizer).compile(*opening.grammar);
  const auto inner = [&](int) { return compiled->constraint(); };
  Writing writing(tokenizer, opening, inner);
  writing.wish("abc");
  EXPECT_TRUE(writing.allows('y') && writing.allows('n'));
  EXPECT_FALSE(writing.allows('x'));
  const Written& written = writing.wish("y").done();  // Only one continuation is left.
  EXPECT_EQ(written.reasoning, "abc");
  EXPECT_EQ(written.content, "yes");
}

TEST(ReasoningLimit, NeedsNoMaskFarFromTheBudget) {
  const ChatOpening opening = open("kimi-k2", 10);
  const auto constraint = opening.reasoning_limit->constraint(tag_tokenizer(true))(0);
  EXPECT_TRUE(constraint->allows_all(9));
  EXPECT_FALSE(constraint->allows_all(10));
  for (const Token token : tag_tokenizer(true).encode("<think>0123", {.add_special = false}))
    constraint->accept(token);
  EXPECT_TRUE(constraint->allows_all(5));
  EXPECT_FALSE(constraint->allows_all(6));
}

TEST(ReasoningLimit, IsSetByBudgetsAndByTheEffortNone) {
  EXPECT_FALSE(open("kimi-k2", -1).reasoning_limit);
  EXPECT_TRUE(open("kimi-k2", 0).reasoning_limit);
  EXPECT_FALSE(open("functiongemma", 5).reasoning_limit) << "the format has no reasoning";
  const Chat chat(ChatTemplate("{{ messages[0].content }}"), "kimi-k2");
  ChatTurn turn{.messages_json = R"([{"role": "user", "content": "Hi"}])"};
  turn.reasoning_effort = "none";
  const ChatOpening opening = chat.open(turn);
  ASSERT_TRUE(opening.reasoning_limit);
  EXPECT_EQ(Writing(tag_tokenizer(true), opening).wish("<think>").wish("x").done().text, "<think></think>x");
}

TEST(ReasoningLimit, RefusesMessagesWithTheClosingTag) {
  EXPECT_THROW(open("kimi-k2", 5, "stop</think>"), Error);
  EXPECT_THROW(open("kimi-k2", 5, std::string(ChatTurn::kMaxBudgetMessageBytes + 1, 'x')), Error);
}

TEST(ReasoningLimit, ABudgetOfZeroTurnsTheSwitchOff) {
  const Chat chat(
      ChatTemplate("{{ messages[0].content }}{% if enable_thinking %}<think>{% else %}</think>{% endif %}"));
  ChatTurn turn{.messages_json = R"([{"role": "user", "content": "Hi"}])", .reasoning = true};
  EXPECT_TRUE(chat.open(turn).prompt.back().text.ends_with("<think>"));
  turn.reasoning_budget = 0;
  EXPECT_TRUE(chat.open(turn).prompt.back().text.ends_with("</think>"));
}

}  // namespace
}  // namespace weft
