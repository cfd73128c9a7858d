#pragma once
// Handles of models, for the other files of the library.
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "support.h"
#include "weft/grammar.h"
#include "weft/model.h"

namespace weft::c {

/// A model and the objects that are derived from it once, shared by all handles.
struct LoadedModel {
  std::shared_ptr<const Model> model;
  std::string chat_template = {};
  PlacementReport placement = {};
  std::once_flag once = {};
  std::unique_ptr<const GrammarCompiler> grammars = {};

  /// Created on first use. Thread-safe.
  const GrammarCompiler& compiler();
};

/// The type with this number; `name` is the parameter's.
inline CacheType cache_type(weft_cache_type number, const char* name) {
  return choice(number, CacheType::kIQ4_NL, name);
}
std::vector<AdapterUse> adapter_uses(const weft_adapter_use* uses, std::size_t n);
/// A conversation by the model's template.
std::vector<PromptPiece> render(const Model& model, const weft_chat_message* messages, std::size_t n_messages,
                                const weft_chat_params* params);

}  // namespace weft::c

struct weft_model {
  std::shared_ptr<weft::c::LoadedModel> loaded;
};

struct weft_tokenizer {
  std::shared_ptr<const weft::Tokenizer> tokenizer;  // If it comes from a model, it keeps the model alive.
};

struct weft_grammar {
  std::shared_ptr<weft::c::LoadedModel> loaded;
  weft::Grammar grammar;
  std::shared_ptr<const weft::CompiledGrammar> compiled;
};
