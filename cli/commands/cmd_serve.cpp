// weft serve: serves models over HTTP to clients of OpenAI's API and to browsers.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "commands/command.h"
#include "files/hub_models.h"
#include "files/model_cache.h"
#include "files/model_folder.h"
#include "http/host.h"
#include "http/listening.h"
#include "http/tls.h"
#include "options/arguments.h"
#include "options/fit_options.h"
#include "options/log_options.h"
#include "options/media_options.h"
#include "options/options.h"
#include "options/serve_options.h"
#include "options/template_options.h"
#include "server.h"
#include "serving/api_keys.h"
#include "serving/lost_devices.h"
#include "serving/systemd.h"
#include "weft/backend/registry.h"
#include "weft/convert.h"
#include "weft/device.h"
#include "weft/error.h"
#include "weft/transcriber.h"
#include "weft/version.h"

namespace weft::cli {
namespace {

using server::ModelSpec;

/// Default number of cells for each completion.
constexpr int kCellsEach = 2048;
constexpr int kMostCells = 1 << 17;
/// Additional sequences for cached prefixes of finished completions.
constexpr int kKeptTexts = 64;
/// Rows of logits of a step, at least.
constexpr int kLeastOutputs = 64;

/// "a,b" is two words, as llama.cpp has it.
std::vector<std::string> words_of(const std::vector<std::string>& lists) {
  std::vector<std::string> words;
  for (const std::string& list : lists)
    for (std::string& word : split_at_commas(list))
      if (!word.empty()) words.push_back(std::move(word));
  return words;
}

// The named models; without names, the default model followed by all others of the cache.
std::vector<ModelSpec> model_specs(const ServeOptions& options) {
  std::vector<ModelSpec> specs;
  // Files of one name in several folders.
  const auto unique = [&](const std::string& stem) {
    std::string name = stem;
    for (int n = 2; std::any_of(specs.begin(), specs.end(), [&](const auto& s) { return s.name == name; });
         ++n)
      name = fmt::format("{}-{}", stem, n);
    return name;
  };
  const auto add = [&](const std::filesystem::path& path, const std::string& stem) {
    const bool known =
        std::any_of(specs.begin(), specs.end(), [&](const ModelSpec& s) { return s.path == path; });
    if (!known)
      specs.push_back({.name = unique(stem),
                       .aliases = {},
                       .path = path,
                       .is_transcriber = is_transcriber_file(path),
                       .is_adapted = specs.empty()});
  };
  // A folder's converted file has another name than the folder.
  const auto add_named = [&](const std::string& name) {
    const std::filesystem::path path = find_model(name, options.talk);
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::canonical(name, error);
    const bool is_converted = is_model_folder(name) && !gguf_in_folder(name);
    add(path, is_converted && !error ? folder.filename().string() : path.stem().string());
  };
  for (const std::string& name : options.models) add_named(name);
  if (options.models.empty()) {
    add_named(options.model.model);
    if (options.model.model.empty())
      for (const CachedModel& model : cached_models()) add(model.path, model.path.stem().string());
  }
  for (const NamedAdapter& adapter : named_adapters(options.model.adapters))
    if (adapter.named) specs.front().adapters.push_back(adapter.file.name);
  // The first alias is the name that clients see.
  const std::vector<std::string> aliases = words_of(options.aliases);
  for (std::size_t i = 0; i < aliases.size(); ++i)
    specs.front().aliases.push_back(i == 0 ? std::exchange(specs.front().name, aliases[i]) : aliases[i]);
  specs.front().tags = words_of(options.tags);
  std::set<std::string_view> names;
  for (const ModelSpec& spec : specs) {
    std::set<std::string_view> of_model(spec.aliases.begin(), spec.aliases.end());
    of_model.insert(spec.name);
    std::vector<std::string_view> own(of_model.begin(), of_model.end());
    own.insert(own.end(), spec.adapters.begin(), spec.adapters.end());
    for (const std::string_view name : own)
      if (!names.insert(name).second)
        throw UsageError(
            fmt::format("two models or adapters have the name '{}'; give them other names", name));
  }
  return specs;
}

/// The size of a model's cache, and the memory of both. Reads the file's description.
struct Footprint {
  int cells = 0;       ///< Cells of the cache.
  int cells_each = 0;  ///< Cells that each completion may use.
  std::uint64_t bytes = 0;
};

/// The bytes of the draft model and its cache.
std::uint64_t draft_bytes(const SpeculationOptions& options, const std::filesystem::path& file,
                          const ContextParams& context) {
  const FileInfo info = inspect(file, draft_context_params(options, context));
  return (info.model ? info.model->weight_bytes : 0) + info.cache.bytes;
}

Footprint footprint_of(const ServeOptions& options, const ModelSpec& spec) {
  const FileInfo info = inspect(spec.path, context_params(options.context, options.model));
  Footprint result{options.context.n_ctx, options.context.n_ctx, 0};
  if (result.cells == 0) {
    const int trained = info.model ? info.model->n_ctx_train : kCellsEach;
    if (trained == 0)
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{}: metadata key {}.context_length is missing or not positive; set the length with -c",
                      spec.path.string(), info.model->architecture));
    int cells =
        std::max(std::min(trained, kMostCells / 4), std::min(options.n_parallel * kCellsEach, kMostCells));
    const std::uint64_t budget = base::machine_memory().total / 4;
    const std::uint64_t each = std::max<std::uint64_t>(1, info.cache.bytes_per_token);
    if (each * static_cast<std::uint64_t>(cells) > budget) cells = static_cast<int>(budget / each);
    result.cells = std::max(cells, kCellsEach);
    result.cells_each = std::min(result.cells, trained);
  }
  // The description is of a cache of its own size, which grows evenly.
  const std::int64_t n_more = result.cells - info.cache.n_ctx;
  const std::int64_t cache_bytes = static_cast<std::int64_t>(info.cache.bytes) +
                                   n_more * static_cast<std::int64_t>(info.cache.bytes_per_token);
  result.bytes = static_cast<std::uint64_t>((info.model ? info.model->weight_bytes : 0) + cache_bytes);
  return result;
}

server::ServedModelParams served_params(const ServeOptions& options, const ModelSpec& spec,
                                        const Footprint& footprint) {
  server::ServedModelParams params;
  params.context = context_params(options.context, options.model);
  params.context.n_ctx = footprint.cells;
  params.context.adapters.clear();
  if (spec.is_adapted) params.context.adapters = usual_adapters(options.model.adapters, true);
  params.n_ctx = footprint.cells_each;
  params.chat = chat_defaults(options.chat_template);
  if (options.suffix_first) params.infill_order = server::InfillOrder::kSuffixFirst;
  params.service.batcher.speculation = speculation_of(options.speculation);
  params.service.batcher.n_draft = options.speculation.n_draft;
  params.service.batcher.n_running = options.n_parallel;
  params.service.batcher.max_step_ms = options.step_ms;
  params.service.batcher.limits.n_waiting = options.max_queue;
  bound_snapshots(params.service.batcher, options.snapshots);
  set_cache_tiers(params.service.batcher, options.tiers);
  return params;
}

/// The draft model drafts for the first model only; others look up n-grams.
void load_draft(const ServeOptions& options, const ModelOptions& model_options,
                const std::filesystem::path& file, server::ServedModelParams& served) {
  ContextOptions expected = options.context;
  expected.n_ctx = served.context.n_ctx;
  expected = draft_context_options(options.speculation, expected);
  served.draft = Model::load(
      file, model_params(draft_model_options(options.speculation, model_options), expected, options.talk));
  served.draft_context = draft_context_params(options.speculation, served.context);
}

/// The devices of the other processes of this launch.
class OtherProcesses {
 public:
  std::size_t count() const { return there().size(); }

  /// Devices that were there when the program began and have gone.
  std::vector<std::string> lost() const {
    std::vector<std::string> names = at_first_;
    for (const std::string& name : there()) std::erase(names, name);
    return names;
  }

 private:
  std::vector<std::string> there() const {
    std::vector<std::string> names;
    for (const Backend& backend : registry_->backends())
      if (backend.name == "mpi")
        for (const DeviceInfo& device : backend.list()) names.push_back(device.name);
    return names;
  }

  const std::shared_ptr<Registry> registry_ = load_backends();
  const std::vector<std::string> at_first_ = there();
};

/// Throws UsageError for tokens that the vocabulary does not have.
void check_sampling(const SamplingOptions& options, const Model& model) {
  if (!model.info().encoder) (void)sampler_params(options, model.tokenizer());
}

server::PoolParams pool_params(const std::shared_ptr<ServeOptions>& options, server::Trace* trace, Log& log) {
  options->model.chat_template = template_text(options->chat_template);
  options->context.n_sequences = options->n_parallel + kKeptTexts;
  options->context.n_outputs = std::max(options->n_parallel, kLeastOutputs);
  options->context.state_rewind = n_draft_states(options->speculation, options->n_parallel);
  server::PoolParams pool;
  pool.models = model_specs(*options);
  // With several models or adapters, requests must name the one they want.
  pool.any_name = options->models.size() <= 1 && pool.models.front().adapters.empty();
  pool.n_loaded = options->models_max;
  if (options->idle_s >= 0) pool.keep_alive = std::chrono::seconds(options->idle_s);
  pool.bytes = base::machine_memory().total / 10 * 8;
  // Called before each load, which then does not read the file's header again.
  auto footprint = std::make_shared<Footprint>();
  const std::filesystem::path default_path = pool.models.front().path;
  std::filesystem::path draft_path;
  if (speculation_of(options->speculation) == Speculation::kModel)
    draft_path = find_model(options->speculation.model, options->talk);
  if (const std::string why = why_no_draft_model(options->speculation); !why.empty())
    log.write(LogLevel::kWarning, why);
  pool.bytes_of = [options, footprint, default_path, draft_path](const ModelSpec& spec) {
    if (spec.is_transcriber) return 2 * std::uint64_t{std::filesystem::file_size(spec.path)};
    *footprint = footprint_of(*options, spec);
    if (draft_path.empty() || spec.path != default_path) return footprint->bytes;
    ContextParams context = context_params(options->context, options->model);
    context.n_ctx = footprint->cells;
    return footprint->bytes + draft_bytes(options->speculation, draft_path, context);
  };
  const auto others = std::make_shared<OtherProcesses>();
  const auto reported_lost = std::make_shared<std::vector<std::string>>();
  const auto load = [options, trace, footprint, others, reported_lost, default_path, draft_path, &log](
                        const ModelSpec& spec, const std::function<bool(float)>& progress) {
    if (spec.is_transcriber)
      return std::make_shared<server::ServedModel>(
          spec, Transcriber::load(spec.path, transcriber_params(options->model)));
    const auto n_others =
        std::make_shared<std::atomic<std::size_t>>(others->count());  // That it was loaded on.
    const auto options_now = [options, others] {
      ModelOptions now = options->model;
      now.lost = others->lost();
      return now;
    };
    const auto own = std::make_shared<Footprint>(*footprint);  // Another model's load changes the other one.
    // Evaluated again when processes are lost. On the pool's thread alone.
    const auto params_now = [=, &log](const std::function<bool(float)>& told, bool again) {
      const ModelOptions now = options_now();
      if (std::exchange(*reported_lost, now.lost) != now.lost)
        log.write(LogLevel::kWarning, describe_loss(now.lost, placement_params(options->model)));
      ModelParams params = model_params(now, options->context, options->talk);
      params.progress = told;
      params.placement.n_ctx = own->cells;
      if (options->context.n_ctx > 0 || again) {
        params.placement.n_ctx_min = 0;  // The length is given, or contexts already have it.
      } else if (params.placement.n_ctx_min == 0) {
        params.placement.n_ctx_min = kCellsEach;
      }
      if (spec.path == default_path) {
        const OtherMargins margins =
            margins_of_companions(options->mmproj, options->speculation, now, options->context);
        for (Margin& margin : margins(spec.path, *params.registry))
          params.placement.margins.push_back(std::move(margin));
      }
      params.placed = [=, &log](const PlacementReport& report) {
        if (report.n_ctx < report.n_ctx_full) {
          own->cells = report.n_ctx;
          own->cells_each = std::min(own->cells_each, report.n_ctx);
        }
        if (is_worth_a_table(report))
          for (const std::string& line : to_table(report))
            log.write(LogLevel::kInfo, fmt::format("model '{}': {}", spec.name, line));
      };
      if (!spec.is_adapted) {
        params.adapters.clear();
        params.control_vectors.clear();
      }
      const std::string why = choose_split(spec.path, now, options->n_parallel, params);
      if (!why.empty()) log.write(LogLevel::kInfo, why);
      return params;
    };
    const std::shared_ptr<Model> model = Model::load(spec.path, params_now(progress, false));
    server::ServedModelParams served = served_params(*options, spec, *own);
    served.service.batcher.tiers.on_note = [&log, name = spec.name](const std::string& note) {
      log.write(LogLevel::kWarning, fmt::format("model '{}': {}", name, note));
    };
    if (trace != nullptr)
      served.on_step = [trace, name = spec.name](const StepRecord& record) { trace->step(name, record); };
    for (const std::string& what : model->notes())
      log.write(LogLevel::kWarning, fmt::format("model '{}': {}", spec.name, what));
    if (model->chat_template() == nullptr && !model->info().encoder &&
        server::why_no_template(*model).empty())
      log.write(LogLevel::kInfo, fmt::format("model '{}': {}", spec.name, kNoTemplate));
    check_sampling(options->sampling, *model);
    served.lost = [others, n_others, model]() -> std::string {
      if (others->count() < *n_others) return "devices are lost";
      try {
        model->check_weights();
      } catch (const Error& error) {
        return error.what();
      }
      return {};
    };
    served.reload = [=](const std::function<bool(float)>& progress_again) {
      *n_others = others->count();
      model->reload(params_now(progress_again, true));
    };
    if (!draft_path.empty() && !model->info().encoder) {
      if (spec.path == default_path) {
        load_draft(*options, options_now(), draft_path, served);
      } else {
        served.service.batcher.speculation = Speculation::kNgram;
      }
    }
    if (spec.path == default_path) {
      const MediaModels media = load_media(options->mmproj, spec.path, options_now(), *model, options->talk);
      served.vision = media.vision;
      served.audio = media.audio;
    }
    return std::make_shared<server::ServedModel>(spec, model, served);
  };
  // Loads again after an error if devices were lost.
  pool.load = [load, others](const ModelSpec& spec, const std::function<bool(float)>& progress) {
    while (true) {
      const std::size_t n_others = others->count();
      try {
        return load(spec, progress);
      } catch (const Error&) {
        if (others->count() == n_others) throw;
      }
    }
  };
  pool.log = [&log](const std::string& line) { log.write(LogLevel::kInfo, line); };
  pool.warn = [&log](const std::string& line) { log.write(LogLevel::kWarning, line); };
  return pool;
}

/// "/llm", from whatever slashes it is given with.
std::string path_prefix(const std::string& given) {
  std::string prefix;
  for (const char c : given + "/") {
    if (c == '/' && prefix.ends_with('/')) continue;
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("/-._~", c) != nullptr;
    if (!fits) throw UsageError(fmt::format("--api-prefix: '{}' is not a path such as /llm", given));
    prefix += prefix.empty() && c != '/' ? std::string("/") + c : std::string(1, c);
  }
  prefix.pop_back();
  for (const char* up : {"/./", "/../"})
    if ((prefix + "/").find(up) != std::string::npos)
      throw UsageError(fmt::format("--api-prefix: '{}' is not a path such as /llm", given));
  return prefix;
}

/// All hosts of --host, separated by commas.
std::string host_list(const ServeOptions& options) {
  return fmt::format("{}", fmt::join(options.hosts, ","));
}

/// The names that browsers may know this server by, and the pages that may use it.
server::OriginRules origin_rules(const ServeOptions& options, bool has_keys) {
  server::OriginRules rules;
  const std::vector<std::string> listed = words_of(options.cors_origins);
  rules.all = options.cors || std::find(listed.begin(), listed.end(), "*") != listed.end() ||
              (has_keys && listed.empty());
  rules.any_host = has_keys;  // A key says that the client may use the server.
  std::vector<std::string>& hosts = rules.hosts;
  std::array<char, 256> own{};
  if (::gethostname(own.data(), own.size() - 1) == 0)
    if (const auto host = server::parse_host(own.data()))
      hosts.insert(hosts.end(), {host->name, host->name + ".local"});
  for (const std::string& given : server::split_hosts(host_list(options)))
    if (const auto host = server::parse_host(given); host && !host->is_address) hosts.push_back(host->name);
  std::vector<std::pair<std::string, std::string>> allowed;
  for (const std::string& host : options.allowed_hosts) allowed.emplace_back("--allowed-host", host);
  for (const std::string& origin : listed)
    if (origin != "*" && origin != "localhost") allowed.emplace_back("--cors-origins", origin);
  for (const auto& [option, given] : allowed) {
    const bool is_suffix = given.starts_with('.');
    const auto origin = server::parse_origin(given);
    const auto host = origin ? origin->host : server::parse_host(given.substr(is_suffix ? 1 : 0));
    if (!host)
      throw UsageError(
          fmt::format("{}: '{}' is not a host; '.example.com' allows all names below it, --cors all pages",
                      option, given));
    if (origin && option == "--cors-origins")
      rules.origins.push_back(*origin);
    else
      hosts.push_back((is_suffix ? "." : "") + host->name);
  }
  return rules;
}

/// Running and waiting requests of one client: half of all, unless the user sets it.
int max_requests_each(const ServeOptions& options) {
  return options.max_requests_each >= 0 ? options.max_requests_each
                                        : (options.n_parallel + options.max_queue + 1) / 2;
}

/// Null without --ssl-cert-file and --ssl-key-file.
std::shared_ptr<server::TlsIdentity> tls_identity(const ServeOptions& options) {
  if (options.ssl_cert_file.empty() && options.ssl_key_file.empty()) return nullptr;
  if (options.ssl_cert_file.empty()) throw UsageError("--ssl-key-file needs --ssl-cert-file as well");
  if (options.ssl_key_file.empty()) throw UsageError("--ssl-cert-file needs --ssl-key-file as well");
  return std::make_shared<server::TlsIdentity>(options.ssl_cert_file, options.ssl_key_file);
}

void warn_of_dates(const server::TlsIdentity& tls, Log& log) {
  if (const std::string problem = tls.date_problem(); !problem.empty())
    log.write(LogLevel::kWarning, problem + "; clients will reject it");
}

server::TrustedProxies trusted_proxies(const ServeOptions& options) {
  try {
    return server::TrustedProxies(options.trusted_proxies);
  } catch (const Error& error) {
    throw UsageError(fmt::format("--trusted-proxy: {}", error.what()));
  }
}

server::ServerParams server_params(const std::shared_ptr<ServeOptions>& options, server::Trace* trace,
                                   Log& log) {
  server::ServerParams params;
  make_tier_folder(options->tiers);  // Models are loaded later.
  params.http.host = host_list(*options);
  params.http.port = static_cast<std::uint16_t>(options->port);
  for (const PassedSocket& socket : take_listening_sockets())
    params.http.listening.push_back(socket.descriptor);
  params.pool = pool_params(options, trace, log);
  params.api.keys = read_keys(options->keys, options->key_file);
  params.api.origins = origin_rules(*options, !params.api.keys.empty());
  params.api.n_requests_each = max_requests_each(*options);
  params.api.share_slots = options->share_slots;
  params.api.warn = [&log](const std::string& line) { log.write(LogLevel::kWarning, line); };
  params.http.prefix = path_prefix(options->api_prefix);
  params.http.trusted_proxies = trusted_proxies(*options);
  params.http.n_connections = options->max_connections;
  params.http.n_connections_each = options->max_connections_each;
  params.api.metrics = options->metrics;
  params.api.slots = options->slots;
  params.api.version = WEFT_VERSION;
  if (options->n_workers > 0) params.api.n_workers = options->n_workers;
  params.api.web_page = options->web_page;
  params.api.save_folder = options->save_folder;
  params.api.stored.n_responses = static_cast<std::size_t>(options->n_stored);
  params.api.files.folder = options->files;
  params.api.files.folder_bytes = static_cast<std::uint64_t>(options->files_gib) << 30;
  params.api.files.n_lines_at_once = static_cast<std::size_t>(options->n_parallel);
  params.api.access_log = options->access_log;
  params.api.trace = trace;
  server::RequestDefaults& defaults = params.api.params.defaults;
  defaults.params.sampler = sampler_params(options->sampling);
  defaults.params.n_predict = options->n_predict;
  defaults.params.ignore_end = options->ignore_eos;
  defaults.params.context_shift = options->context_shift;
  defaults.params.n_keep = options->n_keep;
  defaults.pooling = options->pooling;
  defaults.embedding_norm = options->embedding_norm;
  defaults.timeout_ms = 1000.0 * options->timeout_s;
  params.shutdown_timeout = std::chrono::seconds(options->shutdown_timeout_s);
  params.drain_delay = std::chrono::seconds(options->drain_delay_s);
  return params;
}

// Signals, waited for by a thread.
class SignalThread {
 public:
  // Blocks the signals in this thread and in all threads that it starts. Construct it before any thread.
  SignalThread() {
    sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, kEnd}) sigaddset(&set_, signal);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~SignalThread() {
    end();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  void start(std::function<void(int signal)> on_signal) {
    thread_ = std::thread([this, on_signal = std::move(on_signal)] {
      int signal = 0;
      while (sigwait(&set_, &signal) == 0 && !ending_)
        if (signal != kEnd) on_signal(signal);
    });
  }
  // Nothing is called any more.
  void end() {
    if (!thread_.joinable()) return;
    ending_ = true;
    pthread_kill(thread_.native_handle(), kEnd);
    thread_.join();
  }

 private:
  static constexpr int kEnd = SIGUSR2;  ///< Wakes the thread.
  std::atomic<bool> ending_{false};
  sigset_t set_{};
  sigset_t before_{};
  std::thread thread_;
};

// Finds errors in the options before anything is loaded.
void check(const ServeOptions& options) {
  (void)placement_params(options.model);
  (void)speculation_of(options.speculation);
  (void)template_text(options.chat_template);
  (void)chat_defaults(options.chat_template);
}

void warn_of_unknown(const ServeOptions& options, const std::string& address, Log& log) {
  const auto own = server::parse_origin(address);
  if (!own || own->host.is_loopback || !options.keys.empty() || !options.key_file.empty()) return;
  log.write(
      LogLevel::kWarning,
      "other machines can reach this address and use the server without an API key; --api-key-file sets keys",
      {{"address", address}});
}

void print_welcome(const ServeOptions& options, const std::string& address, Log& log) {
  log.write(LogLevel::kInfo, "listening", {{"address", address}});
  if (!is_terminal(2) || !address.starts_with("http")) return;
  note(options.talk, fmt::format("\n  OPENAI_BASE_URL={}/v1\n  ANTHROPIC_BASE_URL={}", address, address));
  if (options.web_page) note(options.talk, fmt::format("  Web page: {}/\n", address));
}

void reload(const ServeOptions& options, server::TlsIdentity* tls, server::Server& server, Log& log) {
  if (!log.reopen() || !server.reopen_log())
    log.write(LogLevel::kWarning, "a log file cannot be opened again");
  try {
    server.set_keys(read_keys(options.keys, options.key_file));
    log.write(LogLevel::kInfo, "keys read again");
  } catch (const std::exception& error) {
    log.write(LogLevel::kError, "the keys cannot be read again; the old ones stay",
              {{"error", error.what()}});
  }
  if (tls == nullptr) return;
  try {
    tls->reload();
    log.write(LogLevel::kInfo, "certificate read again");
    warn_of_dates(*tls, log);
  } catch (const std::exception& error) {
    log.write(LogLevel::kError, "the certificate cannot be read again; the old one stays",
              {{"error", error.what()}});
  }
}

int run(const std::shared_ptr<ServeOptions>& options) {
  SignalThread signals;
  Log log(options->log, options->talk);
  replace_escapes(options->sampling);
  check(*options);
  std::unique_ptr<server::Trace> trace;
  if (!options->trace.empty())
    trace = std::make_unique<server::Trace>(
        options->trace, [&log](const std::string& line) { log.write(LogLevel::kWarning, line); });
  ServiceNotifier systemd;
  std::atomic<bool> failed{false}, stopping{false};

  const std::shared_ptr<server::TlsIdentity> tls = tls_identity(*options);
  if (tls != nullptr) warn_of_dates(*tls, log);
  server::ServerParams params = server_params(options, trace.get(), log);
  params.http.tls = tls;
  server::Server server(std::move(params));
  for (const std::string& address : server.addresses()) {
    warn_of_unknown(*options, address, log);
    print_welcome(*options, address, log);
  }
  for (const std::string& host : server.included_hosts())
    log.write(LogLevel::kInfo, "another address of --host includes this one, so it has no socket of its own",
              {{"host", host}});
  systemd.status("loading the model");
  server.on_ready([&](const std::string& error) {
    const std::string model = server.models().states().front().name;
    if (error.empty()) {
      // The line that scripts wait for.
      log.write(LogLevel::kInfo, "ready", {{"model", model}, {"address", server.addresses().front()}});
      systemd.ready("serving " + model);
    } else if (!stopping) {
      log.write(LogLevel::kError, "stopping: there is no model to serve", {{"model", model}});
      failed = true;
      server.stop();
    }
  });
  signals.start([&](int signal) {
    if (signal == SIGHUP) return reload(*options, tls.get(), server, log);
    log.write(LogLevel::kInfo, "stopping after the running responses; interrupt again to stop at once");
    systemd.stopping("waiting for running responses");
    stopping = true;
    server.stop();
  });
  server.run();
  signals.end();
  log.write(LogLevel::kInfo, "stopped");
  return failed ? kExitFailure : kExitOk;
}

std::function<int()> prepare_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  add_serve_options(app, *options);
  return [options] { return run(options); };
}

}  // namespace

const Command kServeCommand = {
    "serve", "[-m FILE] [options]", "serve models over HTTP, with a web page",
    "OpenAI's API at /v1, Anthropic's at /v1/messages, Ollama's at /api, a chat page at /, metrics at\n"
    "/metrics. --files DIR adds /v1/files and /v1/batches.\n"
    "Sampling options are the defaults of requests. --ctx-size is the size of the KV cache, which all "
    "requests\n"
    "share; each may use all of it.\n"
    "\n"
    "Examples:\n"
    "  weft serve                                  the default model at http://127.0.0.1:8080\n"
    "  weft serve -m gemma --port 9000 -np 16      another model, at most 16 requests at a time\n"
    "  weft serve --host 0.0.0.0 --api-key-file keys.txt\n"
    "  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": "
    "\"Hello\"}]}'\n"
    "\n"
    "SIGTERM and Ctrl-C finish the running responses and accept no requests; a second signal stops at once.\n"
    "SIGHUP reloads the API keys and the certificate, and reopens the log files.\n",
    prepare_serve};

}  // namespace weft::cli
