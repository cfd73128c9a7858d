#include "weft/infill.h"

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/model_impl.h"
#include "text/infill_words.h"
#include "weft/error.h"

namespace weft {
namespace {

struct Spelling {
  const char *prefix, *suffix;
  const char* middle;  ///< Null: the family has none.
};

constexpr Spelling kSpellings[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},     // Qwen, CodeGemma, StarCoder 2
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},           // StarCoder, Granite
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},           // SantaCoder
    {"<PRE>", "<SUF>", "<MID>"},                                // CodeLlama
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                             // CodeLlama's SentencePiece
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},     // DeepSeek
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},  // GLM
    {"[PREFIX]", "[SUFFIX]", nullptr},                          // Codestral
};

/// The id of the first key that names a token of the vocabulary.
Token named(const Model& model, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    std::optional<std::int64_t> id;
    try {
      id = model.impl().file.get_int(std::string("tokenizer.ggml.") + key);
    } catch (const Error&) {  // The key is not a number.
      continue;
    }
    if (id && *id >= 0 && *id < model.tokenizer().n_vocab()) return static_cast<Token>(*id);
  }
  return kNoToken;
}

Token spelled(const Tokenizer& tokenizer, std::span<const std::string_view> names) {
  for (const std::string_view name : names)
    if (const Token id = tokenizer.find(name); id != kNoToken) return id;
  return kNoToken;
}

}  // namespace

InfillTokens find_infill_tokens(const Model& model) {
  const Tokenizer& tokenizer = model.tokenizer();
  InfillTokens tokens;
  tokens.prefix = named(model, {"fim_pre_token_id", "prefix_token_id"});
  tokens.suffix = named(model, {"fim_suf_token_id", "suffix_token_id"});
  tokens.middle = named(model, {"fim_mid_token_id", "middle_token_id"});
  tokens.repository = named(model, {"fim_rep_token_id"});
  tokens.separator = named(model, {"fim_sep_token_id"});
  // Missing keys are filled from the first family whose tokens are all in the vocabulary.
  const auto either = [&](Token id, const char* name) { return id != kNoToken ? id : tokenizer.find(name); };
  for (const Spelling& family : kSpellings) {
    if (tokens.can_infill() && tokens.middle != kNoToken) break;
    InfillTokens found = tokens;
    found.prefix = either(tokens.prefix, family.prefix);
    found.suffix = either(tokens.suffix, family.suffix);
    if (family.middle != nullptr) found.middle = either(tokens.middle, family.middle);
    if (!found.can_infill() || (family.middle != nullptr && found.middle == kNoToken)) continue;
    tokens = found;
    break;
  }
  if (tokens.repository == kNoToken) tokens.repository = spelled(tokenizer, text::kRepositoryMarks);
  if (tokens.separator == kNoToken) tokens.separator = spelled(tokenizer, text::kFileSeparators);
  return tokens;
}

}  // namespace weft
