#include "http/http_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/ascii.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

bool is_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return (base::ascii_lower(c) >= 'a' && base::ascii_lower(c) <= 'z') || (c >= '0' && c <= '9') ||
           kMarks.find(c) != kMarks.npos;
  });
}

/// Headers that only the connection can know.
bool is_framing(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {"Connection", "Content-Length", "Transfer-Encoding",
                                                      "Keep-Alive", "Date"};
  return std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view own) { return same_word(own, name); });
}

void add_header(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ");
  for (const char c : value) text += is_control(c) ? ' ' : c;
  text += "\r\n";
}

struct Status {
  int code;
  std::string_view text;
};
constexpr std::array kStatuses = {
    Status{100, "Continue"},
    Status{200, "OK"},
    Status{201, "Created"},
    Status{202, "Accepted"},
    Status{204, "No Content"},
    Status{301, "Moved Permanently"},
    Status{302, "Found"},
    Status{303, "See Other"},
    Status{304, "Not Modified"},
    Status{307, "Temporary Redirect"},
    Status{308, "Permanent Redirect"},
    Status{400, "Bad Request"},
    Status{401, "Unauthorized"},
    Status{403, "Forbidden"},
    Status{404, "Not Found"},
    Status{405, "Method Not Allowed"},
    Status{406, "Not Acceptable"},
    Status{408, "Request Timeout"},
    Status{409, "Conflict"},
    Status{410, "Gone"},
    Status{411, "Length Required"},
    Status{412, "Precondition Failed"},
    Status{413, "Content Too Large"},
    Status{415, "Unsupported Media Type"},
    Status{417, "Expectation Failed"},
    Status{422, "Unprocessable Content"},
    Status{429, "Too Many Requests"},
    Status{431, "Request Header Fields Too Large"},
    Status{500, "Internal Server Error"},
    Status{501, "Not Implemented"},
    Status{502, "Bad Gateway"},
    Status{503, "Service Unavailable"},
    Status{504, "Gateway Timeout"},
    Status{505, "HTTP Version Not Supported"},
    Status{507, "Insufficient Storage"},
};

}  // namespace

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return base::ascii_lower(x) == base::ascii_lower(y); });
}

std::optional<std::string> percent_decode(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = base::hex_digit(text[i + 1]), low = base::hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::optional<Target> parse_target(std::string_view target) {
  if (target.find('#') != target.npos) return std::nullopt;
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!same_word(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::size_t host = std::min(target.find_first_of("/?"), target.size());
    if (host == 0) return std::nullopt;
    target.remove_prefix(host);
    if (target.empty() || target.front() == '?') return parse_target("/" + std::string(target));
    break;
  }
  if (target.empty() || target.front() != '/') return std::nullopt;
  const std::size_t mark = std::min(target.find('?'), target.size());
  auto path = percent_decode(target.substr(0, mark));
  const std::string_view query = target.substr(std::min(mark + 1, target.size()));
  if (!path || !percent_decode(query) || std::any_of(path->begin(), path->end(), is_control))
    return std::nullopt;
  return Target{std::move(*path), std::string(query)};
}

std::string http_date(std::time_t time) {
  // Not strftime: its names of days and months depend on the locale.
  constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                kDays[to_size(parts.tm_wday)], parts.tm_mday, kMonths[to_size(parts.tm_mon)],
                parts.tm_year + 1900, parts.tm_hour, parts.tm_min, parts.tm_sec);
  return text.data();
}

std::string_view status_text(int status) {
  for (const Status& known : kStatuses)
    if (known.code == status) return known.text;
  return {};
}

std::string head_text(const ResponseHead& head) {
  std::string text = "HTTP/1.1 " + std::to_string(head.status) + " ";
  text.append(status_text(head.status)).append("\r\n");
  add_header(text, "Date", http_date(std::time(nullptr)));
  if (!head.content_type.empty()) add_header(text, "Content-Type", head.content_type);
  if (head.framing == Framing::kLength) add_header(text, "Content-Length", std::to_string(head.length));
  if (head.framing == Framing::kChunks) add_header(text, "Transfer-Encoding", "chunked");
  if (!head.keep_alive) {
    add_header(text, "Connection", "close");
  } else if (head.old_client) {
    add_header(text, "Connection", "keep-alive");
  }
  for (const HttpHeaders* headers : {head.common, head.own, head.headers})
    if (headers != nullptr)
      for (const auto& [name, value] : *headers)
        if (is_name(name) && !is_framing(name)) add_header(text, name, value);
  return text += "\r\n";
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [own, value] : headers)
    if (same_word(own, name)) return value;
  return {};
}

std::string HttpRequest::query_value(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t mark = std::min(field.find('='), field.size());
    // Escapes were checked with the target.
    if (percent_decode(field.substr(0, mark), true) == name)
      return percent_decode(field.substr(std::min(mark + 1, field.size())), true).value_or("");
  }
  return {};
}

}  // namespace weft::server
