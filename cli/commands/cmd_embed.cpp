// weft embed: computes embeddings.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "commands/command.h"
#include "files/json_output.h"
#include "files/text_input.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "weft/embedder.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

struct EmbedOptions {
  Verbosity talk;
  ModelOptions model;
  TextInput input;
  std::optional<Pooling> pooling;
  int n_dimensions = 0;
  int n_batch = 64;
  int n_tokens = 0;
  bool normalize = true;
  bool truncate = false;
  bool json = false;
};

struct Embedded {
  // For each input one vector, or with Pooling::kNone one for each token.
  std::vector<std::vector<float>> vectors;
  std::vector<std::size_t> n_tokens;
  double ms = 0.0;
};

Embedded embed(Embedder& embedder, const EmbedOptions& options, const std::vector<std::string>& texts,
               const InterruptGuard& interrupt) {
  const Tokenizer& tokenizer = embedder.model().tokenizer();
  const Pooling pooling = options.pooling.value_or(embedder.model().info().pooling);
  const auto n_columns = to_size(embedder.dimensions());
  const std::size_t n_kept = options.n_dimensions == 0 ? n_columns : to_size(options.n_dimensions);
  Embedded result;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t begin = 0; begin < texts.size(); begin += to_size(options.n_batch)) {
    if (interrupt.requested()) throw Error(ErrorCode::kCancelled, "interrupted");
    const std::size_t end = std::min(texts.size(), begin + to_size(options.n_batch));
    std::vector<std::vector<Token>> tokens;
    std::vector<TextTokens> batch;
    for (std::size_t i = begin; i < end; ++i) {
      tokens.push_back(tokens_of_text(tokenizer, texts[i]));
      if (options.truncate)
        tokens.back() = cut_tokens(tokenizer, std::move(tokens.back()), embedder.max_tokens());
      if (tokens.back().size() > to_size(embedder.max_tokens()))
        throw Error(ErrorCode::kInvalidArgument, fmt::format("input {} (counting from 0) has {} tokens, but "
                                                             "the limit is {}; shorten it, or use --truncate",
                                                             i, tokens.back().size(), embedder.max_tokens()));
      if (tokens.back().empty())
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("input {} (counting from 0) is empty, and the model adds no BOS token", i));
      result.n_tokens.push_back(tokens.back().size());
    }
    for (const std::vector<Token>& one : tokens) batch.push_back({one});
    const std::vector<float> vectors = embedder.embed(batch, pooling);
    auto from = vectors.begin();
    for (const std::vector<Token>& one : tokens) {
      std::vector<float>& kept = result.vectors.emplace_back();
      for (std::size_t row = 0; row < (pooling == Pooling::kNone ? one.size() : 1); ++row) {
        kept.insert(kept.end(), from, from + static_cast<std::ptrdiff_t>(n_kept));
        if (options.normalize) normalise(std::span(kept).last(n_kept));
        from += static_cast<std::ptrdiff_t>(n_columns);
      }
    }
  }
  result.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Json to_json(const Embedded& embedded, std::size_t n_columns, bool tokens_apart, const ModelInfo& info) {
  Json data = Json::array();
  std::size_t n_tokens = 0;
  for (std::size_t i = 0; i < embedded.vectors.size(); ++i) {
    const std::vector<float>& vector = embedded.vectors[i];
    Json value = Json::array();
    if (!tokens_apart) value = vector;
    for (std::size_t at = 0; tokens_apart && at < vector.size(); at += n_columns)
      value.push_back(std::vector<float>(vector.begin() + static_cast<std::ptrdiff_t>(at),
                                         vector.begin() + static_cast<std::ptrdiff_t>(at + n_columns)));
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", std::move(value)}});
    n_tokens += embedded.n_tokens[i];
  }
  const auto n_texts = static_cast<double>(embedded.vectors.size());
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", info.name},
          {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}},
          {"timings",
           {{"ms", embedded.ms},
            {"texts_per_second", n_texts / std::max(embedded.ms, 1e-3) * 1e3},
            {"tokens_per_second", static_cast<double>(n_tokens) / std::max(embedded.ms, 1e-3) * 1e3}}}};
}

int run(const EmbedOptions& options) {
  const std::vector<std::string> texts = texts_of(options.input);
  const InterruptGuard interrupt;
  const LoadedModel loaded = load_model(options.model, options.talk, interrupt);
  Embedder embedder(loaded.model, {.n_tokens = options.n_tokens,
                                   .n_threads = options.model.n_threads,
                                   .adapters = usual_adapters(options.model.adapters)});
  if (options.n_dimensions > embedder.dimensions())
    throw UsageError(fmt::format("--dimensions: {} is more than the {} of the model's vectors",
                                 options.n_dimensions, embedder.dimensions()));
  const Embedded embedded = embed(embedder, options, texts, interrupt);
  const bool tokens_apart = options.pooling.value_or(loaded.model->info().pooling) == Pooling::kNone;
  const auto n_columns = to_size(options.n_dimensions == 0 ? embedder.dimensions() : options.n_dimensions);
  if (options.json) {
    print(to_text(to_json(embedded, n_columns, tokens_apart, loaded.model->info())));
  } else {
    std::string out;
    for (const std::vector<float>& vector : embedded.vectors)
      for (std::size_t i = 0; i < vector.size(); ++i)
        out += fmt::format("{:.8g}{}", vector[i], (i + 1) % n_columns == 0 ? '\n' : ' ');
    print(out);
  }
  if (options.talk.verbose)
    note(options.talk, fmt::format("{} inputs in {:.1f} ms: {:.1f} a second", texts.size(), embedded.ms,
                                   static_cast<double>(texts.size()) / std::max(embedded.ms, 1e-3) * 1e3));
  return kExitOk;
}

std::function<int()> prepare_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  const std::string group = "Input";
  add_text_options(app, options->input, "TEXT", "the texts", group);
  add_switch(app, "--truncate", options->truncate, "truncate inputs that are longer than the model's limit")
      ->group(group);
  add_size(app, "-c,--ctx-size", options->n_tokens, {0},
           "maximum tokens of an input (default 0: the model's limit, at most 8192)")
      ->group(group);
  add_size(app, "-b,--batch-size", options->n_batch, {1, 1 << 20}, "inputs per batch (default 64)")
      ->group(group);
  const std::string vectors = "Vectors";
  const auto set_pooling = [options = options.get()](const std::string& word) {
    static const std::map<std::string, Pooling> kWords = {
        {"none", Pooling::kNone}, {"mean", Pooling::kMean}, {"cls", Pooling::kCls}, {"last", Pooling::kLast}};
    options->pooling = parse_choice("--pooling", word, kWords);
  };
  app.add_option_function<std::string>("--pooling", set_pooling,
                                       "pooling of the token vectors: mean, cls (the first), last, or none "
                                       "to print all vectors (default: the model's, else mean)")
      ->type_name("none|mean|cls|last")
      ->group(vectors);
  add_size(app, "--dimensions", options->n_dimensions, {0},
           "keep the first N dimensions, for models trained for that (default 0: all)")
      ->group(vectors);
  add_switch(app, "--normalize", options->normalize, "scale each vector to length 1 (default)")
      ->group(vectors);
  add_switch(app, "--json", options->json, "print one JSON object, in the format of /v1/embeddings")
      ->group("Output");
  add_model_options(app, options->model);
  add_verbosity_options(app, options->talk);
  add_verbose_option(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kEmbedCommand = {
    "embed", "[options] [TEXT ...]", "compute embeddings of texts",
    "Prints a vector per line, for each input or, with --pooling none, for each token; or JSON. Embedding\n"
    "models such as BERT use bidirectional attention. For other models weft pools the last hidden states.\n"
    "Inputs and lines may be empty.\n"
    "\n"
    "Examples:\n"
    "  weft embed -m all-MiniLM-L6-v2.gguf \"A cat sits on the mat.\" \"A kitten rests on a rug.\"\n"
    "  weft embed -m embeddinggemma.gguf -f lines.txt --dimensions 256 --json\n",
    prepare_embed};

}  // namespace weft::cli
