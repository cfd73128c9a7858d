#pragma once
// Infill prompts: the prefix and suffix of the missing middle, and pieces of other files.
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/prompts.h"
#include "models/served_model.h"

namespace weft::server {

struct InfillText {
  struct File {
    std::string name, text;
  };
  std::vector<File> files = {};  ///< The most important last.
  std::string prefix = {};
  std::string suffix = {};
};

/// `input_prefix`, `prompt`, `input_suffix` and `input_extra`, as llama.cpp names them.
InfillText read_infill_text(Fields& fields);

struct InfillPrompt {
  Prompt prompt;
  bool truncated = false;  ///< The context has no room for all parts.
};

/// The prompt is cut so that the context has room for `n_predict` tokens (< 0: a quarter of the context). The
/// beginning of the files is cut first, then the prefix's beginning and the suffix's end; the prefix keeps
/// three quarters of the room. Throws ApiError for a model that cannot infill.
InfillPrompt infill_prompt(const ServedModel& model, const InfillText& text, int n_predict);

/// The tokens of a prefix or suffix. Throws ApiError for a model that cannot infill.
std::vector<Token> infill_tokens(const ServedModel& model, std::string_view text);
/// The whole prompt, from tokens of the files (with their marks), the prefix and the suffix.
std::vector<Token> join_infill(const ServedModel& model, const std::vector<Token>& files,
                               const std::vector<Token>& prefix, const std::vector<Token>& suffix);

}  // namespace weft::server
