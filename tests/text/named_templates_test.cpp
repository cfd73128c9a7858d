// Families' templates by llama.cpp's names, against the prompts that the families document.
#include "text/named_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "weft/chat_template.h"
#include "weft/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::string render(const std::string& name, const std::vector<ChatMessage>& messages, bool prompt = true) {
  const ChatTemplate chat(name, "<s>", "</s>");
  return join(chat.render(messages, {.add_generation_prompt = prompt}));
}

const std::vector<ChatMessage> kConversation = {
    {"system", "Be brief."}, {"user", "Hi"}, {"assistant", "Hello"}, {"user", "Who are you?"}};

/// Without the BOS token that the tokenizer puts in front.
const std::map<std::string, std::string>& documented() {
  static const std::map<std::string, std::string> kPrompts = {
      {"bailing",
       "<role>SYSTEM</role>Be brief.<role>HUMAN</role>Hi<role>ASSISTANT</role>Hello<role>HUMAN</role>Who are "
       "you?<role>ASSISTANT</role>"},
      {"chatglm3",
       "[gMASK]sop<|system|>\n Be brief.<|user|>\n Hi<|assistant|>\n Hello<|user|>\n Who are "
       "you?<|assistant|>"},
      {"chatglm4",
       "[gMASK]<sop><|system|>\nBe brief.<|user|>\nHi<|assistant|>\nHello<|user|>\nWho are "
       "you?<|assistant|>"},
      {"chatml",
       "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello"
       "<|im_end|>\n<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n"},
      {"command-r",
       "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>"
       "<|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello"
       "<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>Who are you?<|END_OF_TURN_TOKEN|>"
       "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
      {"deepseek",
       "Be brief.### Instruction:\nHi\n### Response:\nHello\n<|EOT|>\n### Instruction:\nWho are you?\n"
       "### Response:\n"},
      {"deepseek2", "Be brief.\n\nUser: Hi\n\nAssistant: Hello</s>User: Who are you?\n\nAssistant:"},
      {"deepseek3",
       "Be brief.<｜User｜>Hi<｜Assistant｜>Hello<｜end▁of▁sentence｜><｜User｜>Who are you?<｜Assistant｜>"},
      {"exaone3",
       "[|system|]Be brief.[|endofturn|]\n[|user|]Hi\n[|assistant|]Hello[|endofturn|]\n[|user|]Who are you?\n"
       "[|assistant|]"},
      {"exaone4",
       "[|system|]\nBe brief.[|endofturn|]\n[|user|]\nHi[|endofturn|]\n[|assistant|]\nHello[|endofturn|]\n"
       "[|user|]\nWho are you?[|endofturn|]\n[|assistant|]\n"},
      {"falcon3",
       "<|system|>\nBe brief.\n<|user|>\nHi\n<|assistant|>\nHello</s>\n<|user|>\nWho are "
       "you?\n<|assistant|>\n"},
      {"gemma",
       "<start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello<end_of_turn>\n"
       "<start_of_turn>user\nWho are you?<end_of_turn>\n<start_of_turn>model\n"},
      {"gigachat",
       "<s>Be brief.<|message_sep|>user<|role_sep|>Hi<|message_sep|>available functions<|role_sep|>[]"
       "<|message_sep|>assistant<|role_sep|>Hello<|message_sep|>user<|role_sep|>Who are you?<|message_sep|>"
       "available functions<|role_sep|>[]<|message_sep|>assistant<|role_sep|>"},
      {"glmedge", "<|system|>\nBe brief.<|user|>\nHi<|assistant|>\nHello<|user|>\nWho are you?<|assistant|>"},
      {"gpt-oss",
       "<|start|>system<|message|>Be brief.<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant"
       "<|channel|>final<|message|>Hello<|end|><|start|>user<|message|>Who are "
       "you?<|end|><|start|>assistant"},
      {"granite",
       "<|start_of_role|>system<|end_of_role|>Be "
       "brief.<|end_of_text|>\n<|start_of_role|>user<|end_of_role|>Hi"
       "<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>Hello<|end_of_text|>\n<|start_of_role|>user"
       "<|end_of_role|>Who are you?<|end_of_text|>\n<|start_of_role|>assistant<|end_of_role|>"},
      {"grok-2",
       "System: Be brief.<|separator|>\n\nHuman: Hi<|separator|>\n\nAssistant: Hello<|separator|>\n\nHuman: "
       "Who "
       "are you?<|separator|>\n\nAssistant:"},
      {"hunyuan-dense",
       "<｜hy_begin▁of▁sentence｜>Be brief.<｜hy_place▁holder▁no▁3｜><｜hy_User｜>Hi<｜hy_Assistant｜>Hello"
       "<｜hy_place▁holder▁no▁2｜><｜hy_User｜>Who are you?<｜hy_Assistant｜>"},
      {"hunyuan-moe",
       "<|startoftext|>Be brief.<|extra_4|><|startoftext|>Hi<|extra_0|>Hello<|eos|><|startoftext|>Who are "
       "you?"
       "<|extra_0|>"},
      {"kimi-k2",
       "<|im_system|>system<|im_middle|>Be brief.<|im_end|><|im_user|>user<|im_middle|>Hi<|im_end|>"
       "<|im_assistant|>assistant<|im_middle|>Hello<|im_end|><|im_user|>user<|im_middle|>Who are "
       "you?<|im_end|>"
       "<|im_assistant|>assistant<|im_middle|>"},
      {"llama2", "[INST] Be brief.\nHi [/INST] Hello </s>[INST] Who are you? [/INST]"},
      {"llama2-sys",
       "[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s>[INST] Who are you? [/INST]"},
      {"llama2-sys-bos",
       "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Who are you? [/INST]"},
      {"llama2-sys-strip",
       "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello </s><s>[INST] Who are you? [/INST]"},
      {"llama3",
       "<|start_header_id|>system<|end_header_id|>\n\nBe "
       "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>"
       "\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>"
       "user"
       "<|end_header_id|>\n\nWho are you?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"},
      {"llama4",
       "<|header_start|>system<|header_end|>\n\nBe "
       "brief.<|eot|><|header_start|>user<|header_end|>\n\nHi<|eot|>"
       "<|header_start|>assistant<|header_end|>\n\nHello<|eot|><|header_start|>user<|header_end|>\n\nWho are "
       "you?<|eot|><|header_start|>assistant<|header_end|>\n\n"},
      {"megrez",
       "<|role_start|>system<|role_end|>Be brief.<|turn_end|><|role_start|>user<|role_end|>Hi<|turn_end|>"
       "<|role_start|>assistant<|role_end|>Hello<|turn_end|><|role_start|>user<|role_end|>Who are you?"
       "<|turn_end|><|role_start|>assistant<|role_end|>"},
      {"minicpm", "Be brief.<用户>Hi<AI>Hello<用户>Who are you?<AI>"},
      {"mistral-v1", " [INST] Be brief.\n\nHi [/INST] Hello</s> [INST] Who are you? [/INST]"},
      {"mistral-v3", "[INST] Be brief.\n\nHi[/INST] Hello</s>[INST] Who are you?[/INST]"},
      {"mistral-v3-tekken", "[INST]Be brief.\n\nHi[/INST]Hello</s>[INST]Who are you?[/INST]"},
      {"mistral-v7",
       "[SYSTEM_PROMPT] Be brief.[/SYSTEM_PROMPT][INST] Hi[/INST] Hello</s>[INST] Who are you?[/INST]"},
      {"mistral-v7-tekken",
       "[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST]Hi[/INST]Hello</s>[INST]Who are you?[/INST]"},
      {"monarch",
       "<s>system\nBe brief.</s>\n<s>user\nHi</s>\n<s>assistant\nHello</s>\n<s>user\nWho are you?</s>\n"
       "<s>assistant\n"},
      {"openchat",
       "Be brief.<|end_of_turn|>GPT4 Correct User: Hi<|end_of_turn|>GPT4 Correct Assistant: "
       "Hello<|end_of_turn|>"
       "GPT4 Correct User: Who are you?<|end_of_turn|>GPT4 Correct Assistant:"},
      {"orion", "Human: Be brief.\n\nHi\n\nAssistant: </s>Hello</s>Human: Who are you?\n\nAssistant: </s>"},
      {"phi3",
       "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n<|user|>\nWho are "
       "you?"
       "<|end|>\n<|assistant|>\n"},
      {"phi4",
       "<|im_start|>system<|im_sep|>Be brief.<|im_end|><|im_start|>user<|im_sep|>Hi<|im_end|><|im_start|>"
       "assistant<|im_sep|>Hello<|im_end|><|im_start|>user<|im_sep|>Who are "
       "you?<|im_end|><|im_start|>assistant"
       "<|im_sep|>"},
      {"rwkv-world", "System: Be brief.\n\nUser: Hi\n\nAssistant: Hello\n\nUser: Who are you?\n\nAssistant:"},
      {"seed_oss",
       "<seed:bos>system\nBe brief.<seed:eos><seed:bos>user\nHi<seed:eos><seed:bos>assistant\nHello<seed:eos>"
       "<seed:bos>user\nWho are you?<seed:eos><seed:bos>assistant\n"},
      {"smolvlm",
       "<|im_start|>Be brief.\n\nUser: Hi<end_of_utterance>\nAssistant: Hello<end_of_utterance>\nUser: Who "
       "are "
       "you?<end_of_utterance>\nAssistant:"},
      {"vicuna", "Be brief. USER: Hi ASSISTANT: Hello</s>USER: Who are you? ASSISTANT:"},
      {"vicuna-orca", "SYSTEM: Be brief.\nUSER: Hi\nASSISTANT: Hello</s>\nUSER: Who are you?\nASSISTANT:"},
      {"yandex",
       "<s>Be brief.\n\n Пользователь: Hi\n\n Ассистент: Hello\n\n Пользователь: Who are you?\n\n "
       "Ассистент:[SEP]"},
      {"zephyr",
       "<|system|>\nBe brief.</s>\n<|user|>\nHi</s>\n<|assistant|>\nHello</s>\n<|user|>\nWho are you?</s>\n"
       "<|assistant|>\n"},
  };
  return kPrompts;
}

TEST(NamedTemplates, WriteWhatFamiliesDocument) {
  std::vector<std::string> names;
  for (const auto& [name, prompt] : documented()) {
    names.push_back(name);
    EXPECT_EQ(render(name, kConversation), prompt) << name;
  }
  EXPECT_EQ(text::template_names(), names);
}

TEST(NamedTemplates, TakeConversationsWithoutSystemMessage) {
  for (const std::string& name : text::template_names()) {
    const std::string prompt = render(name, {{"user", "Hi"}});
    EXPECT_THAT(prompt, HasSubstr("Hi")) << name;
    EXPECT_EQ(prompt.find("Be brief."), std::string::npos) << name;
    EXPECT_EQ(prompt.find("SYS"), std::string::npos) << name;
  }
}

TEST(NamedTemplates, OpenAnswersOnDemandOnly) {
  const std::string all = render("chatml", {{"user", "Hi"}});
  EXPECT_EQ(render("chatml", {{"user", "Hi"}}, false) + "<|im_start|>assistant\n", all);
}

TEST(NamedTemplates, TrimWhereTheFamilyDoes) {
  EXPECT_EQ(render("llama2-sys-strip", {{"system", " S "}, {"user", " U\n"}}),
            "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nU [/INST]");
  EXPECT_EQ(render("llama2-sys", {{"system", " S "}, {"user", " U"}}),
            "[INST] <<SYS>>\n S \n<</SYS>>\n\n U [/INST]");
  EXPECT_THAT(render("llama3", {{"user", "\n U "}}), HasSubstr("<|end_header_id|>\n\nU<|eot_id|>"));
}

TEST(NamedTemplates, NamesHoldAsAWholeOnly) {
  EXPECT_EQ(text::named_template("chatml2"), "");
  EXPECT_EQ(text::named_template(""), "");
  EXPECT_EQ(ChatTemplate("chatml and more").source(), "chatml and more");
  EXPECT_THAT(std::string(ChatTemplate("chatml").source()), HasSubstr("<|im_start|>"));
}

TEST(NamedTemplates, MarksOfTurnsInMessagesAreText) {
  const ChatTemplate chat("chatml");
  const std::vector<PromptPiece> pieces = chat.render({{"user", "a<|im_end|>b"}}, {});
  for (const PromptPiece& piece : pieces)
    EXPECT_FALSE(piece.from_template && piece.text.find("a<|im_end|>b") != std::string::npos);
}

TEST(ChatTemplate, KnowsTheDateAsFamiliesNameIt) {
  const ChatTemplate chat("{{ date_string }}, {{ datetime }}");
  const auto render_with = [&](const char* variables) {
    return join(chat.render({{"user", "x"}}, {.variables_json = variables}));
  };
  EXPECT_EQ(render_with(R"({"now": "2026-11-28"})"), "28 Nov 2026, Nov 28 2026 00:00:00 GMT");
  EXPECT_EQ(render_with(R"({"now": "2026-11-28T13:05:09"})"), "28 Nov 2026, Nov 28 2026 13:05:09 GMT");
  EXPECT_EQ(render_with(R"({"now": "2026-11-28", "date_string": "then"})"), "then, Nov 28 2026 00:00:00 GMT");
  EXPECT_EQ(join(ChatTemplate("{{ date_string is defined }}").render({{"user", "x"}}, {})), "False");
}

}  // namespace
}  // namespace weft
