#include "server/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

namespace weft::server {
namespace {

/// A test that waits longer has failed.
constexpr timeval kPatience{60, 0};

}  // namespace

RawClient::RawClient() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
}

RawClient::RawClient(std::uint16_t port, int receive_bytes, const char* from) : RawClient() {
  sockaddr_in own{};
  own.sin_family = AF_INET;
  if (from != nullptr && (::inet_pton(AF_INET, from, &own.sin_addr) != 1 ||
                          ::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) != 0)) {
    close();
    return;
  }
  if (receive_bytes > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
  if (!connect(port)) close();
}

bool RawClient::connect(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

RawClient::RawClient(const std::string& unix_path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof(kPatience));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof(address.sun_path) - 1);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) close();
}

RawClient::~RawClient() { close(); }

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), received_(std::move(other.received_)) {}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void RawClient::end_sending() { ::shutdown(socket_, SHUT_WR); }

void RawClient::close(bool reset) {
  if (socket_ < 0) return;
  const linger at_once{1, 0};
  if (reset) ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(std::exchange(socket_, -1));
}

bool RawClient::fill() {
  std::array<char, 65536> bytes;
  const ssize_t n = ::recv(socket_, bytes.data(), bytes.size(), 0);
  if (n <= 0) return false;
  received_.append(bytes.data(), static_cast<std::size_t>(n));
  return true;
}

std::string RawClient::take(std::size_t bytes) {
  while (received_.size() < bytes && fill()) {
  }
  std::string out = received_.substr(0, bytes);
  received_.erase(0, out.size());
  return out;
}

std::string_view RawClient::peek(std::size_t bytes) {
  while (received_.size() < bytes && fill()) {
  }
  return received_;
}

std::string RawClient::read_until(std::string_view end) {
  std::size_t from = 0;
  for (;;) {
    const std::size_t found = received_.find(end, from);
    if (found != received_.npos) return take(found + end.size());
    from = received_.size() < end.size() ? 0 : received_.size() - end.size();
    if (!fill()) return take(received_.size());
  }
}

bool RawClient::at_end() {
  errno = 0;  // An end of file does not set errno.
  return received_.empty() && !fill() && errno != EAGAIN;
}

RawClient::Response RawClient::read_response(bool head_only) {
  Response answer;
  std::string_view rest;
  const std::string head = read_until("\r\n\r\n");
  if (!head.ends_with("\r\n\r\n") || !head.starts_with("HTTP/1.1 ")) return answer;
  answer.status = std::atoi(head.c_str() + 9);
  rest = std::string_view(head).substr(head.find("\r\n") + 2);
  while (rest.size() > 2) {
    const std::string_view line = rest.substr(0, rest.find("\r\n"));
    rest.remove_prefix(line.size() + 2);
    std::string name(line.substr(0, line.find(": ")));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers[name] = line.substr(line.find(": ") + 2);
  }
  if (head_only || answer.status == 204 || answer.status == 304 || answer.status == 100) {
    answer.complete = true;
  } else if (const auto length = answer.headers.find("content-length"); length != answer.headers.end()) {
    const std::size_t size = std::stoull(length->second);
    answer.body = take(size);
    answer.complete = answer.body.size() == size;
  } else if (answer.headers.count("transfer-encoding") > 0) {
    for (;;) {
      const std::string line = read_until("\r\n");
      if (!line.ends_with("\r\n")) break;
      const std::size_t size = std::stoull(line, nullptr, 16);
      const std::string piece = take(size + 2);
      if (!piece.ends_with("\r\n")) break;
      answer.body += piece.substr(0, size);
      if (size == 0) answer.complete = true;
      if (size == 0) break;
    }
  } else {
    while (fill()) {
    }
    answer.body = take(received_.size());
    answer.complete = true;
  }
  return answer;
}

std::string get(std::string_view path, std::string_view headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(headers) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view headers) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(headers) + "\r\n" + std::string(body);
}

}  // namespace weft::server
