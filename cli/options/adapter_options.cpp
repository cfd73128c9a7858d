#include "options/adapter_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "options/arguments.h"

namespace weft::cli {
namespace {

template <typename T>
bool is_number(std::string_view text, T& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

/// "FILE:SCALE"
std::pair<std::string, float> split_scale(const char* option, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  float scale = 0.0f;
  if (colon == std::string::npos || colon == 0 ||
      !is_number(std::string_view(text).substr(colon + 1), scale) || !std::isfinite(scale))
    throw UsageError(
        fmt::format("{} '{}': expected a file and a number, as in {} FILE 0.5", option, text, option));
  return {text.substr(0, colon), scale};
}

bool is_file(const std::string& path) {
  std::error_code ignored;  // A list may be too long for a name.
  return std::filesystem::exists(path, ignored);
}

NamedAdapter adapter_of(const std::string& text, float scale) {
  const std::size_t equals = text.find('=');
  const bool named = equals != std::string::npos && equals > 0 && text.find('/') > equals && !is_file(text);
  const std::string path = named ? text.substr(equals + 1) : text;
  if (!named) return {{.path = text, .name = {}}, scale, false};
  return {{.path = path, .name = text.substr(0, equals)}, scale, true};
}

/// The parts of a list with commas, as llama.cpp has it. A file whose name has commas is one part.
/// `path_of`: the path that a part names.
template <typename PathOf>
std::vector<std::string> parts_of(const std::string& list, PathOf path_of) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t first_end = std::min(list.find(',', begin), list.size());
    std::size_t end = list.size();
    while (end > first_end && !is_file(path_of(list.substr(begin, end - begin))))
      end = list.rfind(',', end - 1);
    if (end > begin) parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts.empty() ? std::vector{list} : parts;
}

std::string path_of_scaled(const std::string& text) {
  return text.substr(0, std::min(text.rfind(':'), text.size()));
}

std::string path_of_adapter(const std::string& text) { return adapter_of(text, 1.0f).file.path.string(); }

/// `note` ends the help of --lora.
void add_lora_options(CLI::App& app, AdapterOptions& options, const std::string& group,
                      const std::string& note) {
  add_repeated(app, "--lora", options.adapters,
               "a LoRA adapter (GGUF), or several with commas between them; may be given again" + note,
               "FILE")
      ->group(group);
  add_repeated(app, "--lora-scaled", options.scaled_adapters,
               "a LoRA adapter and its scale factor, e.g. 0.5, or FILE:SCALE,FILE:SCALE", "FILE SCALE")
      ->group(group);
}

}  // namespace

void add_adapter_files(CLI::App& app, AdapterOptions& options, const std::string& group) {
  add_lora_options(app, options, group, "");
}

void add_adapter_options(CLI::App& app, AdapterOptions& options) {
  const std::string group = "Adapters";
  add_lora_options(app, options, group,
                   ". With 'weft serve', NAME=FILE applies the adapter only to requests whose model is NAME");
  add_switch(app, "--lora-init-without-apply", options.unused,
             "load the adapters but do not apply them, except to requests that name them")
      ->group(group);
  add_repeated(app, "--control-vector", options.vectors,
               "a control vector (GGUF), or several with commas between them; may be given again", "FILE")
      ->group(group);
  add_repeated(app, "--control-vector-scaled", options.scaled_vectors,
               "a control vector and its scale factor, e.g. 0.5, or FILE:SCALE,FILE:SCALE", "FILE SCALE")
      ->group(group);
  app.add_option("--control-vector-layer-range", options.vector_layers,
                 "first and last layer that control vectors are added to (default: all layers)")
      ->type_name("FIRST LAST")
      ->group(group);
}

std::vector<NamedAdapter> named_adapters(const AdapterOptions& options) {
  std::vector<NamedAdapter> adapters;
  for (const std::string& list : options.adapters)
    for (const std::string& text : parts_of(list, path_of_adapter))
      adapters.push_back(adapter_of(text, 1.0f));
  const auto path_of = [](const std::string& text) { return path_of_adapter(path_of_scaled(text)); };
  for (const std::string& list : options.scaled_adapters)
    for (const std::string& text : parts_of(list, path_of)) {
      const auto [file, scale] = split_scale("--lora-scaled", text);
      adapters.push_back(adapter_of(file, scale));
    }
  return adapters;
}

std::vector<AdapterUse> usual_adapters(const AdapterOptions& options, bool by_name) {
  std::vector<AdapterUse> uses;
  if (options.unused) return uses;
  int i = 0;
  for (const NamedAdapter& adapter : named_adapters(options)) {
    if (!by_name || !adapter.named) uses.push_back({i, adapter.scale});
    ++i;
  }
  return uses;
}

void load_with(const AdapterOptions& options, ModelParams& params) {
  for (NamedAdapter& adapter : named_adapters(options)) params.adapters.push_back(std::move(adapter.file));
  for (const std::string& list : options.vectors)
    for (const std::string& path : parts_of(list, [](const std::string& text) { return text; }))
      params.control_vectors.push_back({.path = path, .scale = 1.0f});
  for (const std::string& list : options.scaled_vectors)
    for (const std::string& text : parts_of(list, path_of_scaled)) {
      auto [path, scale] = split_scale("--control-vector-scaled", text);
      params.control_vectors.push_back({.path = std::move(path), .scale = scale});
    }
  if (options.vector_layers.empty()) return;
  const std::string_view range = options.vector_layers;
  const std::size_t colon = std::min(range.find(':'), range.size());
  int& first = params.first_control_layer;
  int& last = params.last_control_layer;
  if (colon == range.size() || !is_number(range.substr(0, colon), first) ||
      !is_number(range.substr(colon + 1), last) || first < 0 || last < first)
    throw UsageError(fmt::format(
        "--control-vector-layer-range '{}': expected the first layer and the last, as in 1 9", range));
}

}  // namespace weft::cli
