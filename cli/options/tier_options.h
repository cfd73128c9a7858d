#pragma once
// Options of the cache tiers, for commands whose later prompts share prefixes with earlier ones.
#include <string>

#include "options/option_types.h"
#include "weft/batcher.h"

namespace weft::cli {

struct TierOptions {
  int ram_mib = -1;
  std::string disk;
  int disk_gib = static_cast<int>(CacheTiers{}.disk_bytes >> 30);
};
void add_tier_options(CLI::App& app, TierOptions& options);
/// Makes the folder of --cache-disk. Throws Error that names the option if it cannot be used.
void make_tier_folder(const TierOptions& options);
/// Sets the tiers, without CacheTiers::on_note, and makes their folder.
void set_cache_tiers(BatcherParams& params, const TierOptions& options);

}  // namespace weft::cli
