#include "files/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "api/job.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/read_file.h"
#include "models/served_model.h"
#include "weft/error.h"

namespace weft::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFilePrefix = "file-";
constexpr std::string_view kJsonEnd = ".json";
constexpr std::string_view kTemporaryMark = ".tmp-";  // Of base/atomic_file.h.
constexpr std::uint64_t kMostJson = std::uint64_t{1} << 20;
/// Each file counts this much more: its description, and what the file system adds.
constexpr std::uint64_t kBytesEach = 8192;
constexpr unsigned kPrivate = 0600;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

int lock_folder(const fs::path& folder) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::kIo,
                 fmt::format("--files: cannot use the folder '{}': {}", folder.string(), why));
  };
  try {
    base::make_private_folder(folder);
  } catch (const Error&) {  // The next call reports it.
  }
  const int lock = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivate);
  if (lock < 0) throw refuse(std::strerror(errno));
  base::Descriptor owned(lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0)
    throw refuse(errno == EWOULDBLOCK ? "another server uses it" : std::strerror(errno));
  return owned.release();
}

FileInfo info_from(const std::string& id, const Json& json) {
  return {.id = id,
          .owner = json.at("owner").get<std::string>(),
          .name = json.at("filename").get<std::string>(),
          .purpose = json.at("purpose").get<std::string>(),
          .bytes = json.at("bytes").get<std::uint64_t>(),
          .created_ns = json.at("created_ns").get<std::int64_t>()};
}

Json description_of(const FileInfo& info) {
  return {{"owner", info.owner},
          {"filename", info.name},
          {"purpose", info.purpose},
          {"bytes", info.bytes},
          {"created_ns", info.created_ns}};
}

fs::path json_path(const FilesSetup& setup, const std::string& id) {
  return setup.folder / (id + std::string(kJsonEnd));
}

}  // namespace

void Space::take(const std::string& owner, std::uint64_t n) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t left = most_ - std::min(most_, used_);
  const auto own = used_by_.find(owner);
  const std::uint64_t used = own == used_by_.end() ? 0 : own->second;
  const auto refuse = [&](std::string_view why) {
    return ApiError(413, "invalid_request_error", "storage_limit", "",
                    fmt::format("the server keeps at most {}{}; delete some of them", limit_, why));
  };
  if (n > left) throw refuse("");
  if (is_shared_ && used + n > left - n)
    throw refuse(", and each API key may have as much as it leaves free to others");
  used_ += n;
  used_by_[owner] += n;
}

void Space::count(const std::string& owner, std::uint64_t n) {
  const std::lock_guard lock(mutex_);
  used_ += n;
  used_by_[owner] += n;
}

void Space::give(const std::string& owner, std::uint64_t n) {
  if (n == 0) return;  // The owner may have nothing.
  const std::lock_guard lock(mutex_);
  used_ -= n;
  if (const auto own = used_by_.find(owner); (own->second -= n) == 0) used_by_.erase(own);
}

ApiError storage_error(std::string_view what) {
  return {507, "server_error", "storage_error", "",
          fmt::format("the server cannot store this: {}", without_folders(what))};
}

void write_json(const fs::path& path, const Json& json) try {
  base::AtomicFile file(path, kPrivate);
  file.write(bytes_of(to_text(json)));
  file.commit();
} catch (const Error& error) {
  throw storage_error(error.what());
}

std::optional<Json> read_json(const fs::path& path) try {
  const std::vector<std::byte> bytes = base::read_file(path, kMostJson);
  auto json = base::try_parse_json<Json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return json && json->is_object() ? std::move(json) : std::nullopt;
} catch (const Error&) {
  return std::nullopt;
}

Json file_json(const FileInfo& info) {
  return {{"id", info.id},
          {"object", "file"},
          {"bytes", info.bytes},
          {"created_at", info.created_ns / 1'000'000'000},
          {"expires_at", nullptr},
          {"filename", info.name},
          {"purpose", info.purpose},
          {"status", "processed"},
          {"status_details", nullptr}};
}

NewFile::NewFile(const fs::path& path, std::string id, std::string owner, std::uint64_t most, Space& space,
                 Space& n_files)
    : id_(std::move(id)),
      owner_(std::move(owner)),
      most_(most),
      file_taken_(n_files, owner_, 1),
      bytes_taken_(space, owner_, kBytesEach),
      file_(path, kPrivate) {}

void NewFile::write(std::string_view bytes) {
  if (bytes.size() > most_ - bytes_)
    throw ApiError(413, "invalid_request_error", "file_too_large", "file",
                   fmt::format("the file has more than {} MiB, which is the limit", most_ >> 20));
  bytes_taken_.add(bytes.size());
  bytes_ += bytes.size();
  try {
    file_.write(bytes_of(bytes));
  } catch (const Error& error) {
    throw storage_error(error.what());
  }
}

FileStore::FileStore(const FilesSetup& setup, FileNotes note)
    : setup_(setup),
      note_(std::move(note)),
      lock_(lock_folder(setup.folder)),
      space_(setup.folder_bytes, fmt::format("{} GiB of files (--files-size)", setup.folder_bytes >> 30)),
      n_files_(setup.n_files, fmt::format("{} files", setup.n_files)) {
  load();
}

void FileStore::load() {
  const auto names = base::names_in(setup_.folder);
  if (!names) throw Error(ErrorCode::kIo, "--files: cannot list the folder " + setup_.folder.string());
  for (const std::string& name : *names) {
    if (name.find(kTemporaryMark) != name.npos) {
      base::remove_abandoned(setup_.folder / name);
    } else if (name.ends_with(kJsonEnd) &&
               is_own_id(name.substr(0, name.size() - kJsonEnd.size()), kFilePrefix)) {
      load_one(name.substr(0, name.size() - kJsonEnd.size()));
    } else if (std::error_code error;
               is_own_id(name, kFilePrefix) && !fs::exists(json_path(setup_, name), error)) {
      fs::remove(setup_.folder / name, error);  // Its writer was killed.
    }
  }
}

void FileStore::load_one(const std::string& id) {
  const auto ignore = [&](std::string_view why) {
    if (note_) note_(fmt::format("{}.json is ignored: {}", id, why));
  };
  const std::optional<Json> json = read_json(json_path(setup_, id));
  if (!json) return ignore("it is damaged");
  try {
    FileInfo info = info_from(id, *json);
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(setup_.folder / id, error);
    if (error || bytes != info.bytes) return ignore("its file is missing or has another size");
    count(info);
    files_.put(std::move(info));
  } catch (const Json::exception&) {
    ignore("it is damaged");
  }
}

void FileStore::count(const FileInfo& info) {
  space_.count(info.owner, info.bytes + kBytesEach);
  n_files_.count(info.owner, 1);
}

std::unique_ptr<NewFile> FileStore::begin(const std::string& owner) try {
  std::string id = make_id(kFilePrefix);
  const fs::path path = setup_.folder / id;
  return std::make_unique<NewFile>(path, std::move(id), owner, setup_.file_bytes, space_, n_files_);
} catch (const Error& error) {
  throw storage_error(error.what());
}

FileInfo FileStore::add(NewFile& file, FileInfo info) {
  info.id = file.id_;
  info.owner = file.owner_;
  info.bytes = file.bytes_;
  info.created_ns = creation_time();
  try {
    file.file_.commit();
  } catch (const Error& error) {
    throw storage_error(error.what());
  }
  try {
    write_json(json_path(setup_, info.id), description_of(info));
  } catch (...) {
    std::error_code ignored;
    fs::remove(setup_.folder / info.id, ignored);
    throw;
  }
  file.file_taken_.keep();
  file.bytes_taken_.keep();
  const std::lock_guard lock(mutex_);
  files_.put(info);
  return info;
}

void FileStore::adopt(const fs::path& part, FileInfo info) {
  std::error_code error;
  info.bytes = fs::file_size(part, error);
  if (error) return;  // It has its new name already.
  write_json(json_path(setup_, info.id), description_of(info));
  fs::rename(part, setup_.folder / info.id, error);
  if (error) throw storage_error(error.message());
  count(info);
  const std::lock_guard lock(mutex_);
  files_.put(std::move(info));
}

std::optional<FileInfo> FileStore::find(const std::string& viewer, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const FileInfo* const found = files_.find(viewer, id);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

Page<FileInfo> FileStore::list(const ListQuery& query, const std::string& viewer,
                               const std::string& purpose) const {
  const std::lock_guard lock(mutex_);
  return files_.page(query, viewer,
                     [&](const FileInfo& info) { return purpose.empty() || info.purpose == purpose; });
}

std::shared_ptr<const base::OpenFile> FileStore::open(const std::string& id) const {
  return std::make_shared<const base::OpenFile>(setup_.folder / id);
}

void FileStore::remove(const FileInfo& info) {
  {
    const std::lock_guard lock(mutex_);
    if (files_.find(info.id) == nullptr) return;
    files_.remove(info.id);
  }
  std::error_code ignored;
  fs::remove(json_path(setup_, info.id), ignored);
  fs::remove(setup_.folder / info.id, ignored);
  space_.give(info.owner, info.bytes + kBytesEach);
  n_files_.give(info.owner, 1);
}

}  // namespace weft::server
