#pragma once
// How often a model gives the right choice of a task the highest mean log-probability per token.
#include <functional>
#include <vector>

#include "quality/choice_tasks.h"
#include "terminal/interrupt.h"
#include "weft/context.h"

namespace weft::cli {

/// Tasks [begin, end) that are computed together.
struct ChoiceBatch {
  std::size_t begin = 0, end = 0;
  std::size_t n_texts = 0;
  std::size_t n_cells = 0;
};
/// Batches of at most n_batch tokens, or of one longer task.
std::vector<ChoiceBatch> choice_batches(const std::vector<TokenizedTask>& tasks, int n_batch);
/// Parameters of a context that can hold each batch.
ContextParams choice_context(ContextParams params, const std::vector<ChoiceBatch>& batches);

struct ChoiceResult {
  std::vector<double> scores;  ///< For each choice, the mean of its tokens' log-probabilities.
  std::size_t best = 0;
  bool right = false;
};

/// The common prefix of a task's choices is computed once. Calls `on_task` for each task, in order. Throws
/// Error kCancelled after Ctrl-C.
void score_choices(Context& context, const std::vector<TokenizedTask>& tasks,
                   const std::vector<ChoiceBatch>& batches, const InterruptGuard& interrupt,
                   const std::function<void(const ChoiceResult&)>& on_task);

}  // namespace weft::cli
