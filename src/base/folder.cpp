#include "base/folder.h"

#include <dirent.h>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"

namespace weft::base {

std::optional<std::vector<std::string>> names_in(const std::filesystem::path& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), &::closedir);
  if (!dir) return std::nullopt;
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

std::vector<CachedFile> cached_files(const std::filesystem::path& folder, std::string_view extension) {
  const std::string temporary = std::string(extension) + ".tmp-";
  std::vector<CachedFile> files;
  for (const std::string& name : names_in(folder).value_or(std::vector<std::string>())) {
    CachedFile file{folder / name, {}, 0};
    if (name.find(temporary) != std::string::npos) remove_abandoned(file.path);
    if (!name.ends_with(extension)) continue;
    std::error_code gone;
    file.bytes = std::filesystem::file_size(file.path, gone);
    if (!gone) file.used = std::filesystem::last_write_time(file.path, gone);
    if (!gone) files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &CachedFile::used);
  return files;
}

}  // namespace weft::base
