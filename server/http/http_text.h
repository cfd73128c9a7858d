#pragma once
// Parsing and formatting of HTTP's strings: targets, heads of responses, dates.
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "http/http_server.h"

namespace weft::server {

bool same_word(std::string_view a, std::string_view b);  ///< In any case, as names in HTTP are.

/// "%41" as "A"; with `plus`, "+" as a space. Nullopt if an escape is not complete.
std::optional<std::string> percent_decode(std::string_view text, bool plus = false);

struct Target {
  std::string path;   ///< Decoded.
  std::string query;  ///< As sent.
};
/// The target of a request: "/path?query", or with "http://host" before it. Nullopt if it is neither, or has
/// an incomplete escape or a control character.
std::optional<Target> parse_target(std::string_view target);

/// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(std::time_t time);

/// How the end of a response's body is marked.
enum class Framing {
  kLength,  ///< Content-Length
  kChunks,  ///< Transfer-Encoding: chunked
  kClose,   ///< The end of the connection.
  kNone,    ///< Without a body and its headers (204, 304).
};
struct ResponseHead {
  int status = 200;
  std::string_view content_type;
  const HttpHeaders* headers = nullptr;
  const HttpHeaders* common = nullptr;  ///< Of every response.
  const HttpHeaders* own = nullptr;     ///< From HttpParams::headers_for.
  Framing framing = Framing::kLength;
  std::size_t length = 0;  ///< With kLength.
  bool keep_alive = true;
  bool old_client = false;  ///< HTTP/1.0: keep-alive needs a header.
};
/// The status line and the headers with the empty line. The server itself writes the headers that frame the
/// body. Such headers, and headers with invalid names, are left out of `headers`. Control characters in
/// values become spaces.
std::string head_text(const ResponseHead& head);

/// "Not Found", or "" for a status that has no name.
std::string_view status_text(int status);

}  // namespace weft::server
