#include "chat/format.h"

namespace weft::chat {

namespace {

CallFormat tagged_object(std::string begin, std::string end) {
  return {.section_begin = std::move(begin), .section_end = std::move(end), .separator = "\n"};
}

CallFormat listed_objects(std::string begin, std::string end, std::string id_key = {}) {
  return {.section_begin = std::move(begin),
          .section_end = std::move(end),
          .separator = ", ",
          .list = true,
          .id_key = std::move(id_key)};
}

CallFormat hermes_calls() {
  return {.call_begin = "<tool_call>\n", .call_end = "\n</tool_call>", .separator = "\n"};
}

/// <function=f>{...}</function>: Meta's "custom tool calling" of Llama 3.1, and functionary 3.1.
CallFormat function_tag_calls() {
  return {.style = CallStyle::kNamed,
          .call_begin = "<function=",
          .call_end = "</function>",
          .separator = "\n",
          .name_end = ">"};
}

/// Qwen3-Coder's, which at times leaves out the tag that opens the section.
CallFormat function_parameters(std::string section_begin, std::string section_end) {
  return {.style = CallStyle::kParameters,
          .section_begin = std::move(section_begin),
          .section_end = std::move(section_end),
          .call_begin = "<function=",
          .call_end = "</function>\n",
          .name_end = ">\n",
          .key_begin = "<parameter=",
          .key_end = ">\n",
          .value_end = "\n</parameter>\n",
          .padded = true};
}

CallFormat seed_calls() {
  CallFormat calls = function_parameters("<seed:tool_call>\n", "</seed:tool_call>");
  calls.key_end = ">";
  calls.value_end = "</parameter>\n";
  calls.padded = false;
  return calls;
}

/// DeepSeek's calls, which mark each value as a string or as JSON.
CallFormat invoke_calls(std::string section, std::string prefix) {
  return {.style = CallStyle::kParameters,
          .section_begin = "<" + prefix + section + ">\n",
          .section_end = "</" + prefix + section + ">",
          .call_begin = "<" + prefix + "invoke name=\"",
          .call_end = "</" + prefix + "invoke>\n",
          .name_end = "\">\n",
          .key_begin = "<" + prefix + "parameter name=\"",
          .key_end = "\"",
          .value_begin = ">",
          .value_end = "</" + prefix + "parameter>\n",
          .text_kind = " string=\"true\"",
          .other_kind = " string=\"false\""};
}

std::vector<Format> make_formats() {
  std::vector<Format> all;

  // OpenAI's harmony: github.com/openai/harmony, docs/format.md.
  all.push_back({.name = "harmony", .marks = {"<|channel|>", "<|message|>"}, .channels = true});

  // Gemma 4 and FunctionGemma: ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices.
  all.push_back({.name = "gemma4",
                 .marks = {"<|tool_call>call:", "<tool_call|>"},
                 .calls = {{.style = CallStyle::kUnquoted,
                            .call_begin = "<|tool_call>",
                            .call_end = "<tool_call|>",
                            .name_prefix = "call:",
                            .quote = "<|\"|>"}},
                 .reasoning_begin = "<|channel>thought\n",
                 .reasoning_end = "<channel|>"});
  all.push_back({.name = "functiongemma",
                 .marks = {"<start_function_call>"},
                 .calls = {{.style = CallStyle::kUnquoted,
                            .call_begin = "<start_function_call>",
                            .call_end = "<end_function_call>",
                            .name_prefix = "call:",
                            .quote = "<escape>"}}});

  // DeepSeek's chat templates (huggingface.co/deepseek-ai), from V3 and R1 to V4.
  all.push_back({.name = "deepseek-v3.1",
                 .marks = {"<｜tool▁calls▁begin｜>"},
                 .not_marks = {"```json"},
                 .calls = {{.style = CallStyle::kNamed,
                            .section_begin = "<｜tool▁calls▁begin｜>",
                            .section_end = "<｜tool▁calls▁end｜>",
                            .call_begin = "<｜tool▁call▁begin｜>",
                            .call_end = "<｜tool▁call▁end｜>",
                            .name_end = "<｜tool▁sep｜>"}},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});
  all.push_back({.name = "deepseek-r1",
                 .marks = {"<｜tool▁calls▁begin｜>"},
                 .calls = {{.style = CallStyle::kNamed,
                            .section_begin = "<｜tool▁calls▁begin｜>",
                            .section_end = "<｜tool▁calls▁end｜>",
                            .call_begin = "<｜tool▁call▁begin｜>",
                            .call_end = "\n```<｜tool▁call▁end｜>",
                            .separator = "\n",
                            .name_prefix = "function<｜tool▁sep｜>",
                            .name_end = "\n```json\n"}},
                 .reasoning_begin = "<think>\n",
                 .reasoning_end = "\n</think>\n\n"});
  all.push_back(
      {.name = "deepseek-v3.2",
       .marks = {"｜DSML｜", "function_calls"},
       .calls = {invoke_calls("function_calls", "｜DSML｜"), invoke_calls("tool_calls", "｜DSML｜")},
       .reasoning_begin = "<think>",
       .reasoning_end = "</think>"});
  all.push_back(
      {.name = "deepseek-v4",
       .marks = {"｜DSML｜"},
       .calls = {invoke_calls("tool_calls", "｜DSML｜"), invoke_calls("function_calls", "｜DSML｜")},
       .reasoning_begin = "<think>",
       .reasoning_end = "</think>"});

  // Moonshot's Kimi K2: huggingface.co/moonshotai/Kimi-K2-Instruct, docs/tool_call_guidance.md.
  all.push_back({.name = "kimi-k2",
                 .marks = {"<|tool_calls_section_begin|>"},
                 .calls = {{.style = CallStyle::kNamed,
                            .section_begin = "<|tool_calls_section_begin|>",
                            .section_end = "<|tool_calls_section_end|>",
                            .call_begin = "<|tool_call_begin|>",
                            .call_end = "<|tool_call_end|>",
                            .name_prefix = "functions.",
                            .name_end = "<|tool_call_argument_begin|>",
                            .index_mark = ":"}},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});

  // Cohere's Command R7B and A: docs.cohere.com/docs/command-a-hf.
  all.push_back({.name = "command-r7b",
                 .marks = {"<|START_ACTION|>"},
                 .calls = {{.section_begin = "<|START_ACTION|>[\n    ",
                            .section_end = "\n]<|END_ACTION|>",
                            .separator = ",\n    ",
                            .list = true,
                            .name_key = "tool_name",
                            .arguments_key = "parameters",
                            .id_key = "tool_call_id",
                            .id_first = true}},
                 .reasoning_begin = "<|START_THINKING|>",
                 .reasoning_end = "<|END_THINKING|>",
                 .wrappers = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}});
  // Command R and R+: "Action:" and a fenced list.
  all.push_back({.name = "command-r",
                 .marks = {"\"tool_name\"", "Action:"},
                 .calls = {{.section_begin = "Action: ```json\n[\n    ",
                            .section_end = "\n]```",
                            .separator = ",\n    ",
                            .list = true,
                            .name_key = "tool_name",
                            .arguments_key = "parameters"}}});

  // Mistral: docs.mistral.ai and the mistral-common tokenizers, versions 11 and above, then 3 and 7.
  const CallFormat mistral_named = {.style = CallStyle::kNamed,
                                    .call_begin = "[TOOL_CALLS]",
                                    .name_end = "[ARGS]",
                                    .id_begin = "[CALL_ID]"};
  const CallFormat mistral_list = listed_objects("[TOOL_CALLS][", "]", "id");
  all.push_back({.name = "mistral",
                 .marks = {"[TOOL_CALLS]", "[ARGS]"},
                 .calls = {mistral_named, mistral_list},
                 .reasoning_begin = "[THINK]",
                 .reasoning_end = "[/THINK]"});
  all.push_back({.name = "mistral-v3",
                 .marks = {"[TOOL_CALLS]"},
                 .calls = {mistral_list, mistral_named},
                 .reasoning_begin = "[THINK]",
                 .reasoning_end = "[/THINK]"});

  // Z.ai's GLM 4.5 and later (huggingface.co/zai-org), and those who took it over.
  all.push_back({.name = "glm",
                 .marks = {"<arg_key>", "<arg_value>", "<tool_call>"},
                 .calls = {{.style = CallStyle::kParameters,
                            .call_begin = "<tool_call>",
                            .call_end = "</tool_call>",
                            .separator = "\n",
                            .name_end = "\n",
                            .key_begin = "<arg_key>",
                            .key_end = "</arg_key>\n",
                            .value_begin = "<arg_value>",
                            .value_end = "</arg_value>\n"}},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});

  // MiniMax M2: huggingface.co/MiniMaxAI/MiniMax-M2, docs/tool_calling_guide.md.
  all.push_back({.name = "minimax-m2",
                 .marks = {"minimax:tool_call", "<invoke name="},
                 .calls = {{.style = CallStyle::kParameters,
                            .section_begin = "<minimax:tool_call>\n",
                            .section_end = "</minimax:tool_call>",
                            .call_begin = "<invoke name=\"",
                            .call_end = "</invoke>\n",
                            .name_end = "\">\n",
                            .key_begin = "<parameter name=\"",
                            .key_end = "\"",
                            .value_begin = ">",
                            .value_end = "</parameter>\n"}},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});

  // ByteDance's Seed-OSS (huggingface.co/ByteDance-Seed).
  all.push_back({.name = "seed-oss",
                 .marks = {"<seed:tool_call>"},
                 .calls = {seed_calls()},
                 .reasoning_begin = "<seed:think>",
                 .reasoning_end = "</seed:think>"});

  // Qwen3-Coder, Qwen 3.5, Nemotron 3, Step 3.5 (huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct).
  all.push_back({.name = "qwen3-coder",
                 .marks = {"<function=", "<parameter=", "<tool_call>"},
                 .calls = {function_parameters("<tool_call>\n", "</tool_call>"),
                           function_parameters({}, "</tool_call>"), hermes_calls()},
                 .reasoning_begin = "<think>\n",
                 .reasoning_end = "\n</think>\n\n"});

  // Liquid's LFM2: docs.liquid.ai/docs/key-concepts/tool-use.
  all.push_back({.name = "lfm2",
                 .marks = {"List of tools: "},
                 .calls = {{.style = CallStyle::kPython,
                            .section_begin = "<|tool_call_start|>[",
                            .section_end = "]<|tool_call_end|>",
                            .separator = ", ",
                            .list = true}},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});

  // Ai2's OLMo 3 (huggingface.co/allenai): calls of Python, one on a line.
  all.push_back({.name = "olmo3",
                 .marks = {"<function_calls>", "</function_calls>"},
                 .not_marks = {"<invoke"},
                 .calls = {{.style = CallStyle::kPython,
                            .section_begin = "<function_calls>",
                            .section_end = "</function_calls>",
                            .separator = "\n"}},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});

  // Apertus (huggingface.co/swiss-ai): a list of objects whose only key is the function.
  all.push_back({.name = "apertus",
                 .marks = {"<|tools_prefix|>"},
                 .calls = {{.style = CallStyle::kNamed,
                            .section_begin = "<|tools_prefix|>[",
                            .section_end = "]<|tools_suffix|>",
                            .call_begin = "{\"",
                            .call_end = "}",
                            .separator = ", ",
                            .name_end = "\": "}},
                 .reasoning_begin = "<|inner_prefix|>",
                 .reasoning_end = "<|inner_suffix|>"});

  // Llama 3.1 to 3.3: llama.com/docs/model-cards-and-prompt-formats/llama3_1.
  all.push_back(
      {.name = "llama3",
       .marks = {"<|start_header_id|>", "\"parameters\": "},
       .not_marks = {"<tool_call>", ">>>", "<function="},
       .calls = {{.section_begin = "<|python_tag|>", .separator = "; ", .arguments_key = "parameters"},
                 function_tag_calls()},
       .bare_object = true});
  all.push_back({.name = "functionary-v3.1",
                 .marks = {"<|start_header_id|>", "<function="},
                 .calls = {function_tag_calls()}});
  all.push_back(
      {.name = "firefunction", .marks = {" functools["}, .calls = {listed_objects(" functools[", "]")}});

  // IBM's Granite 3: ibm.com/granite/docs. Granite 4 writes Hermes' tags.
  all.push_back({.name = "granite",
                 .marks = {"<|start_of_role|>"},
                 .not_marks = {"<tool_call>"},
                 .calls = {listed_objects("<|tool_call|>[", "]")},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>",
                 .wrappers = {"<response>", "</response>"}});

  // Microsoft's Phi-4-mini: huggingface.co/microsoft/Phi-4-mini-instruct.
  all.push_back(
      {.name = "phi4-mini",
       .marks = {"<|tool|>", "<|/tool|>"},
       .calls = {listed_objects("<|tool_call|>[", "]<|/tool_call|>"), listed_objects("functools[", "]")}});

  // NVIDIA's Nemotron Nano 2 (huggingface.co/nvidia), Apriel and MiniMax M1.
  all.push_back({.name = "nemotron-nano-v2",
                 .marks = {"<TOOLCALL>"},
                 .calls = {listed_objects("<TOOLCALL>[", "]</TOOLCALL>")},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});
  all.push_back({.name = "minimax-m1",
                 .marks = {"<tool_calls>\n{\"name\":", "</tool_calls>"},
                 .calls = {tagged_object("<tool_calls>\n", "\n</tool_calls>")},
                 .reasoning_begin = "<think>",
                 .reasoning_end = "</think>"});
  all.push_back({.name = "apriel",
                 .marks = {"<tool_calls>[", "]</tool_calls>"},
                 .calls = {listed_objects("<tool_calls>[", "]</tool_calls>", "id")},
                 .wrappers = {"[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]"}});

  // Gemma 2 and 3 have no tools of their own. If a prompt describes tools, they write calls in code fences:
  // ai.google.dev/gemma/docs/capabilities.
  all.push_back(
      {.name = "gemma",
       .marks = {"<start_of_turn>"},
       .calls = {hermes_calls(),
                 {.style = CallStyle::kPython, .section_begin = "```tool_code\n", .section_end = "\n```"},
                 tagged_object("```tool_call\n", "\n```")}});

  // Nous Research's Hermes (github.com/NousResearch/Hermes-Function-Calling), Qwen 2.5, QwQ, Qwen 3, Granite
  // 4, SmolLM3, MiMo, Reka. Prompts describe this format to models without tools of their own.
  all.push_back({.name = "hermes",
                 .marks = {"<tool_call>"},
                 .calls = {hermes_calls()},
                 .reasoning_begin = "<think>\n",
                 .reasoning_end = "\n</think>\n\n"});
  all.push_back(all.back());
  all.back().name = "generic";
  all.back().marks.clear();
  return all;
}

}  // namespace

const std::vector<Format>& known_formats() {
  static const std::vector<Format> formats = make_formats();
  return formats;
}

}  // namespace weft::chat
