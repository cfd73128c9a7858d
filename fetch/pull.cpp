#include "pull.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/atomic_file.h"
#include "base/folder.h"
#include "json_file.h"
#include "split_name.h"
#include "weft/error.h"

namespace weft::fetch {
namespace {

using Json = nlohmann::json;

/// The record of a download: the name, and the files' paths in the folder with their sizes.
std::filesystem::path record_of(const std::filesystem::path& folder, const ModelName& name) {
  return folder / name.folder() / (".weft-" + name.key() + ".json");
}

struct Record {
  std::filesystem::path path;
  Json json;
  std::string name;
  PulledModel model;
  std::vector<std::filesystem::path> files;  // Existing or not.
  bool broken = false;                       // Some files were replaced since.
  bool whole = true;                         // All files exist with their recorded sizes.
};

/// Returns nothing for a missing or invalid record.
std::optional<Record> read_record(const std::filesystem::path& path) {
  Record record{.path = path, .json = json_of(path).value_or(nullptr)};
  if (!record.json.is_object()) return std::nullopt;
  const Json name = record.json.value("name", Json()), files = record.json.value("files", Json());
  if (!name.is_string() || !files.is_array()) return std::nullopt;
  record.name = name.get<std::string>();
  record.broken = record.json.contains("broken");
  record.whole = !record.broken;
  for (const Json& entry : files) {
    if (!entry.is_object() || !entry.contains("path") || !entry["path"].is_string()) return std::nullopt;
    const std::string relative = entry["path"].get<std::string>();
    if (!is_plain_path(relative)) return std::nullopt;
    const std::filesystem::path place = path.parent_path() / relative;
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(place, error);
    if (error || Json(size) != entry.value("size", Json())) record.whole = false;
    if (!error) record.model.n_bytes += static_cast<std::int64_t>(size);
    const Json kind = entry.value("kind", Json());
    if (kind == "model" && record.model.model.empty()) record.model.model = place;
    if (kind == "vision") record.model.vision = place;
    record.files.push_back(place);
  }
  if (record.model.model.empty()) return std::nullopt;
  return record;
}

void write_record(const std::filesystem::path& path, const Json& json) {
  const std::string text = json.dump(2) + "\n";
  base::AtomicFile out(path);
  out.write(std::as_bytes(std::span(text)));
  out.commit();
}

/// The records that may list a file: in its folder and the folders above, as repositories have subfolders.
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

bool has(const std::vector<std::filesystem::path>& files, const std::filesystem::path& file) {
  return std::find(files.begin(), files.end(), file) != files.end();
}

/// Marks models that contain a replaced file as incomplete until they are downloaded again.
void mark_broken(const std::filesystem::path& file) {
  for (Record& record : records_near(file)) {
    if (!has(record.files, file)) continue;
    record.json["broken"] = true;
    write_record(record.path, record.json);
  }
}

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const std::filesystem::path relative = path.lexically_relative(folder);
  return !relative.empty() && relative != "." && *relative.begin() != "..";
}

}  // namespace

std::optional<PulledModel> find_pulled(const std::filesystem::path& folder, const ModelName& name) {
  const auto record = read_record(record_of(folder, name));
  return record && record->whole && record->name == name.text() ? std::optional(record->model) : std::nullopt;
}

std::string name_to_finish(const std::filesystem::path& model) {
  std::string name;
  for (const Record& record : records_near(model)) {
    if (record.model.model != model) continue;
    if (record.whole) return {};  // Fetched again under another name.
    if (record.broken) name = record.name;
  }
  return name;
}

std::filesystem::path find_vision(const std::filesystem::path& model) {
  for (const Record& record : records_near(model))
    if (record.whole && record.model.model == model) return record.model.vision;
  return {};
}

std::int64_t remove_model(const std::filesystem::path& folder, const std::filesystem::path& model) {
  std::vector<std::filesystem::path> files, kept, records;
  for (const Record& record : records_near(model)) {
    const bool own = record.model.model == model;
    (own ? files : kept).insert((own ? files : kept).end(), record.files.begin(), record.files.end());
    if (own) records.push_back(record.path);
  }
  if (files.empty())
    for (const std::string& part : all_parts(model.string())) files.emplace_back(part);
  std::erase_if(files, [&](const std::filesystem::path& file) { return has(kept, file); });
  std::int64_t n_bytes = 0;
  // First the files that another process may be downloading, so that an error removes nothing.
  for (const std::filesystem::path& file : files) n_bytes += discard_begun(file);
  files.insert(files.end(), records.begin(), records.end());
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) n_bytes += static_cast<std::int64_t>(size);
    std::filesystem::remove(file, error);
    if (error)
      throw Error(ErrorCode::kIo, fmt::format("cannot remove {}: {}", file.string(), error.message()));
  }
  // Removes folders that have become empty; remove() fails for others.
  std::error_code not_empty;
  for (std::filesystem::path at = model.parent_path(); is_below(at, folder); at = at.parent_path())
    if (!std::filesystem::remove(at, not_empty)) break;
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
    const std::filesystem::path path = place / file.path;
    std::string label = file.path.substr(file.path.rfind('/') + 1);
    if (n_files > 1) label += fmt::format(" ({} of {})", files.size() + 1, n_files);
    download(
        file, path, params,
        [&](Stage stage, std::int64_t n_bytes, std::int64_t size) {
          return on_progress(label, stage, n_bytes, size);
        },
        [&] { mark_broken(path); });
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) throw Error(ErrorCode::kIo, fmt::format("cannot read {}: {}", path.string(), error.message()));
    files.push_back({{"path", file.path}, {"kind", kind}, {"size", size}, {"sha256", file.sha256}});
  };
  for (const RemoteFile& file : remote.parts) fetch(file, "model");
  for (const RemoteFile& file : remote.vision) fetch(file, "vision");
  write_record(record_of(folder, name), {{"name", name.text()}, {"files", files}});
  const auto pulled = find_pulled(folder, name);
  if (!pulled)
    throw Error(ErrorCode::kIo, fmt::format("the files of {} changed on {} during the download; try again",
                                            name.text(), place.string()));
  return *pulled;
}

}  // namespace weft::fetch
