#include "http_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "command.h"
#include "weft/error.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMaxAnswer = 64 << 10;

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& why) { throw Error(ErrorCode::kIo, why); }

template <class T, void (*kFree)(T*)>
struct Free {
  void operator()(T* object) const { kFree(object); }
};

class Socket {
 public:
  Socket(int family, Clock::time_point deadline)
      : descriptor_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline_(deadline) {
    if (descriptor_ < 0) fail(std::strerror(errno));
  }
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  void connect(const sockaddr* address, socklen_t size) {
    if (::connect(descriptor_, address, size) == 0) return;
    if (errno != EINPROGRESS) fail(std::strerror(errno));
    wait(POLLOUT);
    int error = 0;
    socklen_t error_size = sizeof error;
    ::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &error_size);
    if (error != 0) fail(std::strerror(error));
  }

  void begin_tls() {
    context_.reset(::SSL_CTX_new(::TLS_client_method()));
    tls_.reset(context_ != nullptr ? ::SSL_new(context_.get()) : nullptr);
    if (tls_ == nullptr || ::SSL_set_fd(tls_.get(), descriptor_) != 1) fail("TLS cannot be used");
    for (int result = 0; (result = ::SSL_connect(tls_.get())) != 1;) retry_or_fail_tls(result);
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      std::size_t size = 0;
      if (tls_ != nullptr) {
        const int result = ::SSL_write_ex(tls_.get(), text.data(), text.size(), &size);
        if (result != 1) retry_or_fail_tls(result);
      } else {
        const ssize_t n = ::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL);
        if (n < 0) retry_or_fail(POLLOUT);
        size = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
      }
      text.remove_prefix(size);
    }
  }

  // Reads until the peer closes or the limit is reached.
  std::string receive_all() {
    std::string text;
    std::array<char, 4096> block{};
    while (text.size() < kMaxAnswer) {
      if (tls_ != nullptr) {
        std::size_t size = 0;
        const int result = ::SSL_read_ex(tls_.get(), block.data(), block.size(), &size);
        if (result == 1) {
          text.append(block.data(), size);
        } else if (::SSL_get_error(tls_.get(), result) == SSL_ERROR_ZERO_RETURN) {
          break;
        } else {
          retry_or_fail_tls(result);
        }
        continue;
      }
      const ssize_t n = ::recv(descriptor_, block.data(), block.size(), 0);
      if (n == 0) break;
      if (n > 0) {
        text.append(block.data(), static_cast<std::size_t>(n));
      } else {
        retry_or_fail(POLLIN);
      }
    }
    return text;
  }

 private:
  void retry_or_fail(short events) {
    if (errno == EINTR) return;
    if (errno != EAGAIN && errno != EWOULDBLOCK) fail(std::strerror(errno));
    wait(events);
  }

  void retry_or_fail_tls(int result) {
    const int kind = ::SSL_get_error(tls_.get(), result);
    if (kind != SSL_ERROR_WANT_READ && kind != SSL_ERROR_WANT_WRITE)
      fail("TLS failed: the server closed the connection, or speaks plain HTTP");
    wait(kind == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
  }

  void wait(short events) {
    for (;;) {
      const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now());
      if (rest.count() <= 0) fail("no response in time");
      pollfd entry{.fd = descriptor_, .events = events, .revents = 0};
      const int n = ::poll(&entry, 1, static_cast<int>(std::min<long>(rest.count(), 1'000'000)));
      if (n > 0) return;
      if (n < 0 && errno != EINTR) fail(std::strerror(errno));
    }
  }

  int descriptor_;
  Clock::time_point deadline_;
  std::unique_ptr<SSL_CTX, Free<SSL_CTX, ::SSL_CTX_free>> context_;
  std::unique_ptr<SSL, Free<SSL, ::SSL_free>> tls_;
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

bool is_socket(const ProbeTarget& target) { return target.host.find('/') != std::string::npos; }

// "127.0.0.1:8080", "[::1]:8080"
std::string authority(const ProbeTarget& target) {
  const bool v6 = target.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", v6 ? "[" : "", target.host, v6 ? "]" : "", target.port);
}

std::string ask(Socket& socket, const ProbeTarget& target) {
  if (target.tls) socket.begin_tls();
  const std::string host = is_socket(target) ? "localhost" : authority(target);
  socket.send(
      fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAccept: application/json\r\n\r\n",
                  target.path, host));
  return socket.receive_all();
}

std::string exchange(const ProbeTarget& target, Clock::time_point deadline) {
  if (is_socket(target)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (target.host.size() >= sizeof address.sun_path) fail("the path of the socket is too long");
    std::copy(target.host.begin(), target.host.end(), address.sun_path);
    Socket socket(AF_UNIX, deadline);
    socket.connect(reinterpret_cast<const sockaddr*>(&address), sizeof address);
    return ask(socket, target);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(target.host.c_str(), target.port.c_str(), &hints, &found); error != 0)
    fail(::gai_strerror(error));
  const std::unique_ptr<addrinfo, FreeAddresses> list(found);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    try {
      Socket socket(each->ai_family, deadline);
      socket.connect(each->ai_addr, each->ai_addrlen);
      return ask(socket, target);
    } catch (const Error&) {
      if (each->ai_next == nullptr) throw;
    }
  }
  fail("the name has no address");
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && rest == text.data() + text.size() && port > 0 && port < 65536;
}

}  // namespace

std::string ProbeTarget::url() const {
  return is_socket(*this) ? "unix:" + host
                          : fmt::format("{}://{}{}", tls ? "https" : "http", authority(*this), path);
}

ProbeTarget parse_probe_url(std::string_view url) {
  const auto wrong = [&](std::string_view why) {
    return UsageError(fmt::format("'{}': {}; expected e.g. http://127.0.0.1:8080/health", url, why));
  };
  if (!is_plain(url)) throw wrong("a URL has no spaces, and only ASCII");
  ProbeTarget target;
  std::string_view rest = url;
  if (rest.starts_with("unix:")) {
    target.host = rest.substr(5);
    if (target.host.find('/') == std::string::npos)
      throw wrong("a Unix socket is named by a path with a '/'");
    return target;
  }
  target.tls = rest.starts_with("https://");
  if (target.tls || rest.starts_with("http://")) rest.remove_prefix(target.tls ? 8 : 7);
  const std::size_t slash = rest.find('/');
  if (slash != std::string_view::npos && slash + 1 < rest.size()) target.path = rest.substr(slash);
  rest = rest.substr(0, slash);
  std::size_t end = rest.find(':');
  if (rest.starts_with('[')) {
    const std::size_t bracket = rest.find(']');
    if (bracket == std::string_view::npos) throw wrong("']' is missing");
    target.host = rest.substr(1, bracket - 1);
    end = bracket + 1;
  } else {
    target.host = rest.substr(0, end);
  }
  if (target.host.empty()) throw wrong("there is no host");
  if (end < rest.size()) {
    target.port = rest.substr(end + 1);
    if (rest[end] != ':' || !is_port(target.port)) throw wrong("the port is not a number from 1 to 65535");
  }
  return target;
}

ProbeAnswer probe(const ProbeTarget& target, std::chrono::milliseconds timeout) {
  const std::string text = exchange(target, Clock::now() + timeout);
  // HTTP/1.1 200 OK
  constexpr std::string_view kVersion = "HTTP/1.";
  ProbeAnswer answer;
  constexpr std::size_t kStatus = kVersion.size() + 2;
  const char* const begin = text.data() + std::min(kStatus, text.size());
  const auto [rest, error] =
      std::from_chars(begin, text.data() + std::min(kStatus + 3, text.size()), answer.status);
  if (!text.starts_with(kVersion) || error != std::errc{} || rest != begin + 3 || answer.status < 100)
    fail(text.empty() ? "the connection was closed without a response" : "the server does not speak HTTP");
  const std::size_t body = text.find("\r\n\r\n");
  if (body != std::string::npos) answer.body = text.substr(body + 4);
  return answer;
}

}  // namespace weft::cli
