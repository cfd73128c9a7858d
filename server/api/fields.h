#pragma once
// The fields of a JSON object that a client sent, read by name, type and range. What is wrong throws ApiError
// 400 that names the field. A field that is null counts as absent. Fields that nobody has asked for when
// done() is called are refused: a slip of the pen must not go unnoticed.
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"

namespace weft::server {

class Fields {
 public:
  /// `path` is where the object stands in the body, "stream_options", empty for the body itself. The object
  /// must outlive this.
  explicit Fields(const Json& object, std::string path = "");

  /// Null where it is absent.
  const Json* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }

  bool boolean(std::string_view name, bool fallback);
  std::int64_t integer(std::string_view name, std::int64_t fallback, std::int64_t least, std::int64_t most);
  int integer(std::string_view name, int fallback, int least, int most = std::numeric_limits<int>::max());
  double number(std::string_view name, double fallback, double least, double most);
  float number(std::string_view name, float fallback, double least, double most);
  std::string string(std::string_view name, std::string_view fallback = {});
  /// One of the words, by its index.
  std::size_t word(std::string_view name, std::size_t fallback,
                   std::initializer_list<std::string_view> words);
  /// A string, or an array of them.
  std::vector<std::string> strings(std::string_view name, std::size_t at_most);
  const Json* array(std::string_view name);
  const Json* object(std::string_view name);

  /// Fields that are known and change nothing here.
  void ignore(std::initializer_list<std::string_view> names);
  /// A field that may have this value only (or be absent), with the reason.
  void only(std::string_view name, const Json& value, std::string_view why);
  void refuse(std::string_view name, std::string_view why);
  /// Nothing else is known. Refuses what was sent besides.
  void done() const;

  std::string path_of(std::string_view name) const;

 private:
  const Json* object_;
  std::string path_;
  std::vector<std::string> known_;
};

/// "messages[3]" for elements of arrays.
std::string element(std::string_view path, std::size_t i);

}  // namespace weft::server
