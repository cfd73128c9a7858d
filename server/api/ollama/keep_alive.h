#pragma once
// How long a model stays loaded after a request, as Ollama writes it.
#include <chrono>
#include <optional>

#include "api/fields.h"

namespace weft::server {

/// A field "keep_alive": seconds, or a string such as "5m", "1h30m" or "300ms". A negative time has
/// no end.
struct KeepAlive {
  bool is_given = false;
  std::optional<std::chrono::milliseconds> time = std::nullopt;  ///< Nullopt: no end.

  /// Whether the model is to be unloaded after the request.
  bool is_none() const { return is_given && time && time->count() == 0; }
};

/// Strings without a unit are seconds. Throws ApiError for other strings.
KeepAlive read_keep_alive(Fields& fields);

}  // namespace weft::server
