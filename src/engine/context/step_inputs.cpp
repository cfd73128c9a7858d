#include "engine/context/step_inputs.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "engine/graph_sizes.h"
#include "engine/model_impl.h"

namespace weft::engine {
namespace {

using InputGraph = model::ModelGraph;

/// The position of a row on an axis: its own one, or the position in the sequence.
template <std::size_t kAxis>
std::int32_t on_axis(const StepRow& row) {
  return row.item.options.axes[kAxis] >= 0 ? row.item.options.axes[kAxis] : row.at.pos;
}

/// The inputs with a number for each row. A model has some of them.
constexpr struct {
  ValueId (*input)(const InputGraph& graph);
  std::int32_t (*of)(const StepRow& row);
} kRowInputs[] = {
    {[](const InputGraph& g) { return g.tokens; },
     [](const StepRow& row) { return std::max(row.item.token, 0); }},
    {[](const InputGraph& g) { return g.use_embeddings; },
     [](const StepRow& row) { return row.item.embedding >= 0 ? 1 : 0; }},
    {[](const InputGraph& g) { return g.ends; },
     [](const StepRow& row) { return std::max(row.item.options.attend_to, row.at.pos + 1); }},
    {[](const InputGraph& g) { return g.hidden_first; }, [](const StepRow&) { return -1; }},
    {[](const InputGraph& g) { return g.positions; }, [](const StepRow& row) { return row.at.pos; }},
    {[](const InputGraph& g) { return g.axes[0]; }, on_axis<0>},
    {[](const InputGraph& g) { return g.axes[1]; }, on_axis<1>},
    {[](const InputGraph& g) { return g.axes[2]; }, on_axis<2>},
    {[](const InputGraph& g) { return g.sequences; }, [](const StepRow& row) { return row.at.seq; }},
    {[](const InputGraph& g) { return g.full.cells; }, [](const StepRow& row) { return row.cell; }},
    {[](const InputGraph& g) { return g.source.ends; },
     [](const StepRow& row) { return row.cache.sources().size(row.item.seq); }},
};

/// The symbols of a step.
constexpr struct {
  SymbolId (*symbol)(const InputGraph& graph);
  std::int64_t StepSizes::* size;
} kSymbols[] = {
    {[](const InputGraph& g) { return g.n_tokens; }, &StepSizes::n_tokens},
    {[](const InputGraph& g) { return g.n_wanted; }, &StepSizes::n_wanted},
    {[](const InputGraph& g) { return g.n_outputs; }, &StepSizes::n_outputs},
    {[](const InputGraph& g) { return g.n_embeddings; }, &StepSizes::n_embeddings},
    {[](const InputGraph& g) { return g.n_logits; }, &StepSizes::n_logits},
    {[](const InputGraph& g) { return g.n_hidden; }, &StepSizes::n_hidden},
    {[](const InputGraph& g) { return g.source.n_rows; }, &StepSizes::n_source},
    {[](const InputGraph& g) { return g.adapters_of_tokens.n_uses; }, &StepSizes::n_token_uses},
    {[](const InputGraph& g) { return g.adapters_of_wanted.n_uses; }, &StepSizes::n_wanted_uses},
    {[](const InputGraph& g) { return g.adapters_of_outputs.n_uses; }, &StepSizes::n_output_uses},
    {[](const InputGraph& g) { return g.adapters_of_source.n_uses; }, &StepSizes::n_source_uses},
    {[](const InputGraph& g) { return g.n_moves; }, &StepSizes::n_moves},
    {[](const InputGraph& g) { return g.n_forks; }, &StepSizes::n_forks},
};

bool wants_result(const ItemOptions& item) { return item.logits || item.embedding; }

/// An input that lists rows.
struct RowList {
  std::span<std::int32_t> rows;
  std::int32_t n = 0;

  std::int32_t add(std::int32_t row) {
    rows[to_size(n)] = row;
    return n++;
  }
};

}  // namespace

StepInputs::StepInputs(const InputGraph& graph, const Bindings& bindings, const Model& model,
                       const ContextParams& params, KvCache::Impl& cache)
    : graph_(graph),
      bindings_(bindings),
      adapters_(model.impl().description.additions.adapters.get()),
      finds_best_(params.n_best > 0),
      cache_(cache),
      parts_(graph, bindings, params.n_sequences, extents_of(cache.sequences().n_pages())),
      symbols_(graph.graph.symbols().size(), 0) {
  for (const auto& [input, of] : kRowInputs)
    if (const ValueId value = input(graph); value != kNoValue)
      rows_.push_back({values<std::int32_t>(value), of});
}

StepSizes StepInputs::bind(const Batch& batch, const UbatchPlacer& placer,
                           std::span<const BatchChecker::HiddenPair> hidden) {
  const Ubatch& ubatch = placer.ubatch();
  StepSizes sizes{.n_tokens = ubatch.end - ubatch.begin};
  bind_rows(batch, placer);
  bind_results(batch, ubatch, sizes);
  bind_adapters(batch, ubatch, sizes);
  kv::PlacedItems items = placer.items();
  items.hidden = bind_hidden(placer, hidden);
  sizes.n_hidden = std::ssize(items.hidden);
  for (const auto& memory : cache_.memories()) memory->bind(items);
  return sizes;
}

void StepInputs::bind_rows(const Batch& batch, const UbatchPlacer& placer) {
  const Ubatch& ubatch = placer.ubatch();
  const auto embeddings = values<float>(graph_.embeddings);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const auto row = to_size(i - ubatch.begin);
    const StepRow of{batch[i], placer.at(i), placer.cell(i), cache_};
    for (const RowInput& input : rows_) input.values[row] = input.of(of);
    if (batch[i].embedding < 0) continue;
    const auto embedding = batch.embedding(i);
    std::copy(embedding.begin(), embedding.end(),
              embeddings.begin() + static_cast<std::ptrdiff_t>(row * embedding.size()));
  }
}

void StepInputs::bind_results(const Batch& batch, const Ubatch& ubatch, StepSizes& sizes) {
  RowList wanted{values<std::int32_t>(graph_.wanted_rows)};
  RowList outputs{values<std::int32_t>(graph_.output_rows)};
  RowList embeddings{values<std::int32_t>(graph_.embedding_rows)};
  RowList logits{values<std::int32_t>(graph_.logit_rows)};
  const auto best_counts = values<std::int32_t>(graph_.best_counts);
  const auto log_sum_ids = values<std::int32_t>(graph_.log_sum_ids);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const ItemOptions& item = batch[i].options;
    if (!wants_result(item)) continue;
    const std::int32_t row = wanted.add(i - ubatch.begin);
    if (item.embedding) embeddings.add(row);
    if (!item.logits) continue;
    const std::int32_t output = outputs.add(row);
    if (!finds_best_) continue;
    if (item.n_best == 0) logits.add(output);
    static_assert(ops::LogSumExp::kNoColumn == kNoToken);
    best_counts[to_size(output)] = item.n_best;
    log_sum_ids[to_size(output)] = item.log_sum_exp ? item.logit_of : ops::LogSumExp::kNoRow;
  }
  sizes.n_wanted = wanted.n;
  sizes.n_outputs = outputs.n;
  sizes.n_embeddings = embeddings.n;
  sizes.n_logits = finds_best_ ? logits.n : outputs.n;
}

void StepInputs::bind_adapters(const Batch& batch, const Ubatch& ubatch, StepSizes& sizes) {
  AdapterRows of_tokens(graph_.adapters_of_tokens, bindings_, adapters_);
  AdapterRows of_wanted(graph_.adapters_of_wanted, bindings_, adapters_);
  AdapterRows of_outputs(graph_.adapters_of_outputs, bindings_, adapters_);
  for (int i = ubatch.begin; i < ubatch.end; ++i) {
    const std::vector<AdapterUse>& uses = cache_.adapters().of(batch[i].seq);
    of_tokens.add(uses);
    if (wants_result(batch[i].options)) of_wanted.add(uses);
    if (batch[i].options.logits) of_outputs.add(uses);
  }
  sizes.n_token_uses = of_tokens.n_uses();
  sizes.n_wanted_uses = of_wanted.n_uses();
  sizes.n_output_uses = of_outputs.n_uses();
}

std::span<const HiddenCells> StepInputs::bind_hidden(const UbatchPlacer& placer,
                                                     std::span<const BatchChecker::HiddenPair> hidden) {
  const Ubatch& ubatch = placer.ubatch();
  const auto hidden_first = values<std::int32_t>(graph_.hidden_first);
  const auto cells = values<HiddenCells>(graph_.full.hidden);
  std::size_t n = 0;
  // The pairs are in the order of their items.
  auto pair = std::lower_bound(hidden.begin(), hidden.end(), std::pair(ubatch.begin, 0));
  for (; pair != hidden.end() && pair->first < ubatch.end; ++pair) {
    const auto& [item, other] = *pair;
    const int row = item - ubatch.begin;
    const std::int32_t cell = cache_.sequences().cell_of(placer.at(item).seq, placer.at(other).pos);
    if (cell < 0) continue;  // In a later step, so not visible.
    std::int32_t& first = hidden_first[to_size(row)];
    if (first < 0) first = static_cast<std::int32_t>(n);
    cells[n++] = {row, cell / kPageCells, std::uint64_t{1} << cell % kPageCells};
  }
  if (n > 0) cells[n++] = {};
  return cells.first(n);
}

StepSizes StepInputs::bind_source(SeqId seq, std::span<const Token> tokens) {
  cache_.sources().set(seq, tokens);
  AdapterRows rows(graph_.adapters_of_source, bindings_, adapters_);
  for (std::size_t i = 0; i < tokens.size(); ++i) rows.add(cache_.adapters().of(seq));
  return {.n_source = std::ssize(tokens), .n_source_uses = rows.n_uses()};
}

kv::MoveInputs StepInputs::move_inputs(const model::CellInputs& inputs) const {
  return {values<std::int32_t>(inputs.move_from), values<std::int32_t>(inputs.move_to),
          values<std::int32_t>(inputs.move_deltas), values<std::int32_t>(inputs.fork_from),
          values<std::int32_t>(inputs.fork_to)};
}

kv::MoveLog::Part StepInputs::begin_moves() {
  return cache_.sequences().moves().begin(move_inputs(graph_.full), move_inputs(graph_.windowed));
}

exec::Step StepInputs::step(const StepSizes& sizes) {
  for (const auto& [symbol, size] : kSymbols)
    if (const SymbolId id = symbol(graph_); id != kNoSymbol) symbols_[to_size(id)] = sizes.*size;
  exec::Step step;
  step.symbols = symbols_;
  step.parts = parts_.parts();
  step.actual.shapes = symbols_ != last_symbols_;
  return step;
}

}  // namespace weft::engine
