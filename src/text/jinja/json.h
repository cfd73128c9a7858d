#pragma once
// JSON to values and back.
#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace weft::text::jinja {

/// The strings count as not from the template. `what` names the input in errors. Throws Problem for bad JSON,
/// also for nesting beyond kMaxValueDepth. Numbers outside int64 become floats.
Value parse_json(Heap& heap, std::string_view json, std::string_view what);

struct JsonStyle {
  bool ascii_only = false;
  bool indented = false;
  std::string indent;  ///< Per level, if `indented`.
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sorted = false;
};
/// As Python's json.dumps writes it. Bytes of strings keep their origin.
Text to_json(Heap& heap, const Value& value, const JsonStyle& style);

}  // namespace weft::text::jinja
