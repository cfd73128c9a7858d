#pragma once
// How often a model finds the right one of several texts the most likely, token for token.
#include <functional>
#include <vector>

#include "choice_tasks.h"
#include "interrupt.h"
#include "weft/context.h"

namespace weft::cli {

/// Tasks [begin, end) that are computed together.
struct ChoiceBatch {
  std::size_t begin = 0, end = 0;
  std::size_t n_texts = 0;
  std::size_t n_cells = 0;
};
/// Of n_batch tokens each, or of one task that has more.
std::vector<ChoiceBatch> choice_batches(const std::vector<TokenizedTask>& tasks, int n_batch);
/// A context that can hold each of them.
ContextParams choice_context(ContextParams params, const std::vector<ChoiceBatch>& batches);

struct ChoiceResult {
  std::vector<double> scores;  ///< Of each text: the mean of its tokens' log-probabilities.
  std::size_t best = 0;
  bool right = false;
};

/// What a task's texts begin with in common is computed once. `on_task` is told of each task, in their order.
/// Throws Error kCancelled after Ctrl-C.
void score_choices(Context& context, const std::vector<TokenizedTask>& tasks,
                   const std::vector<ChoiceBatch>& batches, const InterruptGuard& interrupt,
                   const std::function<void(const ChoiceResult&)>& on_task);

}  // namespace weft::cli
