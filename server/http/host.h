#pragma once
// Hosts as the Host header and origins name them. An address is one that parses as an address: "127.evil.com"
// and "127.0.0.1.nip.io" are names.
#include <optional>
#include <string>
#include <string_view>

namespace weft::server {

struct Host {
  /// In lower case, without a port, brackets or a final dot. An address in its usual form; an IPv4 address
  /// within IPv6 as IPv4.
  std::string name;
  bool is_address = false;
  /// 127.0.0.0/8, ::1, "localhost" or a name below it: browsers resolve these to this machine without DNS.
  bool is_loopback = false;
};

/// "localhost:8080", "[::1]:80", "::1", "Example.com." Nullopt for anything else.
std::optional<Host> parse_host(std::string_view text);

/// "https://example.com:8443", as browsers name the origin of a page.
struct Origin {
  std::string scheme;  ///< In lower case.
  Host host;
  unsigned port = 0;  ///< If the origin has none: the default of http and https, otherwise 0.

  bool operator==(const Origin& other) const {
    return scheme == other.scheme && host.name == other.host.name && port == other.port;
  }
};

/// Nullopt for "null" and other origins without a host.
std::optional<Origin> parse_origin(std::string_view origin);

/// Whether only this machine reaches a socket that listens there.
bool is_loopback(std::string_view host);

}  // namespace weft::server
