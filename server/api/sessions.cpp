#include "api/sessions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "api/fields.h"
#include "base/descriptor.h"
#include "base/to_size.h"
#include "weft/error.h"
#include "weft/prefix_state.h"

namespace weft::server {
namespace {

using base::Descriptor;

constexpr std::size_t kLongestName = 128;

// A plain file name: without folders, not hidden, and without characters for a shell or a terminal.
void check_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kLongestName && name.front() != '.' &&
      std::all_of(name.begin(), name.end(), fits))
    return;
  throw bad_request(
      "filename",
      "'filename' must consist of letters, digits, '-', '_' and '.', and must not begin with '.'");
}

/// A name of a client has no "@".
std::string file_of(const std::string& owner, const std::string& name) {
  return owner.empty() ? name : owner + "@" + name;
}

/// Errors that are due to the client's file name are 4xx.
int status_of(int error) {
  switch (error) {
    case ENOENT:
      return 404;
    case ELOOP:   // A symbolic link, which is never followed.
    case EISDIR:  // Not a session's file either.
    case ENOTDIR:
    case ENOTEMPTY:
    case EEXIST:
    case ENXIO:
    case ENAMETOOLONG:
      return 400;
    case ENOSPC:
    case EDQUOT:
      return 507;
    default:
      return 500;
  }
}

[[noreturn]] void fail(const std::string& name, const char* action) {
  const int status = status_of(errno);
  throw ApiError(status, status < 500 ? "invalid_request_error" : "server_error", "", "filename",
                 errno == ELOOP
                     ? fmt::format("'{}' is a symbolic link, which the server does not follow", name)
                     : fmt::format("cannot {} '{}': {}", action, name, std::strerror(errno)));
}

// Writes the file completely or not at all, and never through a link.
void write_file(int folder, const std::string& name, std::span<const std::byte> bytes) {
  static std::atomic<unsigned> n_written{0};
  const std::string temporary = fmt::format(".{}.tmp-{}-{}", name, ::getpid(), n_written++);
  ::unlinkat(folder, temporary.c_str(), 0);
  {
    const Descriptor file(
        ::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) fail(name, "write");
    while (!bytes.empty()) {
      const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0 || (to_size(n) == bytes.size() && ::fsync(file.get()) != 0)) {
        const int error = errno;
        ::unlinkat(folder, temporary.c_str(), 0);
        errno = error;
        fail(name, "write");
      }
      bytes = bytes.subspan(to_size(n));
    }
  }
  if (::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) {
    const int error = errno;
    ::unlinkat(folder, temporary.c_str(), 0);
    errno = error;
    fail(name, "write");
  }
}

std::vector<std::byte> read_file(int folder, const std::string& name) {
  const Descriptor file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) fail(name, "read");
  if (!S_ISREG(status.st_mode))
    throw bad_request("filename", fmt::format("'{}' is not a regular file", name));
  std::vector<std::byte> bytes(to_size(status.st_size));
  std::size_t n_read = 0;
  while (n_read < bytes.size()) {
    const ssize_t n = ::read(file.get(), bytes.data() + n_read, bytes.size() - n_read);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(name, "read");
    if (n == 0) break;
    n_read += to_size(n);
  }
  bytes.resize(n_read);
  return bytes;
}

/// A file is one saved prefix. Or it begins with this head and the sizes (u64) of `n` prefixes, and they
/// follow: the sequence, then its snapshots. Each prefix has its own checksum.
struct Head {
  std::array<char, 8> magic = {'w', 'e', 'f', 't', 's', 'l', 'o', 't'};
  std::uint32_t version = 1;
  std::uint32_t n = 0;
};
constexpr std::size_t kMostSnapshots = 8;

using Bytes = std::vector<std::byte>;

void append(Bytes& to, std::span<const std::byte> bytes) { to.insert(to.end(), bytes.begin(), bytes.end()); }

Bytes joined(std::vector<Bytes> prefixes) {
  if (prefixes.size() == 1) return std::move(prefixes.front());
  Bytes file;
  const Head head{.n = static_cast<std::uint32_t>(prefixes.size())};
  append(file, std::as_bytes(std::span(&head, 1)));
  for (const Bytes& prefix : prefixes) {
    const std::uint64_t size = prefix.size();
    append(file, std::as_bytes(std::span(&size, 1)));
  }
  for (const Bytes& prefix : prefixes) append(file, prefix);
  return file;
}

/// The prefixes of a file, which are checked. Snapshots are prefixes of the first one.
std::vector<std::span<const std::byte>> split(std::span<const std::byte> file) {
  Head head;
  if (file.size() < sizeof(Head) || std::memcmp(file.data(), head.magic.data(), head.magic.size()) != 0)
    return {file};
  const auto damaged = [] {
    return Error(ErrorCode::kInvalidFile, "the file is damaged; nothing was restored");
  };
  std::memcpy(&head, file.data(), sizeof(Head));
  if (head.version != Head().version)
    throw Error(ErrorCode::kInvalidFile, fmt::format("the file has version {}, this weft reads version {}",
                                                     head.version, Head().version));
  if (head.n < 1 || head.n > 1 + kMostSnapshots ||
      file.size() < sizeof(Head) + head.n * sizeof(std::uint64_t))
    throw damaged();
  std::vector<std::span<const std::byte>> prefixes;
  std::span<const std::byte> rest = file.subspan(sizeof(Head) + head.n * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < head.n; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, file.data() + sizeof(Head) + i * sizeof(size), sizeof(size));
    if (size > rest.size()) throw damaged();
    prefixes.push_back(rest.first(to_size(size)));
    rest = rest.subspan(to_size(size));
  }
  if (!rest.empty()) throw damaged();
  const std::vector<Token> text = read_prefix_state(prefixes.front()).tokens;
  for (const auto& prefix : std::span(prefixes).subspan(1)) {
    const std::vector<Token> snapshot = read_prefix_state(prefix).tokens;
    if (snapshot.size() > text.size() || !std::equal(snapshot.begin(), snapshot.end(), text.begin()))
      throw damaged();
  }
  return prefixes;
}

}  // namespace

Sessions::Sessions(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0)
    throw Error(ErrorCode::kIo, fmt::format("--slot-save-path: cannot open the folder '{}': {}",
                                            folder.string(), std::strerror(errno)));
}

Sessions::~Sessions() {
  if (folder_ >= 0) ::close(folder_);
}

void Sessions::remember(const std::string& owner, const std::string& model, int slot, Text text) {
  const std::lock_guard lock(mutex_);
  texts_[{owner, model, slot}] = std::move(text);
}

Sessions::Text Sessions::text_of(const std::string& owner, const std::string& model, int slot) const {
  const std::lock_guard lock(mutex_);
  const auto found = texts_.find({owner, model, slot});
  if (found == texts_.end())
    throw bad_request("id_slot",
                      fmt::format("slot {} is empty: send a request with \"id_slot\": {} first", slot, slot));
  return found->second;
}

void Sessions::save(Job& job, int slot, const std::string& name) {
  const Text text = text_of(job.owner, job.model->spec.name, slot);
  SavedPrefix saved = job.model->service->save_prefix(text.tokens, text.adapters);
  if (saved.n_tokens == 0)
    throw ApiError(
        409, "invalid_request_error", "not_cached", "id_slot",
        fmt::format("the sequence of slot {} is no longer in the cache; send its request again", slot));
  std::vector<Bytes> prefixes;
  prefixes.push_back(std::move(saved.state));
  for (const int length : text.snapshots) {
    if (length >= saved.n_tokens || prefixes.size() > kMostSnapshots) continue;
    SavedPrefix snapshot =
        job.model->service->save_prefix(std::span(text.tokens).first(to_size(length)), text.adapters);
    if (snapshot.n_tokens == length) prefixes.push_back(std::move(snapshot.state));
  }
  const Bytes file = joined(std::move(prefixes));
  write_file(folder_, file_of(job.owner, name), file);
  job.send({{"id_slot", slot}, {"filename", name}, {"n_saved", saved.n_tokens}, {"n_written", file.size()}});
}

void Sessions::restore(Job& job, int slot, const std::string& name) {
  const std::vector<std::byte> bytes = read_file(folder_, file_of(job.owner, name));
  RestoredPrefix text;
  std::vector<int> snapshots;
  try {
    const std::vector<std::span<const std::byte>> prefixes = split(bytes);
    for (const auto& prefix : std::span(prefixes).subspan(1)) {
      try {
        snapshots.push_back(static_cast<int>(job.model->service->restore_prefix(prefix).tokens.size()));
      } catch (const Error& error) {  // The sequence is of use without them.
        if (error.code() != ErrorCode::kOverloaded) throw;
      }
    }
    text = job.model->service->restore_prefix(prefixes.front());
  } catch (const Error& error) {  // The client's file is at fault, not the server.
    if (error.code() != ErrorCode::kInvalidFile) throw;
    throw bad_request("filename", fmt::format("'{}': {}", name, error.what()));
  }
  const std::size_t n = text.tokens.size();
  remember(job.owner, job.model->spec.name, slot,
           {std::move(text.tokens), std::move(text.adapters), std::move(snapshots)});
  job.send({{"id_slot", slot}, {"filename", name}, {"n_restored", n}, {"n_read", bytes.size()}});
}

void Sessions::act(Job& job, int slot, const std::string& action) {
  if (!enabled())
    throw ApiError(501, "not_supported_error", "", "",
                   "sessions are disabled; start the server with --slot-save-path FOLDER");
  check_writes(*job.model);
  if (action != "save" && action != "restore" && action != "erase")
    throw bad_request("action",
                      fmt::format("'action' must be save, restore or erase, not '{}'", action.substr(0, 64)));
  if (action == "erase") {
    const std::vector<Token> text = text_of(job.owner, job.model->spec.name, slot).tokens;
    job.model->service->forget_prefix(text);
    const std::lock_guard lock(mutex_);
    texts_.erase({job.owner, job.model->spec.name, slot});
    return job.send({{"id_slot", slot}, {"n_erased", text.size()}});
  }
  Fields fields(job.body);
  const std::string name = fields.string("filename");
  fields.ignore({"model"});
  fields.done();
  check_name(name);
  if (action == "save") return save(job, slot, name);
  restore(job, slot, name);
}

}  // namespace weft::server
