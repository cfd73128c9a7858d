#pragma once
// Sockets that listen: addresses, names, paths of Unix sockets, and sockets inherited from the parent
// process.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "http/proxies.h"

namespace weft::server {

/// Descriptors that listen, non-blocking and closed on exec. The destructor closes them. It removes the Unix
/// socket that this object made, unless that has been replaced.
class ListeningSockets {
 public:
  /// Listens at all addresses of a name. Port 0 becomes the same free port for all of them. A `host` with a
  /// "/" is the path of a Unix socket; a socket of a program that has ended is replaced. Throws Error kIo if
  /// it cannot listen.
  ListeningSockets(const std::string& host, std::uint16_t port);
  /// Takes over listening sockets. Throws Error kInvalidArgument if one does not listen.
  explicit ListeningSockets(const std::vector<int>& inherited);
  ~ListeningSockets();
  ListeningSockets(const ListeningSockets&) = delete;
  ListeningSockets& operator=(const ListeningSockets&) = delete;

  std::uint16_t port() const { return port_; }  ///< 0 for a Unix socket.
  const std::string& address() const { return address_; }
  /// The descriptors, which are the caller's from now on.
  std::vector<int> release();

 private:
  void listen_at_path(const std::string& path);
  void listen_at_name(const std::string& host, std::uint16_t port);

  std::vector<int> sockets_;
  std::uint16_t port_ = 0;
  std::string address_;
  std::string path_;  ///< The Unix socket that this object made, with its device and inode.
  std::uint64_t device_ = 0, number_ = 0;
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
