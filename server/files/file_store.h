#pragma once
// The files of clients in one folder (--files). A file is ID, its bytes, and ID.json, its description. Ids
// are random; names of clients are only shown. A description is written after the bytes and removed before
// them. So bytes without a description belong to a writer that was killed, and are removed.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/open_file.h"
#include "files/records.h"

namespace weft::server {

struct FilesSetup {
  std::filesystem::path folder = {};  ///< Empty: the server keeps no files and has no batches.
  std::uint64_t folder_bytes = std::uint64_t{32} << 30;
  std::uint64_t file_bytes = std::uint64_t{512} << 20;  ///< Of one file of a client.
  std::size_t n_files = 65536;
  std::size_t n_lines = 50000;       ///< Requests of one batch.
  std::size_t n_lines_at_once = 64;  ///< Requests of all batches that are computed or wait at the same time.
  std::size_t n_batches = 32;        ///< Unfinished batches of one key.
  std::size_t n_ended = 1000;        ///< Ended batches of one key; the oldest are forgotten first.
};

/// Called with each problem of a file that the server itself handles. Any thread.
using FileNotes = std::function<void(const std::string&)>;

/// What the folder has of something, bytes or files, by owner, and the limit of all. Any thread.
class Space {
 public:
  /// `limit`: for messages, "32 GiB of files".
  Space(std::uint64_t most, std::string limit) : most_(most), limit_(std::move(limit)) {}
  /// Whether each owner is bounded: it may have as much as it leaves free to others.
  void set_shared(bool is_shared) { is_shared_ = is_shared; }
  /// Throws ApiError 413, and takes nothing, if less is left, or if it is more than the owner's share.
  void take(const std::string& owner, std::uint64_t n);
  /// The same for something that is there already.
  void count(const std::string& owner, std::uint64_t n);
  void give(const std::string& owner, std::uint64_t n);

 private:
  const std::uint64_t most_;
  const std::string limit_;
  std::atomic<bool> is_shared_ = false;
  std::mutex mutex_;
  std::uint64_t used_ = 0;
  std::unordered_map<std::string, std::uint64_t> used_by_;
};

/// 507: the system refused a write. `what` may have paths, which the client does not see.
ApiError storage_error(std::string_view what);
/// Replaces a file of JSON as a whole. Throws ApiError 507.
void write_json(const std::filesystem::path& path, const Json& json);
/// Nullopt if it is missing or no JSON object.
std::optional<Json> read_json(const std::filesystem::path& path);

struct FileInfo {
  std::string id = {};
  std::string owner = {};  ///< The name of the key of its client; empty if the server has no keys.
  std::string name = {};   ///< As the client calls it.
  std::string purpose = {};
  std::uint64_t bytes = 0;
  std::int64_t created_ns = 0;
};
/// OpenAI's file object.
Json file_json(const FileInfo& info);

/// A file that is being written. Without FileStore::add() it leaves nothing.
class NewFile {
 public:
  /// Takes its place in `space` and `n_files`. Throws ApiError 413, and Error if it cannot be created.
  NewFile(const std::filesystem::path& path, std::string id, std::string owner, std::uint64_t most,
          Space& space, Space& n_files);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Throws ApiError: 413 beyond a limit, 507 if the system refuses it.
  void write(std::string_view bytes);

 private:
  friend class FileStore;
  /// A part of a space, given back unless it is kept.
  struct Taken {
    Taken(Space& space_in, const std::string& owner_in, std::uint64_t n_in)
        : space(space_in), owner(owner_in), n(n_in) {
      space.take(owner, n);
    }
    ~Taken() {
      if (n > 0) space.give(owner, n);
    }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    void add(std::uint64_t more) {
      space.take(owner, more);
      n += more;
    }
    void keep() { n = 0; }

    Space& space;
    const std::string& owner;
    std::uint64_t n;
  };
  const std::string id_, owner_;
  const std::uint64_t most_;
  Taken file_taken_, bytes_taken_;
  base::AtomicFile file_;
  std::uint64_t bytes_ = 0;
};

/// Any number of threads.
class FileStore {
 public:
  /// Makes the folder if it is missing, locks it and reads its descriptions. Damaged ones are noted and
  /// ignored. Throws Error kIo if the folder cannot be used, or another server uses it.
  FileStore(const FilesSetup& setup, FileNotes note);

  const FilesSetup& setup() const { return setup_; }
  Space& space() { return space_; }
  /// Whether each owner has a bounded share of bytes and files. Files count at once.
  void set_shared(bool is_shared) {
    space_.set_shared(is_shared);
    n_files_.set_shared(is_shared);
  }
  /// The path of another file in the folder.
  std::filesystem::path path_of(std::string_view name) const { return setup_.folder / name; }

  /// Throws ApiError as NewFile::write does.
  std::unique_ptr<NewFile> begin(const std::string& owner);
  /// The description's id, owner, bytes and time are filled in. Throws ApiError 507.
  FileInfo add(NewFile& file, FileInfo info);
  /// Makes another file of the folder one with this description, beyond all limits. Does nothing if that was
  /// done before. Throws ApiError 507.
  void adopt(const std::filesystem::path& part, FileInfo info);

  /// `viewer`: see sees(). Nullopt also for files that the client does not see.
  std::optional<FileInfo> find(const std::string& viewer, const std::string& id) const;
  /// Files of this purpose; empty: of all.
  Page<FileInfo> list(const ListQuery& query, const std::string& viewer, const std::string& purpose) const;
  /// Throws Error if it cannot be opened.
  std::shared_ptr<const base::OpenFile> open(const std::string& id) const;
  /// Removes a file that find() has found.
  void remove(const FileInfo& info);

 private:
  void load();
  void load_one(const std::string& id);
  void count(const FileInfo& info);

  const FilesSetup setup_;
  const FileNotes note_;
  const base::Descriptor lock_;  ///< Locked: no other server uses the folder.
  Space space_, n_files_;
  mutable std::mutex mutex_;
  Records<FileInfo> files_;
};

}  // namespace weft::server
