#include "engine/model_params.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/pool.h"
#include "engine/refuse.h"

namespace weft::engine {
namespace {

void check(const PlacementParams& params) {
  if (params.n_layers < -1)
    refuse("the number of layers is " + std::to_string(params.n_layers) +
           ", expected 0 or more, or -1 for as many as fit");
  for (const float share : params.shares)
    if (!std::isfinite(share) || share < 0.0f)
      refuse("the share of a device is " + std::to_string(share) + ", expected a number of 0 or more");
  if (!params.shares.empty() &&
      std::all_of(params.shares.begin(), params.shares.end(), [](float share) { return share == 0.0f; }))
    refuse("all devices have a share of 0; give at least one of them more, or leave the shares out");
  if (!params.devices.empty() && params.shares.size() > params.devices.size())
    refuse("there are " + std::to_string(params.shares.size()) + " shares for " +
           std::to_string(params.devices.size()) + " devices; give one share per device");
  const auto at_least = [](const char* what, int value, int least) {
    if (value < least)
      refuse("placement." + std::string(what) + " is " + std::to_string(value) + ", expected " +
             std::to_string(least) + " or more");
  };
  at_least("n_ctx", params.n_ctx, 0);
  at_least("n_sequences", params.n_sequences, 1);
  at_least("n_ubatch", params.n_ubatch, 1);
  at_least("n_source", params.n_source, 0);
  at_least("n_outputs", params.n_outputs, 0);
  at_least("state_rewind", params.state_rewind, 0);
  at_least("n_ctx_min", params.n_ctx_min, 0);
}

}  // namespace

void check(const ModelParams& params) {
  check_threads(params.n_threads);
  if (params.isa > CpuIsa::kI8mm)
    refuse("unknown instruction set " + std::to_string(static_cast<int>(params.isa)) +
           "; see CpuIsa; kBest is the best one of this machine");
  check(params.placement);
  if (params.n_cpu_moe < 0)
    refuse("n_cpu_moe is " + std::to_string(params.n_cpu_moe) + ", expected 0 or more");
  if (params.control_vectors.empty() && (params.first_control_layer != -1 || params.last_control_layer != -1))
    refuse("a layer range needs control vectors; give both or neither");
}

void check_threads(int n_threads) {
  if (n_threads < 0 || n_threads > base::kMaxThreads)
    refuse("the number of threads is " + std::to_string(n_threads) + ", expected 1 to " +
           std::to_string(base::kMaxThreads) + ", or 0 for the number of cores");
}

}  // namespace weft::engine
