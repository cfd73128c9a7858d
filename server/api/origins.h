#pragma once
// Which hosts and pages may use a server that has no keys. A page of a stranger reaches it by DNS rebinding,
// where the Host header names the stranger's host, or across origins, where the Origin header does.
#include <optional>
#include <string>
#include <vector>

#include "api/error.h"

namespace weft::server {

struct OriginRules {
  /// Any host and any page: --cors, or a key protects what matters.
  bool all = false;
  /// Names that are trusted beside addresses, localhost and names without a dot, which no stranger's DNS
  /// serves. ".example.com": also all names below it.
  std::vector<std::string> hosts = {};
};

/// 403 where the request was sent to an unknown host, or by a page of an unknown origin.
std::optional<ApiError> refuse_stranger(const HttpRequest& request, const OriginRules& rules);

/// What lets the request's page read the answer; nothing for requests without an origin and for strangers.
HttpHeaders cors_headers(const HttpRequest& request, const OriginRules& rules);

/// The answer to OPTIONS: a browser asks what a page may send.
HttpAnswer preflight_answer(const HttpRequest& request);

}  // namespace weft::server
