// weft models: what is in the model cache.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "command.h"
#include "json_output.h"
#include "model_cache.h"
#include "terminal.h"
#include "text_format.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft::cli {
namespace {

int run(bool json) {
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
        "No models in {}. 'make models' fetches two; any GGUF file put there is found by its name.\n",
        model_cache_dir().string()));
  } else {
    print(table_text(rows) + fmt::format("\nin {}; * is used without -m\n", model_cache_dir().string()));
  }
  return kExitOk;
}

std::function<int()> prepare(CLI::App& app) {
  auto json = std::make_shared<bool>(false);
  add_switch(app, "--json", *json, "print one JSON array")->group("Output");
  return [json] { return run(*json); };
}

}  // namespace

const Command kModelsCommand = {"models", "[--json]", "what is in the model cache",
                                "The cache is ${WEFT_CACHE:-$HOME/.cache/weft}/models. -m takes a name from "
                                "here, or a part that only one has.\n"
                                "\nExample:\n  weft models\n",
                                prepare};

}  // namespace weft::cli
