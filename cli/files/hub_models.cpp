#include "files/hub_models.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <optional>

#include "address.h"
#include "commands/command.h"
#include "files/model_cache.h"
#include "files/model_folder.h"
#include "terminal/text_format.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

/// As Hugging Face's own tools have it.
bool is_offline() {
  const char* const value = std::getenv("HF_HUB_OFFLINE");
  return value != nullptr && *value != '\0' && std::string_view(value) != "0";
}

std::optional<fetch::ModelName> parsed(std::string_view name) {
  try {
    return fetch::parse_model_name(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

fetch::PulledModel pull_model(const fetch::ModelName& name, const fetch::DownloadParams& params,
                              const Verbosity& talk, const fetch::KeepGoing& keep_going) {
  if (model_cache_dir().empty())
    throw Error(ErrorCode::kNotFound, fmt::format("there is no folder for models: {}", model_cache_text()));
  if (is_offline())
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} is not in {}, and HF_HUB_OFFLINE is set", name.text(), model_cache_text()));
  Progress bar(talk, "asking for " + name.text());
  std::string shown;
  const auto on_progress = [&](const std::string& label, fetch::Stage stage, std::int64_t n_bytes,
                               std::int64_t size) {
    const double fraction = size > 0 ? static_cast<double>(n_bytes) / static_cast<double>(size) : 0.0;
    const std::string text = stage == fetch::Stage::kChecking ? "checking " + label
                             : size < 0
                                 ? "asking for " + label
                                 : fmt::format("{}, {}", label, bytes_text(static_cast<std::uint64_t>(size)));
    if (text != shown) bar.begin(shown = text, fraction);
    bar.update(fraction);
    return keep_going();
  };
  return fetch::pull(model_cache_dir(), name, fetch::Hosts::from_environment(), params, on_progress);
}

std::filesystem::path find_model(std::string_view name, const Verbosity& talk,
                                 const fetch::KeepGoing& keep_going) {
  if (const auto file = gguf_in_folder(name)) return *file;
  if (is_model_folder(name)) return converted_model(name, talk, keep_going);
  const auto remote = name.find("://") != name.npos ? fetch::parse_model_name(name) : parsed(name);
  if (remote && fetch::names_hub(name)) {
    if (const auto pulled = fetch::find_pulled(model_cache_dir(), *remote)) return pulled->model;
    return pull_model(*remote, {}, talk, keep_going).model;
  }
  std::error_code ignored;
  if (remote && !std::filesystem::exists(std::filesystem::path(name), ignored))
    if (const auto pulled = fetch::find_pulled(model_cache_dir(), *remote)) return pulled->model;
  try {
    const std::filesystem::path file = find_cached_model(name);
    if (const std::string half = fetch::name_to_finish(file); !half.empty())
      throw Error(
          ErrorCode::kInvalidFile,
          fmt::format("only some files of {} are from its new version; 'weft pull {}' downloads the others",
                      file.string(), half));
    return file;
  } catch (const Error& error) {
    if (!remote || error.code() != ErrorCode::kNotFound) throw;
    throw Error(error.code(), fmt::format("{}; 'weft pull {}' downloads it from Hugging Face, if it is there",
                                          error.what(), remote->text()));
  }
}

std::string hub_name(std::string_view option, const std::string& text) {
  const std::string name = fetch::names_hub(text) ? text : "hf.co/" + text;
  if (!parsed(name))
    throw UsageError(fmt::format("{}: '{}' does not have the form USER/REPO or USER/REPO:Q4_K_M", option,
                                 fetch::shown_address(text)));
  return name;
}

void add_hub_options(CLI::App& app, std::string& model, const std::string& group) {
  const auto add_name = [&model](const std::string& text) {
    if (!model.empty()) throw UsageError("-m and --hf-repo both name a model; give one of them");
    model = hub_name("--hf-repo", text);
  };
  CLI::Option* const repo =
      app.add_option_function<std::string>(
             "--hf-repo", add_name,
             "model on Hugging Face, or ollama:NAME, downloaded at first use (default type: Q4_K_M)")
          ->type_name("USER/REPO[:TYPE]")
          ->group(group);
  app.add_option_function<std::string>(
         "--hf-file",
         [&model](const std::string& file) {
           const auto name = parsed(model);
           if (!name || !name->tag.empty() || !parsed(model + ":" + file) || !file.ends_with(".gguf"))
             throw UsageError(fmt::format(
                 "--hf-file: '{}' is not a GGUF file; give it with --hf-repo USER/REPO without a type",
                 file));
           model += ":" + file;
         },
         "file to use in the repository of --hf-repo")
      ->needs(repo)
      ->type_name("FILE")
      ->group(group);
  app.add_option_function<std::string>(
         "--model-url",
         [&model](const std::string& url) {
           if (url.find("://") == std::string::npos || !parsed(url))
             throw UsageError(
                 fmt::format("--model-url: '{}' is not the URL of a GGUF file", fetch::shown_address(url)));
           model = url;
         },
         "URL of a GGUF file, downloaded at first use")
      ->excludes(repo)
      ->type_name("URL")
      ->group(group);
}

}  // namespace weft::cli
