#pragma once
// Infill prompts: the prefix and suffix of the missing middle, and pieces of other files.
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
  bool truncated = false;  ///< The context has no room for all parts.
};

/// With `n_predict` the prompt is cut so that the context has room for this many tokens (< 0: a quarter of
/// the context). The beginning of the files is cut first, then the prefix's beginning and the suffix's end;
/// the prefix keeps three quarters of the room. Without `n_predict` nothing is cut. Throws ApiError for a
/// model that cannot infill.
InfillPrompt infill_prompt(const ServedModel& model, const InfillText& text, std::optional<int> n_predict);

}  // namespace weft::server
