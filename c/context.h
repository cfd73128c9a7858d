#pragma once
// Handles of contexts and samplers, as others use them.
#include <atomic>
#include <memory>
#include <vector>

#include "model.h"
#include "weft/context.h"
#include "weft/sampler.h"

namespace weft::c {

/// A context, shared by its handle and by the batcher that has it.
struct ContextBox {
  std::shared_ptr<LoadedModel> loaded;
  Context context;
  std::atomic<bool> taken = false;  ///< By a batcher or service.
  std::vector<weft_best> best = {};
  OneUser user = {};

  ContextBox(std::shared_ptr<LoadedModel> model, const ContextParams& params)
      : loaded(std::move(model)), context(loaded->model, params) {}
  ContextBox(std::shared_ptr<LoadedModel> model, const ContextParams& params, const Context& shares_with)
      : loaded(std::move(model)), context(loaded->model, params, shares_with) {}
  /// For a batcher, until give_back(): throws Error where another has it.
  void take();
  void give_back() { taken = false; }
};

SamplerParams sampler_params(const weft_sampler_params* given);

}  // namespace weft::c

struct weft_context {
  std::shared_ptr<weft::c::ContextBox> box;
};
