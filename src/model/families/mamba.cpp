// Mamba (arXiv 2312.00752): each layer widens its input, lets a short convolution and a selective scan run
// over it, gates the result and narrows it again. It has neither attention nor a feed-forward part.
// Falcon-Mamba (arXiv 2410.05355) norms dt, B and C.
#include "model/family.h"
#include "model/mamba_blocks.h"

namespace weft::model {
namespace {

void read_mamba(const Metadata& metadata, HParams& h) {
  h.ssm = read_mamba(metadata);
  h.ssm->plain_norms = metadata.get_bool("ssm.dt_b_c_rms", false);
}

ValueId build_mamba(Builder& b) {
  const ScanNorms norms = b.hparams().ssm->plain_norms ? ScanNorms::kPlain : ScanNorms::kNone;
  return scan_decoder(b, embed_tokens(b),
                      [&](int layer, ValueId normed) { return mamba_scan(b, layer, normed, norms); });
}

}  // namespace

const Family kMamba = {"mamba", read_mamba, build_mamba, LayerMix::kRecurrent};

}  // namespace weft::model
