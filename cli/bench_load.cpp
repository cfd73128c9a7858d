#include "bench_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "arguments.h"
#include "http/listening.h"
#include "interrupt.h"
#include "load_report.h"
#include "load_run.h"
#include "terminal.h"
#include "text_format.h"
#include "weft/error.h"

namespace weft::cli {

void add_load_options(CLI::App& app, LoadOptions& options) {
  const std::string group = "Load of a server";
  const auto add_text = [&](const std::string& name, std::string& value, const std::string& type,
                            const std::string& help) {
    app.add_option(name, value, help)->type_name(type)->group(group);
  };
  add_text("--serve", options.url, "URL",
           "load-test this OpenAI-compatible server; -m: the model's name there (default: the first listed); "
           "-p and -n also take ranges such as 64-512 (default 128, 64)");
  add_text("--concurrency", options.concurrency, "N,...",
           "number of clients, which each send their next request after a response; or several: 1,8,32 "
           "(default 8)");
  add_text("--rate", options.rate, "R,...", "requests per second at random times, instead of --concurrency");
  add_text("--replay", options.replay, "FILE",
           "requests as recorded: lines of JSON with \"at\" (seconds), \"messages\", \"prompt\" or "
           "\"prompt_tokens\", "
           "\"max_tokens\"");
  add_size(app, "--requests", options.n_requests, {1},
           "stop after this many requests (default 64, or all of --replay)")
      ->group(group);
  add_number(app, "--duration", options.duration_s, {0.0f, 86400.0f},
             "send no more requests after this many seconds")
      ->group(group);
  add_text("--endpoint", options.endpoint, "NAME", "chat or completions (default chat)");
  add_size(app, "--shared-prefix", options.shared_prefix, {0, 1 << 20},
           "words of a prefix that all prompts share; in chats the system prompt")
      ->group(group);
  add_number(app, "--long-share", options.long_share, {0.0f, 1.0f},
             "share of requests with a long prompt, e.g. 0.1")
      ->group(group);
  add_size(app, "--long-tokens", options.long_tokens, {1, 1 << 20}, "words of a long prompt (default 2048)")
      ->group(group);
  add_text("--schema", options.schema, "FILE", "constrain responses to this JSON schema");
  add_text("--tools", options.tools, "FILE",
           "responses call one of these tools: a JSON list as in OpenAI's API");
  add_switch(app, "--ignore-eos", options.ignore_eos,
             "ask for responses of full length (default, without a schema or tools)")
      ->group(group);
  add_text("--api-key", options.api_key, "KEY", "sent as Authorization: Bearer KEY");
  add_size(app, "--warm-up", options.n_warm_up, {0}, "unmeasured requests to warm up (default 1)")
      ->group(group);
  add_text("--seed", options.seed, "N", "RNG seed of prompts and arrivals (default: random)");
  add_number(app, "--timeout", options.timeout_s, {0.001f, 86400.0f},
             "most seconds per request (default 600)")
      ->group(group);
  const float most = std::numeric_limits<float>::max();
  add_number(app, "--slo-ttft", options.slo_ttft_ms, {0.0f, most},
             "goodput: requests whose first token comes within this many ms")
      ->group(group);
  add_number(app, "--slo-itl", options.slo_itl_ms, {0.0f, most},
             "goodput: and whose tokens take at most this many ms each, on average")
      ->group(group);
  // Not --prompt-tokens and the like: the environment may set them for other commands.
  CLI::Option* const serve = app.get_option("--serve");
  for (const char* name : {"--concurrency", "--rate", "--replay", "--requests", "--duration"})
    app.get_option(name)->needs(serve);
  for (const char* name :
       {"--prompt-generate", "--shared-prompt", "--plans", "--profile", "--trace", "--plot"})
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
