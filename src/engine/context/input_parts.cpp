#include "engine/context/input_parts.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "engine/memories.h"

namespace weft::engine {

InputParts::InputParts(const model::ModelGraph& graph, const Bindings& bindings, int n_sequences,
                       int n_extents)
    : graph_(graph), row_bytes_(to_size(n_extents) * sizeof(Extent)), noted_(to_size(n_sequences), 0) {
  for (const model::CellInputs* inputs : {&graph.full, &graph.windowed}) {
    const auto counts = host_values<std::int32_t>(bindings, inputs->extent_counts);
    if (!counts.empty()) tables_.push_back({inputs->extents, counts});
  }
}

void InputParts::note(const Batch* batch, const Ubatch& ubatch) {
  parts_.clear();
  for (const ValueId value : {graph_.full.extents, graph_.windowed.extents, graph_.embeddings})
    add(value, 0, 0);
  ++n_noted_;
  for (int i = ubatch.begin; batch != nullptr && i < ubatch.end; ++i) {
    const Batch::Item& item = (*batch)[i];
    const auto n = to_size(item.n_embedding) * sizeof(float);
    if (n > 0) add(graph_.embeddings, to_size(i - ubatch.begin) * n, n);
    const auto seq = to_size(item.seq);
    if (std::exchange(noted_[seq], n_noted_) == n_noted_) continue;
    for (const Table& table : tables_)
      add(table.extents, seq * row_bytes_, to_size(table.counts[seq]) * sizeof(Extent));
  }
  std::sort(parts_.begin(), parts_.end(),
            [](const exec::InputPart& a, const exec::InputPart& b) { return a.value < b.value; });
}

}  // namespace weft::engine
