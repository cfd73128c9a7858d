#pragma once
// How models write calls of tools and reasoning. A format is data: the readers and the grammars are made from
// it, and no code is of one model.
//
// Tags are written as a model should write them, white space included; what is read may have other white
// space around them.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

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
  std::string id_key = {};  ///< Empty: none is written. What is called "id" is read all the same.
  bool id_first = false;

  // Of the others:
  std::string name_prefix = {};  ///< Between call_begin and the name.
  std::string name_end = {};
  std::string id_begin = {};    ///< Between name and id, where the model writes one.
  std::string id_end = {};      ///< Between id and name, where the id comes first.
  std::string index_mark = {};  ///< Between the name and the number of the call; all of it is the id.
  std::string key_begin = {};
  std::string key_end = {};
  std::string value_begin = {};  ///< Where something stands between key_end and the value.
  std::string value_end = {};
  /// Between key_end and value_begin: whether the value is text or JSON.
  std::string text_kind = {};
  std::string other_kind = {};
  std::string quote = {};
  bool padded = false;  ///< Values stand between line breaks.

  /// What an answer with calls is recognised by.
  const std::string& opener() const { return section_begin.empty() ? call_begin : section_begin; }
};

struct Format {
  std::string name = {};
  /// Where the format comes from a template's source: all of `marks` stand in it and none of `not_marks`.
  std::vector<std::string> marks = {};
  std::vector<std::string> not_marks = {};
  std::vector<CallFormat> calls = {};  ///< The first is the one that grammars hold a model to.
  bool bare_object = false;            ///< The answer itself may be calls as objects, without any tag.
  std::string reasoning_begin = {};
  std::string reasoning_end = {};
  std::vector<std::string> wrappers = {};  ///< Tags around the content, which are no part of it.
  /// Messages with a channel and perhaps a recipient in their headers.
  bool channels = false;
  std::vector<std::string> stop = {};
};

/// The formats that are known, the more special ones first. The last is the one that models without tools of
/// their own are told to write.
const std::vector<Format>& known_formats();

}  // namespace weft::chat
