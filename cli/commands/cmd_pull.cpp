// weft pull: models of hubs into the model cache.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "files/hub_models.h"
#include "files/json_output.h"
#include "files/model_cache.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"

namespace weft::cli {
namespace {

constexpr int kMaxConnections = 64;

struct PullOptions {
  Verbosity talk;
  std::vector<std::string> names;
  fetch::DownloadParams download;
  bool json = false;
};

int run(const PullOptions& options) {
  if (options.names.empty())
    throw UsageError("name a model, e.g. weft pull bartowski/Llama-3.2-1B-Instruct-GGUF");
  std::vector<fetch::ModelName> names;
  for (const std::string& name : options.names) names.push_back(fetch::parse_model_name(name));
  const InterruptGuard interrupt;
  Json array = Json::array();
  for (const fetch::ModelName& name : names) {
    const fetch::PulledModel pulled =
        pull_model(name, options.download, options.talk, [&] { return !interrupt.requested(); });
    array.push_back({{"name", name.text()},
                     {"path", pulled.model.string()},
                     {"mmproj", pulled.vision.empty() ? Json(nullptr) : Json(pulled.vision.string())},
                     {"bytes", pulled.n_bytes}});
    if (!options.json)
      // An address is not repeated: it may hold a password.
      print(fmt::format("{}, {}; weft chat -m {}\n", pulled.model.string(),
                        bytes_text(static_cast<std::uint64_t>(pulled.n_bytes)),
                        name.hub == fetch::Hub::kUrl ? pulled.model.string() : name.text()));
  }
  if (options.json) print(to_text(array, 2));
  return kExitOk;
}

std::function<int()> prepare_pull(CLI::App& app) {
  auto options = std::make_shared<PullOptions>();
  app.add_option("NAME", options->names, "names of models");
  add_size(app, "--connections", options->download.n_connections, {1, kMaxConnections},
           "connections per file (default 4)");
  add_switch(app, "--json", options->json, "print JSON")->group("Output");
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kPullCommand = {
    "pull", "NAME...", "download models into the model cache",
    "Names are\n"
    "  USER/REPO[:TYPE]               of Hugging Face; default type Q4_K_M, or the nearest one\n"
    "  USER/REPO:FILE.gguf            one file of it\n"
    "  ollama:NAME[:TAG]              of Ollama's registry\n"
    "  modelscope.cn/USER/REPO[:TYPE] of ModelScope\n"
    "  https://HOST/FILE.gguf         a file's URL; pages of the hubs mean the files that they show\n"
    "Downloads all parts of a split model and its image encoder, resumes unfinished downloads, and compares "
    "each\n"
    "file with the hub's SHA-256. For a complete model it only asks the hub for changes. Other commands take "
    "the\n"
    "same names: -m for downloaded models, -hf to download a model at first use.\n"
    "\n"
    "HF_TOKEN is sent to Hugging Face, for gated and private models. HF_ENDPOINT, OLLAMA_REGISTRY and\n"
    "MODELSCOPE_ENDPOINT name mirrors. HF_HUB_OFFLINE=1 forbids all requests. https_proxy names a proxy.\n"
    "\n"
    "Examples:\n"
    "  weft pull bartowski/Llama-3.2-1B-Instruct-GGUF\n"
    "  weft pull unsloth/Qwen3-4B-GGUF:Q8_0 ollama:gemma3:1b\n"
    "  weft chat -hf ggml-org/SmolVLM-500M-Instruct-GGUF\n"
    "  weft models --remove unsloth/Qwen3-4B-GGUF/Qwen3-4B-Q8_0\n",
    prepare_pull};

}  // namespace weft::cli
