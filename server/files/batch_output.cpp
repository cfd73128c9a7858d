#include "files/batch_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/json.h"
#include "base/to_size.h"
#include "files/line_reader.h"
#include "weft/error.h"

namespace weft::server {

BatchOutput::BatchOutput(std::filesystem::path path, Space& space, std::string owner)
    : path_(std::move(path)),
      space_(space),
      owner_(std::move(owner)),
      file_(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  struct stat status{};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) fail();
  bytes_ = to_size(status.st_size);
  space_.count(owner_, bytes_);
}

BatchOutput::~BatchOutput() { space_.give(owner_, bytes_); }

void BatchOutput::fail() const { throw storage_error(std::strerror(errno)); }

void BatchOutput::cut(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) fail();
  space_.give(owner_, bytes_ - bytes);
  bytes_ = bytes;
}

std::size_t BatchOutput::recover(const std::function<bool(const std::string& custom_id)>& takes) try {
  const base::OpenFile file(path_);
  LineReader reader(file, std::numeric_limits<std::size_t>::max());
  std::size_t n = 0;
  while (const auto line = reader.next()) {
    const auto json = line->ended ? base::try_parse_json<Json>(line->text, {.depth = 256}) : std::nullopt;
    const bool is_result =
        json && json->is_object() && json->contains("custom_id") && (*json)["custom_id"].is_string();
    if (!is_result || !takes((*json)["custom_id"].get<std::string>())) {
      cut(line->offset);
      break;
    }
    ++n;
  }
  return n;
} catch (const Error& error) {
  throw storage_error(error.what());
}

void BatchOutput::append(std::string line) {
  line += '\n';
  space_.take(owner_, line.size());
  bytes_ += line.size();
  is_dirty_ = true;
  std::string_view left = line;
  while (!left.empty()) {
    const ssize_t n = ::write(file_.get(), left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      cut(bytes_ - line.size());
      errno = error;
      fail();
    }
    left.remove_prefix(to_size(n));
  }
}

void BatchOutput::sync() {
  if (!std::exchange(is_dirty_, false)) return;
  if (::fdatasync(file_.get()) != 0) fail();
}

}  // namespace weft::server
