#include "api/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "api/error.h"
#include "base/to_size.h"

namespace weft::server {
namespace {

[[noreturn]] void wrong_type(std::string path, std::string_view expected, const Json& found) {
  const std::string message = fmt::format("'{}' must be {}, not {}", path, expected, found.type_name());
  ApiError error = bad_request(std::move(path), message);
  error.code = "invalid_type";
  throw error;
}

template <typename T>
void check_range(const std::string& path, T value, T least, T most) {
  if (value >= least && value <= most) return;
  const std::string range = most == std::numeric_limits<T>::max() || most >= static_cast<T>(1e30)
                                ? fmt::format("at least {}", least)
                                : fmt::format("from {} to {}", least, most);
  ApiError error = bad_request(path, fmt::format("'{}' must be {}, not {}", path, range, value));
  error.code = "invalid_value";
  throw error;
}

// How similar two names are: the characters that they share at both ends.
bool alike(std::string_view a, std::string_view b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::size_t front = 0, back = 0;
  while (front < n && a[front] == b[front]) ++front;
  while (back < n - front && a[a.size() - 1 - back] == b[b.size() - 1 - back]) ++back;
  return n > 2 && front + back + 2 >= std::max(a.size(), b.size());
}

bool asks_for_nothing(const Json& value) {
  return value.is_null() || value == false || (value.empty() && value.is_structured()) || value == "";
}

}  // namespace

Fields::Fields(const Json& object, std::string path, Ignored* ignored)
    : object_(&object), path_(std::move(path)), ignored_(ignored) {
  if (!object.is_object()) wrong_type(path_.empty() ? "the body" : path_, "an object", object);
  if (object.size() > kMostMembers)
    throw bad_request(path_, fmt::format("{} has too many members: {}, but {} is the limit",
                                         path_.empty() ? "the body" : fmt::format("'{}'", path_),
                                         object.size(), kMostMembers));
}

std::string Fields::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool Fields::boolean(std::string_view name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) wrong_type(path_of(name), "true or false", *value);
  return value->get<bool>();
}

std::int64_t Fields::integer(std::string_view name, std::int64_t fallback, std::int64_t least,
                             std::int64_t most) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  std::int64_t result = 0;
  if (value->is_number_unsigned()) {
    const auto large = value->get<std::uint64_t>();
    result = large > std::uint64_t{1} << 62 ? std::int64_t{1} << 62 : static_cast<std::int64_t>(large);
  } else if (value->is_number_integer()) {
    result = value->get<std::int64_t>();
  } else if (const double real = value->is_number_float() ? value->get<double>() : 0.5;
             real == std::floor(real) && std::abs(real) < 9e15) {
    result = static_cast<std::int64_t>(real);  // 10.0, as JavaScript may write it
  } else {
    wrong_type(path_of(name), "an integer", *value);
  }
  check_range(path_of(name), result, least, most);
  return result;
}

int Fields::integer(std::string_view name, int fallback, int least, int most) {
  constexpr auto kLargest = std::numeric_limits<int>::max();
  // Without a bound larger numbers are clamped.
  const std::int64_t bound = most == kLargest ? std::numeric_limits<std::int64_t>::max() : most;
  const std::int64_t value = integer(name, std::int64_t{fallback}, std::int64_t{least}, bound);
  return static_cast<int>(std::min<std::int64_t>(value, kLargest));
}

std::uint64_t Fields::bits(std::string_view name, std::uint64_t fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number_unsigned()) return value->get<std::uint64_t>();
  using Limits = std::numeric_limits<std::int64_t>;
  return static_cast<std::uint64_t>(integer(name, std::int64_t{0}, Limits::min(), Limits::max()));
}

double Fields::number(std::string_view name, double fallback, double least, double most) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_number()) wrong_type(path_of(name), "a number", *value);
  const auto result = value->get<double>();
  check_range(path_of(name), result, least, most);
  return result;
}

float Fields::number(std::string_view name, float fallback, double least, double most) {
  return static_cast<float>(number(name, static_cast<double>(fallback), least, most));
}

std::string Fields::string(std::string_view name, std::string_view fallback) {
  const Json* value = find(name);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) wrong_type(path_of(name), "a string", *value);
  return value->get<std::string>();
}

std::size_t Fields::word(std::string_view name, std::size_t fallback,
                         std::initializer_list<std::string_view> words) {
  if (!has(name)) return fallback;
  const std::string text = string(name);
  const auto* const found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) {
    ApiError error = bad_request(path_of(name), fmt::format("'{}' must be one of {}, not '{}'", path_of(name),
                                                            fmt::join(words, ", "), text.substr(0, 64)));
    error.code = "invalid_value";
    throw error;
  }
  return to_size(found - words.begin());
}

std::vector<std::string> Fields::strings(std::string_view name, std::size_t at_most) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) wrong_type(path_of(name), "a string or an array of strings", *value);
  if (value->size() > at_most)
    throw bad_request(path_of(name), fmt::format("'{}' may have at most {} strings, not {}", path_of(name),
                                                 at_most, value->size()));
  std::vector<std::string> result;
  for (std::size_t i = 0; i < value->size(); ++i) {
    if (!(*value)[i].is_string()) wrong_type(element(path_of(name), i), "a string", (*value)[i]);
    result.push_back((*value)[i].get<std::string>());
  }
  return result;
}

const Json* Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) wrong_type(path_of(name), "an array", *value);
  return value;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) wrong_type(path_of(name), "an object", *value);
  return value;
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  others_.insert(others_.end(), names.begin(), names.end());
}

void Fields::without_effect(std::string_view name, const Json& nothing) {
  others_.emplace_back(name);
  const auto value = object_->find(name);
  if (value != object_->end() && *value != nothing && !asks_for_nothing(*value)) note(name);
}

void Fields::note(std::string_view name) const {
  if (ignored_ != nullptr) ignored_->add(path_of(name));
}

void Fields::refuse(std::string_view name, std::string_view why) {
  if (!has(name)) return;
  ApiError error = bad_request(path_of(name), fmt::format("'{}' is not supported: {}", path_of(name), why));
  error.code = "unsupported_parameter";
  throw error;
}

void Fields::done() const {
  for (const auto& [name, value] : object_->items()) {
    const auto is_one_of = [&name = name](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (value.is_null() || is_one_of(known_) || is_one_of(others_)) continue;
    const auto similar = std::find_if(known_.begin(), known_.end(), [&name = name](const std::string& known) {
      return alike(known, name);
    });
    if (similar == known_.end() && ignored_ != nullptr) {
      if (!asks_for_nothing(value)) note(name);
      continue;
    }
    const std::string shown = name.size() > 64 ? name.substr(0, 64) + "..." : name;
    ApiError error = bad_request(
        path_of(shown),
        fmt::format("unknown field '{}'{}", path_of(shown),
                    similar == known_.end() ? "" : fmt::format("; did you mean '{}'?", *similar)));
    error.code = "unknown_parameter";
    throw error;
  }
}

std::string element(std::string_view path, std::size_t i) { return fmt::format("{}[{}]", path, i); }

}  // namespace weft::server
