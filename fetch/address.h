#pragma once
// URLs of files: their host, relative links, and the parts that may be shown.
#include <string>
#include <string_view>

namespace weft::fetch {

/// The URL without possible secrets: user, password, query and fragment. Takes any string, for messages.
std::string shown_address(std::string_view url);

/// Without user and password.
std::string without_user(std::string_view url);

/// "localhost:8080", without user and password.
std::string host_of(std::string_view url);

/// The URL of `link` on the page `base`; empty if it is invalid.
std::string resolved(const std::string& base, const std::string& link);

/// Whether both have the same scheme, host and port.
bool same_origin(const std::string& one, const std::string& other);

/// The path escaped for a URL: "My Model" is "My%20Model".
std::string escaped(std::string_view path);
/// The inverse of escaped().
std::string unescaped(std::string_view text);

}  // namespace weft::fetch
