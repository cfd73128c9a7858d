#include "download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <vector>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/to_size.h"
#include "json_file.h"
#include "weft/error.h"

namespace weft::fetch {
namespace {

using base::Descriptor;

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;
constexpr std::int64_t kMostParts = 4096;  // Files of more have larger ones.
constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr auto kSaveEvery = std::chrono::seconds(2);
// Attempts to lock PATH.part, which other processes may rename or remove between opening and locking.
constexpr int kMostOpened = 16;
constexpr std::int64_t kBlockBytes = 512;  // The unit of st_blocks on all file systems.

[[noreturn]] void io_error(const std::string& what, const std::filesystem::path& path) {
  throw Error(ErrorCode::kIo, fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

Descriptor open_file(const std::filesystem::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (file.get() >= 0) return file;
  if (errno == ENOENT) throw Error(ErrorCode::kNotFound, fmt::format("there is no file {}", path.string()));
  io_error("cannot open", path);
}

std::filesystem::path part_path(const std::filesystem::path& path) { return path.string() + ".part"; }
std::filesystem::path state_path(const std::filesystem::path& path) { return path.string() + ".part.json"; }

/// Opens PATH.part, which only one process at a time can have.
Descriptor open_locked(const std::filesystem::path& path, int flags) {
  const std::filesystem::path part = part_path(path);
  for (int i = 0; i < kMostOpened; ++i) {
    Descriptor file = open_file(part, flags);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) break;
      io_error("cannot lock", part);
    }
    // It may have been put in its place, or removed, between opening and locking.
    struct stat own = {}, named = {};
    if (::fstat(file.get(), &own) == 0 && ::stat(part.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
        own.st_dev == named.st_dev)
      return file;
  }
  throw Error(ErrorCode::kIo, fmt::format("another process is downloading {}", path.string()));
}

std::int64_t bytes_on_disk(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 ? std::int64_t{status.st_blocks} * kBlockBytes : 0;
}

void remove_begun(const std::filesystem::path& path) {
  std::error_code ignored;
  std::filesystem::remove(state_path(path), ignored);
  std::filesystem::remove(part_path(path), ignored);
}

/// The file that is being written, and which of its parts are there. Its own from the start: others that
/// fetch the same file are refused as long as it lives.
class PartFile final : public Sink {
 public:
  PartFile(const std::filesystem::path& path, const OnProgress& on_progress)
      : path_(path), file_(open_locked(path, O_RDWR | O_CREAT)), on_progress_(on_progress) {
    if (::lseek(file_.get(), 0, SEEK_END) > 0) end_ = End::kLeave;
  }
  ~PartFile() override {
    if (end_ == End::kSave) save();
    if (end_ == End::kRemove) remove_begun(path_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Resumes an earlier attempt at the same file. Equal identities mean equal bytes; an empty identity starts
  /// from the beginning and cannot be resumed later.
  void begin(const std::string& identity, std::int64_t size) {
    identity_ = identity;
    size_ = size;
    // A server may report any size up to the largest number, so nothing is added to it.
    part_bytes_ = std::max(kPartBytes, parts_of(size, kMostParts));
    done_.resize(to_size(parts_of(size_, part_bytes_)));
    if (identity.empty() || !load()) {
      end_ = End::kRemove;
      std::error_code ignored;
      std::filesystem::remove(state_path(path_), ignored);
      if (::ftruncate(file_.get(), 0) != 0) io_error("cannot write", path());
    }
    reserve();
    if (!identity.empty()) end_ = End::kSave;
  }

  std::vector<Range> missing() const {
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < done_.size(); ++i)
      if (done_[i] == 0) ranges.push_back(range_of(i));
    return ranges;
  }
  std::filesystem::path path() const { return part_path(path_); }

  void write(std::int64_t offset, const char* data, std::size_t n) override {
    for (std::size_t at = 0; at < n;) {
      const ssize_t written =
          ::pwrite(file_.get(), data + at, n - at, static_cast<off_t>(offset) + static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) io_error("cannot write", path());
      at += to_size(written);
    }
    n_written_ += static_cast<std::int64_t>(n);
  }
  void done(const Range& range) override {
    for (std::size_t i = 0; i < done_.size(); ++i)
      if (range_of(i).begin >= range.begin && range_of(i).end <= range.end) done_[i] = 1;
    if (end_ == End::kSave && Clock::now() - saved_ >= kSaveEvery) save();
  }
  bool keep_going() const { return on_progress_(Stage::kGetting, std::min(n_written_, size_), size_); }

  /// Nothing of it is kept.
  void discard() { end_ = End::kRemove; }
  void move_to_its_place() {
    if (::fsync(file_.get()) != 0) io_error("cannot write", path());
    if (::rename(path().c_str(), path_.c_str()) != 0) io_error("cannot rename", path());
    end_ = End::kLeave;
    std::error_code ignored;
    std::filesystem::remove(state_path(path_), ignored);
  }

 private:
  /// What the destructor does with the file. An earlier attempt's file is left until begin().
  enum class End { kLeave, kSave, kRemove };

  /// Records the completed parts for the next process. Ignores errors: the next process then repeats some
  /// parts, or starts from the beginning.
  void save() {
    saved_ = Clock::now();
    if (::fdatasync(file_.get()) != 0) return;
    try {
      std::string parts;
      for (const char one : done_) parts += one != 0 ? '1' : '0';
      const std::string text = nlohmann::json{{"file", identity_}, {"parts", parts}}.dump();
      base::AtomicFile out(state_path(path_));
      out.write(std::as_bytes(std::span(text)));
      out.commit();
    } catch (const std::exception&) {
    }
  }
  /// Rounded up.
  static std::int64_t parts_of(std::int64_t size, std::int64_t part) {
    return size / part + (size % part != 0 ? 1 : 0);
  }
  Range range_of(std::size_t i) const {
    const std::int64_t begin = static_cast<std::int64_t>(i) * part_bytes_;
    return {begin, begin + std::min(part_bytes_, size_ - begin)};
  }
  bool load() {
    const nlohmann::json state = json_of(state_path(path_)).value_or(nullptr);
    if (!state.is_object() || state.value("file", nlohmann::json()) != identity_) return false;
    const auto parts = state.find("parts");
    if (parts == state.end() || !parts->is_string()) return false;
    const std::string& text = parts->get_ref<const std::string&>();
    // A truncated file does not match its state.
    if (text.size() != done_.size() || ::lseek(file_.get(), 0, SEEK_END) != size_) return false;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      done_[i] = text[i] == '1' ? 1 : 0;
      if (done_[i] != 0) n_written_ += range_of(i).end - range_of(i).begin;
    }
    return true;
  }
  void reserve() {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(path(), error);
    // Missing parts take no space: the file is sparse.
    const auto needed =
        static_cast<std::uintmax_t>(std::max<std::int64_t>(0, size_ - bytes_on_disk(file_.get())));
    if (!error && space.available < needed)
      throw Error(ErrorCode::kIo, fmt::format("{} needs {} MiB more, but {} has only {} MiB left; free some "
                                              "space, or set WEFT_CACHE to a folder on another disk",
                                              path_.string(), needed >> 20, path_.parent_path().string(),
                                              space.available >> 20));
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) io_error("cannot write", path());
  }

  std::filesystem::path path_;  // The final path.
  Descriptor file_;
  const OnProgress& on_progress_;
  std::string identity_ = {};
  std::int64_t size_ = 0, part_bytes_ = kPartBytes, n_written_ = 0;
  std::vector<char> done_ = {};
  Clock::time_point saved_ = Clock::now();
  End end_ = End::kRemove;
};

bool is_there(const RemoteFile& file, const std::filesystem::path& path, std::int64_t size,
              const OnProgress& on_progress) {
  std::error_code error;
  const std::uintmax_t own = std::filesystem::file_size(path, error);
  if (error || size < 0 || own != static_cast<std::uintmax_t>(size)) return false;
  return file.sha256.empty() || sha256_of(path, on_progress) == file.sha256;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::kIo,
                fmt::format("cannot create the folder {}: {}", folder.string(), error.message()));
}

/// The identity of a file's bytes, as a hash, since URLs may contain secrets. Empty if it is unknown.
std::string identity_of(const RemoteFile& file, const Probe& probed, std::int64_t size) {
  if (!probed.ranges || (file.sha256.empty() && !probed.strong_etag)) return {};
  const std::string all = fmt::format("{}\n{}\n{}\n{}", file.request.url, size, file.sha256, probed.etag);
  return fmt::format("{:016x}", base::hash64(std::as_bytes(std::span(all))));
}

}  // namespace

std::string sha256_of(const std::filesystem::path& path, const OnProgress& on_progress) {
  const Descriptor file = open_file(path, O_RDONLY);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    throw Error(ErrorCode::kOutOfMemory, "cannot compute a SHA-256");
  const std::int64_t size = ::lseek(file.get(), 0, SEEK_END);
  ::lseek(file.get(), 0, SEEK_SET);
  std::vector<char> buffer(kReadBytes);
  std::int64_t n_read = 0;
  while (true) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error("cannot read", path);
    if (n == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), to_size(n));
    n_read += n;
    if (!on_progress(Stage::kChecking, n_read, size)) throw Error(ErrorCode::kCancelled, "interrupted");
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), sum.data(), &length);
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", sum[i]);
  return text;
}

void download(const RemoteFile& file, const std::filesystem::path& path, const DownloadParams& params,
              const OnProgress& on_progress, const std::function<void()>& before_replacing) {
  if (is_there(file, path, file.size, on_progress)) return;
  make_folder(path.parent_path());
  PartFile part(path, on_progress);
  const KeepGoing waiting = [&] { return on_progress(Stage::kGetting, 0, file.size); };
  const Probe probed = probe(file.request, waiting, params.retry);
  const std::int64_t size = probed.size >= 0 ? probed.size : file.size;
  if (size < 0)
    throw Error(ErrorCode::kIo,
                fmt::format("{}: the server does not report the size of the file", file.path));
  if (file.size >= 0 && size != file.size)
    throw Error(ErrorCode::kIo, fmt::format("{}: the server's file has {} bytes, but the hub lists {}",
                                            file.path, size, file.size));
  if (file.size < 0 && is_there(file, path, size, on_progress)) return;

  part.begin(identity_of(file, probed, size), size);
  Request request = file.request;
  request.etag = probed.etag;
  request.size = size;
  const KeepGoing keep_going = [&] { return part.keep_going(); };
  if (probed.ranges)
    get_ranges(request, part.missing(), false, params.n_connections, part, keep_going, params.retry);
  else if (size > 0)
    get_ranges(request, {{0, size}}, true, 1, part, keep_going, params.retry);
  if (!file.sha256.empty()) {
    const std::string sum = sha256_of(part.path(), on_progress);
    if (sum != file.sha256) {
      part.discard();
      throw Error(ErrorCode::kIo, fmt::format("{}: the download has the SHA-256 {}, but the hub lists {}; "
                                              "the download was removed, try again",
                                              file.path, sum, file.sha256));
    }
  }
  std::error_code ignored;
  if (before_replacing && std::filesystem::exists(path, ignored)) before_replacing();
  part.move_to_its_place();
}

std::int64_t discard_begun(const std::filesystem::path& path) {
  std::error_code error;
  std::int64_t n_bytes = 0;
  if (std::filesystem::exists(part_path(path), error)) {
    const Descriptor file = open_locked(path, O_RDWR);
    n_bytes = bytes_on_disk(file.get());
    remove_begun(path);
  } else {
    std::filesystem::remove(state_path(path), error);
  }
  return n_bytes;
}

}  // namespace weft::fetch
