#pragma once
// Options of the prefix cache's snapshots, for commands that compute several prompts.
#include "options/option_types.h"
#include "weft/batcher.h"

namespace weft::cli {

struct SnapshotOptions {
  int n = BatcherParams{}.n_snapshots;
  int mib = static_cast<int>(BatcherParams{}.snapshot_bytes >> 20);
};
void add_snapshot_options(CLI::App& app, SnapshotOptions& options);
/// Sets the bounds of the snapshots.
void bound_snapshots(BatcherParams& params, const SnapshotOptions& options);

}  // namespace weft::cli
