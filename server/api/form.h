#pragma once
// Requests whose body is a form (multipart/form-data) with a file.
#include <optional>
#include <string>

#include "http/http_server.h"
#include "json.h"

namespace weft::server {

struct Form {
  /// The other parts. Each is a string, but "temperature" is a number and "stream" a boolean where they look
  /// like one. Parts "NAME[]" are the elements of an array NAME.
  Json fields = Json::object();
  std::optional<std::string> file = std::nullopt;  ///< The content of the part "file".
};

/// Throws ApiError 400 for a body that is no form, or damaged, and for parts other than the file that are
/// long.
Form read_form(const HttpRequest& request);

}  // namespace weft::server
