#include "engine/batching/batcher_params.h"

#include <algorithm>
#include <string>

#include "engine/refuse.h"

namespace weft::engine {
namespace {

constexpr int kMaxCompletions = 1 << 12;
constexpr int kMaxLogprobs = 1 << 10;
constexpr int kMaxDraft = 64;
constexpr int kMaxBranches = 64;

}  // namespace

BatcherParams fill_in(BatcherParams p, const Context& context) {
  const auto at_most = [](const char* what, int& value, int max) {
    if (value < 0) refuse(std::string(what) + " is " + std::to_string(value) + ", expected at least 0");
    if (value == 0 || value > max) value = max;
  };
  at_most("the number of running completions", p.n_running, context.params().n_sequences);
  at_most("the number of tokens of a step", p.n_step_tokens, context.batch_size());
  if (!(p.max_step_ms > 0.0)) refuse("the time of a step must be more than 0 ms");
  if (p.n_draft < 0 || p.n_draft > kMaxDraft)
    refuse("the depth of drafts must be 0 to " + std::to_string(kMaxDraft));
  if (p.n_draft_branches < 1 || p.n_draft_branches > kMaxBranches)
    refuse("the branches of drafts must be 1 to " + std::to_string(kMaxBranches));
  if (p.speculation == Speculation::kModel && p.draft == nullptr)
    refuse("speculation with a model needs the context of a draft model");
  return p;
}

int max_text(const RequestParams& p, const Context& context) {
  const int n_cells = p.n_ctx > 0 ? std::min(p.n_ctx, context.cells_total()) : context.cells_total();
  return std::min<int>(n_cells, context.max_positions());
}

void check_request(std::span<const Token> prompt, const RequestParams& p, const Context& context) {
  if (prompt.empty()) refuse("the prompt is empty");
  const int n_vocab = context.model().info().n_vocab;
  for (const Token token : prompt)
    if (token < 0 || token >= n_vocab)
      refuse("token " + std::to_string(token) + " is outside the vocabulary of " + std::to_string(n_vocab));
  if (p.n < 1 || p.n > kMaxCompletions)
    refuse("the number of completions must be 1 to " + std::to_string(kMaxCompletions));
  if (p.n_logprobs > kMaxLogprobs) refuse("at most " + std::to_string(kMaxLogprobs) + " log-probabilities");
  if (p.n_ctx < 0 || p.n_keep < 0) refuse("n_ctx and n_keep must not be negative");
  if (p.context_shift && !context.can_shift())
    throw Error(ErrorCode::kUnsupported,
                "the text of this model cannot be shifted: it has learned positions or recurrent layers");
  const int limit = max_text(p, context);
  if (prompt.size() > static_cast<std::size_t>(limit))
    refuse("the prompt has " + std::to_string(prompt.size()) + " tokens and the context has room for " +
           std::to_string(limit) + "; use a larger context or a shorter prompt");
}

}  // namespace weft::engine
