// weft split and weft merge: a model's file in several, and back.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/counted.h"
#include "commands/command.h"
#include "files/hub_models.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/interrupt.h"
#include "terminal/text_format.h"
#include "weft/error.h"
#include "weft/model_files.h"

namespace weft::cli {
namespace {

struct SplitOptions {
  Verbosity talk;
  std::vector<std::string> words;
  std::string max_size;
  int max_tensors = 0;
  bool dry_run = false;
  bool json = false;
};

// "2G", "500M", as llama-gguf-split takes them.
std::uint64_t bytes_of(const std::string& text) {
  const std::uint64_t unit = text.ends_with('G') ? 1'000'000'000 : text.ends_with('M') ? 1'000'000 : 0;
  const std::string digits = text.substr(0, text.size() - 1);
  if (unit == 0 || digits.empty() || digits.size() > 9 ||
      digits.find_first_not_of("0123456789") != std::string::npos || std::stoull(digits) == 0)
    throw UsageError(fmt::format("--split-max-size: '{}' is not a size; write e.g. 2G or 500M", text));
  return std::stoull(digits) * unit;
}

std::function<bool(double)> shown(Progress& progress, const InterruptGuard& interrupt) {
  return [&](double fraction) {
    progress.update(fraction);
    return !interrupt.requested();
  };
}

int run_split(const SplitOptions& options) {
  if (options.words.size() != 2 || options.words[1].empty())
    throw UsageError("give a model and the prefix of the parts' names: weft split model.gguf model");
  SplitParams params;
  params.max_tensors = options.max_tensors;
  if (!options.max_size.empty()) params.max_bytes = bytes_of(options.max_size);
  if (params.max_tensors == 0 && params.max_bytes == 0) params.max_tensors = SplitParams().max_tensors;
  const std::filesystem::path from = find_model(options.words[0], options.talk);
  std::vector<FilePart> parts;
  if (options.dry_run) {
    parts = plan_split(from, options.words[1], params);
  } else {
    const InterruptGuard interrupt;
    Progress progress(options.talk, "splitting");
    params.progress = shown(progress, interrupt);
    parts = split_model(from, options.words[1], params);
  }
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const FilePart& part : parts) {
    json.push_back({{"path", part.path.string()}, {"tensors", part.n_tensors}, {"bytes", part.bytes}});
    rows.push_back({part.path.string(), base::counted(part.n_tensors, "tensor"), bytes_text(part.bytes)});
  }
  print(options.json ? to_text(json, 2) : table_text(rows));
  return kExitOk;
}

std::function<int()> prepare_split(CLI::App& app) {
  auto options = std::make_shared<SplitOptions>();
  app.add_option("FILE", options->words, "the model, and the prefix of the parts' names")->type_name("FILE");
  const std::string group = "Parts";
  add_size(app, "--split-max-tensors", options->max_tensors, {0},
           "maximum number of tensors per part (default 128, unless a size is given)")
      ->group(group);
  app.add_option("--split-max-size", options->max_size, "maximum size of a part, e.g. 2G or 500M")
      ->type_name("SIZE")
      ->group(group);
  add_switch(app, "--dry-run", options->dry_run, "print the parts, without writing them")->group(group);
  add_switch(app, "--json", options->json, "print JSON")->group("Output");
  add_verbosity_options(app, options->talk);
  return [options] { return run_split(*options); };
}

int run_merge(const SplitOptions& options) {
  if (options.words.size() != 2)
    throw UsageError(
        "give a part of the model and the result's file: weft merge model-00001-of-00003.gguf model.gguf");
  const bool replaces = is_there(options.words[1]);
  const InterruptGuard interrupt;
  Progress progress(options.talk, "merging");
  merge_model(find_model(options.words[0], options.talk), options.words[1], shown(progress, interrupt));
  progress.done();
  if (replaces) note_replaced(options.talk, options.words[1]);
  print(fmt::format("wrote {}\n", options.words[1]));
  return kExitOk;
}

std::function<int()> prepare_merge(CLI::App& app) {
  auto options = std::make_shared<SplitOptions>();
  app.add_option("FILE", options->words, "any part, and the file to write")->type_name("FILE");
  add_verbosity_options(app, options->talk);
  return [options] { return run_merge(*options); };
}

}  // namespace

const Command kSplitCommand = {
    "split", "[options] FILE PREFIX", "split a model into several files",
    "Writes the parts PREFIX-00001-of-00003.gguf etc., each completely or not at all. Every command opens a\n"
    "split model by the name of any part.\n"
    "\n"
    "Examples:\n"
    "  weft split --split-max-size 2G model.gguf model\n"
    "  weft split --dry-run --split-max-tensors 100 model.gguf model\n",
    prepare_split};

const Command kMergeCommand = {
    "merge", "[options] FILE RESULT", "merge a split model into one file",
    "Reads a split model by the name of any part, and writes one file, completely or not at all. An\n"
    "existing file is replaced.\n"
    "\n"
    "Example:\n"
    "  weft merge model-00001-of-00003.gguf model.gguf\n",
    prepare_merge};

}  // namespace weft::cli
