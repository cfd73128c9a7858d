#pragma once
// Attention over latent rows (MLA).
#include "model/metadata.h"
#include "model/params/attention.h"
#include "weft/graph/op.h"

namespace weft::model {

/// Latent rows: keys and values of all heads are unfolded from them. Present in families with MLA (arXiv
/// 2405.04434).
struct LatentParams {
  int q_rank = 0;      ///< The width of a latent row of queries. 0: queries are projected at once.
  int kv_rank = 0;     ///< The same of keys and values.
  int k_nope_dim = 0;  ///< The part of a head's keys that rope does not turn.
  int v_out_dim = 0;   ///< Of a head's values (if latent rows are what the caches keep).
};

/// The keys "attention.*" of latent rows that caches keep. Sets the head size of V and the scale of scores in
/// `attention`: the scale is 1 / sqrt of the unfolded keys' size.
LatentParams read_latent(const Metadata& metadata, const ops::Rope& rope, AttentionParams& attention);

}  // namespace weft::model
