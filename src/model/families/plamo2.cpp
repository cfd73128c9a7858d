// PLaMo 2 (arXiv 2509.04897): layers of attention and of Mamba by turns, norms before and after blocks. Its
// scans have one step and one decay for each head, chosen as Mamba chooses them.
#include <algorithm>

#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_plamo2(const Metadata& metadata, HParams& h) {
  SsmParams& ssm = h.ssm.emplace(read_ssm(metadata));
  h.rope.neox = true;
  ssm.n_heads = metadata.require_int("ssm.time_step_rank", 1, ssm.n_inner);
  if (ssm.n_inner % ssm.n_heads != 0)
    metadata.refuse("ssm.time_step_rank", "found " + std::to_string(ssm.n_heads) +
                                              ", expected a divisor of the inner size " +
                                              std::to_string(ssm.n_inner));
  ssm.n_groups = 1;
  constexpr int kLeastRank = 64, kColumnsOfRank = 16;
  ssm.dt_rank = std::max(kLeastRank, h.n_embd / kColumnsOfRank);
}

/// The family's files name some norms without ".weight".
ValueId rms(Builder& b, int layer, ValueId x, const char* part, const std::string& result) {
  const std::string bare = layer_name(layer, part);
  const std::int64_t n = b.model().graph.value(x).shape.columns();
  const ValueId weight = b.weight(b.has(bare + ".weight") ? bare + ".weight" : bare, {n});
  return b.add(ops::Norm{.kind = NormKind::kRms, .eps = b.hparams().norm.eps}, {x, weight}, result);
}

/// ssm_in has a gate and an x for each head, one after the other; ssm_x gives b, c and dt.
ValueId scan(Builder& b, int layer, ValueId input, ValueId& residual) {
  const auto name = [&](const char* part) { return layer_name(layer, part); };
  const SsmParams& ssm = *b.hparams().ssm;
  const std::int64_t inner = ssm.n_inner, heads = ssm.n_heads, dim = inner / heads;
  const Dim rows = b.model().graph.value(input).shape[0];
  const ValueId both = linear(b, input, name("ssm_in"), 2 * inner);
  const ValueId by_head = b.add(ops::Reshape{{rows, heads, 2 * dim}}, {both}, name("ssm_in_heads"));
  const auto half = [&](std::int64_t i, const char* part) {
    const ValueId cut =
        b.add(ops::Slice{.axis = 2, .begin = i * dim, .end = (i + 1) * dim}, {by_head}, name(part) + "_cut");
    return b.add(ops::Reshape{{rows, inner}}, {cut}, name(part));
  };
  const ValueId gate = half(0, "scan_gate");
  const ValueId mixed = short_conv(b, layer, half(1, "scan_wide"), name("ssm_conv1d"));
  const ValueId x = b.add(ops::Activate{Activation::kSilu}, {mixed}, name("scan_x"));

  const std::int64_t n = ssm.n_state, rank = ssm.dt_rank;
  const auto chosen = [&](std::int64_t begin, std::int64_t n_part, const char* part) {
    const ValueId raw = linear_rows(b, x, name("ssm_x"), 2 * n + rank, begin, n_part);
    return rms(b, layer, raw, part, name(part) + "_normed");
  };
  const ValueId into = chosen(0, n, "ssm_b_norm");
  const ValueId out_of = chosen(n, n, "ssm_c_norm");
  const ValueId steps = linear(b, chosen(2 * n, rank, "ssm_dt_norm"), name("ssm_dt"), heads);
  const ValueId dt = b.add(ops::Activate{Activation::kSoftplus}, {steps}, name("dt"));
  const ValueId a = b.flat_weight(name("ssm_a"), {heads, 1});
  const ValueId skip = b.flat_weight(name("ssm_d"), {heads, 1});
  const ValueId y =
      selective_scan(b, layer, {.x = x, .dt = dt, .b = into, .c = out_of, .a = a, .skip = skip});
  return narrow_scan(b, layer, b.add(ops::Glu{Activation::kSilu}, {gate, y}, name("gated")), residual);
}

ValueId build_plamo2(Builder& b) {
  const HParams& h = b.hparams();
  AttentionBlock block;
  block.rope_params = h.rope;
  block.qk_norm = QkNorm::kOwnRmsOfHead;
  const auto mix = mixed_layers(b, block, scan);
  Decoder how;
  how.attend = [&](int layer, ValueId x, ValueId& residual) {
    return rms(b, layer, mix(layer, x, residual), "post_attention_norm", layer_name(layer, "mixed_normed"));
  };
  how.own_ffn = [&](int layer, ValueId x) {
    const ValueId out = fused_gated_ffn(b, layer, x, Activation::kSilu);
    return rms(b, layer, out, "post_ffw_norm", layer_name(layer, "ffn_normed"));
  };
  return decoder(b, embed_tokens(b), how);
}

}  // namespace

const Family kPlamo2 = {"plamo2", read_plamo2, build_plamo2, LayerMix::kMixed};

}  // namespace weft::model
