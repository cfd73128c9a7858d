#include "model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "base/folder.h"
#include "base/hash.h"
#include "model_cache.h"
#include "weft/convert.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

/// Changes with the folder's place, and with the name, size or time of any file in it or in a folder there,
/// as sentence-transformers has them. A converter that gives something else needs another version.
constexpr int kVersion = 5;

void add_files(const std::filesystem::path& folder, bool with_folders, std::string& text) {
  std::vector<std::string> names = base::names_in(folder).value_or(std::vector<std::string>());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    std::error_code error;
    const std::filesystem::path file = folder / name;
    if (with_folders && std::filesystem::is_directory(file, error)) {
      text += name + "/\n";
      add_files(file, false, text);
    }
    if (!std::filesystem::is_regular_file(file, error)) continue;
    const auto size = std::filesystem::file_size(file, error);
    const auto time = std::filesystem::last_write_time(file, error).time_since_epoch().count();
    text += fmt::format("{}\n{} {}\n", name, size, time);
  }
}

std::string identity(const std::filesystem::path& folder) {
  std::string text = fmt::format("{} {}\n", kVersion, folder.string());
  add_files(folder, true, text);
  return text;
}

}  // namespace

std::filesystem::path converted_model(const std::filesystem::path& folder, const Talk& talk,
                                      const std::function<bool()>& keep_going) {
  const std::filesystem::path cache = converted_cache_dir();
  if (cache.empty())
    throw Error(ErrorCode::kNotFound, fmt::format("{} is a folder, whose converted model has no place: set "
                                                  "WEFT_CACHE, or use 'weft convert'",
                                                  folder.string()));
  std::error_code error;
  std::filesystem::path whole = std::filesystem::canonical(folder, error);
  if (error) throw Error(ErrorCode::kIo, fmt::format("{}: {}", folder.string(), error.message()));
  const std::string text = identity(whole);
  base::Hasher hasher;
  hasher.add(std::as_bytes(std::span(text)));
  const Hash128 hash = hasher.result();
  const std::filesystem::path file =
      cache / fmt::format("{}-{:016x}{:016x}.gguf", whole.filename().string(), hash.high, hash.low);
  if (std::filesystem::exists(file, error)) return file;
  std::filesystem::create_directories(cache, error);
  if (error) throw Error(ErrorCode::kIo, fmt::format("{}: {}", cache.string(), error.message()));
  Progress bar(talk, "converting " + whole.filename().string());
  ConvertParams params;
  params.progress = [&](double fraction) {
    bar.update(fraction);
    return keep_going();
  };
  for (const std::string& line : convert(whole, file, params).notes) note(talk, line);
  return file;
}

}  // namespace weft::cli
