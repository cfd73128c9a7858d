#pragma once
// Addresses of files (URLs): whose they are, where links lead, and what of them may be shown.
#include <string>
#include <string_view>

namespace weft::fetch {

/// Without what may be secret: user, password, query and fragment. Of any text, for messages.
std::string shown_address(std::string_view url);

/// Without user and password.
std::string without_user(std::string_view url);

/// "localhost:8080", without user and password.
std::string host_of(std::string_view url);

/// What `link`, on the page `base`, leads to; empty: it is no address.
std::string resolved(const std::string& base, const std::string& link);

/// Whether both have the same scheme, host and port.
bool same_origin(const std::string& one, const std::string& other);

/// A path as a part of an address: "My Model" is "My%20Model".
std::string escaped(std::string_view path);
/// The path that was escaped so.
std::string unescaped(std::string_view text);

}  // namespace weft::fetch
