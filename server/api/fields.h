#pragma once
// The fields of a JSON object that a client sent, read by name, type and range. A value that is wrong throws
// ApiError 400 that names the field. A field that is null counts as absent. done() ends the reading. It
// refuses an unknown field whose name resembles a known one. Other unknown fields are ignored with a note.
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/ignored.h"
#include "json.h"

namespace weft::server {

class Fields {
 public:
  /// Each name is compared with all members. Larger objects are data, and not read by name.
  static constexpr std::size_t kMostMembers = 8192;

  /// `path` is the place of the object in the body, for example "stream_options", or empty for the body. The
  /// object and `ignored` must outlive this. Without `ignored` all unknown fields are refused.
  explicit Fields(const Json& object, std::string path = "", Ignored* ignored = nullptr);
  /// An object within this one, whose notes go to the same place.
  Fields within(const Json& object, std::string path) const {
    return Fields(object, std::move(path), ignored_);
  }

  /// Null where it is absent.
  const Json* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }

  bool boolean(std::string_view name, bool fallback);
  std::int64_t integer(std::string_view name, std::int64_t fallback, std::int64_t least, std::int64_t most);
  int integer(std::string_view name, int fallback, int least, int most = std::numeric_limits<int>::max());
  /// Any integer of 64 bits, signed or unsigned, for seeds.
  std::uint64_t bits(std::string_view name, std::uint64_t fallback);
  double number(std::string_view name, double fallback, double least, double most);
  float number(std::string_view name, float fallback, double least, double most);
  std::string string(std::string_view name, std::string_view fallback = {});
  /// The index of one of the words.
  std::size_t word(std::string_view name, std::size_t fallback,
                   std::initializer_list<std::string_view> words);
  /// A string, or an array of them.
  std::vector<std::string> strings(std::string_view name, std::size_t at_most);
  const Json* array(std::string_view name);
  const Json* object(std::string_view name);

  /// Fields that are known and ask for nothing that the server does not do anyway.
  void ignore(std::initializer_list<std::string_view> names);
  /// A field that has no effect here. It is noted, unless its value asks for nothing: false, "", an empty
  /// list or object, or `nothing`.
  void without_effect(std::string_view name, const Json& nothing = nullptr);
  /// Notes that something of this object is ignored.
  void note(std::string_view name) const;
  void refuse(std::string_view name, std::string_view why);
  /// Ends the reading: all other fields are unknown.
  void done() const;

  const std::string& path() const { return path_; }
  const Json& json() const { return *object_; }
  std::string path_of(std::string_view name) const;

 private:
  const Json* object_;
  std::string path_;
  Ignored* ignored_;
  std::vector<std::string> known_;   ///< Names that were looked up.
  std::vector<std::string> others_;  ///< Also known, but not suggested for unknown names.
};

/// "messages[3]" for elements of arrays.
std::string element(std::string_view path, std::size_t i);

}  // namespace weft::server
