#pragma once
// Options for what is loaded with a model: adapters and control vectors.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "weft/model.h"

namespace weft::cli {

struct AdapterOptions {
  std::vector<std::string> adapters;         ///< "FILE" or "NAME=FILE"
  std::vector<std::string> scaled_adapters;  ///< The same with ":SCALE" behind it.
  bool unused = false;
  std::vector<std::string> vectors;         ///< "FILE"
  std::vector<std::string> scaled_vectors;  ///< "FILE:SCALE"
  std::string vector_layers;                ///< "FIRST:LAST"
};

void add_adapter_options(CLI::App& app, AdapterOptions& options);
/// Of those, --lora and --lora-scaled alone.
void add_adapter_files(CLI::App& app, AdapterOptions& options, const std::string& group);

/// An adapter as the options have it, in the order in which the model gets them.
struct NamedAdapter {
  AdapterFile file;
  float scale = 1.0f;
  bool named = false;  ///< By the options.
};
/// Throws UsageError.
std::vector<NamedAdapter> named_adapters(const AdapterOptions& options);
/// What texts are written with, where nobody says. `by_name`: requests ask for those with a name.
std::vector<AdapterUse> usual_adapters(const AdapterOptions& options, bool by_name = false);
/// Adds them to what is loaded. Throws UsageError.
void load_with(const AdapterOptions& options, ModelParams& params);

}  // namespace weft::cli
