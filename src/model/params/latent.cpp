#include "model/params/latent.h"

#include <cmath>
#include <string>

namespace weft::model {

LatentParams read_latent(const Metadata& metadata, const ops::Rope& rope, AttentionParams& attention) {
  LatentParams latent;
  latent.q_rank = metadata.get_int("attention.q_lora_rank", 0, kMaxRank, 0);
  latent.kv_rank = metadata.require_int("attention.kv_lora_rank", 1, kMaxRank);
  attention.v_head_dim = latent.kv_rank;
  const int k_dim = metadata.get_int("attention.key_length_mla", 1, kMaxHeadDim, 0);
  latent.v_out_dim = metadata.get_int("attention.value_length_mla", 1, kMaxHeadDim, 0);
  if (k_dim == 0 || latent.v_out_dim == 0 || attention.n_kv_heads != 1)
    metadata.refuse("attention.key_length_mla",
                    "missing: the file was written before latent rows were cached; convert the model anew");
  latent.k_nope_dim = k_dim - rope.n_rot;
  if (latent.k_nope_dim < 1 || attention.k_head_dim != latent.kv_rank + rope.n_rot)
    metadata.refuse("attention.key_length", "found " + std::to_string(attention.k_head_dim) +
                                                ", expected attention.kv_lora_rank + rope.dimension_count");
  attention.scale = 1.0f / std::sqrt(static_cast<float>(k_dim));
  return latent;
}

}  // namespace weft::model
