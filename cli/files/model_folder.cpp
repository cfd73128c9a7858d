#include "files/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "files/model_cache.h"
#include "split_name.h"
#include "weft/convert.h"
#include "weft/error.h"
#include "weft/gguf.h"

namespace weft::cli {
namespace {

/// The names of the files in a folder, sorted.
std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(folder, error); !error && at != end; at.increment(error))
    if (std::error_code ignored; at->is_regular_file(ignored))
      names.push_back(at->path().filename().string());
  if (error) throw Error(ErrorCode::kIo, fmt::format("{}: {}", folder.string(), error.message()));
  std::sort(names.begin(), names.end());
  return names;
}

/// Whether a file's metadata says that it belongs to a model: an image encoder, an adapter, or a control
/// vector.
bool belongs_to_model(const std::filesystem::path& file) try {
  for (const auto& [key, value] : read_gguf_metadata(file)) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    if (key == "general.type" && (*text == "adapter" || *text == "mmproj")) return true;
    if (key == "general.architecture" && (*text == "clip" || *text == "controlvector")) return true;
  }
  return false;
} catch (const Error&) {  // Opening the file as a model reports the damage.
  return false;
}

}  // namespace

std::optional<std::filesystem::path> gguf_in_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return std::nullopt;
  std::map<std::string, std::string> models;  // The first part by the model's name.
  bool has_weights = false;
  for (const std::string& name : files_in(folder)) {
    has_weights |= name.ends_with(".safetensors") || name.ends_with(".bin");
    if (name.ends_with(".gguf") && name.find("mmproj") == name.npos)
      models.emplace(fetch::split_of(name).stem, name);
  }
  if (is_model_folder(folder) && (has_weights || models.empty())) return std::nullopt;
  // The error of what opens the folder says how to convert a PEFT adapter.
  if (models.empty() && std::filesystem::exists(folder / "adapter_config.json", ignored)) return std::nullopt;
  if (models.size() > 1)
    std::erase_if(models, [&](const auto& model) { return belongs_to_model(folder / model.second); });
  if (models.empty())
    throw Error(ErrorCode::kNotFound,
                fmt::format("the folder {} has no model: neither a GGUF file nor a config.json with weights",
                            folder.string()));
  if (models.size() == 1) return folder / models.begin()->second;
  std::vector<std::string> names;
  for (const auto& [stem, name] : models) names.push_back(name);
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the folder {} has several models: {}; name the file of one", folder.string(),
                          fmt::join(names, ", ")));
}

std::filesystem::path converted_model(const std::filesystem::path& folder, const Verbosity& talk,
                                      const std::function<bool()>& keep_going) {
  const std::filesystem::path cache = converted_cache_dir();
  if (cache.empty())
    throw Error(ErrorCode::kNotFound, fmt::format("{} is a folder, and there is no cache for its converted "
                                                  "model: set WEFT_CACHE, or use 'weft convert'",
                                                  folder.string()));
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  Progress bar(talk, "converting " + (error ? folder : whole).filename().string());
  const auto progress = [&](double fraction) {
    bar.update(fraction);
    return keep_going();
  };
  const ConvertedModel made = converted(folder, cache, progress);
  if (made.made)
    for (const std::string& line : made.made->notes) note(talk, line);
  return made.file;
}

}  // namespace weft::cli
