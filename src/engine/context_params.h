#pragma once
// What a context is asked for, checked and filled in.
#include "model/hparams.h"
#include "weft/context.h"
#include "weft/dtype.h"

namespace weft::engine {

/// With the defaults filled in; `cache` is what CacheType::kAuto means, and `finds_best` whether the context
/// can find the best tokens itself. Throws Error kInvalidArgument.
ContextParams fill_in(ContextParams params, const ModelInfo& info, CacheType cache, bool finds_best = false);

/// What CacheType::kAuto means where all devices multiply caches of type `fastest` faster than others.
CacheType auto_cache_type(const model::HParams& hparams, DType fastest);

/// Whether heads of `head_dim` elements can be kept so.
bool fits_cache(CacheType type, int head_dim);

/// The type of a cache whose heads have `head_dim` elements. Throws Error kInvalidArgument.
DType cache_dtype(const char* what, CacheType type, int head_dim);

}  // namespace weft::engine
