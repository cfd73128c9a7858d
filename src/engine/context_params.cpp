#include "engine/context_params.h"

#include <algorithm>
#include <string>

#include "base/pool.h"
#include "engine/graph_sizes.h"
#include "engine/model_params.h"
#include "engine/refuse.h"

namespace weft::engine {
namespace {

constexpr int kDefaultContext = 8192;
constexpr int kMaxContext = 1 << 26;
constexpr int kMaxBatchStep = 1 << 16;
constexpr int kDefaultSource = 512;
constexpr int kMaxSource = 1 << 14;
constexpr int kDefaultOutputs = 64;
constexpr int kBF16Pair = 2;
constexpr int kDefaultBest = 64;
constexpr int kMaxBest = 1 << 10;

int checked(const char* what, int value, int max) {
  if (value < 1 || value > max)
    refuse(std::string(what) + " is " + std::to_string(value) + ", expected 1 to " + std::to_string(max));
  return value;
}

DType dtype_of(CacheType type) {
  switch (type) {
    case CacheType::kAuto:
      break;  // fill_in() has replaced it.
    case CacheType::kF32:
      return DType::kF32;
    case CacheType::kF16:
      return DType::kF16;
    case CacheType::kBF16:
      return DType::kBF16;
    case CacheType::kQ8_0:
      return DType::kQ8_0;
    case CacheType::kQ4_0:
      return DType::kQ4_0;
    case CacheType::kQ4_1:
      return DType::kQ4_1;
    case CacheType::kQ5_0:
      return DType::kQ5_0;
    case CacheType::kQ5_1:
      return DType::kQ5_1;
    case CacheType::kIQ4_NL:
      return DType::kIQ4_NL;
  }
  refuse("unknown cache type " + std::to_string(static_cast<int>(type)));
}

/// The number of elements of a head must be a multiple of this.
int multiple_of(CacheType type) {
  return type == CacheType::kBF16 ? kBF16Pair : static_cast<int>(info(dtype_of(type)).block_elements);
}

/// The size of a head that this type cannot hold; 0 if it holds all. Layers with windows may have another
/// size than `head_dim`.
int misfit(CacheType type, int head_dim, const model::HParams& hparams) {
  const int window_dim = hparams.window ? hparams.window->head_dim : 0;
  for (const int dim : {head_dim, window_dim})
    if (dim % multiple_of(type) != 0) return dim;
  return 0;
}

DType cache_dtype(const char* what, CacheType type, int head_dim, const model::HParams& hparams) {
  const DTypeInfo& dtype = info(dtype_of(type));
  if (const int dim = misfit(type, head_dim, hparams); dim != 0)
    refuse("heads of " + std::to_string(dim) + " elements cannot be kept as " + std::string(dtype.name) +
           " in the " + what + " cache, which takes multiples of " + std::to_string(multiple_of(type)) +
           "; use f16");
  return dtype.type;
}

}  // namespace

ContextParams fill_in(ContextParams p, const ModelInfo& info, CacheType cache, bool finds_best) {
  if (p.k_type == CacheType::kAuto) p.k_type = cache;
  if (p.v_type == CacheType::kAuto) p.v_type = cache;
  const auto at_most = [&](int most) {
    return info.n_ctx_train > 0 ? std::min(info.n_ctx_train, most) : most;
  };
  if (p.n_ctx == 0) p.n_ctx = info.n_ctx_fit > 0 ? info.n_ctx_fit : at_most(kDefaultContext);
  checked("the context length", p.n_ctx, kMaxContext);
  checked("the number of sequences", p.n_sequences, kMaxSequences);
  checked("the ubatch size", p.n_ubatch, kMaxBatchStep);
  // No step can compute more tokens than there are cells.
  p.n_ubatch = std::min(p.n_ubatch, p.n_ctx);
  if (p.n_source == 0) p.n_source = at_most(kDefaultSource);
  checked("the length of encoder inputs", p.n_source, kMaxSource);
  if (p.n_outputs == 0) p.n_outputs = std::max(kDefaultOutputs, p.n_sequences);
  p.n_outputs = std::min(checked("the number of outputs", p.n_outputs, kMaxBatchStep), p.n_ubatch);
  check_threads(p.n_threads);
  if (p.window_rewind < -1) refuse("window_rewind must be -1 or more");
  if (p.state_rewind < 0 || p.state_rewind > kMaxSequences)
    refuse("state_rewind is " + std::to_string(p.state_rewind) + ", expected 0 to " +
           std::to_string(kMaxSequences));
  if (p.n_best == -1) p.n_best = finds_best ? std::min(kDefaultBest, info.n_vocab) : 0;
  if (p.n_best != 0 && !finds_best)
    refuse(
        "best tokens are available only if the whole model runs on CPUs; leave n_best at 0 and request "
        "logits");
  if (p.n_best < 0 || p.n_best > std::min(kMaxBest, info.n_vocab))
    refuse("the number of best tokens is " + std::to_string(p.n_best) + ", expected 0 to " +
           std::to_string(std::min(kMaxBest, info.n_vocab)));
  if (p.n_threads == 0) p.n_threads = base::default_threads();
  return p;
}

int checked_length(int n, const char* name, const ModelInfo& info) {
  if (n == 0 && info.n_ctx_train == 0)
    refuse("metadata key " + info.architecture +
           ".context_length of the model's file is missing or not positive; set the length (" + name +
           ", -c of the program)");
  return n;
}

CacheType auto_cache_type(const model::HParams& hparams, DType fastest) {
  const bool bf16 = fastest == DType::kBF16 && misfit(CacheType::kBF16, hparams.k_head_dim(), hparams) == 0 &&
                    misfit(CacheType::kBF16, hparams.v_head_dim(), hparams) == 0;
  return bf16 ? CacheType::kBF16 : CacheType::kF16;
}

DType k_cache_dtype(CacheType type, const model::HParams& hparams) {
  return cache_dtype("K", type, hparams.k_head_dim(), hparams);
}
DType v_cache_dtype(CacheType type, const model::HParams& hparams) {
  return cache_dtype("V", type, hparams.v_head_dim(), hparams);
}

}  // namespace weft::engine
