#include "http/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace weft::server {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Nullopt for a string that is not a port.
std::optional<unsigned> parse_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port > 65535) return std::nullopt;
  return port;
}

bool is_port(std::string_view text) { return text.empty() || parse_port(text); }

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::optional<Host> from_ipv4(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET, &address, text.data(), text.size());
  return Host{text.data(), true, (ntohl(address.s_addr) >> 24) == 127};
}

std::optional<Host> parse_ipv6(std::string text) {
  in6_addr address{};
  text.resize(std::min(text.find('%'), text.size()));  // Some clients send the zone.
  if (::inet_pton(AF_INET6, text.c_str(), &address) != 1) return std::nullopt;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr inner{};
    std::memcpy(&inner, address.s6_addr + 12, sizeof(inner));
    return from_ipv4(inner);
  }
  std::array<char, INET6_ADDRSTRLEN> canonical{};
  ::inet_ntop(AF_INET6, &address, canonical.data(), canonical.size());
  return Host{canonical.data(), true, IN6_IS_ADDR_LOOPBACK(&address) != 0};
}

/// A host that ends in a number is an IPv4 address, also in short forms such as 127.1, or no host at all.
bool ends_in_number(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::all_of(last.begin(), last.end(), is_digit) || last.starts_with("0x");
}

std::optional<Host> parse_name(std::string name) {
  name = lower(std::move(name));
  if (name.ends_with('.')) name.pop_back();
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_' || c == '.';
  };
  if (name.empty() || name.starts_with('.') || name.ends_with('.') || name.find("..") != name.npos ||
      !std::all_of(name.begin(), name.end(), fits))
    return std::nullopt;
  if (ends_in_number(name)) {
    in_addr address{};
    return ::inet_aton(name.c_str(), &address) != 0 ? from_ipv4(address) : std::nullopt;
  }
  const bool is_local = name == "localhost" || name.ends_with(".localhost");
  return Host{std::move(name), false, is_local};
}

}  // namespace

std::optional<Host> parse_host(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return std::nullopt;
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return std::nullopt;
    return parse_ipv6(std::string(text.substr(1, end - 1)));
  }
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return parse_name(std::string(text));
  if (text.find(':', colon + 1) != text.npos) return parse_ipv6(std::string(text));
  if (!is_port(text.substr(colon + 1))) return std::nullopt;
  return parse_name(std::string(text.substr(0, colon)));
}

std::optional<Origin> parse_origin(std::string_view origin) {
  const std::size_t slashes = origin.find("://");
  if (slashes == origin.npos) return std::nullopt;
  const std::string_view rest = origin.substr(slashes + 3);
  std::optional<Host> host = parse_host(rest);
  if (!host) return std::nullopt;
  Origin result{lower(std::string(origin.substr(0, slashes))), std::move(*host)};
  result.port = result.scheme == "https" ? 443 : result.scheme == "http" ? 80 : 0;
  const std::size_t colon = rest.find(':', rest.starts_with('[') ? rest.find(']') : 0);
  if (colon != rest.npos) result.port = parse_port(rest.substr(colon + 1)).value_or(result.port);
  return result;
}

bool is_loopback(std::string_view host) {
  const std::optional<Host> parsed = parse_host(host);
  return parsed && parsed->is_loopback;
}

}  // namespace weft::server
