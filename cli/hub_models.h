#pragma once
// Models of hubs by their names: fetched into the model cache when they are first asked for.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "pull.h"
#include "terminal.h"

namespace weft::cli {

/// Fetches a model, or what has changed of it, with a progress bar. Throws Error as fetch::pull, kNotFound
/// where there is no model cache.
fetch::PulledModel pull_model(const fetch::ModelName& name, const fetch::DownloadParams& params,
                              const Talk& talk, const fetch::KeepGoing& keep_going);

/// As find_cached_model, folders (model_folder.h), and names of hubs: a model that was fetched is taken as it
/// is, without asking anybody; one whose name says its hub (hf.co/USER/REPO:TAG, ollama:NAME, an address) is
/// fetched. Throws Error as both.
std::filesystem::path find_model(
    std::string_view name, const Talk& talk, const fetch::KeepGoing& keep_going = [] { return true; });

/// --hf-repo, --hf-file and --model-url, which are other ways to name `model`.
void add_hub_options(CLI::App& app, std::string& model, const std::string& group);

}  // namespace weft::cli
