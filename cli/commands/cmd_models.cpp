// weft models: lists the model cache and its packed weights.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "commands/command.h"
#include "files/json_output.h"
#include "files/model_cache.h"
#include "options/arguments.h"
#include "pull.h"
#include "terminal/terminal.h"
#include "terminal/text_format.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft::cli {
namespace {

struct ModelsOptions {
  bool json = false;
  bool packed = false;
  bool clear_packed = false;
  std::vector<std::string> removed;
};

std::uint64_t total_bytes(const std::vector<PackedWeights>& files) {
  return std::accumulate(files.begin(), files.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const PackedWeights& file) { return sum + file.bytes; });
}

int list_packed(bool json) {
  const std::vector<PackedWeights> files = packed_weights();
  Json array = Json::array();
  std::vector<std::vector<std::string>> rows = {{"MODEL", "SIZE", "LAST USED (UTC)"}};
  for (const PackedWeights& file : files) {
    const std::tm used = fmt::gmtime(std::chrono::system_clock::to_time_t(file.last_used));
    array.push_back({{"model", file.model},
                     {"path", file.path.string()},
                     {"bytes", file.bytes},
                     {"last_used", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", used)}});
    rows.push_back({file.model, bytes_text(file.bytes), fmt::format("{:%Y-%m-%d %H:%M}", used)});
  }
  if (json) {
    print(to_text(array, 2));
  } else if (files.empty()) {
    print("No packed weights are kept.\n");
  } else {
    print(table_text(rows) + fmt::format("\n{} in {}; 'weft models --clear-packed' removes them\n",
                                         bytes_text(total_bytes(files)), packed_cache_dir().string()));
  }
  return kExitOk;
}

int clear_packed(bool json) {
  const std::vector<PackedWeights> files = clear_packed_weights();
  if (json) {
    print(to_text(Json{{"files", files.size()}, {"bytes", total_bytes(files)}}, 2));
  } else {
    print(fmt::format("Removed the packed weights of {} model{}, {}.\n", files.size(),
                      files.size() == 1 ? "" : "s", bytes_text(total_bytes(files))));
  }
  return kExitOk;
}

int list_models(bool json) {
  const std::vector<CachedModel> models = cached_models();
  Json array = Json::array();
  std::vector<std::vector<std::string>> rows = {{"", "NAME", "SIZE", "PARAMETERS", "TYPE", "ARCHITECTURE"}};
  for (const CachedModel& model : models) {
    Json entry = {{"name", model.name}, {"path", model.path.string()}, {"default", model.is_default}};
    const std::string mark = model.is_default ? "*" : "";
    // One damaged file must not hide the others.
    try {
      const FileInfo file = inspect(model.path);
      entry["file_bytes"] = file.file_bytes;
      if (file.model) {
        entry["architecture"] = file.model->architecture;
        entry["parameters"] = file.model->n_parameters;
        entry["quantisation"] = file.model->quantisation;
        rows.push_back({mark, model.name, bytes_text(file.file_bytes), count_text(file.model->n_parameters),
                        file.model->quantisation, file.model->architecture});
      } else {
        entry["problem"] = file.problem;
        rows.push_back({mark, model.name, bytes_text(file.file_bytes), "-", "-", file.problem});
      }
    } catch (const Error& error) {
      entry["problem"] = error.what();
      rows.push_back({mark, model.name, "-", "-", "-", error.what()});
    }
    array.push_back(std::move(entry));
  }
  if (json) {
    print(to_text(array, 2));
  } else if (models.empty()) {
    print(fmt::format(
        "No models in {}. 'weft pull' fetches some; any GGUF file put there is found by its name.\n",
        model_cache_text()));
  } else {
    print(table_text(rows) + fmt::format("\nin {}; * is used without -m\n", model_cache_text()));
  }
  return kExitOk;
}

int remove_models(const std::vector<std::string>& names, bool json) {
  // All names are known before anything is removed.
  std::vector<CachedModel> chosen;
  for (const std::string& name : names) {
    const std::vector<CachedModel> models = cached_models();
    const auto found = std::find_if(models.begin(), models.end(), [&](const CachedModel& model) {
      return model.name == name || model.path == std::filesystem::path(name);
    });
    if (found == models.end())
      throw Error(ErrorCode::kNotFound,
                  fmt::format("there is no model '{}' in {}; give a whole name, as 'weft models' lists it",
                              name, model_cache_text()));
    chosen.push_back(*found);
  }
  Json array = Json::array();
  for (const CachedModel& model : chosen) {
    const auto n_bytes = static_cast<std::uint64_t>(fetch::remove_model(model_cache_dir(), model.path));
    array.push_back({{"name", model.name}, {"bytes", n_bytes}});
    if (!json) print(fmt::format("Removed {}, {}.\n", model.name, bytes_text(n_bytes)));
  }
  if (json) print(to_text(array, 2));
  return kExitOk;
}

int run(const ModelsOptions& options) {
  if (!options.removed.empty()) return remove_models(options.removed, options.json);
  if (options.clear_packed) return clear_packed(options.json);
  return options.packed ? list_packed(options.json) : list_models(options.json);
}

std::function<int()> prepare_models(CLI::App& app) {
  auto options = std::make_shared<ModelsOptions>();
  CLI::Option* const packed =
      add_switch(app, "--packed", options->packed,
                 "list the packed weights, which are kept for fast starts, and their sizes");
  add_switch(app, "--clear-packed", options->clear_packed,
             "remove all packed weights; the next start packs them again")
      ->excludes(packed);
  add_repeated(app, "--remove", options->removed, "remove the model with this whole name; may be given again",
               "NAME")
      ->excludes(packed);
  add_switch(app, "--json", options->json, "print JSON")->group("Output");
  return [options] { return run(*options); };
}

}  // namespace

const Command kModelsCommand = {
    "models", "[--packed | --clear-packed | --remove NAME] [--json]", "list the models in the cache",
    "The cache is ${WEFT_CACHE:-$HOME/.cache/weft}/models. -m takes a name from this list, or a unique part\n"
    "of one. Packed weights of the models that were used are kept in\n"
    "${WEFT_CACHE:-$HOME/.cache/weft}/packed.\n"
    "\n"
    "Examples:\n"
    "  weft models\n"
    "  weft models --packed\n"
    "  weft models --remove USER/REPO/FILE\n",
    prepare_models};

}  // namespace weft::cli
