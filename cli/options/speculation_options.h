#pragma once
// Options of speculative decoding, for commands that generate.
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "options/option_types.h"
#include "options/options.h"
#include "terminal/terminal.h"
#include "weft/batcher.h"
#include "weft/context.h"
#include "weft/model.h"

namespace weft::cli {

struct SpeculationOptions {
  std::optional<Speculation> type;  ///< Nothing: kModel with a draft model, else the default.
  int n_draft = BatcherParams{}.n_draft;
  std::string model;              ///< Of the draft model; empty: none.
  std::string devices, n_layers;  ///< For it; empty: as for the model.
  int n_ctx = 0;                  ///< Of its context; 0: as of the model's.
};
void add_speculation_options(CLI::App& app, SpeculationOptions& options);

/// Why the draft model that the options name is not used; "": it is, or there is none.
std::string why_no_draft_model(const SpeculationOptions& options);
/// Throws UsageError if the options contradict each other.
Speculation speculation_of(const SpeculationOptions& options);
/// Parameters of a batcher with these drafts.
BatcherParams batcher_params(const SpeculationOptions& options, std::shared_ptr<Context> draft);
/// The options that load the draft model: the options of the model, without its adapters and pins.
ModelOptions draft_model_options(const SpeculationOptions& options, const ModelOptions& model);
/// The parameters of the draft model's context, made from the parameters `model` of the model's context.
ContextParams draft_context_params(const SpeculationOptions& options, const ContextParams& model);
/// Loads the draft model, if the options have one, with a context that takes turns with `context`. `placed`
/// is where the main model is. Notes on stderr if the options name a draft model without use.
std::shared_ptr<Context> load_draft(const SpeculationOptions& options, const GenerationOptions& generation,
                                    const PlacementReport& placed, const Context& context,
                                    const InterruptGuard& interrupt);
/// The draft model's context, as placement expects it. `context`: the model's own.
ContextOptions draft_context_options(const SpeculationOptions& options, ContextOptions context);
/// ContextParams::state_rewind for the drafts of `n_running` completions at a time.
int n_draft_states(const SpeculationOptions& options, int n_running);
/// Sequences for the branches of one completion's drafts. 0 if its drafts have no branches.
int n_branch_sequences(const SpeculationOptions& options, const ModelInfo& model);

}  // namespace weft::cli
