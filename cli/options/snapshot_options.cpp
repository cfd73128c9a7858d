#include "options/snapshot_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "options/arguments.h"

namespace weft::cli {

void add_snapshot_options(CLI::App& app, SnapshotOptions& options) {
  const std::string group = "Context";
  add_size(app, "--ctx-checkpoints", options.n, {0, 1 << 20, "0: none"},
           fmt::format("maximum number of snapshots of prompts, for models with recurrent or sliding-window "
                       "layers (default {}). Later turns continue from them",
                       options.n))
      ->group(group);
  add_size(app, "--checkpoint-ram", options.mib, {0, 1 << 30, "0: none"},
           fmt::format("maximum MiB of these snapshots (default {})", options.mib))
      ->group(group);
}

void bound_snapshots(BatcherParams& params, const SnapshotOptions& options) {
  params.n_snapshots = options.n;
  params.snapshot_bytes = static_cast<std::int64_t>(options.mib) << 20;
}

}  // namespace weft::cli
