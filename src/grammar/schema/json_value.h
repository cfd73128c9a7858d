#pragma once
// A JSON value as a tree that is built and freed without recursion.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/budget.h"

namespace weft::grammar {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = 0xFFFFFFFF;

enum class JsonKind : std::uint8_t { kNull, kBool, kInteger, kNumber, kString, kArray, kObject };

struct JsonValue {
  JsonKind kind = JsonKind::kNull;
  bool flag = false;
  std::string text;  ///< The content of a string, or the spelling of a number.
  /// In source order; the last value of a repeated key.
  std::vector<std::pair<std::string, ValueId>> members;
  std::vector<std::uint32_t> by_name;  ///< Positions in members, ordered by key.
  std::vector<ValueId> items;
  ValueId parent = kNoValue;  ///< kNoValue for the root.
};

/// Immutable once read.
class JsonTree {
 public:
  /// Throws Error kInvalidArgument for invalid JSON and for nesting beyond `depth`. `what` names the source
  /// in messages.
  JsonTree(std::string_view text, int depth, const std::string& what);

  ValueId root() const { return root_; }
  const JsonValue& operator[](ValueId id) const { return values_[id]; }
  /// The member of an object, or kNoValue.
  ValueId find(ValueId object, std::string_view key) const;
  std::size_t size() const { return values_.size(); }
  /// The JSON pointer of a value, after a '#'. Looks at siblings: for messages.
  /// Takes at most size() steps.
  std::string pointer_to(ValueId id) const;

 private:
  class Reader;
  std::vector<JsonValue> values_;
  ValueId root_ = 0;
};

/// The string as JSON, quotes included.
std::string json_quoted(std::string_view text);

}  // namespace weft::grammar
