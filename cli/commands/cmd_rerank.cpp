// weft rerank: scores documents by their relevance to a query.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "commands/command.h"
#include "files/json_output.h"
#include "files/text_input.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/embedder.h"

namespace weft::cli {
namespace {

struct RerankOptions {
  Verbosity talk;
  ModelOptions model;
  TextInput input;
  std::string query;
  int n_best = 0;
  bool json = false;
};

Json to_json(const std::vector<std::string>& documents, const std::vector<Ranked>& ranked,
             std::size_t n_tokens, const ModelInfo& info) {
  Json results = Json::array();
  for (const Ranked& one : ranked)
    results.push_back({{"index", one.index},
                       {"relevance_score", one.score},
                       {"document", {{"text", documents[to_size(one.index)]}}}});
  return {{"object", "list"},
          {"results", std::move(results)},
          {"model", info.name},
          {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
}

int run(const RerankOptions& options) {
  if (options.query.empty()) throw UsageError("no query: give one with -p TEXT");
  const std::vector<std::string> documents = texts_of(options.input);
  const InterruptGuard interrupt;
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt);
  Embedder embedder(loaded.model, {.n_threads = options.model.n_threads,
                                   .adapters = usual_adapters(options.model.adapters)});
  const RankedTexts result = rank(embedder, options.query, documents);
  std::vector<Ranked> ranked = result.ranked;
  if (options.n_best > 0) ranked.resize(std::min(ranked.size(), to_size(options.n_best)));
  if (options.json) {
    print(to_text(to_json(documents, ranked, result.n_tokens, loaded.model->info())));
    return kExitOk;
  }
  std::string out;
  for (const Ranked& one : ranked)
    out += fmt::format("{:.6f}  {:>4}  {}\n", one.score, one.index, one_line(documents[to_size(one.index)]));
  print(out);
  return kExitOk;
}

std::function<int()> prepare_rerank(CLI::App& app) {
  auto options = std::make_shared<RerankOptions>();
  const std::string group = "Texts";
  app.add_option("-p,--prompt,--query", options->query, "the query to rank documents for")
      ->type_name("TEXT")
      ->group(group);
  add_text_options(app, options->input, "DOCUMENT", "the documents", group);
  add_size(app, "-n,--top-n", options->n_best, {0}, "print only the best N documents (default 0: all)")
      ->group("Output");
  add_switch(app, "--json", options->json, "print one JSON object, in the format of /v1/rerank")
      ->group("Output");
  add_model_options(app, options->model);
  add_verbosity_options(app, options->talk);
  add_verbose_option(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kRerankCommand = {
    "rerank", "-p QUERY [options] [DOCUMENT ...]", "rank documents by how well they match a query",
    "Prints a line for each document, the best one first: its score from 0 to 1, its index from 0, and its\n"
    "text; or JSON. The model must be a reranker (cross-encoder), which reads the query and a document\n"
    "together and has a classifier.\n"
    "\n"
    "Examples:\n"
    "  weft rerank -m bge-reranker.gguf -p \"What do pandas eat?\" \"Bamboo, mostly.\" \"It rains.\"\n"
    "  weft rerank -m bge-reranker.gguf -p \"Who baked first?\" -f lines.txt --top-n 3 --json\n",
    prepare_rerank};

}  // namespace weft::cli
