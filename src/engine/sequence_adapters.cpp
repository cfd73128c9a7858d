#include "engine/sequence_adapters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/to_size.h"
#include "engine/memories.h"
#include "engine/model_impl.h"
#include "engine/refuse.h"
#include "model/largest_scale.h"

namespace weft::engine {

std::vector<AdapterUse> checked_adapters(const Model& model, std::span<const AdapterUse> uses) {
  std::vector<AdapterUse> checked;
  const auto n = static_cast<int>(model.adapters().size());
  for (const AdapterUse& use : uses) {
    if (use.adapter < 0 || use.adapter >= n)
      refuse("unknown adapter " + std::to_string(use.adapter) +
             (n == 0 ? ": the model was loaded without any (ModelParams::adapters)"
                     : "; known are 0 to " + std::to_string(n - 1)));
    if (!std::isfinite(use.scale))
      refuse("the scale of adapter " + std::to_string(use.adapter) + " is " + std::to_string(use.scale) +
             ", expected a finite number");
    const float factor = model.impl().description.additions.adapters->factor(use.adapter);
    if (std::abs(use.scale) > model::kLargestScale || std::abs(use.scale * factor) > model::kLargestScale)
      refuse("the scale of adapter " + std::to_string(use.adapter) + " is " + std::to_string(use.scale) +
             (factor != 1.0f ? " times its own, " + std::to_string(factor) : "") +
             ", expected a million at most");
    if (use.scale != 0.0f) checked.push_back(use);
  }
  const auto by_adapter = [](const AdapterUse& a, const AdapterUse& b) { return a.adapter < b.adapter; };
  std::sort(checked.begin(), checked.end(), by_adapter);
  const auto twice =
      std::adjacent_find(checked.begin(), checked.end(),
                         [](const AdapterUse& a, const AdapterUse& b) { return a.adapter == b.adapter; });
  if (twice != checked.end())
    refuse("adapter " + std::to_string(twice->adapter) +
           " is given twice; give it once, with the sum of both scales");
  if (checked.size() > to_size(Context::kMaxAdapters))
    refuse("a sequence can have " + std::to_string(Context::kMaxAdapters) + " adapters, not " +
           std::to_string(checked.size()) + "; give fewer, or merge them into one file");
  return checked;
}

AdapterRows::AdapterRows(const model::AdapterInputs& inputs, const Bindings& bindings,
                         const model::Adapters* adapters)
    : adapters_(adapters),
      rows_(host_values<std::int32_t>(bindings, inputs.rows)),
      ids_(host_values<std::int32_t>(bindings, inputs.ids)),
      begins_(host_values<std::int32_t>(bindings, inputs.begins)),
      ends_(host_values<std::int32_t>(bindings, inputs.ends)),
      is_adapted_(host_values<std::int32_t>(bindings, inputs.is_adapted)),
      weights_(host_values<float>(bindings, inputs.weights)) {}

void AdapterRows::add(std::span<const AdapterUse> uses) {
  if (begins_.empty()) return;
  const auto row = to_size(n_rows_);
  begins_[row] = n_uses_;
  for (const AdapterUse& use : uses) {
    const auto at = to_size(n_uses_++);
    rows_[at] = n_rows_;
    ids_[at] = use.adapter;
    weights_[at] = use.scale * adapters_->factor(use.adapter) * static_cast<float>(uses.size());
  }
  ends_[row] = n_uses_;
  is_adapted_[row] = uses.empty() ? 0 : 1;
  ++n_rows_;
}

}  // namespace weft::engine
