#include "convert/tokenizer_steps.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/base64.h"
#include "text/text_steps.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

void flatten(const Json& step, const char* list_name, std::vector<const Json*>& steps, int depth = 0) {
  constexpr int kDeepest = 4;
  const Json* const list = find(step, list_name);
  if (list == nullptr || !list->is_array() || depth == kDeepest) {
    steps.push_back(&step);
    return;
  }
  for (const Json& next : *list) flatten(next, list_name, steps, depth + 1);
}

/// SentencePiece's table, which GGUF has a key for.
std::string take_charsmap(Json& step, std::string& map, GgufWriter& file) {
  const auto bytes = base::from_base64(find_text(step, "precompiled_charsmap").value_or(""));
  if (!bytes) throw Error(ErrorCode::kInvalidFile, "tokenizer.json: precompiled_charsmap is not base64");
  const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes->data());
  if (!bytes->empty())
    file.set("tokenizer.ggml.precompiled_charsmap", std::vector<std::uint8_t>(data, data + bytes->size()));
  std::string found(reinterpret_cast<const char*>(data), bytes->size());
  if (!map.empty() && map != found)
    throw Error(ErrorCode::kUnsupported,
                "tokenizer.json has two tables of replacements (precompiled_charsmap)");
  step.erase("precompiled_charsmap");
  return found;
}

}  // namespace

std::vector<const Json*> steps_of(const Json& tokenizer, const char* part, const char* list) {
  std::vector<const Json*> steps;
  if (const Json* const step = find(tokenizer, part)) flatten(*step, list, steps);
  return steps;
}

std::vector<const Json*> normalizers_of(const Json& tokenizer) {
  return steps_of(tokenizer, "normalizer", "normalizers");
}

std::vector<const Json*> pre_tokenizers_of(const Json& tokenizer) {
  return steps_of(tokenizer, "pre_tokenizer", "pretokenizers");
}

void add_steps(const Json& tokenizer, bool cuts_by_name, GgufWriter& file) {
  Json normalizers = Json::array(), cuts = Json::array();
  std::string map;
  for (const Json* const step : normalizers_of(tokenizer)) {
    normalizers.push_back(*step);
    if (find_text(*step, "type") == "Precompiled") map = take_charsmap(normalizers.back(), map, file);
  }
  bool first = true;
  for (const Json* const step : pre_tokenizers_of(tokenizer)) {
    const Json* const adds = find(*step, "add_prefix_space");
    const bool prefixes = find_text(*step, "type") == "ByteLevel" && adds != nullptr && *adds == true;
    if (cuts_by_name && prefixes && !first)
      throw Error(ErrorCode::kUnsupported,
                  "tokenizer.json adds a space before each piece of the text (add_prefix_space), which weft "
                  "does not support; without it, the model would get wrong tokens");
    if (!cuts_by_name || prefixes) cuts.push_back(*step);
    first = false;
  }
  const std::string steps = normalizers.dump(), words = cuts.dump();
  text::Normalizer(steps, map);
  text::PieceCutter{words};
  file.set("weft.tokenizer.normalizers", steps);
  if (!cuts.empty()) file.set("weft.tokenizer.pre_tokenizers", words);
}

}  // namespace weft::convert_impl
