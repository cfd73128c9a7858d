#pragma once
// How models write tool calls and reasoning. A format is data. Readers and grammars are built from it, and no
// code is specific to one model.
//
// Tags are given as a model should write them, white space included. Readers accept other white space around
// them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

/// Limit of a name, id or key with the characters around it.
inline constexpr std::size_t kMaxHeaderBytes = 512;

enum class CallStyle : std::uint8_t {
  /// {"name": "f", "arguments": {...}} with the keys below.
  kObject,
  /// f, a tag, and the arguments as a JSON object.
  kNamed,
  /// f, and each argument between tags of its own, strings without quotes.
  kParameters,
  /// Python: f(city="Rome", n=3)
  kPython,
  /// f{city:<quote>Rome<quote>,n:3}, keys without quotes.
  kUnquoted,
};

/// One way to write calls. A section (where there is one) holds calls, each between call_begin and call_end.
struct CallFormat {
  CallStyle style = CallStyle::kObject;
  std::string section_begin = {};
  std::string section_end = {};
  std::string call_begin = {};
  std::string call_end = {};
  std::string separator = {};  ///< Between calls.
  bool list = false;           ///< The calls of a section are one JSON or Python list.

  // Of kObject:
  std::string name_key = "name";
  std::string arguments_key = "arguments";
  std::string id_key = {};  ///< Empty: none is written. A key named "id" is read in any case.
  bool id_first = false;

  // Of the others:
  std::string name_prefix = {};  ///< Between call_begin and the name.
  std::string name_end = {};
  std::string id_begin = {};    ///< Between name and id, where the model writes one.
  std::string id_end = {};      ///< Between id and name, where the id comes first.
  std::string index_mark = {};  ///< Between the name and the number of the call; all of it is the id.
  std::string key_begin = {};
  std::string key_end = {};
  std::string value_begin = {};  ///< Between key_end and the value, where the model writes something there.
  std::string value_end = {};
  /// Between key_end and value_begin: marks the value as a string or as JSON.
  std::string text_kind = {};
  std::string other_kind = {};
  std::string quote = {};
  bool padded = false;  ///< Values are between line breaks.

  /// The tag by which a reader recognises calls.
  const std::string& opener() const { return section_begin.empty() ? call_begin : section_begin; }
};

struct Format {
  std::string name = {};
  /// A template has this format if its source contains all of `marks` and none of `not_marks`.
  std::vector<std::string> marks = {};
  std::vector<std::string> not_marks = {};
  std::vector<CallFormat> calls = {};  ///< Grammars enforce the first one.
  bool bare_object = false;            ///< The response may consist of calls as objects, without any tag.
  std::string reasoning_begin = {};
  std::string reasoning_end = {};
  std::vector<std::string> wrappers = {};  ///< Tags around the content; they are not part of it.
  /// Messages with a channel and perhaps a recipient in their headers.
  bool channels = false;
  std::vector<std::string> stop = {};
};

/// The formats that are known, the more special ones first. The last one is described in the prompt of models
/// without tools of their own.
const std::vector<Format>& known_formats();

}  // namespace weft::chat
