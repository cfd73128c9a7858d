#include "options/tier_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>

#include "base/folder.h"
#include "options/arguments.h"
#include "weft/error.h"

namespace weft::cli {

void add_tier_options(CLI::App& app, TierOptions& options) {
  constexpr int kMaxMib = 1 << 24;
  constexpr int kMaxGib = 1 << 20;
  const std::string group = "Context";
  add_size(app, "--cache-ram", options.ram_mib,
           {-1, kMaxMib, "-1: a quarter of the free memory, at most 8192"},
           "MiB of host memory for prefixes that the KV cache evicts; 0: none (default -1)")
      ->group(group);
  app.add_option(
         "--cache-disk", options.disk,
         "keep prefixes in files of this folder, too; they survive a restart, and processes can share it")
      ->transform(expand_home)
      ->type_name("DIR")
      ->group(group);
  add_size(app, "--cache-disk-size", options.disk_gib, {0, kMaxGib},
           fmt::format("maximum GiB of all files in that folder; the least recently used are removed first "
                       "(default {})",
                       options.disk_gib))
      ->group(group);
}

void make_tier_folder(const TierOptions& options) {
  try {
    if (!options.disk.empty()) base::make_private_folder(options.disk);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("--cache-disk: {}", error.what()));
  }
}

void set_cache_tiers(BatcherParams& params, const TierOptions& options) {
  make_tier_folder(options);
  params.tiers.ram_bytes = options.ram_mib < 0 ? CacheTiers::kAutomatic : std::int64_t{options.ram_mib} << 20;
  params.tiers.disk = options.disk;
  params.tiers.disk_bytes = std::int64_t{options.disk_gib} << 30;
}

}  // namespace weft::cli
