// weft inspect: shows the contents of a GGUF file.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands/command.h"
#include "files/hub_models.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "options/fit_options.h"
#include "options/options.h"
#include "serving/cluster_plan.h"
#include "terminal/text_format.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft::cli {
namespace {

struct InspectOptions {
  Verbosity talk;
  std::string file;
  std::string model;
  ContextOptions context;
  bool json = false;
  bool tensors = false;
  bool plan = false;
  std::string nodes;
  std::string drawing;
  ModelOptions devices;
};

struct TypeSum {
  int n_tensors = 0;
  std::uint64_t bytes = 0;
};

Json to_json(const FileInfo& file, const std::map<std::string, TypeSum>& types) {
  Json json;
  json["version"] = file.version;
  json["parts"] = file.n_parts;
  json["file_bytes"] = file.file_bytes;
  if (file.model) {
    const ModelInfo& m = *file.model;
    json["model"] = {{"name", m.name},
                     {"architecture", m.architecture},
                     {"quantisation", m.quantisation},
                     {"parameters", m.n_parameters},
                     {"vocabulary", m.n_vocab},
                     {"context", m.n_ctx_train},
                     {"embedding", m.n_embd},
                     {"layers", m.n_layers},
                     {"heads", m.n_heads},
                     {"kv_heads", m.n_kv_heads}};
    json["memory"] = {{"context", file.cache.n_ctx},
                      {"weight_bytes", m.weight_bytes},
                      {"cache_bytes", file.cache.bytes},
                      {"cache_bytes_per_token", file.cache.bytes_per_token},
                      {"cache_type", file.cache.type}};
  } else {
    json["model"] = nullptr;
    json["problem"] = file.problem;
  }
  json["types"] = Json::object();
  for (const auto& [type, sum] : types)
    json["types"][type] = {{"tensors", sum.n_tensors}, {"bytes", sum.bytes}};
  json["metadata"] = Json::array();
  for (const FileInfo::Entry& entry : file.metadata) {
    json["metadata"].push_back({{"key", entry.key}, {"type", entry.type}, {"value", entry.value}});
  }
  json["tensors"] = Json::array();
  for (const FileInfo::Tensor& tensor : file.tensors) {
    json["tensors"].push_back(
        {{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape}, {"bytes", tensor.bytes}});
  }
  return json;
}

// Describes the growth of a cache.
std::string growth_of(const FileInfo::Cache& cache, const ModelInfo& model) {
  if (cache.bytes_per_token == 0) return ", at any length";
  const std::string growth = fmt::format("{} a token", bytes_text(cache.bytes_per_token));
  const bool grows_so_from_the_start = model.window == 0 && !model.recurrent;
  return fmt::format(" ({}{})", growth,
                     grows_so_from_the_start ? "" : ", in addition to layers with windows or states");
}

std::string to_report(const FileInfo& file, const std::map<std::string, TypeSum>& types,
                      const InspectOptions& options) {
  const bool color = use_color(options.talk.color, 1);
  const auto heading = [color](std::string_view text) { return "\n" + styled(text, kBold, color) + "\n"; };

  std::string out;
  if (file.model) {
    const ModelInfo& m = *file.model;
    out += table_text(
        {{"  name", m.name},
         {"  architecture", m.architecture},
         {"  parameters", count_text(m.n_parameters)},
         {"  weights", m.quantisation},
         {"  layers",
          fmt::format("{} of width {}, ", m.n_layers, m.n_embd) +
              (m.n_heads > 0 ? fmt::format("{} heads, {} for keys and values", m.n_heads, m.n_kv_heads)
                             : "no attention")},
         {"  vocabulary", fmt::format("{} tokens", m.n_vocab)},
         {"  context", m.n_ctx_train > 0 ? fmt::format("{} tokens", m.n_ctx_train) : "unknown"},
         {"  file", fmt::format("{}, GGUF version {}, {} {}", bytes_text(file.file_bytes), file.version,
                                file.n_parts, file.n_parts == 1 ? "part" : "parts")}});
    out += heading("Memory");
    const FileInfo::Cache& cache = file.cache;
    const auto weights = static_cast<std::uint64_t>(m.weight_bytes);
    out += table_text({{"  weights", bytes_text(weights)},
                       {"  cache", fmt::format("{} for {} tokens{}{}", bytes_text(cache.bytes), cache.n_ctx,
                                               cache.type.empty() ? "" : " in ", cache.type) +
                                       growth_of(cache, m)},
                       {"  together", bytes_text(weights + cache.bytes)}});
  } else {
    out += fmt::format("  GGUF version {}, {}\n  not a model that weft can run: {}\n", file.version,
                       bytes_text(file.file_bytes), printable(file.problem));
  }

  out += heading(fmt::format("Tensors: {}", file.tensors.size()));
  std::vector<std::vector<std::string>> rows;
  for (const auto& [type, sum] : types) {
    rows.push_back({"  " + type, fmt::format("{}", sum.n_tensors), bytes_text(sum.bytes)});
  }
  out += table_text(rows);
  if (options.tensors) {
    rows.clear();
    for (const FileInfo::Tensor& tensor : file.tensors) {
      rows.push_back({"  " + tensor.name, tensor.type, fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
                      bytes_text(tensor.bytes)});
    }
    out += "\n" + table_text(rows);
  }

  out += heading(fmt::format("Metadata: {}", file.metadata.size()));
  rows.clear();
  for (const FileInfo::Entry& entry : file.metadata)
    rows.push_back({"  " + entry.key, entry.type, entry.value});
  return out + table_text(rows);
}

Json to_json(const PlanReport& plan) {
  Json json;
  json["devices"] = Json::array();
  for (const PlanReport::Device& device : plan.devices)
    json["devices"].push_back({{"name", device.name},
                               {"weights", device.weights},
                               {"cache", device.cache},
                               {"workspace", device.workspace},
                               {"margin", device.margin},
                               {"free", device.free}});
  json["layers"] = plan.n_layers;
  json["cpu_moe_layers"] = plan.n_cpu_moe;
  json["context"] = plan.n_ctx;
  json["splits"] = Json::array();
  for (const PlanReport::Split& split : plan.splits)
    json["splits"].push_back(
        {{"device", split.device}, {"nodes", split.n_nodes}, {"first", split.first}, {"last", split.last}});
  json["copies"] = Json::array();
  for (const PlanReport::Copy& copy : plan.copies)
    json["copies"].push_back({{"value", copy.value},
                              {"from", copy.from},
                              {"to", copy.to},
                              {"bytes", copy.bytes},
                              {"before", copy.before}});
  return json;
}

std::string to_report(const PlanReport& plan, const Verbosity& talk) {
  const bool color = use_color(talk.color, 1);
  const auto heading = [color](std::string_view text) { return styled(text, kBold, color) + "\n"; };
  std::string out = heading("Memory");
  for (const std::string& line : to_table(plan)) out += "  " + line + "\n";
  std::uint64_t bytes = 0;
  for (const PlanReport::Copy& copy : plan.copies) bytes += copy.bytes;
  out += "\n" + heading(fmt::format("Splits: {}, with {} copies ({}) in a step of one token",
                                    plan.splits.size(), plan.copies.size(), bytes_text(bytes)));
  for (std::size_t s = 0; s < plan.splits.size(); ++s) {
    for (const PlanReport::Copy& copy : plan.copies)
      if (copy.before == static_cast<int>(s))
        out += fmt::format("     {} {} -> {}, {}\n", copy.value, copy.from, copy.to, bytes_text(copy.bytes));
    const PlanReport::Split& split = plan.splits[s];
    out += fmt::format("{:3}  {}: {} nodes, {} to {}\n", s, split.device, split.n_nodes, split.first,
                       split.last);
  }
  return out;
}

/// Draws with Graphviz. Without Graphviz only its input file remains, next to `path`.
void draw(const PlanReport& plan, const std::string& path) {
  const std::string source = path + ".dot";
  {
    std::ofstream file(source);
    file << plan.drawing;
    if (!file.flush()) throw Error(ErrorCode::kIo, fmt::format("cannot write '{}'", source));
  }
  std::string words[] = {"dot", "-Tsvg", "-o", path, source};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(),
                       words[3].data(), words[4].data(), nullptr};
  pid_t child = 0;
  if (posix_spawnp(&child, "dot", nullptr, nullptr, arguments, environ) != 0)
    throw Error(ErrorCode::kNotFound,
                fmt::format("--svg needs Graphviz's dot, which is not installed (apt-get install graphviz); "
                            "its input is in {}",
                            source));
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0)
    throw Error(ErrorCode::kIo,
                fmt::format("Graphviz's dot could not draw {}; its input is in {}", path, source));
  std::filesystem::remove(source);
}

int run_plan(const InspectOptions& options, const std::filesystem::path& path) {
  ModelParams params = model_params(options.devices, options.context, options.talk);
  const std::string why = choose_split(path, options.devices, options.context.n_texts, params);
  const PlanReport plan = inspect_plan(path, params);
  if (options.json) {
    Json json = to_json(plan);
    if (!why.empty()) json["layout"] = why;
    print(to_text(json, 2));
  } else {
    print((why.empty() ? "" : why + "\n\n") + to_report(plan, options.talk));
  }
  if (!options.drawing.empty()) draw(plan, options.drawing);
  return kExitOk;
}

Cluster read_cluster_file(const std::string& file) {
  const std::string text = read_text(file);
  try {
    return read_cluster(text);
  } catch (const Error& error) {
    throw Error(error.code(), file + ": " + error.what());
  }
}

int run_cluster_plan(const InspectOptions& options, const std::filesystem::path& path) {
  const Cluster cluster = read_cluster_file(options.nodes);
  const ModelWork work = work_of(path, context_params(options.context, options.devices));
  const std::vector<ClusterWay> ways = plan_cluster(work, cluster);
  print(options.json ? to_text(cli::to_json(ways, cluster), 2) : cli::to_report(ways, cluster));
  return kExitOk;
}

int run(const InspectOptions& options) {
  if (!options.nodes.empty() && !options.plan) throw UsageError("--nodes needs --plan");
  if (!options.nodes.empty() && !options.drawing.empty())
    throw UsageError("--svg and --nodes cannot be used together");
  if (!options.file.empty() && !options.model.empty())
    throw UsageError("FILE and --model both name a file; give one of them");
  const std::filesystem::path path =
      find_model(options.file.empty() ? options.model : options.file, options.talk);
  if (!options.nodes.empty()) return run_cluster_plan(options, path);
  if (options.plan || !options.drawing.empty()) return run_plan(options, path);
  const FileInfo file = inspect(path, context_params(options.context, options.devices));
  std::map<std::string, TypeSum> types;
  for (const FileInfo::Tensor& tensor : file.tensors) {
    TypeSum& sum = types[tensor.type];
    ++sum.n_tensors;
    sum.bytes += tensor.bytes;
  }
  print(options.json ? to_text(to_json(file, types), 2) : to_report(file, types, options));
  return kExitOk;
}

std::function<int()> prepare_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  app.add_option("FILE", options->file, "the file");
  app.add_option("-m,--model", options->model, "the file, or a name in the model cache")
      ->type_name("FILE")
      ->group("Options");
  add_size(app, "-c,--ctx-size", options->context.n_ctx, {0},
           "print the memory needed for this many tokens (default: the model's context, at most 8k)")
      ->group("Options");
  add_cache_type_options(app, options->context, "Options");
  app.remove_option(app.get_option("--cache-rotation"));  // It takes no memory.
  add_switch(app, "--tensors", options->tensors, "list all tensors, with shapes as in PyTorch (rows first)")
      ->group("Output");
  add_switch(app, "--plan", options->plan,
             "print how weft places the model on devices: memory, splits, copies")
      ->group("Output");
  app.add_option("--nodes", options->nodes,
                 "with --plan: estimate the speed on the cluster that this JSON file describes")
      ->type_name("FILE")
      ->group("Output");
  app.add_option("--svg", options->drawing, "draw the plan as SVG (needs Graphviz)")
      ->type_name("FILE")
      ->group("Output");
  add_device_options(app, options->devices);
  add_switch(app, "--json", options->json, "print everything as one JSON object")->group("Output");
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kInspectCommand = {"inspect", "[options] FILE",
                                 "show what a GGUF file contains and the memory it needs",
                                 "Reads the metadata only, not the weights.\n"
                                 "\n"
                                 "Examples:\n"
                                 "  weft inspect model.gguf\n"
                                 "  weft inspect model.gguf -c 32k -ctk q8_0 -ctv q8_0\n"
                                 "  weft inspect model.gguf --tensors\n"
                                 "  weft inspect gemma --json\n"
                                 "  weft inspect gemma --plan --device vulkan0 -ngl 10 --svg plan.svg\n"
                                 "  weft inspect gemma --plan --nodes cluster.json\n",
                                 prepare_inspect};

}  // namespace weft::cli
