#pragma once
// Recurrent layers: short convolutions, selective scans, delta nets, RWKV.
#include <string_view>

#include "model/metadata.h"

namespace weft::model {

/// Short convolutions and what follows them. Present in Mamba, Mamba-2, delta nets, and LFM2, which has the
/// convolution alone.
struct SsmParams {
  int conv_taps = 0;         ///< Tokens of a convolution: the row's own and the ones before.
  int n_inner = 0;           ///< Columns of a selective scan ...
  int n_state = 0;           ///< ... and the numbers of its state for each of them.
  int dt_rank = 0;           ///< Mamba
  bool plain_norms = false;  ///< Mamba whose dt, B and C are normed, without weights.
  int n_heads = 0;           ///< Mamba-2 and delta nets ...
  int n_groups = 0;          ///< ... and the groups of heads that share the projections of the state.
};

/// The heads of RWKV and its low-rank products. Present in RWKV-6, RWKV-7 and their relatives.
struct RwkvParams {
  int head_dim = 0;
  int n_heads = 0;
  int n_kv_heads = 0;     ///< RWKV-6: heads of keys and values.
  int decay_rank = 0;     ///< Ranks of the low-rank products for decays,
  int rate_rank = 0;      ///< rates,
  int value_rank = 0;     ///< shares of the first layer's values (0 in RWKV-6),
  int gate_rank = 0;      ///< gates (0: no gates),
  int mix_rank = 0;       ///< and shares of the row before (RWKV-6).
  int n_per_halving = 0;  ///< RWKV-6: x is halved after each n_per_halving layers, 0: never.
};

/// conv_taps, from this key.
int read_conv_taps(const Metadata& metadata, std::string_view key);
/// The keys "ssm.*" that Mamba and Mamba-2 share.
SsmParams read_ssm(const Metadata& metadata);
/// The keys of Mamba (read_ssm, and ssm.time_step_rank).
SsmParams read_mamba(const Metadata& metadata);
/// The keys of Mamba-2 and delta nets (read_ssm, heads and groups).
SsmParams read_mamba2(const Metadata& metadata);
/// wkv.head_size: the heads and what each keeps.
RwkvParams read_rwkv(const Metadata& metadata, int n_embd);

}  // namespace weft::model
