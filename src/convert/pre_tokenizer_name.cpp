#include "convert/pre_tokenizer_name.h"

#include <algorithm>
#include <vector>

#include "convert/tokenizer_steps.h"
#include "text/splitter_patterns.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

using namespace text::patterns;

/// Steps that cut; regular expressions as they are published.
struct Row {
  std::vector<std::string_view> steps;
  std::string_view name, name_ignoring_merges;
};

constexpr std::string_view kDigits = "Digits", kNumberGroups = "Digits of several";
constexpr std::string_view kMarks = "Punctuation", kWords = "ByteLevel";
// DeepSeek's published patterns. They have literal characters where weft's patterns have code points.
constexpr std::string_view kPublishedCjk = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
constexpr std::string_view kPublishedDeepseek3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{kWords}, "gpt-2", "gpt-2"},
      {{kDigits, kWords}, "starcoder", "starcoder"},
      {{kMarks, kWords, kNumberGroups, kThreeDigits}, "falcon", "falcon"},
      {{kMarks, kWords, kThreeDigits}, "falcon", "falcon"},
      {{kLlama3}, "dbrx", "llama-bpe"},
      {{kQwen2}, "qwen2", "qwen2"},
      {{kQwen35}, "qwen35", "qwen35"},
      {{kGpt4o}, "gpt-4o", "gpt-4o"},
      {{kTekken}, "tekken", "tekken"},
      {{kUpTo3Numbers, kPublishedCjk, kPublishedDeepseek3}, "deepseek-v3", "deepseek-v3"},
      {{kSeedCoder}, "seed-coder", "seed-coder"},
  };
  return rows;
}

void add_steps(const Json& step, std::vector<std::string>& steps, int depth = 0) {
  constexpr int kDeepest = 4;
  const std::string type = find_text(step, "type").value_or("");
  const auto flag = [&](const char* name, bool otherwise) {
    const Json* const value = find(step, name);
    return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
  };
  if (type == "Sequence") {
    const Json* const list = find(step, "pretokenizers");
    if (list == nullptr || !list->is_array() || depth == kDeepest) return;
    for (const Json& next : *list) add_steps(next, steps, depth + 1);
  } else if (type == "ByteLevel") {
    if (flag("use_regex", true)) steps.emplace_back(kWords);
  } else if (type == "Digits") {
    steps.emplace_back(flag("individual_digits", false) ? kDigits : kNumberGroups);
  } else if (type == "Split") {
    const Json* const pattern = find(step, "pattern");
    const Json none = Json::object();
    const Json& of = pattern == nullptr ? none : *pattern;
    steps.push_back(find_text(of, "Regex").value_or(find_text(of, "String").value_or("")));
    // The named patterns isolate their matches. Those that keep only their matches lose nothing, because the
    // patterns match each character.
    const std::string behaviour = find_text(step, "behavior").value_or("Isolated");
    const bool keeps = behaviour == "Isolated" || (behaviour == "Removed" && flag("invert", false));
    if (!keeps) steps.back() = "behavior " + behaviour + " of " + steps.back();
  } else {
    steps.push_back(type);
  }
}

}  // namespace

bool ignores_merges(const Json& tokenizer) {
  const Json* const model = find(tokenizer, "model");
  const Json* const ignore = model == nullptr ? nullptr : find(*model, "ignore_merges");
  return ignore != nullptr && ignore->is_boolean() && ignore->get<bool>();
}

bool cuts_at_spaces(const Json& tokenizer) {
  const auto has = [](const std::vector<const Json*>& steps, std::string_view type) {
    return std::any_of(steps.begin(), steps.end(),
                       [&](const Json* step) { return find_text(*step, "type") == type; });
  };
  const auto cuts = pre_tokenizers_of(tokenizer);
  return (has(cuts, "Whitespace") || has(cuts, "WhitespaceSplit")) && !has(cuts, "ByteLevel") &&
         !has(normalizers_of(tokenizer), "ByteLevel") &&
         !has(steps_of(tokenizer, "decoder", "decoders"), "ByteLevel");
}

std::string pre_tokenizer_name(const Json& tokenizer) {
  std::vector<std::string> steps;
  if (const Json* const step = find(tokenizer, "pre_tokenizer")) add_steps(*step, steps);
  for (const Row& row : table())
    if (std::vector<std::string_view>(steps.begin(), steps.end()) == row.steps)
      return std::string(ignores_merges(tokenizer) ? row.name_ignoring_merges : row.name);
  std::string text;
  for (const std::string& step : steps) text += (text.empty() ? "" : ", then ") + step.substr(0, 120);
  if (text.empty()) text = "no step splits text";
  throw Error(ErrorCode::kUnsupported, "tokenizer.json has an unknown pre-tokenizer (" + text +
                                           "). Name a known one with --pre (ConvertParams::pre_tokenizer), "
                                           "e.g. \"gpt-2\"; a wrong one gives the model wrong tokens");
}

}  // namespace weft::convert_impl
