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
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "weft/error.h"

namespace weft::fetch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kPartBytes = std::int64_t{8} << 20;
constexpr std::int64_t kMostParts = 4096;  // Files of more have larger ones.
constexpr std::size_t kReadBytes = std::size_t{1} << 20;
constexpr auto kSaveEvery = std::chrono::seconds(2);

[[noreturn]] void io_error(const std::string& what, const std::filesystem::path& path) {
  throw Error(ErrorCode::kIo, fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {
    if (fd_ < 0) {
      if (errno == ENOENT)
        throw Error(ErrorCode::kNotFound, fmt::format("there is no file {}", path.string()));
      io_error("cannot open", path);
    }
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// The file that is being written, and which of its parts are there.
class PartFile final : public Sink {
 public:
  PartFile(const RemoteFile& file, const std::filesystem::path& path, const std::string& etag,
           std::int64_t size, const OnProgress& on_progress)
      : path_(path.string() + ".part"),
        state_path_(path_.string() + ".json"),
        identity_(fmt::format("{} {} {} {}", file.path, size, file.sha256, etag)),
        size_(size),
        part_bytes_(std::max(kPartBytes, (size + kMostParts - 1) / kMostParts)),
        file_(path_, O_RDWR | O_CREAT),
        on_progress_(on_progress) {
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) another_process(path);
    // It may have been put in its place between opening and locking.
    struct stat own = {}, named = {};
    if (::fstat(file_.get(), &own) != 0 || ::stat(path_.c_str(), &named) != 0 || own.st_ino != named.st_ino)
      another_process(path);
    done_.resize(static_cast<std::size_t>((size_ + part_bytes_ - 1) / part_bytes_));
    load();
    reserve();
  }

  std::vector<Range> missing() const {
    std::vector<Range> ranges;
    for (std::size_t i = 0; i < done_.size(); ++i)
      if (done_[i] == 0) ranges.push_back(range_of(i));
    return ranges;
  }
  std::int64_t size() const { return size_; }
  std::int64_t n_written() const { return n_written_; }
  const std::filesystem::path& path() const { return path_; }

  void write(std::int64_t offset, const char* data, std::size_t n) override {
    for (std::size_t at = 0; at < n;) {
      const ssize_t written =
          ::pwrite(file_.get(), data + at, n - at, static_cast<off_t>(offset) + static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) io_error("cannot write", path_);
      at += static_cast<std::size_t>(written);
    }
    n_written_ += static_cast<std::int64_t>(n);
  }
  void done(const Range& range) override {
    for (std::size_t i = 0; i < done_.size(); ++i)
      if (range_of(i).begin >= range.begin && range_of(i).end <= range.end) done_[i] = 1;
    if (Clock::now() - saved_ >= kSaveEvery) save();
  }
  bool keep_going() const { return on_progress_(Stage::kGetting, std::min(n_written_, size_), size_); }

  /// What is there is known to the next process. Errors are no reason to fail: then it begins from the start.
  void save() {
    saved_ = Clock::now();
    if (::fdatasync(file_.get()) != 0) return;
    std::string parts;
    for (const char one : done_) parts += one != 0 ? '1' : '0';
    const std::filesystem::path next = state_path_.string() + ".new";
    std::ofstream(next, std::ios::binary) << nlohmann::json{{"file", identity_}, {"parts", parts}}.dump();
    std::error_code ignored;
    std::filesystem::rename(next, state_path_, ignored);
  }
  /// Nothing of it is kept.
  void discard() const {
    std::error_code ignored;
    std::filesystem::remove(state_path_, ignored);
    std::filesystem::remove(path_, ignored);
  }
  void move_to(const std::filesystem::path& path) const {
    if (::fsync(file_.get()) != 0) io_error("cannot write", path_);
    if (::rename(path_.c_str(), path.c_str()) != 0) io_error("cannot rename", path_);
    std::error_code ignored;
    std::filesystem::remove(state_path_, ignored);
  }

 private:
  [[noreturn]] static void another_process(const std::filesystem::path& path) {
    throw Error(ErrorCode::kIo, fmt::format("another process fetches {}", path.string()));
  }
  Range range_of(std::size_t i) const {
    const std::int64_t begin = static_cast<std::int64_t>(i) * part_bytes_;
    return {begin, std::min(begin + part_bytes_, size_)};
  }
  void load() {
    std::ifstream file(state_path_, std::ios::binary);
    const auto state = nlohmann::json::parse(file, nullptr, false);
    if (!state.is_object() || state.value("file", nlohmann::json()) != identity_) return;
    const auto parts = state.find("parts");
    if (parts == state.end() || !parts->is_string()) return;
    const std::string& text = parts->get_ref<const std::string&>();
    // A file that was cut has not what its state says.
    if (text.size() != done_.size() || ::lseek(file_.get(), 0, SEEK_END) != size_) return;
    for (std::size_t i = 0; i < done_.size(); ++i) {
      done_[i] = text[i] == '1' ? 1 : 0;
      if (done_[i] != 0) n_written_ += range_of(i).end - range_of(i).begin;
    }
  }
  void reserve() {
    std::error_code error;
    const std::filesystem::space_info space = std::filesystem::space(path_, error);
    const auto needed = static_cast<std::uintmax_t>(size_ - n_written_);
    if (!error && space.available < needed)
      throw Error(
          ErrorCode::kIo,
          fmt::format("{} needs {} MiB more, {} has {} MiB left; free some, or set WEFT_CACHE "
                      "to a folder of another disk",
                      path_.string(), needed >> 20, path_.parent_path().string(), space.available >> 20));
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) != 0) io_error("cannot write", path_);
  }

  std::filesystem::path path_, state_path_;
  std::string identity_;
  std::int64_t size_, part_bytes_;
  Descriptor file_;
  const OnProgress& on_progress_;
  std::vector<char> done_;
  std::int64_t n_written_ = 0;
  Clock::time_point saved_ = Clock::now();
};

bool is_there(const RemoteFile& file, const std::filesystem::path& path, std::int64_t size,
              const OnProgress& on_progress) {
  std::error_code error;
  const std::uintmax_t own = std::filesystem::file_size(path, error);
  if (error || size < 0 || own != static_cast<std::uintmax_t>(size)) return false;
  return file.sha256.empty() || sha256_of(path, on_progress) == file.sha256;
}

}  // namespace

std::string sha256_of(const std::filesystem::path& path, const OnProgress& on_progress) {
  const Descriptor file(path, O_RDONLY);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (context == nullptr || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    throw Error(ErrorCode::kOutOfMemory, "no sum can be computed");
  const std::int64_t size = ::lseek(file.get(), 0, SEEK_END);
  ::lseek(file.get(), 0, SEEK_SET);
  std::vector<char> buffer(kReadBytes);
  std::int64_t n_read = 0;
  while (true) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) io_error("cannot read", path);
    if (n == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(n));
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
              const OnProgress& on_progress) {
  const KeepGoing waiting = [&] { return on_progress(Stage::kGetting, 0, file.size); };
  if (is_there(file, path, file.size, on_progress)) return;
  const Probe probed = probe(file.request, waiting, params.retry);
  const std::int64_t size = probed.size >= 0 ? probed.size : file.size;
  if (size < 0)
    throw Error(ErrorCode::kIo, fmt::format("{}: the server does not say how large the file is", file.path));
  if (file.size >= 0 && size != file.size)
    throw Error(ErrorCode::kIo, fmt::format("{}: the server's file has {} bytes, the hub lists {}", file.path,
                                            size, file.size));
  if (is_there(file, path, size, on_progress)) return;
  std::filesystem::create_directories(path.parent_path());

  PartFile part(file, path, probed.etag, size, on_progress);
  Request request = file.request;
  request.etag = probed.etag;
  const KeepGoing keep_going = [&] { return part.keep_going(); };
  try {
    if (probed.ranges)
      get_ranges(request, part.missing(), false, params.n_connections, part, keep_going, params.retry);
    else if (size > 0)
      get_ranges(request, {{0, size}}, true, 1, part, keep_going, params.retry);
  } catch (...) {
    if (probed.ranges) part.save();
    throw;
  }
  if (!file.sha256.empty()) {
    const std::string sum = sha256_of(part.path(), on_progress);
    if (sum != file.sha256) {
      part.discard();
      throw Error(ErrorCode::kIo,
                  fmt::format("{}: what came has the SHA-256 {}, the hub lists {}; it was removed: "
                              "try again",
                              file.path, sum, file.sha256));
    }
  }
  part.move_to(path);
}

}  // namespace weft::fetch
