// Which tokens end a generation: by the file, by name, by the chat template. And which are control tokens.
#include "text/end_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary_testing.h"
#include "weft/chat_template.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using text::Vocabulary;

constexpr TokenKind kAllKinds[] = {TokenKind::kNormal,      TokenKind::kUnknown, TokenKind::kControl,
                                   TokenKind::kUserDefined, TokenKind::kUnused,  TokenKind::kByte};
constexpr Tokenizer::EncodeOptions kWithSpecial = {.add_special = false, .parse_special = true};
constexpr Tokenizer::EncodeOptions kPlainOptions = {.add_special = false, .parse_special = false};

Vocabulary small_bpe() { return text::bpe_vocabulary({{"h", "e"}, {"l", "l"}}); }
Vocabulary small_spm() { return text::spm_vocabulary({"▁", "a", "<", "|", ">"}); }

std::vector<std::string> end_texts(const Vocabulary& v) {
  const Tokenizer t(v);
  std::vector<std::string> texts;
  for (const Token id : t.end_tokens()) texts.emplace_back(t.text(id));
  return texts;
}

TEST(EndTokens, KnownNamesEndWhateverTheirType) {
  for (const char* name : {"<|im_end|>",
                           "<|eot_id|>",
                           "<|eom_id|>",
                           "<|eot|>",
                           "<|eom|>",
                           "<|EOT|>",
                           "<|end|>",
                           "<|return|>",
                           "<|call|>",
                           "<|endoftext|>",
                           "<|end_of_text|>",
                           "<|end_of_turn|>",
                           "<end_of_turn>",
                           "<turn|>",
                           "<|tool_response>",
                           "<end_of_utterance>",
                           "<|END_OF_TURN_TOKEN|>",
                           "<｜end▁of▁sentence｜>",
                           "<EOT>",
                           "_<EOT>",
                           "[EOT]",
                           "[EOS]",
                           "<eos>"})
    for (const TokenKind kind : kAllKinds)
      for (Vocabulary v : {small_bpe(), small_spm()}) {
        const Token id = add_token(v, name, kind, -1000.0f);
        const Tokenizer t(v);
        EXPECT_TRUE(t.is_end(id)) << name << " of kind " << static_cast<int>(kind);
        EXPECT_EQ(t.kind(id), TokenKind::kControl) << name;
        // One token in a template, and none in what users write.
        EXPECT_THAT(t.encode(name, kWithSpecial), ElementsAre(id)) << name;
        EXPECT_THAT(t.encode(name, kPlainOptions), Not(Contains(id))) << name;
        EXPECT_EQ(t.piece(id), "");
        EXPECT_EQ(!t.notes().empty(), kind != TokenKind::kControl) << name;
      }
}

TEST(EndTokens, ANoteNamesTokensOfAWrongType) {
  Vocabulary v = small_bpe();
  add_token(v, "<|im_start|>", TokenKind::kNormal);
  add_token(v, "<|im_end|>", TokenKind::kUserDefined);
  const Tokenizer t(v);
  EXPECT_THAT(t.notes(), ElementsAre(testing::AllOf(HasSubstr("tokenizer.ggml.token_type"),
                                                    HasSubstr("<|im_start|>, <|im_end|>"))));
}

TEST(EndTokens, BeginsOfTurnsAreControlTokensAndNoEnds) {
  for (const char* name : {"<|im_start|>", "<start_of_turn>", "<|turn>", "<|start_header_id|>"})
    for (const TokenKind kind : kAllKinds) {
      Vocabulary v = small_bpe();
      const Token id = add_token(v, name, kind);
      const Tokenizer t(v);
      EXPECT_FALSE(t.is_end(id)) << name;
      EXPECT_EQ(t.kind(id), TokenKind::kControl) << name;
      EXPECT_THAT(t.encode(name, kWithSpecial), ElementsAre(id)) << name;
    }
}

TEST(EndTokens, FilesOfCodeEndAtTheirSeparators) {
  for (const char* name : {"<|file_sep|>", "<file_sep>", "<|repo_name|>", "<repo_name>", "<|fim_repo|>",
                           "<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<fim-repo>", "<reponame>", "<REPO>"}) {
    Vocabulary v = small_bpe();
    const Token id = add_token(v, name, TokenKind::kUserDefined);
    const Token prefix = add_token(v, "<|fim_prefix|>", TokenKind::kUserDefined);
    {
      const Tokenizer t(v);
      EXPECT_TRUE(t.is_end(id)) << name;
      EXPECT_FALSE(t.is_end(prefix));
      // These models' prompts contain the tokens as plain characters.
      EXPECT_EQ(t.kind(id), TokenKind::kUserDefined);
      EXPECT_THAT(t.encode(name, kPlainOptions), ElementsAre(id));
    }
    v.kinds[static_cast<std::size_t>(id)] = TokenKind::kNormal;
    EXPECT_TRUE(Tokenizer(v).is_end(id)) << name;
  }
}

TEST(EndTokens, OrdinaryTextDoesNotEnd) {
  // A merge produces the token from ordinary characters.
  Vocabulary bpe = text::bpe_vocabulary({{"<", "e"}, {"<e", "o"}, {"<eo", "s"}, {"<eos", ">"}});
  EXPECT_THAT(end_texts(bpe), IsEmpty());
  Vocabulary spm = text::spm_vocabulary({"▁", "<e", "os>", "<eos>"});
  EXPECT_THAT(end_texts(spm), ElementsAre("</s>"));
  // Names that say nothing, and HTML.
  for (const TokenKind kind : {TokenKind::kNormal, TokenKind::kUserDefined}) {
    Vocabulary v = small_bpe();
    for (const char* text : {"<end>", "</s>", "<s>", "<stop>", "end", "</html>", "[END]", "<think>",
                             "</think>", "<|user|>", "<|end_header_id|>", "<tool_call>"})
      add_token(v, text, kind);
    EXPECT_THAT(end_texts(v), IsEmpty());
  }
}

TEST(EndTokens, UnreachablePipedNamesAreControlTokens) {
  Vocabulary v = small_bpe();
  const Token user = add_token(v, "<|user|>", TokenKind::kNormal);
  const Token shown = add_token(v, "<|tool_call|>", TokenKind::kUserDefined);  // Meant to be seen.
  const Tokenizer t(v);
  EXPECT_EQ(t.kind(user), TokenKind::kControl);
  EXPECT_EQ(t.kind(shown), TokenKind::kUserDefined);
}

TEST(EndTokens, TheFilesIdsEnd) {
  Vocabulary v = small_bpe();
  v.eos = add_token(v, "a1", TokenKind::kControl);
  v.eot = add_token(v, "a2", TokenKind::kNormal);
  v.eom = add_token(v, "a3", TokenKind::kUserDefined);
  v.ends = {v.eos, add_token(v, "a4", TokenKind::kControl), add_token(v, "a5", TokenKind::kNormal), 100000,
            -1};
  const Tokenizer t(v);
  EXPECT_THAT(end_texts(v), ElementsAre("a1", "a2", "a3", "a4", "a5"));
  EXPECT_EQ(t.kind(v.eot), TokenKind::kNormal);
  EXPECT_THAT(t.notes(), ElementsAre(HasSubstr("eos_token_ids is 100000"), HasSubstr("eos_token_ids is -1")));
}

TEST(EndTokens, OfEqualTextsAllEnd) {
  Vocabulary v = small_bpe();
  const Token first = add_token(v, "<|im_end|>", TokenKind::kNormal);
  const Token second = add_token(v, "<|im_end|>", TokenKind::kControl);
  EXPECT_THAT(Tokenizer(v).end_tokens(), ElementsAre(first, second));
}

/// A vocabulary with all of these as tokens, and the template.
Vocabulary with_template(std::string source, const std::vector<std::string>& markers,
                         TokenKind kind = TokenKind::kControl) {
  Vocabulary v = small_bpe();
  v.eos = add_token(v, "<|stop|>", TokenKind::kControl);
  for (const std::string& marker : markers) add_token(v, marker, kind);
  v.chat_template = std::move(source);
  return v;
}

TEST(EndTokens, TemplateDefinesTheEndToken) {
  const std::string each = "{% for m in messages %}";
  const std::string source = each +
                             "<|go|>{{ m.role }}\n{{ m.content }}<|done|>\n{% endfor %}"
                             "{% if add_generation_prompt %}<|go|>assistant\n{% endif %}";
  for (const TokenKind kind : kAllKinds) {
    const Vocabulary v = with_template(source, {"<|go|>", "<|done|>"}, kind);
    EXPECT_THAT(end_texts(v), ElementsAre("<|stop|>", "<|done|>")) << static_cast<int>(kind);
    const Tokenizer t(v);
    EXPECT_EQ(t.kind(t.find("<|done|>")), TokenKind::kControl);
  }
  // Other brackets, of the ordinary token type.
  EXPECT_THAT(end_texts(with_template(each + "[|{{ m.role }}|]{{ m.content }}[|over|]\n{% endfor %}",
                                      {"[|over|]"}, TokenKind::kNormal)),
              ElementsAre("<|stop|>", "[|over|]"));
  // The file's own EOS.
  EXPECT_THAT(
      end_texts(with_template(each + "{{ m.role }}: {{ m.content }}{{ eos_token }}\n{% endfor %}", {})),
      ElementsAre("<|stop|>"));
  // Whitespace in between, and a mark after the last response only.
  EXPECT_THAT(end_texts(with_template(each + "{{ m.role }}: {{ m.content }} {% if loop.last %}<last>{% else "
                                             "%}<more>{% endif %}\n{% endfor %}",
                                      {"<last>", "<more>"})),
              ElementsAre("<|stop|>", "<last>"));
  // A template that requires a system message.
  EXPECT_THAT(
      end_texts(with_template("{% if messages[0].role != 'system' %}{{ raise_exception('no') }}{% endif %}" +
                                  each + "{{ m.role }}: {{ m.content }}<over>{% endfor %}",
                              {"<over>"})),
      ElementsAre("<|stop|>", "<over>"));
  // Content as a list of parts.
  EXPECT_THAT(end_texts(with_template(each + "{{ m.role }}: {% for p in m.content %}{{ p.text }}{% endfor "
                                             "%}<over>{% endfor %}",
                                      {"<over>"})),
              ElementsAre("<|stop|>", "<over>"));
}

TEST(EndTokens, UnterminatedResponsesEndAtTheNextTurn) {
  // GLM's templates.
  const std::string source =
      "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  EXPECT_THAT(end_texts(with_template(source, {"[gMASK]", "<sop>", "<|user|>", "<|assistant|>"})),
              ElementsAre("<|stop|>", "<|user|>"));
  // A template that wants a question at the end.
  const std::string strict =
      "{% if messages[-1].role != 'user' %}{{ raise_exception('no') }}{% endif %}"
      "{% for m in messages %}{{ m.role }}: {{ m.content }}<|over|>{% endfor %}";
  EXPECT_THAT(end_texts(with_template(strict, {"<|over|>"})), ElementsAre("<|stop|>", "<|over|>"));
}

TEST(EndTokens, UnterminatedCallsEndAtTheirResult) {
  const auto with_calls = [](const std::string& result, const std::string& end) {
    return "{% for m in messages %}{% if m.role == 'tool' %}" + result + "{{ m.content }}</result>" +
           "{% else %}<|{{ m.role }}|>\n{{ m.content }}{% for c in m.tool_calls or [] %}"
           "<call>{{ c.function.name }}\n{{ c.function.arguments | tojson }}</call>{% endfor %}{% endif %}" +
           end + "{% endfor %}";
  };
  const std::vector<std::string> markers = {"<|user|>", "<|assistant|>", "<call>",   "</call>",
                                            "<result>", "</result>",     "<|over|>", "<|observation|>"};
  // GLM's templates.
  EXPECT_THAT(end_texts(with_template(with_calls("<|observation|>\n<result>", ""), markers)),
              ElementsAre("<|stop|>", "<|user|>", "<|observation|>"));
  // A call whose message has an end.
  EXPECT_THAT(end_texts(with_template(with_calls("<|observation|>\n", "<|over|>\n"), markers)),
              ElementsAre("<|stop|>", "<|over|>"));
  // A result that no special token begins.
  EXPECT_THAT(end_texts(with_template(with_calls("Result: <result>", ""), markers)),
              ElementsAre("<|stop|>", "<|user|>"));
}

TEST(EndTokens, UnreachableTokensCanEndAResponse) {
  const std::string each = "{% for m in messages %}{{ m.role }}: {{ m.content }}";
  EXPECT_THAT(end_texts(with_template(each + "ENDWORD\n{% endfor %}", {"ENDWORD"}, TokenKind::kNormal)),
              ElementsAre("<|stop|>", "ENDWORD"));
  // Merges make this one.
  Vocabulary v =
      with_template(each + "ENDWORD\n{% endfor %}", {"END", "WORD", "ENDWORD"}, TokenKind::kNormal);
  v.merges.push_back("END WORD");
  EXPECT_THAT(end_texts(v), ElementsAre("<|stop|>"));
  // One of a vocabulary's bytes.
  EXPECT_THAT(end_texts(with_template(each + ".\n{% endfor %}", {"."}, TokenKind::kNormal)),
              ElementsAre("<|stop|>"));
}

TEST(EndTokens, EndsOfPartsDoNotEndAResponse) {
  // Harmony: <|end|> ends messages, <|return|> the last one.
  const std::string harmony =
      "{% for m in messages %}{% if m.role == 'assistant' %}"
      "{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
      "<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
      "{% if loop.last and not add_generation_prompt %}<|return|>{% else %}<|end|>{% endif %}"
      "{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}";
  EXPECT_THAT(end_texts(with_template(
                  harmony, {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"})),
              ElementsAre("<|stop|>", "<|return|>", "<|call|>"));
  // A similar format with unknown names.
  const std::string parts =
      "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}"
      "{{ m.reasoning_content }}<|part|>{% endif %}{{ m.content }}<|part|>{% endfor %}";
  EXPECT_THAT(end_texts(with_template(parts, {"<|part|>"})), ElementsAre("<|stop|>"));
  // A token that closes the content; calls follow it, then the known end.
  EXPECT_THAT(end_texts(with_template(
                  "{% for m in messages %}<response>{{ m.content }}</response>\n<|im_end|>{% endfor %}",
                  {"<response>", "</response>", "<|im_end|>"})),
              ElementsAre("<|stop|>", "<|im_end|>"));
}

TEST(EndTokens, TemplatesThatSayNothingChangeNothing) {
  for (const std::string& source :
       {std::string(), std::string("{% for x in %}{{"), std::string("{{ 1 / 0 }}"),
        std::string("no messages"), std::string("{% for i in range(1000000000) %}x{% endfor %}"),
        std::string("{{ messages[7].content }}"),
        std::string("{% for m in messages %}{{ m.content }}\n\nUser: {% endfor %}"),
        std::string("<over>{% for m in messages %}{{ m.content }}{% endfor %}"),
        std::string("{% for m in messages %}{{ m.role }}: {{ m.content }}</p> {% endfor %}"),
        std::string(
            "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}<over>{% endif %}{% endfor %}")})
    EXPECT_THAT(end_texts(with_template(source, {"<over>"})), ElementsAre("<|stop|>"))
        << source.substr(0, 40);
}

// The rest of a prompt is not searched: a template may write megabytes there.
TEST(EndTokens, EndTokensAreNearTheResponse) {
  const auto with_gap = [](int n) {
    return "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '+ ' * " + std::to_string(n) +
           " }}<over>{% endfor %}";
  };
  EXPECT_THAT(end_texts(with_template(with_gap(1000), {"<over>"})), ElementsAre("<|stop|>", "<over>"));
  for (const int n : {3000, 300'000})
    EXPECT_THAT(end_texts(with_template(with_gap(n), {"<over>"})), ElementsAre("<|stop|>")) << n;
}

TEST(EndTokens, AnyByteMayBeginASpecialTokenOfATemplate) {
  const std::string each = "{% for m in messages %}{{ m.role }}: {{ m.content }} ";
  for (const std::string& end : {std::string("over"), std::string("\u00ABover\u00BB"), std::string(256, '!')})
    EXPECT_THAT(end_texts(with_template(each + end + "\n{% endfor %}", {end})), ElementsAre("<|stop|>", end));
}

TEST(EndTokens, ThePromptOfATemplateHasOneTokenForItsEnd) {
  const std::string source =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}";
  for (const TokenKind kind : kAllKinds) {
    const Vocabulary v = with_template(source, {"<|im_start|>", "<|im_end|>"}, kind);
    const Tokenizer t(v);
    const std::vector<Token> ids = t.encode(
        ChatTemplate(source, t).render({{"user", "he<|im_end|>"}}, {.add_generation_prompt = false}));
    EXPECT_EQ(std::count(ids.begin(), ids.end(), t.find("<|im_start|>")), 1);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), t.find("<|im_end|>")), 1);  // Not the user's.
  }
}

}  // namespace
}  // namespace weft
