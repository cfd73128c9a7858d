#include "serving/systemd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr int kFirstDescriptor = 3;  // SD_LISTEN_FDS_START
constexpr int kMaxSockets = 1024;

std::optional<long> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const char* const end = text + std::strlen(text);
  long value = 0;
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || rest != end)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is '{}', which is not a number", variable, text));
  return value;
}

void check_listening_stream(int descriptor) {
  int type = 0, listening = 0;
  socklen_t size = sizeof type;
  const bool known = ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                     ::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0;
  if (!known || type != SOCK_STREAM || listening == 0)
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "LISTEN_FDS: descriptor {} is not a listening socket; the unit needs ListenStream= and Accept=no",
            descriptor));
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::vector<PassedSocket> take_listening_sockets() {
  const std::optional<long> process = number_in("LISTEN_PID");
  const std::optional<long> count = number_in("LISTEN_FDS");
  const char* const list = std::getenv("LISTEN_FDNAMES");
  std::string names = list != nullptr ? list : "";
  std::vector<PassedSocket> sockets;
  // Variables for another process are left as they are.
  if (!process || !count || *process != ::getpid()) return sockets;
  for (const char* const variable : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(variable);

  if (*count < 0 || *count > kMaxSockets)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("LISTEN_FDS is {}, not 0 to {}", *count, kMaxSockets));
  for (int i = 0; i < static_cast<int>(*count); ++i) {
    const std::size_t colon = std::min(names.find(':'), names.size());
    const std::string name = names.substr(0, colon);
    names.erase(0, colon + 1);
    const int descriptor = kFirstDescriptor + i;
    check_listening_stream(descriptor);
    ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    sockets.push_back({descriptor, name.empty() ? "unknown" : name});
  }
  return sockets;
}

ServiceNotifier::ServiceNotifier()
    : ServiceNotifier([] {
        const char* const address = std::getenv("NOTIFY_SOCKET");
        return std::string_view(address != nullptr ? address : "");
      }()) {}

ServiceNotifier::ServiceNotifier(std::string_view address) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const bool usable = address.size() > 1 && (address[0] == '/' || address[0] == '@');
  if (!usable || address.size() >= sizeof to.sun_path) return;
  std::copy(address.begin(), address.end(), to.sun_path);
  if (address[0] == '@') to.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  descriptor_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const timeval wait{.tv_sec = 1, .tv_usec = 0};
  if (descriptor_ >= 0) ::setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  if (descriptor_ >= 0 && ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), size) != 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

ServiceNotifier::~ServiceNotifier() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void ServiceNotifier::ready(std::string_view status) {
  send(fmt::format("READY=1\nSTATUS={}\n", first_line(status)), true);
}

void ServiceNotifier::status(std::string_view text) {
  send(fmt::format("STATUS={}\n", first_line(text)), false);
}

void ServiceNotifier::stopping(std::string_view status) {
  send(fmt::format("STOPPING=1\nSTATUS={}\n", first_line(status)), true);
}

void ServiceNotifier::extend_timeout(std::chrono::milliseconds time) {
  send(fmt::format("EXTEND_TIMEOUT_USEC={}\n", std::chrono::microseconds(time).count()), false);
}

void ServiceNotifier::send(std::string_view message, bool wait) {
  if (descriptor_ < 0) return;
  const int flags = MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT);
  // Errors are ignored, see the class.
  [[maybe_unused]] const ssize_t sent = ::send(descriptor_, message.data(), message.size(), flags);
}

}  // namespace weft::cli
