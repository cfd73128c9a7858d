#include "api/infill.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/error.h"
#include "base/to_size.h"
#include "weft/infill.h"

namespace weft::server {
namespace {

constexpr std::size_t kMostFiles = 4096;
/// The separator before a file if the model has no token for files.
constexpr std::string_view kSnippet = "\n\n--- snippet ---\n\n";

using Tokens = std::vector<Token>;

void append(Tokens& to, const Tokens& tokens) { to.insert(to.end(), tokens.begin(), tokens.end()); }

void keep_end(Tokens& tokens, std::size_t n) {
  if (tokens.size() > n) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(n));
}

void keep_beginning(Tokens& tokens, std::size_t n) { tokens.resize(std::min(tokens.size(), n)); }

/// The other files, in front of the prefix and suffix. Uses the model's repository tokens if it has them.
Tokens file_tokens(const ServedModel& model, const std::vector<InfillText::File>& files) {
  const InfillTokens& marks = model.infill;
  const auto encode = [&](std::string_view text) {
    return model.tokenizer().encode(text, {.add_special = false});
  };
  Tokens tokens;
  if (files.empty()) return tokens;
  const bool names_files = marks.separator != kNoToken;
  if (names_files && marks.repository != kNoToken) {
    tokens.push_back(marks.repository);
    append(tokens, encode("myproject\n"));
  }
  for (const InfillText::File& file : files) {
    if (names_files) {
      tokens.push_back(marks.separator);
      append(tokens, encode(file.name + "\n"));
    } else {
      append(tokens, encode(kSnippet));
    }
    append(tokens, encode(file.text));
  }
  if (names_files) {
    tokens.push_back(marks.separator);
    append(tokens, encode("filename\n"));
  }
  return tokens;
}

/// Cuts the tokens beyond `room`. Returns whether there were any.
bool cut_to(std::size_t room, Tokens& files, Tokens& prefix, Tokens& suffix) {
  if (files.size() + prefix.size() + suffix.size() <= room) return false;
  if (prefix.size() + suffix.size() > room) {
    const std::size_t n_suffix =
        std::min(suffix.size(), std::max(room / 4, room - std::min(room, prefix.size())));
    keep_end(prefix, room - n_suffix);
    keep_beginning(suffix, n_suffix);
  }
  keep_end(files, room - prefix.size() - suffix.size());
  return true;
}

}  // namespace

InfillText read_infill_text(Fields& fields) {
  InfillText text;
  if (const Json* extra = fields.array("input_extra")) {
    if (extra->size() > kMostFiles)
      throw bad_request("input_extra", fmt::format("'input_extra' may have at most {} entries, not {}",
                                                   kMostFiles, extra->size()));
    for (std::size_t i = 0; i < extra->size(); ++i) {
      Fields file = fields.within((*extra)[i], element("input_extra", i));
      text.files.push_back({file.string("filename", "tmp"), file.string("text")});
      file.ignore({"time"});  // The time when the editor saw it.
      file.done();
    }
  }
  text.prefix = fields.string("input_prefix") + fields.string("prompt");
  text.suffix = fields.string("input_suffix");
  return text;
}

InfillPrompt infill_prompt(const ServedModel& model, const InfillText& text, int n_predict) {
  Tokens prefix = infill_tokens(model, text.prefix);
  Tokens suffix = infill_tokens(model, text.suffix);
  Tokens files = file_tokens(model, text.files);
  // The room that the response and the infill tokens leave.
  const int n_ctx = model.n_ctx;
  const int n_answer = std::clamp(n_predict < 0 ? n_ctx / 4 : n_predict, 1, std::max(1, n_ctx / 2));
  InfillPrompt made;
  made.truncated = cut_to(to_size(std::max(0, n_ctx - n_answer - 5)), files, prefix, suffix);
  made.prompt.tokens = join_infill(model, files, prefix, suffix);
  return made;
}

Tokens infill_tokens(const ServedModel& model, std::string_view text) {
  if (!model.infill.can_infill())
    throw bad_request(
        "model",
        fmt::format("the model '{}' has no infill tokens; use a code model that was trained for infill (FIM)",
                    model.spec.name));
  return model.tokenizer().encode(text, {.add_special = false});
}

Tokens join_infill(const ServedModel& model, const Tokens& files, const Tokens& prefix,
                   const Tokens& suffix) {
  const InfillTokens& marks = model.infill;
  Tokens prompt;
  if (model.tokenizer().adds_bos() && model.tokenizer().bos() != kNoToken)
    prompt.push_back(model.tokenizer().bos());
  append(prompt, files);
  const auto add = [&](Token mark, const Tokens& part) {
    prompt.push_back(mark);
    append(prompt, part);
  };
  if (model.infill_order == InfillOrder::kSuffixFirst || marks.middle == kNoToken) {
    add(marks.suffix, suffix);
    add(marks.prefix, prefix);
  } else {
    add(marks.prefix, prefix);
    add(marks.suffix, suffix);
  }
  if (marks.middle != kNoToken) prompt.push_back(marks.middle);
  return prompt;
}

}  // namespace weft::server
