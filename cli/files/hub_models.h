#pragma once
// Hub models by name: downloaded into the model cache at first use.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "options/option_types.h"
#include "pull.h"
#include "terminal/terminal.h"

namespace weft::cli {

/// Downloads a model or its changed files, with a progress bar. Throws Error as fetch::pull, kNotFound
/// without a model cache.
fetch::PulledModel pull_model(const fetch::ModelName& name, const fetch::DownloadParams& params,
                              const Verbosity& talk, const fetch::KeepGoing& keep_going);

/// Finds models as find_cached_model does, and also folders (model_folder.h) and hub models. A downloaded
/// model is used without a network request. A missing one is downloaded if its name contains the hub
/// (hf.co/USER/REPO:TAG, ollama:NAME, an address). Throws Error as find_cached_model and pull_model.
std::filesystem::path find_model(
    std::string_view name, const Verbosity& talk, const fetch::KeepGoing& keep_going = [] { return true; });

/// The name of a model on Hugging Face, given as USER/REPO[:TYPE]. Throws UsageError that names the option.
std::string hub_name(std::string_view option, const std::string& text);

/// --hf-repo, --hf-file and --model-url, which are other ways to name `model`.
void add_hub_options(CLI::App& app, std::string& model, const std::string& group);

}  // namespace weft::cli
