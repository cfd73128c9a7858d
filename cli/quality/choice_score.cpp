#include "quality/choice_score.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/to_size.h"
#include "weft/error.h"
#include "weft/not_numbers.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostTexts = 128;  // Limit of a batch, unless one task has more.

/// Whole pages: choices diverge within a page, and each choice then gets its own copy of it.
std::size_t cells_of(const TokenizedTask& task) {
  constexpr std::size_t kCellsPerPage = KvCache::kCellsOfPage;
  const auto pages = [](std::size_t n) { return (n + kCellsPerPage - 1) / kCellsPerPage; };
  std::size_t n = pages(task.n_shared);
  for (const TokenizedChoice& choice : task.choices) n += pages(choice.tokens.size() - task.n_shared) + 1;
  return n * kCellsPerPage;
}

/// A batch of tasks, and the rows of each of their choices.
class TaskBatch {
 public:
  explicit TaskBatch(const Context& context) : only_sums_(context.params().n_best > 0) {}

  const Batch& batch() const { return batch_; }

  void add(const TokenizedTask& task) {
    Placed& placed = placed_.emplace_back(Placed{&task});
    const SeqId first = n_sequences_;
    n_sequences_ += static_cast<SeqId>(task.choices.size());
    std::vector<SeqId> all(task.choices.size());
    std::iota(all.begin(), all.end(), first);
    for (std::size_t i = 0; i < task.n_shared; ++i) {
      const bool last = i + 1 == task.n_shared;
      // Each choice continues with a different token, so this row needs all logits.
      batch_.add(task.choices[0].tokens[i], all, {.logits = last, .log_sum_exp = last});
      if (last) placed.last_shared = batch_.size() - 1;
    }
    for (std::size_t c = 0; c < task.choices.size(); ++c) {
      const TokenizedChoice& choice = task.choices[c];
      placed.first_own.push_back(batch_.size());
      for (std::size_t i = task.n_shared; i < choice.tokens.size(); ++i) {
        const bool scored = i + 1 >= choice.begin && i + 1 < choice.end;
        if (!scored) {
          batch_.add(choice.tokens[i], all[c]);
          continue;
        }
        batch_.add(choice.tokens[i], all[c],
                   {.logits = true,
                    .n_best = only_sums_ ? 1 : 0,
                    .log_sum_exp = true,
                    .logit_of = choice.tokens[i + 1]});
      }
    }
  }

  void read(const Context& context, const std::function<void(const ChoiceResult&)>& on_task) const {
    for (const Placed& placed : placed_) {
      ChoiceResult result;
      for (std::size_t c = 0; c < placed.task->choices.size(); ++c)
        result.scores.push_back(score(context, placed, c));
      result.best =
          to_size(std::max_element(result.scores.begin(), result.scores.end()) - result.scores.begin());
      result.right = placed.task->right[result.best];
      on_task(result);
    }
  }

 private:
  struct Placed {
    const TokenizedTask* task;
    int last_shared = -1;             // The item.
    std::vector<int> first_own = {};  // By choice: the first item of its own.
  };

  static double score(const Context& context, const Placed& placed, std::size_t c) {
    const TokenizedChoice& choice = placed.task->choices[c];
    double sum = 0.0;
    for (std::size_t i = choice.begin; i < choice.end; ++i) {
      const bool from_shared = i == placed.task->n_shared;
      const int item = from_shared ? placed.last_shared
                                   : placed.first_own[c] + static_cast<int>(i - 1 - placed.task->n_shared);
      const float logit = from_shared ? context.logits(item)[to_size(choice.tokens[i])] : context.logit(item);
      const float log_sum_exp = context.log_sum_exp(item);
      check_numbers(context.model(), {&log_sum_exp, 1});
      sum += static_cast<double>(logit) - log_sum_exp;
    }
    return sum / static_cast<double>(choice.end - choice.begin);
  }

  bool only_sums_;
  Batch batch_;
  SeqId n_sequences_ = 0;
  std::vector<Placed> placed_;
};

}  // namespace

std::vector<ChoiceBatch> choice_batches(const std::vector<TokenizedTask>& tasks, int n_batch) {
  std::vector<ChoiceBatch> batches;
  std::size_t n_tokens = 0;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::size_t more = tasks[i].n_tokens(), texts = tasks[i].choices.size();
    if (batches.empty() || n_tokens + more > to_size(n_batch) ||
        batches.back().n_texts + texts > kMostTexts) {
      batches.push_back({.begin = i, .end = i});
      n_tokens = 0;
    }
    ChoiceBatch& batch = batches.back();
    n_tokens += more;
    batch.end = i + 1;
    batch.n_texts += texts;
    batch.n_cells += cells_of(tasks[i]);
  }
  return batches;
}

ContextParams choice_context(ContextParams params, const std::vector<ChoiceBatch>& batches) {
  std::size_t n_cells = 1, n_texts = 1;
  for (const ChoiceBatch& batch : batches) {
    n_cells = std::max(n_cells, batch.n_cells);
    n_texts = std::max(n_texts, batch.n_texts);
  }
  params.n_ctx = static_cast<int>(std::min<std::size_t>(n_cells, std::numeric_limits<int>::max()));
  params.n_sequences = static_cast<int>(n_texts);
  params.n_outputs = params.n_ubatch;
  return params;
}

void score_choices(Context& context, const std::vector<TokenizedTask>& tasks,
                   const std::vector<ChoiceBatch>& batches, const InterruptGuard& interrupt,
                   const std::function<void(const ChoiceResult&)>& on_task) {
  for (const ChoiceBatch& batch : batches) {
    TaskBatch now(context);
    for (std::size_t i = batch.begin; i < batch.end; ++i) now.add(tasks[i]);
    context.cache().clear();
    const DecodeStatus status = context.decode(now.batch());
    if (status == DecodeStatus::kCancelled || interrupt.requested())
      throw Error(ErrorCode::kCancelled, "interrupted");
    if (status != DecodeStatus::kOk) throw Error(ErrorCode::kOutOfMemory, "the cache is full");
    now.read(context, on_task);
  }
}

}  // namespace weft::cli
