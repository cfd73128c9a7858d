#include "engine/graph_sizes.h"

#include <algorithm>

#include "kv/sequences.h"
#include "kv/state_slots.h"

namespace weft::engine {

model::GraphSizes graph_sizes(const ContextParams& params, DType k_type, DType v_type,
                              const std::vector<double>& row_shares) {
  const int n_pages = kv::Sequences::n_pages_for(params.n_ctx, params.n_sequences);
  return {.n_ubatch = params.n_ubatch,
          .n_outputs = params.n_outputs,
          .n_best = params.n_best,
          .n_cells = std::int64_t{n_pages} * kPageCells,
          .n_sequences = params.n_sequences,
          .n_moves = kMovesPerStep,
          .n_extents = extents_of(n_pages),
          .n_hidden = kMaxHidden + 1,
          .n_slots = kv::StateSlots::n_slots_for(params.n_sequences, params.state_rewind),
          .window_rewind = params.window_rewind,
          .n_source = params.n_source,
          .max_positions = params.n_ctx,
          .row_shares = row_shares,
          .k_type = k_type,
          .v_type = v_type,
          .rotate_cache = params.rotate_cache};
}

model::GraphSizes encoder_sizes(int n_tokens, const std::vector<double>& row_shares) {
  model::GraphSizes sizes;
  sizes.n_ubatch = n_tokens;
  sizes.max_positions = n_tokens;
  sizes.row_shares = row_shares;
  return sizes;
}

int default_text_length(const ModelInfo& info) {
  constexpr int kMost = 8192;
  return info.n_ctx_train > 0 ? std::min(info.n_ctx_train, kMost) : kMost;
}

}  // namespace weft::engine
