#pragma once
// One small request to an HTTP server, as health checks need it: nothing kept, bounded in time and size.
#include <chrono>
#include <string>
#include <string_view>

namespace weft::cli {

struct ProbeTarget {
  std::string host;  ///< A name, an address, or the path of a Unix socket (with a "/").
  std::string port = "8080";
  std::string path = "/health";
  /// HTTPS. The certificate is not checked: it names the host that clients use, not the address asked here.
  bool tls = false;

  std::string url() const;
};

/// "http://HOST[:PORT][/PATH]", "https://...", "HOST[:PORT][/PATH]", "[::1]:8080", "unix:/run/weft.sock".
/// Missing parts are as in ProbeTarget. Throws UsageError.
ProbeTarget parse_probe_url(std::string_view url);

struct ProbeResponse {
  int status = 0;
  std::string body;  ///< Its beginning.
};

/// GETs the path without a proxy. All of it takes no longer than `timeout`. Throws Error kIo.
ProbeResponse probe(const ProbeTarget& target, std::chrono::milliseconds timeout);

}  // namespace weft::cli
