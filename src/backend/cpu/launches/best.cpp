#include "backend/cpu/launches/best.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace weft::cpu {
namespace {

// Of a line of the cache: threads write to their lists at the same time.
constexpr std::ptrdiff_t kEntriesOfLine = 64 / sizeof(BestEntry);

}  // namespace

void write_best(const BestEntry* entries, int wanted, int n, float* out) {
  for (int i = 0; i < n; ++i) {
    const BestEntry& entry = i < wanted ? entries[i] : kNoBest;
    out[i] = entry.value;
    out[n + i] = i < wanted ? static_cast<float>(entry.index) : -1.0f;
  }
}

BestLists::BestLists(const Graph& graph, const Node& node, int n_threads)
    : n_(get_op<ops::Best>(node)->n),
      counts_id_(node.inputs.size() > 1 ? node.inputs[1] : kNoValue),
      per_thread_((static_cast<std::ptrdiff_t>(graph.value(node.output).shape.rows(graph.bounds())) * n_ +
                   kEntriesOfLine - 1) /
                  kEntriesOfLine * kEntriesOfLine),
      memory_(to_size(per_thread_) * to_size(n_threads) * sizeof(BestEntry)),
      in_step_(to_size(n_threads)) {}

void BestLists::bind(const Addresses& addresses) {
  if (counts_id_ != kNoValue) counts_ = addresses.plain<const std::int32_t>(counts_id_);
}

void BestLists::begin_step(const StepInfo& step, std::int64_t n_rows) {
  step_ = step.number;
  n_rows_ = n_rows;
}

BestEntry* BestLists::of_thread(int thread) {
  BestEntry* const lists = at(thread);
  std::uint64_t& seen = in_step_[to_size(thread)].step;
  if (std::exchange(seen, step_) != step_)
    for (std::int64_t row = 0; row < n_rows_; ++row)
      std::fill_n(lists + row * n_, wanted_best(counts_, row, n_), kNoBest);
  return lists;
}

const BestEntry* BestLists::find(int thread, std::int64_t row) const {
  return in_step_[to_size(thread)].step == step_ ? at(thread) + row * n_ : nullptr;
}

int BestLists::merge(std::int64_t row, const BestEntry** next, BestEntry* best) const {
  int n_lists = 0;
  for (int thread = 0; thread < n_threads(); ++thread)
    if (const BestEntry* const list = find(thread, row)) next[n_lists++] = list;
  const int wanted = wanted_best(counts_, row, n_);
  // A list with this many values cannot run out before the last of them is taken.
  for (int i = 0; i < wanted; ++i) {
    int first = 0;
    for (int list = 1; list < n_lists; ++list)
      if (goes_before(*next[list], *next[first])) first = list;
    best[i] = *next[first]++;
  }
  return wanted;
}

RowCopies::RowCopies(const Graph& graph, const Node* node) {
  if (node == nullptr) return;
  ids_id_ = node->inputs[1];
  out_id_ = node->output;
  rows_ = graph.value(out_id_).shape.row_dim();
  first_.resize(to_size(graph.value(node->inputs[0]).shape.rows(graph.bounds())));
  next_.resize(to_size(rows_.value(graph.bounds())));
}

void RowCopies::bind(const Addresses& addresses) {
  if (out_id_ == kNoValue) return;
  ids_ = addresses.plain<const std::int32_t>(ids_id_);
  out_ = addresses.plain<float>(out_id_);
}

void RowCopies::begin_step(const StepInfo& step) {
  if (out_id_ == kNoValue) return;
  n_ = rows_.value(step.symbols);
  std::fill(first_.begin(), first_.end(), -1);
  for (auto row = static_cast<std::int32_t>(n_); row-- > 0;)
    next_[to_size(row)] = std::exchange(first_[to_size(ids_[row])], row);
}

void RowCopies::ask(MatmulArgs& args) const {
  if (n_ == 0) return;
  args.best.first_copy = first_.data();
  args.best.next_copy = next_.data();
  args.out = out_;
}

std::size_t BestLaunch::scratch_bytes() const {
  return to_size(taken().best.n_threads()) * sizeof(const BestEntry*) +
         to_size(taken().best.n()) * sizeof(BestEntry);
}

void BestLaunch::merge(std::int64_t row, const TaskContext& context, float* out) const {
  const BestLists& lists = taken().best;
  auto** const next = reinterpret_cast<const BestEntry**>(context.scratch);
  auto* const best = reinterpret_cast<BestEntry*>(next + lists.n_threads());
  const int wanted = lists.merge(row, next, best);
  write_best(best, wanted, lists.n(), out);
}

}  // namespace weft::cpu
