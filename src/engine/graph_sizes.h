#pragma once
// The bounds that a context gives its graph.
#include <vector>

#include "model/builder.h"
#include "weft/context.h"

namespace weft::engine {

inline constexpr int kMaxSequences = 1 << 12;  ///< Of a context.
inline constexpr int kMovesPerStep = 4096;     ///< Maximum moves, and maximum forks, of a run of the plan.
inline constexpr int kMaxHidden = 1 << 14;     ///< Pairs of Batch::hide in a batch.

/// A sequence may hold a part of every page, and briefly has more extents while it is edited.
inline int extents_of(int n_pages) { return n_pages + 2; }

/// The bounds of an encoder whose steps have at most `n_tokens` tokens.
model::GraphSizes encoder_sizes(int n_tokens, const std::vector<double>& row_shares);
/// The default maximum length of a sequence: the model's training length, at most 8192.
int default_text_length(const ModelInfo& info);

/// `params` with the defaults filled in.
model::GraphSizes graph_sizes(const ContextParams& params, DType k_type, DType v_type,
                              const std::vector<double>& row_shares);

}  // namespace weft::engine
