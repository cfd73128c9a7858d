#pragma once
// Which client a request comes from, where proxies are in between. What a proxy reports counts only where the
// proxy is trusted: any client can send these headers.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft::server {

/// An address of IPv6, or of IPv4 in the range of IPv6 for it (::ffff:0:0/96).
struct Address {
  std::array<std::uint8_t, 16> bytes{};

  bool is_ipv4() const;
  std::string text() const;
  /// As limits count clients: without the last 64 bits of an IPv6 address, as one client has all of them.
  std::string client() const;
};
/// "192.0.2.1", "::1", "[::1]", also with a port or a zone.
std::optional<Address> parse_address(std::string_view text);

class TrustedProxies {
 public:
  TrustedProxies() = default;
  /// "127.0.0.1", "10.0.0.0/8", "fd00::/8", "unix" for clients of a Unix socket. Throws Error
  /// kInvalidArgument.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  /// Nullopt: the peer of a Unix socket.
  bool trusts(const std::optional<Address>& peer) const;

 private:
  struct Network {
    Address address;
    unsigned n_bits;
  };
  std::vector<Network> networks_;
  bool trusts_unix_ = false;
};

/// The client and scheme that the headers of a request name.
struct Forwarded {
  std::optional<Address> client;
  std::string scheme;  ///< "https"; empty where no trusted proxy says.
};
/// `client` is the peer, or the nearest address of no trusted proxy, in X-Forwarded-For or else in
/// Forwarded (RFC 7239). The scheme is the last one in X-Forwarded-Proto, or else the one in Forwarded.
Forwarded read_forwarded(const std::vector<std::pair<std::string, std::string>>& headers,
                         const std::optional<Address>& peer, const TrustedProxies& trusted);

}  // namespace weft::server
