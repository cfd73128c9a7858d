#pragma once
// Options for adapters and control vectors, which are loaded with a model.
#include <string>
#include <vector>

#include "options/option_types.h"
#include "weft/model.h"

namespace weft::cli {

struct AdapterOptions {
  std::vector<std::string> adapters;         ///< "FILE" or "NAME=FILE"
  std::vector<std::string> scaled_adapters;  ///< "FILE:SCALE" or "NAME=FILE:SCALE"
  bool unused = false;
  std::vector<std::string> vectors;         ///< "FILE"
  std::vector<std::string> scaled_vectors;  ///< "FILE:SCALE"
  std::string vector_layers;                ///< "FIRST:LAST"
};

void add_adapter_options(CLI::App& app, AdapterOptions& options);
/// Adds --lora and --lora-scaled alone.
void add_adapter_files(CLI::App& app, AdapterOptions& options, const std::string& group);

/// An adapter as the options have it, in the order in which the model gets them.
struct NamedAdapter {
  AdapterFile file;
  float scale = 1.0f;
  bool named = false;  ///< The option gave a name.
};
/// Throws UsageError.
std::vector<NamedAdapter> named_adapters(const AdapterOptions& options);
/// The adapters of sequences that choose none. `by_name`: named adapters are left out, as requests choose
/// them by name.
std::vector<AdapterUse> usual_adapters(const AdapterOptions& options, bool by_name = false);
/// Adds adapters and control vectors to `params`. Throws UsageError.
void load_with(const AdapterOptions& options, ModelParams& params);

}  // namespace weft::cli
