#pragma once
// Prompts whose middle the model fills in: the text before and after it, and pieces of other files.
#include <optional>
#include <string>
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
  bool truncated = false;  ///< The context has no room for all of the text.
};

/// With `n_predict`: leaves room for so many tokens (< 0: as many as the model likes). What does not fit is
/// left out: files first, from their beginning, then the prefix's beginning and the suffix's end, of which
/// the prefix gets three quarters. Without it nothing is left out. Throws ApiError for a model that cannot
/// infill.
InfillPrompt infill_prompt(const ServedModel& model, const InfillText& text, std::optional<int> n_predict);

}  // namespace weft::server
