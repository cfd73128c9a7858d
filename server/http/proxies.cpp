#include "http/proxies.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "http/http_text.h"
#include "weft/error.h"

namespace weft::server {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

constexpr unsigned kBits = 128, kIpv4Begin = 96;
constexpr std::array<std::uint8_t, 12> kIpv4Prefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::string_view trim(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
  const std::size_t end = text.find_last_not_of(" \t");
  return text.substr(begin, end == text.npos ? 0 : end + 1 - begin);
}

std::string_view unquote(std::string_view text) {
  return text.size() >= 2 && text.front() == '"' && text.back() == '"' ? text.substr(1, text.size() - 2)
                                                                       : text;
}

/// The parts of a list. Separators within quotes count, too: no address and no scheme has one.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(trim(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return parts;
}

/// A header may come several times: its lists follow each other.
std::vector<std::string_view> list_of(const Headers& headers, std::string_view name) {
  std::vector<std::string_view> list;
  for (const auto& [own, value] : headers) {
    if (!same_word(own, name)) continue;
    const auto parts = split(value, ',');
    list.insert(list.end(), parts.begin(), parts.end());
  }
  return list;
}

/// A hop as a proxy reports it: where the request came from, and how.
struct Hop {
  std::string_view address;
  std::string_view scheme;
};

std::vector<Hop> hops_of(const Headers& headers) {
  std::vector<Hop> hops;
  for (const std::string_view address : list_of(headers, "X-Forwarded-For")) hops.push_back({address, {}});
  if (!hops.empty()) return hops;
  for (const std::string_view element : list_of(headers, "Forwarded")) {
    Hop& hop = hops.emplace_back();
    for (const std::string_view pair : split(element, ';')) {
      const std::size_t mark = std::min(pair.find('='), pair.size());
      const std::string_view value = unquote(pair.substr(std::min(mark + 1, pair.size())));
      if (same_word(pair.substr(0, mark), "for")) hop.address = value;
      if (same_word(pair.substr(0, mark), "proto")) hop.scheme = value;
    }
  }
  return hops;
}

void set_scheme(Forwarded& result, std::string_view word) {
  for (const char* const scheme : {"https", "http"})
    if (same_word(word, scheme)) result.scheme = scheme;
}

}  // namespace

bool Address::is_ipv4() const { return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), bytes.begin()); }

std::string Address::text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool short_form = is_ipv4();
  ::inet_ntop(short_form ? AF_INET : AF_INET6, bytes.data() + (short_form ? kIpv4Prefix.size() : 0),
              text.data(), text.size());
  return text.data();
}

std::string Address::client() const {
  if (is_ipv4()) return text();
  Address network = *this;
  std::fill(network.bytes.begin() + 8, network.bytes.end(), std::uint8_t{0});
  return network.text();
}

std::optional<Address> parse_address(std::string_view text) {
  if (text.starts_with('[')) {
    const std::size_t end = std::min(text.find(']'), text.size());
    text = text.substr(1, end - 1);
  } else if (std::count(text.begin(), text.end(), ':') == 1) {
    text = text.substr(0, text.find(':'));
  }
  const std::string host(text.substr(0, text.find('%')));
  Address address;
  if (::inet_pton(AF_INET6, host.c_str(), address.bytes.data()) == 1) return address;
  std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), address.bytes.begin());
  if (::inet_pton(AF_INET, host.c_str(), address.bytes.data() + kIpv4Prefix.size()) == 1) return address;
  return std::nullopt;
}

TrustedProxies::TrustedProxies(const std::vector<std::string>& networks) {
  for (const std::string& text : networks) {
    if (text == "unix") {
      trusts_unix_ = true;
      continue;
    }
    const std::size_t slash = std::min(text.find('/'), text.size());
    const auto address = parse_address(std::string_view(text).substr(0, slash));
    const unsigned begin = address && address->is_ipv4() ? kIpv4Begin : 0;
    unsigned n_bits = kBits - begin;
    bool fits = address.has_value();
    if (fits && slash < text.size()) {
      const char* const last = text.data() + text.size();
      const auto [end, error] = std::from_chars(text.data() + slash + 1, last, n_bits);
      fits = error == std::errc{} && end == last && n_bits <= kBits - begin;
    }
    if (!fits)
      throw Error(
          ErrorCode::kInvalidArgument,
          "'" + text + "' is not a proxy address; examples are 127.0.0.1, 10.0.0.0/8, fd00::/8 and unix");
    networks_.push_back({*address, begin + n_bits});
  }
}

bool TrustedProxies::trusts(const std::optional<Address>& peer) const {
  if (!peer) return trusts_unix_;
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
    const std::size_t n_bytes = network.n_bits / 8;
    const unsigned n_rest = network.n_bits % 8;
    if (!std::equal(peer->bytes.begin(), peer->bytes.begin() + n_bytes, network.address.bytes.begin()))
      return false;
    return n_rest == 0 || (peer->bytes[n_bytes] ^ network.address.bytes[n_bytes]) >> (8 - n_rest) == 0;
  });
}

Forwarded read_forwarded(const Headers& headers, const std::optional<Address>& peer,
                         const TrustedProxies& trusted) {
  Forwarded result{peer, {}};
  if (!trusted.trusts(peer)) return result;
  const std::vector<Hop> hops = hops_of(headers);
  // Each hop was added by the one after it: an untrusted hop may have invented those before it.
  for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) {
    set_scheme(result, hop->scheme);
    const auto address = parse_address(hop->address);
    if (!address) break;
    result.client = address;
    if (!trusted.trusts(address)) break;
  }
  // A proxy may name the scheme and no client.
  const auto schemes = list_of(headers, "X-Forwarded-Proto");
  if (!schemes.empty()) set_scheme(result, schemes.back());
  return result;
}

}  // namespace weft::server
