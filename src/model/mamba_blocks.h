#pragma once
// The token mixing of Mamba models, with or without attention. Tensors have the names that GGUF files give
// them ("blk.3.ssm_in"); nodes belong to the part of the model that the family has entered.
#include "model/blocks.h"

namespace weft::model {

/// Norms of dt, B and C, before the step sizes are widened.
enum class ScanNorms : std::uint8_t {
  kNone,
  kPlain,     ///< Without weights.
  kWeighted,  ///< ssm_dt_norm, ssm_b_norm and ssm_c_norm.
};

/// silu(gate) * scan(silu(conv(x))) of Mamba, with x and gate from one projection: what ssm_out reads.
/// {n_tokens, SsmParams::n_inner}
ValueId mamba_scan(Builder& b, int layer, ValueId x, ScanNorms norms);

/// The gated scan of Mamba-2, followed by a norm of each group (ssm_norm): the input of ssm_out.
ValueId mamba2_scan(Builder& b, int layer, ValueId x, bool normed = true);

/// A scan as a layer's mixer: ssm_out of its rows.
ValueId narrow_scan(Builder& b, int layer, ValueId scan, ValueId& residual);

}  // namespace weft::model
