#include "files/model_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <functional>

#include "split_name.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

// scripts/fetch_models.py fetches it under this name.
constexpr std::string_view kDefaultModel = "SmolLM2-135M-Instruct.Q4_1";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string names_of(const std::vector<CachedModel>& models) {
  std::vector<std::string> names;
  for (const CachedModel& model : models) names.push_back(model.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::filesystem::path cache_dir() {
  const char* cache = std::getenv("WEFT_CACHE");
  if (cache != nullptr && *cache != '\0') return cache;
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::filesystem::path(home) / ".cache" / "weft"
                                          : std::filesystem::path();
}

std::filesystem::path in_cache(const char* folder) {
  const std::filesystem::path cache = cache_dir();
  return cache.empty() ? cache : cache / folder;
}

// "NAME-KEY.packed", the key being 32 hexadecimal digits (PackedCache).
constexpr std::string_view kPacked = ".packed";
constexpr std::size_t kKeyDigits = 32;

constexpr int kMaxDepth = 6;  // Of folders in the model cache.

/// The readable entries; none if the folder does not exist.
std::vector<std::filesystem::directory_entry> entries_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::directory_entry> entries;
  std::error_code error;
  const std::filesystem::directory_iterator end;
  for (std::filesystem::directory_iterator at(folder, error); !error && at != end; at.increment(error))
    entries.push_back(*at);
  return entries;
}

}  // namespace

std::filesystem::path model_cache_dir() { return in_cache("models"); }
std::filesystem::path packed_cache_dir() { return in_cache("packed"); }
std::filesystem::path converted_cache_dir() { return in_cache("converted"); }

std::string model_cache_text() {
  const std::filesystem::path folder = model_cache_dir();
  return folder.empty() ? "the model cache (set WEFT_CACHE to a folder: there is no HOME)" : folder.string();
}

std::vector<PackedWeights> packed_weights() {
  std::vector<PackedWeights> found;
  for (const auto& entry : entries_of(packed_cache_dir())) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;  // Another process may be making room.
    if (!name.ends_with(kPacked) || !entry.is_regular_file(gone)) continue;
    PackedWeights weights;
    const std::size_t tail = 1 + kKeyDigits + kPacked.size();
    weights.model = name.size() > tail ? name.substr(0, name.size() - tail) : name;
    weights.path = entry.path();
    weights.bytes = entry.file_size(gone);
    if (gone) continue;
    const auto used = entry.last_write_time(gone);
    if (gone) continue;
    weights.last_used = std::chrono::time_point_cast<std::chrono::system_clock::duration>(
        std::chrono::file_clock::to_sys(used));
    found.push_back(std::move(weights));
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.last_used > b.last_used; });
  return found;
}

std::vector<PackedWeights> clear_packed_weights() {
  std::vector<PackedWeights> weights = packed_weights();
  for (const PackedWeights& file : weights) {
    std::error_code error;
    std::filesystem::remove(file.path, error);
    if (error)
      throw Error(ErrorCode::kIo, fmt::format("cannot remove {}: {}", file.path.string(), error.message()));
  }
  return weights;
}

std::vector<CachedModel> cached_models() {
  std::vector<CachedModel> models;
  const auto add = [&](const std::filesystem::directory_entry& entry, const std::string& prefix) {
    std::error_code ignored;
    if (entry.path().extension() != ".gguf" || !entry.is_regular_file(ignored)) return;
    std::string name = entry.path().stem().string();
    if (fetch::split_of(entry.path().string()).part != 0 || name.starts_with("mmproj")) return;
    const bool is_default = prefix.empty() && name == kDefaultModel;
    models.push_back({prefix + name, entry.path(), is_default});
  };
  // Hub models are in folders HOST/USER/REPO, which may have subfolders.
  const std::function<void(const std::filesystem::path&, const std::string&, int)> add_folder =
      [&](const std::filesystem::path& folder, const std::string& prefix, int depth) {
        for (const auto& entry : entries_of(folder)) {
          std::error_code ignored;
          add(entry, prefix);
          const std::string name = entry.path().filename().string();
          if (depth < kMaxDepth && entry.is_directory(ignored))
            add_folder(entry.path(), depth == 0 ? "" : prefix + name + "/", depth + 1);
        }
      };
  add_folder(model_cache_dir(), "", 0);
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  // With one model only there is nothing to choose.
  if (models.size() == 1) models[0].is_default = true;
  return models;
}

std::filesystem::path find_cached_model(std::string_view name) {
  const std::vector<CachedModel> models = cached_models();
  if (name.empty()) {
    for (const CachedModel& model : models) {
      if (model.is_default) return model.path;
    }
    throw Error(ErrorCode::kNotFound,
                models.empty()
                    ? fmt::format("no model: name one with -m FILE, or put the default model into {} with "
                                  "'make models'",
                                  model_cache_text())
                    : fmt::format("no default model; name one with -m: {}", names_of(models)));
  }

  std::error_code error;  // Opening the file reports it, for instance a circle of links.
  std::filesystem::path path(name);
  if (std::filesystem::exists(path, error) || error) return path;

  std::vector<CachedModel> matches;
  for (const CachedModel& model : models) {
    if (model.name == name || model.path.filename() == path) return model.path;
    if (lower(model.name).find(lower(name)) != std::string::npos) matches.push_back(model);
  }
  if (matches.size() == 1) return matches[0].path;
  if (matches.size() > 1) {
    throw Error(ErrorCode::kNotFound, fmt::format("'{}' could be any of: {}", name, names_of(matches)));
  }
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("there is no file '{}', and no model of that name in {} ({})", name, model_cache_text(),
                  models.empty() ? "which is empty" : "it has: " + names_of(models)));
}

}  // namespace weft::cli
