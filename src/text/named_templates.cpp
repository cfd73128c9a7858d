#include "text/named_templates.h"

#include <algorithm>

namespace weft::text {
namespace {

/// The strings before and after the messages of one role. "{bos}" and "{eos}" are the vocabulary's.
struct Marks {
  std::string_view before, after;
};

enum class Trim : bool { kNo, kYes };
/// The place of a system message.
enum class System : bool {
  kApart,   ///< In its own place.
  kInUser,  ///< At the beginning of the next user message.
};

struct Family {
  std::string_view name;
  Marks system, user, assistant;
  std::string_view generation;  ///< Opens the assistant's message.
  std::string_view begin = {};
  Trim trim = Trim::kNo;
  System where = System::kApart;
};

using enum Trim;
using enum System;

constexpr Family kFamilies[] = {
    {"bailing",
     {"<role>SYSTEM</role>", ""},
     {"<role>HUMAN</role>", ""},
     {"<role>ASSISTANT</role>", ""},
     "<role>ASSISTANT</role>"},
    {"chatglm3",
     {"<|system|>\n ", ""},
     {"<|user|>\n ", ""},
     {"<|assistant|>\n ", ""},
     "<|assistant|>",
     "[gMASK]sop"},
    {"chatglm4",
     {"<|system|>\n", ""},
     {"<|user|>\n", ""},
     {"<|assistant|>\n", ""},
     "<|assistant|>",
     "[gMASK]<sop>"},
    {"chatml",
     {"<|im_start|>system\n", "<|im_end|>\n"},
     {"<|im_start|>user\n", "<|im_end|>\n"},
     {"<|im_start|>assistant\n", "<|im_end|>\n"},
     "<|im_start|>assistant\n"},
    {"command-r",
     {"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     {"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
     "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
     "",
     kYes},
    {"deepseek",
     {"", ""},
     {"### Instruction:\n", "\n"},
     {"### Response:\n", "\n<|EOT|>\n"},
     "### Response:\n"},
    {"deepseek2", {"", "\n\n"}, {"User: ", "\n\n"}, {"Assistant: ", "{eos}"}, "Assistant:"},
    {"deepseek3",
     {"", ""},
     {"<｜User｜>", ""},
     {"<｜Assistant｜>", "<｜end▁of▁sentence｜>"},
     "<｜Assistant｜>"},
    {"exaone3",
     {"[|system|]", "[|endofturn|]\n"},
     {"[|user|]", "\n"},
     {"[|assistant|]", "[|endofturn|]\n"},
     "[|assistant|]",
     "",
     kYes},
    {"exaone4",
     {"[|system|]\n", "[|endofturn|]\n"},
     {"[|user|]\n", "[|endofturn|]\n"},
     {"[|assistant|]\n", "[|endofturn|]\n"},
     "[|assistant|]\n",
     "",
     kYes},
    {"falcon3",
     {"<|system|>\n", "\n"},
     {"<|user|>\n", "\n"},
     {"<|assistant|>\n", "{eos}\n"},
     "<|assistant|>\n"},
    {"gemma",
     {"", "\n\n"},
     {"<start_of_turn>user\n", "<end_of_turn>\n"},
     {"<start_of_turn>model\n", "<end_of_turn>\n"},
     "<start_of_turn>model\n",
     "",
     kYes,
     kInUser},
    {"gigachat",
     {"", "<|message_sep|>"},
     {"user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"},
     {"assistant<|role_sep|>", "<|message_sep|>"},
     "assistant<|role_sep|>",
     "{bos}"},
    {"glmedge", {"<|system|>\n", ""}, {"<|user|>\n", ""}, {"<|assistant|>\n", ""}, "<|assistant|>"},
    {"gpt-oss",
     {"<|start|>system<|message|>", "<|end|>"},
     {"<|start|>user<|message|>", "<|end|>"},
     {"<|start|>assistant<|channel|>final<|message|>", "<|end|>"},
     "<|start|>assistant"},
    {"granite",
     {"<|start_of_role|>system<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>user<|end_of_role|>", "<|end_of_text|>\n"},
     {"<|start_of_role|>assistant<|end_of_role|>", "<|end_of_text|>\n"},
     "<|start_of_role|>assistant<|end_of_role|>"},
    {"grok-2",
     {"System: ", "<|separator|>\n\n"},
     {"Human: ", "<|separator|>\n\n"},
     {"Assistant: ", "<|separator|>\n\n"},
     "Assistant:",
     "",
     kYes},
    {"hunyuan-dense",
     {"", "<｜hy_place▁holder▁no▁3｜>"},
     {"<｜hy_User｜>", ""},
     {"<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁2｜>"},
     "<｜hy_Assistant｜>",
     "<｜hy_begin▁of▁sentence｜>"},
    {"hunyuan-moe",
     {"<|startoftext|>", "<|extra_4|>"},
     {"<|startoftext|>", "<|extra_0|>"},
     {"", "<|eos|>"},
     ""},
    {"kimi-k2",
     {"<|im_system|>system<|im_middle|>", "<|im_end|>"},
     {"<|im_user|>user<|im_middle|>", "<|im_end|>"},
     {"<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"},
     "<|im_assistant|>assistant<|im_middle|>"},
    {"llama2", {"", "\n"}, {"[INST] ", " [/INST]"}, {" ", " {eos}"}, "", "", kNo, kInUser},
    {"llama2-sys",
     {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     {"[INST] ", " [/INST]"},
     {" ", " {eos}"},
     "",
     "",
     kNo,
     kInUser},
    {"llama2-sys-bos",
     {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     {"{bos}[INST] ", " [/INST]"},
     {" ", " {eos}"},
     "",
     "",
     kNo,
     kInUser},
    {"llama2-sys-strip",
     {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     {"{bos}[INST] ", " [/INST]"},
     {" ", " {eos}"},
     "",
     "",
     kYes,
     kInUser},
    {"llama3",
     {"<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"},
     {"<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
     "<|start_header_id|>assistant<|end_header_id|>\n\n",
     "",
     kYes},
    {"llama4",
     {"<|header_start|>system<|header_end|>\n\n", "<|eot|>"},
     {"<|header_start|>user<|header_end|>\n\n", "<|eot|>"},
     {"<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"},
     "<|header_start|>assistant<|header_end|>\n\n",
     "",
     kYes},
    {"megrez",
     {"<|role_start|>system<|role_end|>", "<|turn_end|>"},
     {"<|role_start|>user<|role_end|>", "<|turn_end|>"},
     {"<|role_start|>assistant<|role_end|>", "<|turn_end|>"},
     "<|role_start|>assistant<|role_end|>"},
    {"minicpm", {"", ""}, {"<用户>", "<AI>"}, {"", ""}, "", "", kYes},
    {"mistral-v1", {"", "\n\n"}, {" [INST] ", " [/INST]"}, {" ", "{eos}"}, "", "", kNo, kInUser},
    {"mistral-v3", {"", "\n\n"}, {"[INST] ", "[/INST]"}, {" ", "{eos}"}, "", "", kNo, kInUser},
    {"mistral-v3-tekken", {"", "\n\n"}, {"[INST]", "[/INST]"}, {"", "{eos}"}, "", "", kNo, kInUser},
    {"mistral-v7", {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, {"[INST] ", "[/INST]"}, {" ", "{eos}"}, ""},
    {"mistral-v7-tekken", {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, {"[INST]", "[/INST]"}, {"", "{eos}"}, ""},
    {"monarch",
     {"{bos}system\n", "{eos}\n"},
     {"{bos}user\n", "{eos}\n"},
     {"{bos}assistant\n", "{eos}\n"},
     "{bos}assistant\n"},
    {"openchat",
     {"", "<|end_of_turn|>"},
     {"GPT4 Correct User: ", "<|end_of_turn|>"},
     {"GPT4 Correct Assistant: ", "<|end_of_turn|>"},
     "GPT4 Correct Assistant:"},
    {"orion", {"", "\n\n"}, {"Human: ", "\n\nAssistant: {eos}"}, {"", "{eos}"}, "", "", kNo, kInUser},
    {"phi3",
     {"<|system|>\n", "<|end|>\n"},
     {"<|user|>\n", "<|end|>\n"},
     {"<|assistant|>\n", "<|end|>\n"},
     "<|assistant|>\n"},
    {"phi4",
     {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>user<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>assistant<|im_sep|>", "<|im_end|>"},
     "<|im_start|>assistant<|im_sep|>"},
    {"rwkv-world", {"System: ", "\n\n"}, {"User: ", "\n\n"}, {"Assistant: ", "\n\n"}, "Assistant:", "", kYes},
    {"seed_oss",
     {"<seed:bos>system\n", "<seed:eos>"},
     {"<seed:bos>user\n", "<seed:eos>"},
     {"<seed:bos>assistant\n", "<seed:eos>"},
     "<seed:bos>assistant\n"},
    {"smolvlm",
     {"", "\n\n"},
     {"User: ", "<end_of_utterance>\n"},
     {"Assistant: ", "<end_of_utterance>\n"},
     "Assistant:",
     "<|im_start|>"},
    {"vicuna", {"", " "}, {"USER: ", " "}, {"ASSISTANT: ", "{eos}"}, "ASSISTANT:"},
    {"vicuna-orca", {"SYSTEM: ", "\n"}, {"USER: ", "\n"}, {"ASSISTANT: ", "{eos}\n"}, "ASSISTANT:"},
    {"yandex",
     {"", "\n\n"},
     {" Пользователь: ", "\n\n"},
     {" Ассистент: ", "\n\n"},
     " Ассистент:[SEP]",
     "{bos}"},
    {"zephyr",
     {"<|system|>\n", "{eos}\n"},
     {"<|user|>\n", "{eos}\n"},
     {"<|assistant|>\n", "{eos}\n"},
     "<|assistant|>\n"},
};

/// As a Jinja expression, with variables for "{bos}" and "{eos}".
std::string expression(std::string_view text) {
  std::string result = "'";
  while (!text.empty()) {
    if (text.starts_with("{bos}") || text.starts_with("{eos}")) {
      result += text[1] == 'b' ? "' ~ bos_token ~ '" : "' ~ eos_token ~ '";
      text.remove_prefix(5);
      continue;
    }
    if (text.front() == '\n')
      result += "\\n";
    else
      result += text.front();
    text.remove_prefix(1);
  }
  return result + "'";
}

std::string around(const Marks& marks, std::string_view text) {
  return expression(marks.before) + " ~ " + std::string(text) + " ~ " + expression(marks.after);
}

std::string in_jinja(const Family& family) {
  const bool merges = family.where == kInUser;
  std::string result = "{{- " + expression(family.begin) + " }}\n{%- set ns = namespace(system='') %}\n";
  result += "{%- for message in messages %}\n  {%- set text = message.content";
  if (family.trim == kYes) result += " | trim";
  result += " %}\n  {%- if message.role == 'system' %}";
  result += merges ? "{% set ns.system = ns.system ~ " + around(family.system, "text") + " %}"
                   : "{{- " + around(family.system, "text") + " }}";
  result += "\n  {%- elif message.role == 'assistant' %}{{- " + around(family.assistant, "text") + " }}";
  result += "\n  {%- else %}{{- " + around(family.user, merges ? "ns.system ~ text" : "text") + " }}";
  if (merges) result += "{% set ns.system = '' %}";
  result += "\n  {%- endif %}\n{%- endfor %}\n";
  return result + "{%- if add_generation_prompt %}{{- " + expression(family.generation) + " }}{% endif %}";
}

}  // namespace

std::string named_template(std::string_view name) {
  for (const Family& family : kFamilies)
    if (family.name == name) return in_jinja(family);
  return {};
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(family.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace weft::text
