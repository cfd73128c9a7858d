#include "options/speculation_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "files/hub_models.h"
#include "options/arguments.h"
#include "options/fit_options.h"

namespace weft::cli {
namespace {

/// Without a draft model and without --spec-type.
constexpr Speculation kDefaultSpeculation = Speculation::kNgram;
constexpr std::string_view kDraftLayers = "--gpu-layers-draft";
/// BatcherParams::n_draft, at most.
constexpr int kMostDraftTokens = 64;

/// One of weft's words, or of llama.cpp's.
Speculation parse_speculation_word(std::string_view word) {
  if (word == "none") return Speculation::kNone;
  for (const std::string_view ngram :
       {"ngram", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache"})
    if (word == ngram) return Speculation::kNgram;
  if (word == "draft" || word == "draft-simple") return Speculation::kModel;
  for (const std::string_view head : {"draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"})
    if (word == head)
      throw UsageError(
          fmt::format("--spec-type {}: weft has no draft heads; use ngram, or a smaller model of "
                      "the same family with --model-draft",
                      word));
  throw UsageError(fmt::format("--spec-type: '{}' is not one of none, ngram, draft", word));
}

/// A list of words, as llama.cpp has it. A draft model drafts more than n-grams, so it wins.
Speculation parse_speculation(std::string_view text) {
  Speculation type = Speculation::kNone;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    type = std::max(type, parse_speculation_word(text.substr(begin, comma - begin)));
    begin = comma + 1;
  }
  return type;
}

}  // namespace

void add_speculation_options(CLI::App& app, SpeculationOptions& options) {
  const std::string group = "Speculative decoding";
  app.add_option_function<std::string>(
         "--spec-type", [&options](const std::string& text) { options.type = parse_speculation(text); },
         "what drafts tokens that one step then verifies: n-grams that occurred before, or the draft model "
         "(default: draft with --model-draft, else ngram). The output is the same with all of them")
      ->type_name("none|ngram|draft")
      ->group(group);
  app.add_option("--model-draft", options.model,
                 "draft model: a smaller model with the same vocabulary, named as with --model")
      ->type_name("FILE")
      ->group(group);
  app.add_option_function<std::string>(
         "--hf-repo-draft",
         [&options](const std::string& text) {
           if (!options.model.empty())
             throw UsageError("--model-draft and --hf-repo-draft both name a model; give one of them");
           options.model = hub_name("--hf-repo-draft", text);
         },
         "draft model on Hugging Face, downloaded at first use")
      ->type_name("USER/REPO[:TYPE]")
      ->group(group);
  add_size(app, "--draft-max", options.n_draft, {0, kMostDraftTokens, "0: no drafts"},
           fmt::format("maximum draft tokens per step (default {}); fewer where measured acceptance does not "
                       "pay",
                       options.n_draft))
      ->group(group);
  add_size(app, "--ctx-size-draft", options.n_ctx, {0},
           "context size of the draft model (default: as --ctx-size). Longer sequences get no drafts")
      ->group(group);
  app.add_option_function<std::string>(
         "--gpu-layers-draft",
         [&options](const std::string& text) {
           (void)parse_layers(kDraftLayers, text);
           options.n_layers = text;
         },
         "as --gpu-layers, for the draft model (default: as many as fit)")
      ->type_name("N")
      ->group(group);
  app.add_option("--device-draft", options.devices, "as --device, for the draft model (default: the same)")
      ->type_name("A,B,...")
      ->group(group);
}

std::string why_no_draft_model(const SpeculationOptions& options) {
  if (options.model.empty() || speculation_of(options) == Speculation::kModel) return "";
  const std::string why = options.n_draft == 0                  ? "--draft-max is 0"
                          : options.type == Speculation::kNgram ? "--spec-type is ngram; use draft"
                                                                : "--spec-type is none; use draft";
  return "--model-draft has no effect: " + why;
}

Speculation speculation_of(const SpeculationOptions& options) {
  if (options.type == Speculation::kModel && options.model.empty())
    throw UsageError("--spec-type draft needs a draft model; name one with --model-draft");
  if (options.n_draft == 0) return Speculation::kNone;
  return options.type.value_or(options.model.empty() ? kDefaultSpeculation : Speculation::kModel);
}

BatcherParams batcher_params(const SpeculationOptions& options, std::shared_ptr<Context> draft) {
  BatcherParams params{
      .speculation = speculation_of(options), .n_draft = options.n_draft, .draft = std::move(draft)};
  if (params.speculation == Speculation::kModel && params.draft == nullptr)
    params.speculation = Speculation::kNone;
  return params;
}

ModelOptions draft_model_options(const SpeculationOptions& options, const ModelOptions& model) {
  ModelOptions draft = model;
  draft.model = options.model;
  draft.pre_tokenizer.clear();
  draft.chat_template.clear();
  draft.adapters = {};
  draft.pins.clear();
  draft.shares.clear();
  draft.n_layers = options.n_layers;
  draft.layers_option = kDraftLayers;
  if (!options.devices.empty()) draft.devices = options.devices;
  return draft;
}

ContextOptions draft_context_options(const SpeculationOptions& options, ContextOptions context) {
  context.n_outputs = 0;
  if (options.n_ctx > 0) context.n_ctx = options.n_ctx;
  return context;
}

ContextParams draft_context_params(const SpeculationOptions& options, const ContextParams& model) {
  ContextParams draft = model;
  draft.adapters.clear();
  draft.n_outputs = 0;
  draft.n_best = ContextParams{}.n_best;  // It may be on other devices.
  if (options.n_ctx > 0) draft.n_ctx = options.n_ctx;
  return draft;
}

std::shared_ptr<Context> load_draft(const SpeculationOptions& options, const GenerationOptions& generation,
                                    const PlacementReport& placed, const Context& context,
                                    const InterruptGuard& interrupt) {
  if (const std::string why = why_no_draft_model(options); !why.empty())
    note(generation.talk, "weft: note: " + why);
  if (speculation_of(options) != Speculation::kModel) return nullptr;
  const LoadedModel loaded =
      load_model(draft_model_options(options, generation.model), generation.talk, interrupt,
                 draft_context_options(options, generation.context), margins_beside(placed, context.model()));
  ContextParams params = draft_context_params(options, context.params());
  if (const int n_fit = loaded.model->info().n_ctx_fit; n_fit > 0)
    params.n_ctx = std::min(params.n_ctx, n_fit);
  return std::make_shared<Context>(loaded.model, params, context);
}

int n_branch_sequences(const SpeculationOptions& options, const ModelInfo& model) {
  const bool drafts = speculation_of(options) != Speculation::kNone;
  return drafts && !model.recurrent && !model.reads_source ? BatcherParams{}.n_draft_branches : 0;
}

int n_draft_states(const SpeculationOptions& options, int n_running) {
  return speculation_of(options) == Speculation::kNone ? 0 : state_rewind_for(options.n_draft, n_running);
}

}  // namespace weft::cli
