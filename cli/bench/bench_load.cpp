#include "bench/bench_load.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "bench/load_report.h"
#include "bench/load_run.h"
#include "http/listening.h"
#include "options/arguments.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/error.h"

namespace weft::cli {

void add_load_options(CLI::App& app, LoadOptions& options) {
  const std::string group = "Server load";
  const auto add_text = [&](const std::string& name, std::string& value, const std::string& type,
                            const std::string& help) {
    app.add_option(name, value, help)->type_name(type)->group(group);
  };
  add_text("--serve", options.url, "URL",
           "load-test the OpenAI-compatible server at this URL. -m names a model of the server (default: the "
           "first listed); -p and -n also take ranges such as 64-512, and default to 128 and 64");
  add_text("--concurrency", options.concurrency, "N,...",
           "number of clients, one or several: 1,8,32. Each sends its next request after a response "
           "(default 8)");
  add_text("--rate", options.rate, "R,...",
           "requests per second, sent at random times (Poisson), in place of --concurrency");
  add_text("--replay", options.replay, "FILE",
           "replay recorded requests: lines of JSON with \"at\" (seconds), \"max_tokens\", and one of "
           "\"messages\", "
           "\"prompt\" and \"prompt_tokens\"");
  add_size(app, "--requests", options.n_requests, {1},
           "stop after this many requests (default 64, or all of --replay)")
      ->group(group);
  add_number(app, "--duration", options.duration_s, {0.0f, 86400.0f},
             "stop sending requests after this many seconds; 0: no limit")
      ->group(group);
  add_text("--endpoint", options.endpoint, "NAME", "chat or completions (default chat)");
  add_size(app, "--shared-prefix", options.shared_prefix, {0, 1 << 20},
           "length in words of a prefix that all prompts share; in chats it is the system prompt (default 0)")
      ->group(group);
  add_number(app, "--long-share", options.long_share, {0.0f, 1.0f},
             "fraction of requests with a long prompt, e.g. 0.1")
      ->group(group);
  add_size(app, "--long-tokens", options.long_tokens, {1, 1 << 20},
           "length in words of a long prompt (default 2048)")
      ->group(group);
  add_text("--schema", options.schema, "FILE", "file with a JSON schema that responses must match");
  add_text("--tools", options.tools, "FILE",
           "file with a JSON list of tools as in OpenAI's API; each response must call one of them");
  add_switch(app, "--ignore-eos", options.ignore_eos,
             "request responses of full length (default: yes, unless there is a schema or there are tools)")
      ->group(group);
  add_text("--api-key", options.api_key, "KEY", "API key of the server, sent as Authorization: Bearer KEY");
  add_size(app, "--warm-up", options.n_warm_up, {0},
           "number of requests to warm up, which are not measured (default 1)")
      ->group(group);
  add_text("--seed", options.seed, "N", "RNG seed of prompts and arrivals (default: random)");
  add_number(app, "--timeout", options.timeout_s, {0.001f, 86400.0f}, "maximum seconds per request")
      ->group(group);
  const float most = std::numeric_limits<float>::max();
  add_number(app, "--slo-ttft", options.slo_ttft_ms, {0.0f, most},
             "goodput: maximum ms to the first token; requests within all limits count; 0: no limit")
      ->group(group);
  add_number(app, "--slo-itl", options.slo_itl_ms, {0.0f, most},
             "goodput: maximum ms per token, as the mean of a request; 0: no limit")
      ->group(group);
  // Not --prompt-tokens and the like: the environment may set them for other commands.
  CLI::Option* const serve = app.get_option("--serve");
  for (const char* name : {"--concurrency", "--rate", "--replay", "--requests", "--duration"})
    app.get_option(name)->needs(serve);
  for (const char* name : {"--prompt-generate", "--shared-prompt", "--plans", "--profile", "--trace"})
    serve->excludes(app.get_option(name));
}

int run_load(LoadOptions options, const BenchOptions& bench) {
  options.prompt_tokens = bench.prompt_sizes;
  options.predict = bench.generate_sizes;
  if (bench.models.size() > 1) throw UsageError("--serve takes one model; give -m once");
  if (!bench.models.empty()) options.model = bench.models.front();
  const LoadPlan plan = parse_load(options);
  server::raise_descriptor_limit();
  const InterruptGuard interrupt;
  LoadClient client(plan);
  Progress bar(bench.talk, "waiting for responses");
  Json rows = Json::array();
  int series = 0;
  bool is_lost = false;
  for (const Arrivals& arrivals : plan.arrivals) {
    if (interrupt.requested()) break;
    const auto n_series = static_cast<double>(plan.arrivals.size());
    const LoadWatch watch = {[&](double part) { bar.update((series + std::min(part, 1.0)) / n_series); },
                             [&] { return interrupt.requested(); }};
    const LoadResult result = client.run(arrivals, series, watch);
    rows.push_back(load_row(plan, client.model(), result));
    ++series;
    is_lost = result.is_lost;
    if (is_lost) break;
  }
  bar.done();
  if (bench.format == "csv") {
    print(to_csv(rows));
  } else if (bench.format == "jsonl") {
    print(to_jsonl(rows));
  } else if (bench.format == "json") {
    print(to_text(Json{{"results", rows}}, 2));
  } else {
    print(to_markdown(rows, load_columns(plan)));
    const std::string errors = load_errors(rows);
    if (!errors.empty()) print("\n" + errors);
  }
  if (interrupt.requested()) return kExitInterrupted;
  if (is_lost) throw Error(ErrorCode::kIo, plan.url + " refuses connections: the load ended early");
  const bool any =
      std::any_of(rows.begin(), rows.end(), [](const Json& row) { return row.at("complete") > 0; });
  return any ? kExitOk : kExitFailure;
}

}  // namespace weft::cli
