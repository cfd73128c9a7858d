#include "pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "base/atomic_file.h"
#include "base/folder.h"
#include "split_name.h"
#include "weft/error.h"

namespace weft::fetch {
namespace {

using Json = nlohmann::json;

/// What was fetched under a name: paths in its folder, and their sizes.
std::filesystem::path record_of(const std::filesystem::path& folder, const ModelName& name) {
  return folder / name.folder() / (".weft-" + name.key() + ".json");
}

struct Record {
  std::filesystem::path path;
  PulledModel model;
  std::vector<std::filesystem::path> files;
};

std::optional<Record> read_record(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array()) return std::nullopt;
  Record record{.path = path};
  for (const Json& entry : json["files"]) {
    if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string()) return std::nullopt;
    const std::string relative = entry["path"].get<std::string>();
    if (!is_plain_path(relative)) return std::nullopt;
    const std::filesystem::path place = path.parent_path() / relative;
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(place, error);
    if (error || Json(size) != entry.value("size", Json())) return std::nullopt;
    record.model.n_bytes += static_cast<std::int64_t>(size);
    const Json kind = entry.value("kind", Json());
    if (kind == "model" && record.model.model.empty()) record.model.model = place;
    if (kind == "vision") record.model.vision = place;
    record.files.push_back(place);
  }
  if (record.model.model.empty()) return std::nullopt;
  return record;
}

/// The records that may have a file: those of its folder and the ones above, as repositories have folders.
std::vector<Record> records_near(const std::filesystem::path& file) {
  constexpr int kLevels = 4;
  std::vector<Record> records;
  std::filesystem::path folder = file.parent_path();
  for (int level = 0; level < kLevels && !folder.empty(); ++level, folder = folder.parent_path())
    for (const std::string& name : base::names_in(folder).value_or(std::vector<std::string>()))
      if (name.starts_with(".weft-") && name.ends_with(".json"))
        if (auto record = read_record(folder / name)) records.push_back(std::move(*record));
  return records;
}

}  // namespace

std::optional<PulledModel> find_pulled(const std::filesystem::path& folder, const ModelName& name) {
  const auto record = read_record(record_of(folder, name));
  return record ? std::optional(record->model) : std::nullopt;
}

std::filesystem::path find_vision(const std::filesystem::path& model) {
  for (const Record& record : records_near(model))
    if (record.model.model == model) return record.model.vision;
  return {};
}

std::int64_t remove_model(const std::filesystem::path& model) {
  std::vector<std::filesystem::path> files;
  std::vector<std::filesystem::path> kept;
  for (const Record& record : records_near(model)) {
    const bool own = record.model.model == model;
    (own ? files : kept).insert((own ? files : kept).end(), record.files.begin(), record.files.end());
    if (own) files.push_back(record.path);
  }
  if (files.empty()) files = split_files(model);
  std::int64_t n_bytes = 0;
  for (const std::filesystem::path& file : files) {
    if (std::find(kept.begin(), kept.end(), file) != kept.end()) continue;
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) n_bytes += static_cast<std::int64_t>(size);
    std::filesystem::remove(file, error);
    if (error)
      throw Error(ErrorCode::kIo, fmt::format("cannot remove {}: {}", file.string(), error.message()));
  }
  // Folders that are empty now go, too; others stay, as remove says.
  std::error_code not_empty;
  for (std::filesystem::path folder = model.parent_path(); !not_empty && folder.has_parent_path();
       folder = folder.parent_path())
    if (!std::filesystem::remove(folder, not_empty)) break;
  return n_bytes;
}

PulledModel pull(const std::filesystem::path& folder, const ModelName& name, const Hosts& hosts,
                 const DownloadParams& params, const OnFile& on_progress) {
  const KeepGoing asking = [&] { return on_progress(name.text(), Stage::kGetting, 0, -1); };
  const RemoteModel remote = find_remote(name, hosts, asking, params.retry);
  const std::filesystem::path place = folder / name.folder();
  Json files = Json::array();
  const std::size_t n_files = remote.parts.size() + remote.vision.size();
  const auto fetch = [&](const RemoteFile& file, const char* kind) {
    std::string label = file.path.substr(file.path.rfind('/') + 1);
    if (n_files > 1) label += fmt::format(" ({} of {})", files.size() + 1, n_files);
    download(file, place / file.path, params, [&](Stage stage, std::int64_t n_bytes, std::int64_t size) {
      return on_progress(label, stage, n_bytes, size);
    });
    files.push_back({{"path", file.path},
                     {"kind", kind},
                     {"size", std::filesystem::file_size(place / file.path)},
                     {"sha256", file.sha256}});
  };
  for (const RemoteFile& file : remote.parts) fetch(file, "model");
  for (const RemoteFile& file : remote.vision) fetch(file, "vision");
  const std::string record = Json{{"name", name.text()}, {"files", files}}.dump(2) + "\n";
  base::AtomicFile out(record_of(folder, name));
  out.write(std::as_bytes(std::span(record)));
  out.commit();
  return find_pulled(folder, name).value();
}

}  // namespace weft::fetch
