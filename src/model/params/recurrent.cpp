#include "model/params/recurrent.h"

#include <string>

namespace weft::model {

int read_conv_taps(const Metadata& metadata, std::string_view key) {
  return metadata.require_int(key, 2, kMaxConvTaps);
}

SsmParams read_ssm(const Metadata& metadata) {
  SsmParams ssm;
  ssm.conv_taps = read_conv_taps(metadata, "ssm.conv_kernel");
  ssm.n_inner = metadata.require_int("ssm.inner_size", 1, kMaxWidth);
  ssm.n_state = metadata.require_int("ssm.state_size", 1, kMaxSsmState);
  return ssm;
}

namespace {

/// The keys of heads and their groups.
void read_ssm_heads(const Metadata& metadata, SsmParams& ssm) {
  ssm.n_heads = metadata.require_int("ssm.time_step_rank", 1, ssm.n_inner);
  ssm.n_groups = metadata.require_int("ssm.group_count", 1, ssm.n_heads);
  if (ssm.n_inner % ssm.n_heads != 0)
    metadata.refuse("ssm.time_step_rank", "found " + std::to_string(ssm.n_heads) +
                                              " heads, expected a divisor of the inner size " +
                                              std::to_string(ssm.n_inner));
  if (ssm.n_heads % ssm.n_groups != 0)
    metadata.refuse("ssm.group_count", "found " + std::to_string(ssm.n_groups) +
                                           ", expected a divisor of the number of heads " +
                                           std::to_string(ssm.n_heads));
}

}  // namespace

SsmParams read_mamba(const Metadata& metadata) {
  SsmParams ssm = read_ssm(metadata);
  ssm.dt_rank = metadata.require_int("ssm.time_step_rank", 1, ssm.n_inner);
  return ssm;
}

SsmParams read_mamba2(const Metadata& metadata) {
  SsmParams ssm = read_ssm(metadata);
  read_ssm_heads(metadata, ssm);
  return ssm;
}

RwkvParams read_rwkv(const Metadata& metadata, int n_embd) {
  constexpr std::string_view kSize = "wkv.head_size";
  RwkvParams rwkv;
  rwkv.head_dim = metadata.require_int(kSize, 1, kMaxSsmState);
  if (n_embd % rwkv.head_dim != 0)
    metadata.refuse(kSize, "found " + std::to_string(rwkv.head_dim) +
                               ", expected a divisor of the embedding length " + std::to_string(n_embd));
  rwkv.n_heads = n_embd / rwkv.head_dim;
  return rwkv;
}

}  // namespace weft::model
