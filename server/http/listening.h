#pragma once
// Sockets that listen: addresses, names, paths of Unix sockets, and sockets inherited from the parent
// process.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "http/proxies.h"

namespace weft::server {

/// The path of a Unix socket that this process made. The destructor removes it, unless it has been replaced.
class SocketPath {
 public:
  /// Remembers the file that is at `path` now. Throws Error kIo if there is none.
  explicit SocketPath(std::string path);
  ~SocketPath();
  SocketPath(SocketPath&& other) noexcept : SocketPath() {
    std::swap(path_, other.path_), std::swap(id_, other.id_);
  }
  SocketPath& operator=(SocketPath&&) = delete;

 private:
  SocketPath() = default;

  std::string path_;
  std::pair<std::uint64_t, std::uint64_t> id_;  ///< Device and inode.
};

/// The hosts of a list such as "127.0.0.1, [::1], unix:/run/weft.sock": at least one, without spaces around
/// them, brackets and "unix:". A host may be empty.
std::vector<std::string> split_hosts(std::string_view list);

/// Descriptors that listen, non-blocking and closed on exec. The destructor closes them. It removes the Unix
/// sockets that this object made.
class ListeningSockets {
 public:
  /// Listens at the hosts of a list ("127.0.0.1,/run/weft.sock"), at all addresses of each name. An address
  /// that another one of the list includes, such as 0.0.0.0, gets no socket. Port 0 becomes the same free
  /// port for all of them. A host with a "/" is the path of a Unix socket; a socket of a program that has
  /// ended is replaced. Throws Error kIo if it cannot listen at one of the hosts.
  ListeningSockets(std::string_view hosts, std::uint16_t port);
  /// Takes over listening sockets. Throws Error kInvalidArgument if one does not listen.
  explicit ListeningSockets(const std::vector<int>& inherited);

  std::uint16_t port() const { return port_; }  ///< 0 if all are Unix sockets.
  /// One for each host, in their order: "http://127.0.0.1:8080" or "unix:/run/weft.sock".
  const std::vector<std::string>& addresses() const { return addresses_; }
  /// The hosts without a socket, because others of the list include all their addresses.
  const std::vector<std::string>& included() const { return included_; }
  /// The descriptors, which are the caller's from now on.
  std::vector<int> release();

 private:
  void listen_at_path(const std::string& path);
  void listen_at_names(const std::vector<std::string>& hosts, std::uint16_t port);

  std::vector<base::Descriptor> sockets_;
  std::uint16_t port_ = 0;
  std::vector<std::string> addresses_;
  std::vector<std::string> included_;
  std::vector<SocketPath> paths_;
};

/// "127.0.0.1:50412", "[::1]:50412", or "unix": the other end of a connection.
std::string peer_name(int socket);
/// The address of the other end; nullopt for a Unix socket.
std::optional<Address> peer_address(int socket);
/// The family of a socket's address: AF_INET, AF_INET6, AF_UNIX.
int family_of(int socket);

/// Lets this process open as many files as the system allows, and returns that number.
int raise_descriptor_limit();

}  // namespace weft::server
