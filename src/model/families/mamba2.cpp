// Mamba-2 (arXiv 2405.21060): one projection gives the gate, the scan's input, the projections of its state
// and the step sizes. The scan has heads, and a norm follows its gate. It has neither attention nor a
// feed-forward part.
#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_mamba2(const Metadata& metadata, HParams& h) { h.ssm = read_mamba2(metadata); }

ValueId build_mamba2(Builder& b) {
  return scan_decoder(b, embed_tokens(b),
                      [&](int layer, ValueId normed) { return mamba2_scan(b, layer, normed); });
}

}  // namespace

const Family kMamba2 = {"mamba2", read_mamba2, build_mamba2, LayerMix::kRecurrent};

}  // namespace weft::model
