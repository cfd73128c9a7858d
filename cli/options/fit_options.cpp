#include "options/fit_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <system_error>

#include "base/counted.h"
#include "files/hub_models.h"
#include "options/media_options.h"
#include "options/options.h"
#include "options/speculation_options.h"
#include "pull.h"
#include "terminal/text_format.h"
#include "weft/backend/registry.h"

namespace weft::cli {
namespace {

constexpr std::string_view kHost = "cpu";
constexpr int kShortContext = 4096;  // PlacementParams::n_ctx_min
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGpuMargin = 1024 * kMiB;        // As llama.cpp leaves free.
constexpr std::uint64_t kEncoderWorkspace = 256 * kMiB;  // Images of usual sizes take less.

std::uint64_t parse_mib(const std::string& word) {
  std::uint64_t mib = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), mib);
  if (error != std::errc{} || rest != word.data() + word.size() || mib > (std::uint64_t{1} << 30))
    throw UsageError(fmt::format("--fit-target: '{}' is not a number of MiB, e.g. 1024 or 1024,512", word));
  return mib * kMiB;
}

}  // namespace

std::vector<std::uint64_t> parse_fit_target(const std::string& text) {
  std::vector<std::uint64_t> bytes;
  for (const std::string& word : split_at_commas(text)) bytes.push_back(parse_mib(word));
  return bytes;
}

std::vector<std::string> device_names(const ModelOptions& options, const Registry& registry) {
  std::vector<std::string> names;
  const PlacementParams placement = placement_params(options);
  for (const std::string& device : placement.devices)
    if (device != kHost) names.push_back(device.substr(0, device.find('=')));
  if (placement.devices.empty() && placement.n_layers != 0)
    for (const DeviceInfo& gpu : registry.gpus()) names.push_back(gpu.name);
  return names;
}

std::vector<Margin> target_margins(const ModelOptions& options, const Registry& registry) {
  std::vector<Margin> margins;
  if (options.fit_target.empty()) {
    for (const DeviceInfo& gpu : registry.gpus())
      if (gpu.n_threads == 0) margins.push_back({gpu.name, kGpuMargin});
    return margins;
  }
  const std::vector<std::uint64_t>& target = options.fit_target;
  const std::vector<std::string> names = device_names(options, registry);
  if (names.empty() && target.size() == 1) return {{.device = std::string(kHost), .bytes = target.front()}};
  if (target.size() == 1) return {{.device = "", .bytes = target.front()}};
  if (target.size() > names.size())
    throw UsageError(
        fmt::format("--fit-target has {} numbers for {} devices; give one for each, or one for all",
                    target.size(), names.size()));
  for (std::size_t i = 0; i < target.size(); ++i) margins.push_back({names[i], target[i]});
  return margins;
}

OtherMargins margins_beside(const PlacementReport& placed, const Model& model) {
  return [&](const std::filesystem::path&, const Registry&) {
    std::vector<Margin> margins;
    const bool is_mapped = model.info().weights_mapped;  // The system counts pages of files as free.
    for (const PlacementReport::Device& device : placed.devices)
      if (device.name == kHost)
        margins.push_back({device.name, (is_mapped ? device.weights : 0) + device.cache + device.workspace});
    return margins;
  };
}

OtherMargins margins_of_companions(const std::string& mmproj, const SpeculationOptions& speculation,
                                   const ModelOptions& model, const ContextOptions& context) {
  return [&](const std::filesystem::path& file, const Registry& registry) {
    std::vector<Margin> margins;
    const std::vector<std::string> names = device_names(model, registry);
    const std::filesystem::path encoders = mmproj.empty()        ? fetch::find_vision(file)
                                           : mmproj == kNoMmproj ? std::filesystem::path()
                                                                 : std::filesystem::path(mmproj);
    std::error_code error;
    const std::uintmax_t bytes = encoders.empty() ? 0 : std::filesystem::file_size(encoders, error);
    if (bytes > 0 && !error)
      for (const std::string& name : names) margins.push_back({name, bytes + kEncoderWorkspace});
    if (bytes > 0 && !error && names.empty())
      margins.push_back({std::string(kHost), bytes + kEncoderWorkspace});
    if (speculation_of(speculation) != Speculation::kModel) return margins;
    const ModelOptions draft = draft_model_options(speculation, model);
    ContextOptions expected = draft_context_options(speculation, context);
    // The draft's own context may become as short (load_draft).
    if (expected.n_ctx == 0)
      expected.n_ctx = model.placement.n_ctx_min > 0 ? model.placement.n_ctx_min : kShortContext;
    const Verbosity silent{.quiet = true};
    const PlanReport plan =
        inspect_plan(find_model(draft.model, silent), model_params(draft, expected, silent));
    for (const PlanReport::Device& device : plan.devices)
      margins.push_back({device.name, device.weights + device.cache + device.workspace});
    return margins;
  };
}

bool is_worth_a_table(const PlacementReport& report) {
  return report.devices.size() > 1 || report.n_ctx < report.n_ctx_full;
}

std::vector<std::string> to_table(const PlacementReport& report) {
  std::vector<std::vector<std::string>> rows = {
      {"device", "weights", "cache", "workspace", "margin", "free before"}};
  for (const PlacementReport::Device& device : report.devices)
    rows.push_back({device.name, bytes_text(device.weights), bytes_text(device.cache),
                    bytes_text(device.workspace), bytes_text(device.margin), bytes_text(device.free)});
  std::vector<std::string> lines;
  std::istringstream table(table_text(rows));
  for (std::string line; std::getline(table, line);) lines.push_back(line);
  if (report.devices.size() > 1)
    lines.push_back(fmt::format("{} of {} layers are on devices; the CPU has the rest", report.n_layers,
                                report.n_layers_all));
  if (report.n_cpu_moe > 0)
    lines.push_back(fmt::format("the experts of the first {} are on the CPU",
                                base::counted(std::min(report.n_cpu_moe, report.n_layers_all - 1), "layer")));
  if (report.n_ctx < report.n_ctx_full)
    lines.push_back(fmt::format("the context has {} tokens instead of {}, to fit into memory; -c sets it",
                                report.n_ctx, report.n_ctx_full));
  return lines;
}

}  // namespace weft::cli
