#include "text/pre_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "text/splitter_patterns.h"
#include "weft/error.h"

namespace weft::text {
namespace {

struct Row {
  std::vector<std::string_view> names;
  PreTokenizer how;
};

const std::vector<Row>& table() {
  using namespace patterns;
  constexpr bool kIgnoreMerges = true, kAddsBos = true, kWords = true;
  // Names as the converters of GGUF files write them.
  static const std::vector<Row> rows = {
      {{"default"}, {{kDefaultPunctuation, kGpt2, kNumbers, kThreeDigits}}},
      {{"gpt-2",      "gpt2",       "phi-2",           "mpt",          "olmo",
        "jais",       "trillion",   "granite-docling", "gigachat",     "a.x-4.0",
        "mellum",     "exaone4",    "modern-bert",     "jina-es",      "jina-de",
        "jina-v1-en", "jina-v2-es", "jina-v2-de",      "jina-v2-code", "roberta-bpe"},
       {{kGpt2}}},
      {{"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {{kNumber, kGpt2}}},
      {{"falcon"}, {{kFalconPunctuation, kGpt2, kThreeDigits}}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {{kLlama3}, kIgnoreMerges, kAddsBos}},
      {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {{kLlama3}}},
      {{"glm4", "glm5"}, {{kLlama3}, kIgnoreMerges}},
      {{"minicpm5"}, {{kUpTo3Numbers, kMinicpm5}, kIgnoreMerges}},
      {{"jais-2"}, {{kJais2}}},
      {{"qwen2", "stablelm2", "deepseek-r1-qwen", "megrez", "hunyuan", "solar-open", "grok-2", "kormo",
        "f2llmv2"},
       {{kQwen2}}},
      {{"qwen35"}, {{kQwen35}}},
      {{"gemma4", "granite-embed-multi-311m"}, {{kLineOrNewlines}, !kIgnoreMerges, kAddsBos}},
      {{"sarvam-moe"}, {{kLineOrNewlines}}},
      {{"laguna"}, {{kLineOrNewlines, kQwen2}}},
      {{"ufakzeka"}, {{kUfakzeka}}},
      {{"exaone-moe"}, {{kExaoneMoe}}},
      {{"deepseek-coder"}, {{kNewline, kSpaceLetters, kSpacePunctuation, kDeepseekCjk, kNumber}}},
      {{"deepseek-llm"},
       {{kNewline, kDeepseekLetters, kDeepseekPunctuation, kTrailingSpace, kDeepseekCjk, kNumbers}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {{kUpTo3Numbers, kDeepseek3Cjk, kDeepseek3}}},
      {{"spark2_5"}, {{kUpTo3Numbers, kDeepseek3Cjk, kSpark25, kNumber}}},
      {{"afmoe"}, {{kThreesOfNumber, kAfmoeScripts, kDeepseek3}}},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {{kGpt4o}}},
      {{"granite-embed-multi-97m"}, {{kGpt4o}, kIgnoreMerges}},
      {{"tiny_aya", "cohere2moe"}, {{kThreesOfWord, kGpt4o}}},
      {{"youtu"}, {{kYoutuScripts, kYoutu}, kIgnoreMerges}},
      {{"superbpe"}, {{kNumbers, kThrees}}},
      {{"tekken"}, {{kTekken}, kIgnoreMerges, kAddsBos}},
      {{"kimi-k2"}, {{kKimiK2}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {{kBailing}}},
      {{"seed-coder"}, {{kSeedCoder}}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {{kBloom}}},
      {{"viking"}, {{kBloom, kNumber}}},
      {{"whitespace"}, {{kWord}, !kIgnoreMerges, !kAddsBos, kWords}},
      {{"chameleon"},
       {{kChameleonSentinels, kChameleonImages, kChameleonSpaces, kNumber, kPunctuation, kGpt2},
        !kIgnoreMerges,
        kAddsBos}},
  };
  return rows;
}

}  // namespace

const PreTokenizer& find_pre_tokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Row& row : table())
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return row.how;
  throw Error(ErrorCode::kUnsupported,
              "tokenizer.ggml.pre names the pre-tokenizer \"" + std::string(name.substr(0, 64)) +
                  "\", which weft does not know. Name a known one with --pre (ModelParams::pre_tokenizer), "
                  "e.g. \"gpt-2\"; a wrong one gives the model wrong tokens");
}

bool composes(std::string_view name) {
  // Only names of one published tokenizer: "gpt-2" is the name of several, and some compose.
  constexpr std::string_view kNames[] = {"qwen2", "qwen35", "command-r", "mpt", "olmo"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::vector<std::string_view> pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const Row& row : table()) names.insert(names.end(), row.names.begin(), row.names.end());
  return names;
}

}  // namespace weft::text
