#include "backend/cpu/launches/screen.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/layout/packed_layout.h"
#include "base/to_size.h"

namespace weft::cpu {

std::size_t screen_scratch_bytes(std::int64_t weight_columns) {
  const auto n_blocks = to_size((weight_columns + kBlockColumns - 1) / kBlockColumns);
  return (kScreenColumns * n_blocks * sizeof(ScreenFactors) + 63) / 64 * 64;
}

namespace {

// A task streams so much of the panels.
constexpr std::int64_t kBytesPerTask = std::int64_t{96} << 10;
// A pass of the high bits reads 53 % of a matrix, and looking at a panel again at least 29 % of it. A deep
// pass reads 76 %, so it is faster from this share of panels on. The deep pass is then used for this many
// steps.
constexpr double kManyAgain = 0.6;
constexpr int kDeepSteps = 15;
// The number of panels that a task searches for candidates.
constexpr std::int64_t kPanelsPerSearch = 128;

std::int64_t padded_rows(const Graph& graph, ValueId weight) {
  return (graph.value(weight).shape.rows({}) + kPanelRows - 1) / kPanelRows * kPanelRows;
}

/// What a task of CandidatesLaunch needs: factors for kernels, candidates, and what least_of works with.
struct Scratch {
  std::byte* factors;
  std::int32_t* found;      // [kPanelsPerSearch]
  const BestEntry** next;   // [threads]
  BestEntry *sums, *exact;  // [n]
  std::int32_t* panels;     // [n]

  static std::size_t bytes(std::int64_t weight_columns, int n_threads, int n) {
    return screen_scratch_bytes(weight_columns) + kPanelsPerSearch * sizeof(std::int32_t) +
           to_size(n_threads) * sizeof(const BestEntry*) +
           to_size(n) * (2 * sizeof(BestEntry) + sizeof(std::int32_t));
  }
  Scratch(std::byte* at, std::int64_t weight_columns, int n_threads, int n) {
    const auto take = [&at](std::size_t bytes) { return std::exchange(at, at + bytes); };
    factors = take(screen_scratch_bytes(weight_columns));
    next = reinterpret_cast<const BestEntry**>(take(to_size(n_threads) * sizeof(const BestEntry*)));
    found = reinterpret_cast<std::int32_t*>(take(kPanelsPerSearch * sizeof(std::int32_t)));
    sums = reinterpret_cast<BestEntry*>(take(to_size(n) * sizeof(BestEntry)));
    exact = reinterpret_cast<BestEntry*>(take(to_size(n) * sizeof(BestEntry)));
    panels = reinterpret_cast<std::int32_t*>(take(to_size(n) * sizeof(std::int32_t)));
  }
};

}  // namespace

bool can_screen(const Graph& graph, const MatmulValues& values) {
  const ValueInfo& weight = graph.value(values.weight);
  // Neither a bias nor a cap is in the sums.
  return values.bias == kNoValue && values.softcap == 0.0f &&
         is_tall(weight.dtype, weight.shape.rows({}), weight.shape.columns());
}

ScreenLaunch::ScreenLaunch(const Graph& graph, const MatmulValues& values, const Node& best,
                           std::shared_ptr<const Taken> taken, int n_threads)
    : values_(values),
      rows_(graph.value(values.x).shape.row_dim()),
      weight_columns_(graph.value(values.weight).shape.columns()),
      taken_(std::move(taken)),
      best_sums_(graph, best, n_threads),
      memory_(2 * sizeof(float) * to_size(padded_rows(graph, values.weight)) *
              to_size(std::min<std::int64_t>(kScreenColumns, rows_.value(graph.bounds())))) {
  args_.stride = padded_rows(graph, values.weight);
  args_.sums = reinterpret_cast<float*>(memory_.data());
  args_.bounds = args_.sums + memory_.size() / sizeof(float) / 2;
}

void ScreenLaunch::bind(const Addresses& addresses) {
  args_.weight = &addresses.matrix(values_.weight)->matrices()[0];
  args_.x = addresses.in_form(values_.x, Form::kQ8);
  args_.x_row_bytes = activation_row_bytes(Form::kQ8, weight_columns_);
  best_sums_.bind(addresses);
}

std::int32_t ScreenLaunch::prepare(const StepInfo& step) {
  n_columns_ = rows_.value(step.symbols);
  if (!runs()) return 0;
  const double share =
      static_cast<double>(n_again_.exchange(0)) / static_cast<double>(args_.weight->n_panels() * n_columns_);
  if (share > kManyAgain) deep_steps_left_ = kDeepSteps;
  args_.deep = deep_steps_left_ > 0;
  if (args_.deep) --deep_steps_left_;
  best_sums_.begin_step(step, n_columns_);
  panels_per_task_ =
      std::max<std::int64_t>(1, kBytesPerTask / static_cast<std::int64_t>(args_.weight->panel_bytes));
  return static_cast<std::int32_t>((args_.weight->n_panels() + panels_per_task_ - 1) / panels_per_task_);
}

void ScreenLaunch::run(std::int32_t task, const TaskContext& context) {
  const BestArgs best = {
      .lists = best_sums_.of_thread(context.thread), .n = best_sums_.n(), .counts = best_sums_.counts()};
  const std::int64_t begin = task * panels_per_task_;
  context.kernels.screen(args_, {begin, std::min(begin + panels_per_task_, args_.weight->n_panels())},
                         {0, n_columns_}, best, context.scratch);
}

std::span<const std::byte> ScreenLaunch::weights_from(std::int32_t task) const {
  const std::byte* const begin = panel_of(*args_.weight, task * panels_per_task_);
  return {begin, panel_of(*args_.weight, args_.weight->n_panels())};
}

Work ScreenLaunch::work() const {
  const auto n_panels = static_cast<double>(args_.weight->n_panels());
  const std::size_t middle_bytes = args_.deep ? args_.weight->low_bytes : 0;
  return {n_panels * static_cast<double>(args_.weight->panel_bytes + middle_bytes),
          {.int8 = n_panels * kPanelRows * static_cast<double>(weight_columns_ * n_columns_)}};
}

std::string ScreenLaunch::describe(const Graph& graph) const {
  return "screen " + graph.value(values_.weight).name + " -> " + graph.value(values_.out).name;
}

CandidatesLaunch::CandidatesLaunch(const MatmulValues& values, ScreenLaunch& screen,
                                   std::shared_ptr<Taken> taken)
    : values_(values),
      screen_(screen),
      taken_(std::move(taken)),
      best_(taken_->best),
      of_threads_(to_size(best_.n_threads())) {}

std::int32_t CandidatesLaunch::prepare(const StepInfo& step) {
  step_ = step.number;
  if (!screen_.runs()) return 0;
  const ScreenArgs& screened = screen_.args();
  args_ = {.weight = screened.weight, .x = screened.x, .x_row_bytes = screened.x_row_bytes};
  args_.best = {.n = best_.n(), .counts = best_.counts()};
  return static_cast<std::int32_t>((args_.weight->n_panels() + kPanelsPerSearch - 1) / kPanelsPerSearch);
}

float CandidatesLaunch::least_of(std::int64_t column, const TaskContext& context) const {
  const Scratch scratch(context.scratch, args_.weight->columns, best_.n_threads(), best_.n());
  const int n = screen_.best_sums().merge(column, scratch.next, scratch.sums);
  for (int i = 0; i < n; ++i) scratch.panels[i] = scratch.sums[i].index / kPanelRows;
  std::sort(scratch.panels, scratch.panels + n);
  const std::int32_t* const end = std::unique(scratch.panels, scratch.panels + n);
  std::fill_n(scratch.exact, n, kNoBest);
  MatmulArgs args = args_;
  args.x += to_size(column) * args.x_row_bytes;
  args.best = {.lists = scratch.exact, .n = n};
  for (const std::int32_t* panel = scratch.panels; panel != end; ++panel)
    context.kernels.matmul(args, {*panel, *panel + 1}, {0, 1});
  return scratch.exact[n - 1].value;
}

void CandidatesLaunch::run(std::int32_t task, const TaskContext& context) {
  const Scratch scratch(context.scratch, args_.weight->columns, best_.n_threads(), best_.n());
  OfThread& own = of_threads_[to_size(context.thread)];
  const auto wanted = [&](std::int64_t column) { return wanted_best(best_.counts(), column, best_.n()); };
  if (std::exchange(own.step, step_) != step_) {
    own.work = {};
    for (std::int64_t column = 0; column < screen_.n_columns(); ++column)
      if (wanted(column) > 0) own.least[column] = least_of(column, context);
  }
  MatmulArgs args = args_;
  args.best.lists = best_.of_thread(context.thread);
  const PackedMatrix& weight = *args_.weight;
  const auto work_of = [&](int n_panels, std::size_t bytes_of_panel) {
    return Work{static_cast<double>(n_panels) * static_cast<double>(bytes_of_panel),
                {.int8 = static_cast<double>(n_panels * kPanelRows * weight.columns)}};
  };
  const std::int64_t begin = task * kPanelsPerSearch;
  const std::int64_t end = std::min(begin + kPanelsPerSearch, weight.n_panels());
  for (std::int64_t column = 0; column < screen_.n_columns(); ++column) {
    if (wanted(column) == 0) continue;
    const ScreenArgs& sums = screen_.args();
    const float least = own.least[column];
    int n = context.kernels.find_candidates(sums, {begin, end}, column, least, scratch.found);
    if (!sums.deep) {
      own.work += work_of(n, weight.low_bytes);
      screen_.count_again(n);
      n = context.kernels.sift_candidates(sums, column, least, scratch.found, n, scratch.factors);
    }
    for (int i = 0; i < n; ++i)
      context.kernels.matmul(args, {scratch.found[i], scratch.found[i] + 1}, {column, column + 1});
    own.work += work_of(n, weight.panel_bytes + kLowPlanes * weight.low_bytes);
  }
}

std::size_t CandidatesLaunch::scratch_bytes() const {
  return Scratch::bytes(screen_.weight_columns(), best_.n_threads(), best_.n());
}

Work CandidatesLaunch::work() const {
  Work sum;
  for (const OfThread& own : of_threads_)
    if (own.step == step_) sum += own.work;
  return sum;
}

std::string CandidatesLaunch::describe(const Graph& graph) const {
  return "candidates " + graph.value(values_.weight).name + " -> " + graph.value(values_.out).name;
}

}  // namespace weft::cpu
