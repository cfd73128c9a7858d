#pragma once
// Checks the parameters of a context and fills in the defaults.
#include "model/hparams.h"
#include "weft/context.h"
#include "weft/dtype.h"

namespace weft::engine {

/// The parameters with defaults filled in. `cache` is the meaning of CacheType::kAuto. `finds_best`: the
/// context can find the best tokens itself. Throws Error kInvalidArgument.
ContextParams fill_in(ContextParams params, const ModelInfo& info, CacheType cache, bool finds_best = false);

/// `n`, the value of the parameter `name`. Throws Error kInvalidArgument if it is 0, which means the training
/// length, and the model's file does not state that.
int checked_length(int n, const char* name, const ModelInfo& info);

/// The meaning of CacheType::kAuto if all devices multiply caches of type `fastest` faster than others.
CacheType auto_cache_type(const model::HParams& hparams, DType fastest);

/// The types of the caches of K and V. Throws Error kInvalidArgument if a type cannot hold heads of the
/// model, with windows or without.
DType k_cache_dtype(CacheType type, const model::HParams& hparams);
DType v_cache_dtype(CacheType type, const model::HParams& hparams);

}  // namespace weft::engine
