#pragma once
// The options of weft serve.
#include <optional>
#include <string>
#include <vector>

#include "api/api.h"
#include "options/log_options.h"
#include "options/option_types.h"
#include "options/options.h"
#include "options/snapshot_options.h"
#include "options/speculation_options.h"
#include "options/template_options.h"
#include "options/tier_options.h"
#include "weft/batcher.h"

namespace weft::cli {

struct ServeOptions {
  Verbosity talk;
  LogOptions log;
  ModelOptions model;
  std::vector<std::string> models;
  ContextOptions context;
  SamplingOptions sampling;
  SpeculationOptions speculation;
  SnapshotOptions snapshots;
  TierOptions tiers;
  std::vector<std::string> hosts = {"127.0.0.1"};
  int port = 8080;
  int n_parallel = 64;
  int step_ms = static_cast<int>(BatcherParams{}.max_step_ms);
  int n_predict = -1;
  bool ignore_eos = false;
  bool context_shift = false;
  int n_keep = server::RequestDefaults{}.params.n_keep;
  std::optional<Pooling> pooling;
  int embedding_norm = server::RequestDefaults{}.embedding_norm;
  bool suffix_first = false;
  std::vector<std::string> tags;
  int n_workers = server::ApiSetup{}.n_workers;
  std::vector<std::string> cors_origins;
  std::vector<std::string> keys;
  std::string key_file;
  std::vector<std::string> aliases;
  int timeout_s = 600;
  int max_queue = 1024;
  int models_max = 0;
  int idle_s = -1;
  int n_stored = static_cast<int>(server::StoreLimits{}.n_responses);
  std::string files;
  int files_gib = static_cast<int>(server::FilesSetup{}.folder_bytes >> 30);
  bool cors = false;
  std::vector<std::string> allowed_hosts;
  std::string api_prefix;
  std::string ssl_cert_file, ssl_key_file;
  std::vector<std::string> trusted_proxies;
  int max_connections = 16384;
  int max_connections_each = 4096;
  int max_requests_each = -1;
  bool share_slots = false;
  bool metrics = true;
  bool slots = true;
  bool web_page = true;
  std::string save_folder;
  std::string access_log;
  std::string trace;
  TemplateOptions chat_template;
  std::string mmproj;
  int shutdown_timeout_s = 30;
  int drain_delay_s = 0;
};

/// Throws UsageError, when the arguments are parsed, for values that are out of range.
void add_serve_options(CLI::App& app, ServeOptions& options);

}  // namespace weft::cli
