#pragma once
// Which hosts and pages may use a server. A foreign page reaches it by DNS rebinding, where the Host header
// names the foreign host, or across origins, where the Origin header does.
#include <optional>
#include <string>
#include <vector>

#include "api/error.h"
#include "http/host.h"

namespace weft::server {

struct OriginRules {
  /// Any host and any page: with --cors, or if keys protect the endpoints and no list names the pages.
  bool all = false;
  /// Any host: if keys protect the endpoints.
  bool any_host = false;
  /// Further trusted names. Addresses, localhost and names without a dot are trusted anyway: no public DNS
  /// serves them. ".example.com" includes all names below it.
  std::vector<std::string> hosts = {};
  /// Further trusted pages. The names of their hosts are trusted, too.
  std::vector<Origin> origins = {};
};

/// 403 where the request was sent to an unknown host, or by a page of an unknown origin.
std::optional<ApiError> refuse_foreign_origin(const HttpRequest& request, const OriginRules& rules);

/// Headers that let a trusted page read the response, and Vary where it depends on the page.
HttpHeaders cors_headers(const HttpRequest& request, const OriginRules& rules);

/// The response to OPTIONS, by which a browser asks whether a page may send a request.
HttpResponse preflight_response(const HttpRequest& request);

}  // namespace weft::server
