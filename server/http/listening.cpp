#include "http/listening.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "base/descriptor.h"
#include "weft/error.h"

namespace weft::server {
namespace {

using base::Descriptor;

constexpr int kBacklog = 4096;

std::string reason(int number) {
  std::array<char, 128> text{};
  return ::strerror_r(number, text.data(), text.size());
}

int open_socket(int family) { return ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

std::pair<sockaddr_storage, socklen_t> address_of(int socket, bool other_end) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  auto* const where = reinterpret_cast<sockaddr*>(&address);
  const int failed = other_end ? ::getpeername(socket, where, &size) : ::getsockname(socket, where, &size);
  if (failed != 0) address.ss_family = AF_UNSPEC;
  return {address, size};
}

std::uint16_t port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

void set_port(sockaddr_storage& address, std::uint16_t port) {
  if (address.ss_family == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  if (address.ss_family == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
}

/// "127.0.0.1:80", "[::1]:80"
std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const std::string port = ":" + std::to_string(port_of(address));
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text.data(), text.size());
    return text.data() + port;
  }
  if (address.ss_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text.data(),
                text.size());
    return "[" + std::string(text.data()) + "]" + port;
  }
  return "unix";
}

void set_option(int socket, int level, int name) {
  const int on = 1;
  ::setsockopt(socket, level, name, &on, sizeof(on));
}

bool is_ipv6_only(int socket) {
  int on = 0;
  socklen_t size = sizeof(on);
  return ::getsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, &size) == 0 && on != 0;
}

/// Whether one of the sockets accepts connections to the address: it listens there, or at 0.0.0.0 or [::].
bool any_accepts(const std::vector<Descriptor>& sockets, const sockaddr_storage& address) {
  return std::any_of(sockets.begin(), sockets.end(), [&](const Descriptor& socket) {
    const sockaddr_storage own = address_of(socket.get(), false).first;
    if (text_of(own) == text_of(address)) return true;
    sockaddr_storage any{};
    any.ss_family = own.ss_family;
    set_port(any, port_of(address));
    return text_of(own) == text_of(any) &&
           (own.ss_family == address.ss_family ||
            (own.ss_family == AF_INET6 && address.ss_family == AF_INET && !is_ipv6_only(socket.get())));
  });
}

bool is_path(const std::string& host) { return host.find('/') != host.npos; }

/// An address of a host, without a port.
struct NamedAddress {
  std::size_t host = 0;  ///< Its index in the list.
  sockaddr_storage address{};
  socklen_t size = 0;
  bool is_ipv6_only = false;

  /// Whether it is 0.0.0.0 or [::].
  bool is_any() const {
    sockaddr_storage any{};
    any.ss_family = address.ss_family;
    return text_of(any) == text_of(address);
  }
};

/// Appends all addresses of a host.
void add_addresses(const std::string& host, std::size_t index, std::vector<NamedAddress>& all) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  if (const int failed = ::getaddrinfo(host.c_str(), nullptr, &wanted, &list); failed != 0)
    throw Error(ErrorCode::kIo, "cannot listen at '" + host + "': " + ::gai_strerror(failed) +
                                    "; use an address of this machine, such as 127.0.0.1 or 0.0.0.0");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  // [::] also accepts IPv4, unless the name or an earlier host has IPv4 addresses of its own.
  const bool has_ipv4 = std::any_of(all.begin(), all.end(),
                                    [](const NamedAddress& one) { return one.address.ss_family == AF_INET; });
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    NamedAddress named{.host = index, .size = one->ai_addrlen};
    std::memcpy(&named.address, one->ai_addr, one->ai_addrlen);
    named.is_ipv6_only = one->ai_family == AF_INET6 && (has_ipv4 || list->ai_next != nullptr);
    all.push_back(named);
  }
}

/// Ports to try where the system chooses one.
constexpr int kPortTries = 64;

struct Bound {
  std::vector<Descriptor> sockets = {};
  std::vector<int> n_sockets = {};  ///< Of each host.
  std::uint16_t port = 0;
  int problem = 0;  ///< An errno, if it is not possible.
  std::size_t failed_host = 0;
};

/// Listens at all addresses, at one port.
Bound bind_all(const std::vector<NamedAddress>& wanted, std::size_t n_hosts, std::uint16_t port) {
  Bound bound{.n_sockets = std::vector<int>(n_hosts), .port = port};
  std::vector<int> n_included(n_hosts), lacking(n_hosts);
  for (const NamedAddress& one : wanted) {
    sockaddr_storage address = one.address;
    set_port(address, bound.port);
    Descriptor socket(open_socket(address.ss_family));
    const auto listens = [&] {
      set_option(socket.get(), SOL_SOCKET, SO_REUSEADDR);
      if (one.is_ipv6_only) set_option(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY);
      return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), one.size) == 0 &&
             ::listen(socket.get(), kBacklog) == 0;
    };
    if (socket.get() >= 0 && listens()) {
      bound.port = port_of(address_of(socket.get(), false).first);
      bound.sockets.push_back(std::move(socket));
      ++bound.n_sockets[one.host];
      continue;
    }
    bound.problem = errno;
    bound.failed_host = one.host;
    if (bound.problem == EADDRINUSE && any_accepts(bound.sockets, address)) {
      ++n_included[one.host];
    } else if (bound.problem == EADDRNOTAVAIL || bound.problem == EAFNOSUPPORT) {
      lacking[one.host] = bound.problem;  // Fine if the machine has another address of the host.
    } else {
      return bound;
    }
  }
  bound.problem = 0;
  for (std::size_t i = 0; i < n_hosts; ++i)
    if (bound.n_sockets[i] + n_included[i] == 0) {
      bound.problem = lacking[i];
      bound.failed_host = i;
    }
  return bound;
}

/// "::1" of " [::1]", "/run/weft.sock" of "unix:///run/weft.sock".
std::string bare_host(std::string_view host) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!host.empty() && is_space(host.front())) host.remove_prefix(1);
  while (!host.empty() && is_space(host.back())) host.remove_suffix(1);
  if (host.starts_with("unix:")) {
    host.remove_prefix(5);
    if (host.starts_with("//")) host.remove_prefix(2);
  } else if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return std::string(host);
}

/// Whether the path is a socket whose program has ended.
bool is_left_over(const sockaddr_un& address) {
  struct stat found{};
  if (::lstat(address.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  const Descriptor socket(open_socket(AF_UNIX));
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

SocketPath::SocketPath(std::string path) : path_(std::move(path)) {
  struct stat made{};
  if (::lstat(path_.c_str(), &made) != 0)
    throw Error(ErrorCode::kIo, "cannot find the Unix socket " + path_ + ": " + reason(errno));
  id_ = {made.st_dev, made.st_ino};
}

SocketPath::~SocketPath() {
  struct stat found{};
  if (!path_.empty() && ::lstat(path_.c_str(), &found) == 0 && id_ == std::pair{found.st_dev, found.st_ino})
    ::unlink(path_.c_str());
}

std::vector<std::string> split_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    hosts.push_back(bare_host(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return hosts;
}

ListeningSockets::ListeningSockets(std::string_view hosts, std::uint16_t port) {
  const std::vector<std::string> all = split_hosts(hosts);
  std::vector<std::string> names;
  for (const std::string& host : all) is_path(host) ? listen_at_path(host) : names.push_back(host);
  if (!names.empty()) listen_at_names(names, port);
  for (const std::string& host : all) {
    const bool bare = host.find(':') != host.npos;
    addresses_.push_back(is_path(host)
                             ? "unix:" + host
                             : "http://" + (bare ? "[" + host + "]" : host) + ":" + std::to_string(port_));
  }
}

ListeningSockets::ListeningSockets(const std::vector<int>& inherited) {
  for (const int socket : inherited) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    if (::getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0)
      throw Error(ErrorCode::kInvalidArgument, "descriptor " + std::to_string(socket) +
                                                   " was passed as a listening socket, but is not one");
  }
  for (const int socket : inherited) {
    ::fcntl(socket, F_SETFD, ::fcntl(socket, F_GETFD) | FD_CLOEXEC);
    ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
    sockets_.emplace_back(socket);
    const auto address = address_of(socket, false).first;
    if (port_ == 0) port_ = port_of(address);
    const auto& unix_address = reinterpret_cast<const sockaddr_un&>(address);
    addresses_.push_back(address.ss_family == AF_UNIX ? "unix:" + std::string(unix_address.sun_path)
                                                      : "http://" + text_of(address));
  }
}

std::vector<int> ListeningSockets::release() {
  std::vector<int> out;
  for (base::Descriptor& socket : sockets_) out.push_back(socket.release());
  sockets_.clear();
  return out;
}

void ListeningSockets::listen_at_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    throw Error(ErrorCode::kInvalidArgument, "the path of a Unix socket has at most " +
                                                 std::to_string(sizeof(address.sun_path) - 1) +
                                                 " bytes: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  Descriptor socket(open_socket(AF_UNIX));
  const auto bind_there = [&] {
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  };
  bool bound = socket.get() >= 0 && bind_there();
  if (!bound && errno == EADDRINUSE) {
    if (is_left_over(address) && ::unlink(path.c_str()) == 0) {
      bound = bind_there();
    } else {
      errno = EADDRINUSE;
    }
  }
  if (bound) paths_.emplace_back(path);
  if (!bound || ::listen(socket.get(), kBacklog) != 0)
    throw Error(ErrorCode::kIo, "cannot listen at " + path + ": " + reason(errno));
  sockets_.push_back(std::move(socket));
}

void ListeningSockets::listen_at_names(const std::vector<std::string>& hosts, std::uint16_t port) {
  std::vector<NamedAddress> wanted;
  for (std::size_t i = 0; i < hosts.size(); ++i) add_addresses(hosts[i], i, wanted);
  // An address that includes others must get the port before them.
  std::stable_partition(wanted.begin(), wanted.end(), [](const NamedAddress& one) { return one.is_any(); });
  // The system chooses a port that is free at one address. Another program may use it at another one.
  Bound bound = bind_all(wanted, hosts.size(), port);
  for (int n = 1; n < kPortTries && port == 0 && bound.problem == EADDRINUSE; ++n)
    bound = bind_all(wanted, hosts.size(), port);
  if (bound.problem != 0)
    throw Error(ErrorCode::kIo, "cannot listen at " + hosts[bound.failed_host] + ":" + std::to_string(port) +
                                    ": " + reason(bound.problem) +
                                    (bound.problem == EADDRINUSE ? "; choose another port" : ""));
  port_ = bound.port;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (bound.n_sockets[i] == 0) included_.push_back(hosts[i]);
  std::move(bound.sockets.begin(), bound.sockets.end(), std::back_inserter(sockets_));
}

std::string peer_name(int socket) { return text_of(address_of(socket, true).first); }

std::optional<Address> peer_address(int socket) { return parse_address(peer_name(socket)); }

int family_of(int socket) { return address_of(socket, false).first.ss_family; }

int raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<int>::max();
  const rlimit most{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &most) == 0) limit = most;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<int>::max()));
}

}  // namespace weft::server
