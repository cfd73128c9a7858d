#include "api/origins.h"

#include <fmt/format.h>

#include <algorithm>

#include "http/http_text.h"

namespace weft::server {
namespace {

bool is_named(const std::string& name, const std::vector<std::string>& hosts) {
  return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return host.starts_with('.') ? name.ends_with(host) || name == std::string_view(host).substr(1)
                                 : name == host;
  });
}

/// Names that no public DNS serves: of containers, clusters and local networks.
bool is_private_name(const std::string& name) {
  return name.find('.') == std::string::npos || name.ends_with(".internal") || name.ends_with(".local") ||
         name.ends_with(".home.arpa");
}

bool is_trusted_host(const Host& host, const OriginRules& rules) {
  return rules.any_host || host.is_address || host.is_loopback || is_private_name(host.name) ||
         is_named(host.name, rules.hosts) ||
         std::any_of(rules.origins.begin(), rules.origins.end(),
                     [&](const Origin& origin) { return origin.host.name == host.name; });
}

/// Pages of the web have http or https, or the origin "null". Programs on the user's machine have other
/// schemes (app, tauri, vscode-webview, file). Browser extensions are foreign code, and are not trusted.
bool is_program(std::string_view origin) {
  const std::size_t end = origin.find("://");
  if (end == origin.npos || end == 0) return false;
  const std::string_view scheme = origin.substr(0, end);
  constexpr std::string_view kExtension = "-extension";
  return !same_word(scheme, "http") && !same_word(scheme, "https") &&
         (scheme.size() < kExtension.size() ||
          !same_word(scheme.substr(scheme.size() - kExtension.size()), kExtension));
}

/// Unlike a host, an address may be a foreign page. The own port is not compared: proxies drop it.
bool is_trusted_origin(const HttpRequest& request, const OriginRules& rules) {
  const std::string_view text = request.header("Origin");
  if (is_program(text)) return true;
  const std::optional<Origin> origin = parse_origin(text);
  if (!origin) return false;
  const Host& host = origin->host;
  const std::optional<Host> own = parse_host(request.header("Host"));
  return host.is_loopback || is_named(host.name, rules.hosts) || (own && host.name == own->name) ||
         std::find(rules.origins.begin(), rules.origins.end(), *origin) != rules.origins.end();
}

ApiError stranger(std::string code, const std::string& message) {
  return {403, "invalid_request_error", std::move(code), "", message};
}

}  // namespace

std::optional<ApiError> refuse_foreign_origin(const HttpRequest& request, const OriginRules& rules) {
  if (rules.all) return std::nullopt;
  if (const std::string_view text = request.header("Host"); !text.empty()) {
    const std::optional<Host> host = parse_host(text);
    if (!host)
      return stranger("unknown_host",
                      fmt::format("the Host header '{}' is not a host name or address", text.substr(0, 200)));
    if (!is_trusted_host(*host, rules))
      return stranger("unknown_host",
                      fmt::format("the Host header names '{}', which this server does not know; start the "
                                  "server with --allowed-host {}, or with an API key",
                                  host->name, host->name));
  }
  const std::string_view origin = request.header("Origin");
  if (origin.empty() || is_trusted_origin(request, rules)) return std::nullopt;
  return stranger("foreign_origin",
                  fmt::format("pages of the origin '{}' may not use this server; allow them with "
                              "--cors-origins,{} or allow all pages with --cors",
                              origin.substr(0, 200), rules.any_host ? "" : " set an API key,"));
}

HttpHeaders cors_headers(const HttpRequest& request, const OriginRules& rules) {
  HttpHeaders headers;
  if (!rules.all) headers.emplace_back("Vary", "Origin");
  const std::string_view origin = request.header("Origin");
  if (!rules.all && (origin.empty() || !is_trusted_origin(request, rules))) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", rules.all ? "*" : std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers",
                       "X-Request-Id, X-Weft-Ignored, X-Weft-Warnings, Retry-After, Retry-After-Ms");
  return headers;
}

HttpResponse preflight_response(const HttpRequest& request) {
  // Browsers do not include Authorization in "*", and older browsers do not know "*".
  std::string headers(request.header("Access-Control-Request-Headers"));
  if (headers.empty()) headers = "*, Authorization, Content-Type, X-Api-Key, X-Request-Id";
  HttpResponse answer{.status = 204};
  answer.headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
                    {"Access-Control-Allow-Headers", std::move(headers)},
                    {"Access-Control-Max-Age", "86400"},
                    {"Vary", "Access-Control-Request-Headers"}};
  if (request.header("Access-Control-Request-Private-Network") == "true")
    answer.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  return answer;
}

}  // namespace weft::server
