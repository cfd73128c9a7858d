#include "base/folder.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "weft/error.h"

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

void make_private_folder(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder.has_filename() ? folder : folder.parent_path();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return;
  std::filesystem::create_directories(path.parent_path(), error);  // The next call reports an error.
  if (::mkdir(path.c_str(), 0700) == 0) return;
  const int why = errno;
  if (!std::filesystem::is_directory(path, error))  // Another process may have made it.
    throw Error(ErrorCode::kIo, "cannot create the folder " + path.string() + ": " + std::strerror(why));
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
