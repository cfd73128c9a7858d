#include "options/serve_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "options/arguments.h"
#include "options/media_options.h"

namespace weft::cli {
namespace {

void check_reasoning_format(const std::string& format) {
  if (format != "auto" && format != "deepseek")
    throw UsageError(fmt::format(
        "--reasoning-format: '{}' is not one of auto, deepseek; requests ask for other forms with the field "
        "\"reasoning_format\": none or deepseek-legacy",
        format));
}

void add_server_options(CLI::App& app, ServeOptions& options) {
  const std::string group = "Server";
  add_repeated(app, "--host", options.hosts,
               "address to listen on, or the path of a Unix socket; several with commas (default 127.0.0.1: "
               "this machine only); may be given again",
               "HOST,...")
      ->group(group);
  add_size(app, "--port", options.port, {0, 65535}, "port (default 8080; 0: a free port)")->group(group);
  add_size(app, "--parallel", options.n_parallel, {1, 1024},
           "maximum number of requests computed at the same time (default 64); others wait")
      ->group(group);
  add_size(app, "--max-queue", options.max_queue, {1, 1 << 20},
           "maximum number of waiting requests (default 1024); further ones get status 429")
      ->group(group);
  add_size(app, "--step-ms", options.step_ms, {1, 1 << 20},
           "target time in ms of a step that both generates and prefills (default 150). Lower: smoother "
           "streams; higher: faster prefill")
      ->group(group);
  add_size(app, "--timeout", options.timeout_s, {0, 1 << 20, "0: no limit"},
           "maximum seconds per request (default 600); then the response ends with the tokens so far")
      ->group(group);
  add_repeated(app, "--api-key", options.keys,
               "API key that clients must send; not visible in process lists; may be given again", "KEY")
      ->group(group);
  app.add_option("--api-key-file", options.key_file,
                 "file with one API key per line, each optionally with a name for the logs: KEY NAME")
      ->type_name("FILE")
      ->group(group);
  add_repeated(app, "-a,--alias", options.aliases,
               "name of the first model in requests; several separated by commas; may be given again", "NAME")
      ->group(group);
  add_repeated(app, "--tags", options.tags, "tags of the first model in /v1/models, separated by commas",
               "WORDS")
      ->group(group);
  add_size(app, "--models-max", options.models_max, {0},
           "maximum number of models in memory at the same time (default 0: as many as fit)")
      ->group(group);
  add_size(app, "--sleep-idle-seconds", options.idle_s, {-1, 1 << 30, "-1: never"},
           "unload a model this many seconds after its last request (default -1: only when another one needs "
           "its memory); the next request loads it")
      ->group(group);
  add_size(
      app, "--stored-responses", options.n_stored, {0, 1 << 20, "0: none"},
      "maximum number of responses of /v1/responses that clients can continue or fetch by id, in at most "
      "64 MiB of memory (default 1024)")
      ->group(group);
  app.add_option(
         "--files", options.files,
         "folder that files of clients and batches are kept in: enables /v1/files and /v1/batches (default: "
         "none)")
      ->transform(expand_home)
      ->type_name("DIR")
      ->group(group);
  add_size(app, "--files-size", options.files_gib, {1, 1 << 20},
           "maximum GiB of all files in that folder (default 32); further ones get status 413")
      ->group(group);
  add_switch(app, "--cors", options.cors,
             "allow web pages of all other origins to use the server (default: only with an API key)")
      ->group(group);
  add_repeated(
      app, "--cors-origins", options.cors_origins,
      "allow web pages of these origins, separated by commas; '*': of all, as --cors. An entry with a "
      "scheme (https://a.example) matches scheme, host and port, another entry all of a host",
      "ORIGINS")
      ->group(group);
  add_repeated(app, "--allowed-host", options.allowed_hosts,
               "host name under which browsers may reach the server, e.g. that of a proxy; '.example.com': "
               "all its subdomains. Not needed with an API key; may be given again",
               "NAME")
      ->group(group);
  app.add_option("--api-prefix", options.api_prefix, "prefix of all paths, e.g. /llm (default: none)")
      ->type_name("PATH")
      ->group(group);
  app.add_option("--ssl-cert-file", options.ssl_cert_file,
                 "certificate with its chain, in PEM form; the server then speaks HTTPS only")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--ssl-key-file", options.ssl_key_file,
                 "private key of the certificate, in PEM form, without a password")
      ->type_name("FILE")
      ->group(group);
  add_repeated(app, "--trusted-proxy", options.trusted_proxies,
               "address of a proxy whose X-Forwarded-For names the client: 127.0.0.1, 10.0.0.0/8, or unix "
               "for a Unix socket; may be given again",
               "ADDRESS")
      ->group(group);
  add_size(app, "--max-connections", options.max_connections, {1, 1 << 20},
           "maximum number of connections (default 16384); further ones get status 503")
      ->group(group);
  add_size(app, "--max-connections-per-address", options.max_connections_each, {0, 1 << 20, "0: no limit"},
           "maximum number of connections from one address (default 4096)")
      ->group(group);
  add_size(app, "--max-requests-per-client", options.max_requests_each, {-1, 1 << 20, "0: no limit"},
           "maximum number of running and waiting requests per API key, or per address without keys (default "
           "-1: half of --parallel and --max-queue together); further ones get status 429")
      ->group(group);
  add_switch(
      app, "--share-slots", options.share_slots,
      "show every API key the requests (/slots, /live) and saved sessions of the others (default: yes, "
      "unless there are several keys)")
      ->group(group);
  add_switch(app, "--metrics", options.metrics, "Prometheus metrics at /metrics (default)")->group(group);
  add_switch(app, "--slots", options.slots, "the state of all slots at /slots (default)")->group(group);
  app.add_flag("--webui,--ui,!--no-webui,!--no-ui", options.web_page, "the web page at / (default)")
      ->group(group);
  add_size(app, "--threads-http", options.n_workers, {-1, 64, "-1: the default"},
           "number of threads that parse requests (default 2)")
      ->group(group);
  app.add_option("--slot-save-path", options.save_folder, "folder that slots are saved in (default: none)")
      ->type_name("DIR")
      ->group(group);
  app.add_option(
         "--access-log", options.access_log,
         "log each request to this file as a line of JSON; -: stderr. Prompts and responses are never logged")
      ->type_name("FILE")
      ->group(group);
  app.add_option("--trace", options.trace, "write steps and requests as a Chrome trace, for ui.perfetto.dev")
      ->type_name("FILE")
      ->group(group);
  add_size(app, "--shutdown-timeout", options.shutdown_timeout_s, {0, 1 << 20},
           "after SIGTERM, let running responses continue for at most this many seconds (default 30)")
      ->group(group);
  add_size(app, "--drain-delay", options.drain_delay_s, {0, 1 << 20},
           "after SIGTERM, accept requests for this many seconds while /ready fails, so that load balancers "
           "can react (default 0)")
      ->group(group);
  add_mmproj_option(app, options.mmproj, group);
  add_template_options(app, options.chat_template, group);
  app.add_option_function<std::string>(
         "--reasoning-format", &check_reasoning_format,
         "where reasoning is returned; auto and deepseek: in reasoning_content (default auto)")
      ->type_name("auto|deepseek")
      ->group(group);
  add_size(app, "-n,--predict,--n-predict", options.n_predict, kPredictRange,
           "maximum tokens of a response, unless the request sets it (default -1: no limit)")
      ->group(group);
  const std::string generation = "Generation";
  add_switch(app, "--ignore-eos", options.ignore_eos,
             "continue after end tokens, unless the request sets ignore_eos")
      ->group(generation);
  add_switch(
      app, "--context-shift", options.context_shift,
      "when the context is full, drop the older half of the sequence and continue (default: the response "
      "ends)")
      ->group(generation);
  add_size(app, "--keep", options.n_keep, {0},
           "number of first tokens that --context-shift keeps (default 4)")
      ->group(generation);
  add_choice<std::optional<Pooling>>(
      app, "--pooling", options.pooling,
      {{"mean", Pooling::kMean}, {"cls", Pooling::kCls}, {"last", Pooling::kLast}, {"rank", std::nullopt}},
      "pooling of embeddings, unless the request sets it; rank: the score of a reranker (default: the "
      "model's)")
      ->group(generation);
  add_size(app, "--embd-normalize", options.embedding_norm, {-1, 1024, "-1: not at all"},
           "normalization of embeddings, unless the request sets it; 2: Euclidean, 1: taxicab, 0: the "
           "maximum absolute value becomes 32760, -1: none (default 2)")
      ->group(generation);
  add_switch(app, "--spm-infill", options.suffix_first,
             "put the suffix before the prefix in prompts of /infill, as some models need")
      ->group(generation);
}

}  // namespace

void add_serve_options(CLI::App& app, ServeOptions& options) {
  add_server_options(app, options);
  add_model_options(app, options.model);
  app.remove_option(app.get_option("--model"));
  add_repeated(
      app, "-m,--model", options.models,
      "a GGUF file, a model's folder, or a name in the model cache; may be given again, the first is the "
      "default. Without it: the default model, and all others of the cache on request",
      "FILE")
      ->group("Model");
  add_context_options(app, options.context);
  app.remove_option(app.get_option("--ctx-size"));
  add_size(
      app, "-c,--ctx-size", options.context.n_ctx, {0},
      "tokens in the KV cache, which all requests share (default: by the model and the machine's memory, at "
      "most 128k)")
      ->group("Context");
  add_snapshot_options(app, options.snapshots);
  add_tier_options(app, options.tiers);
  add_speculation_options(app, options.speculation);
  add_sampling_options(app, options.sampling);
  add_verbosity_options(app, options.talk);
  add_verbose_option(app, options.talk);
  add_log_options(app, options.log);
}

}  // namespace weft::cli
