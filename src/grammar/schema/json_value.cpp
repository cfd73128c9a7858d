#include "grammar/schema/json_value.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/to_size.h"

namespace weft::grammar {

// nlohmann's own tree takes quadratic time for objects with many keys, and its recursive functions overflow
// the stack on deep nesting.
class JsonTree::Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  Reader(JsonTree& tree, int depth) : tree_(tree), depth_(to_size(std::max(depth, 1))) {}
  std::string error;

  bool null() override { return add({}); }
  bool boolean(bool value) override {
    JsonValue v;
    v.kind = JsonKind::kBool;
    v.flag = value;
    return add(std::move(v));
  }
  bool number_integer(std::int64_t value) override {
    return number(JsonKind::kInteger, std::to_string(value));
  }
  bool number_unsigned(std::uint64_t value) override {
    return number(JsonKind::kInteger, std::to_string(value));
  }
  bool number_float(double, const std::string& text) override { return number(JsonKind::kNumber, text); }
  bool string(std::string& value) override {
    JsonValue v;
    v.kind = JsonKind::kString;
    v.text = std::move(value);
    return add(std::move(v));
  }
  bool binary(nlohmann::json::binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonKind::kObject); }
  bool start_array(std::size_t) override { return open(JsonKind::kArray); }
  bool key(std::string& name) override {
    key_.push_back(std::move(name));
    return true;
  }
  bool end_object() override {
    index(tree_.values_[open_.back()]);
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    error = "not valid JSON at byte " + std::to_string(position);
    return false;
  }

 private:
  bool number(JsonKind kind, std::string text) {
    JsonValue v;
    v.kind = kind;
    v.text = std::move(text);
    return add(std::move(v));
  }

  bool add(JsonValue value) {
    const auto id = static_cast<ValueId>(tree_.values_.size());
    if (!open_.empty()) value.parent = open_.back();
    tree_.values_.push_back(std::move(value));
    if (open_.empty()) {
      tree_.root_ = id;
    } else if (JsonValue& parent = tree_.values_[open_.back()]; parent.kind == JsonKind::kArray) {
      parent.items.push_back(id);
    } else {
      parent.members.emplace_back(std::move(key_.back()), id);
      key_.pop_back();
    }
    return true;
  }

  bool open(JsonKind kind) {
    if (open_.size() >= depth_) {
      error = "nested deeper than " + std::to_string(depth_) + " levels";
      return false;
    }
    JsonValue v;
    v.kind = kind;
    add(std::move(v));
    open_.push_back(static_cast<ValueId>(tree_.values_.size() - 1));
    return true;
  }

  /// If a key is repeated, its last value counts.
  static void index(JsonValue& object) {
    auto& members = object.members;
    std::vector<std::uint32_t> order(members.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return members[a].first < members[b].first; });
    std::vector<char> dropped(members.size(), 0);
    for (std::size_t i = 0; i + 1 < order.size(); ++i)
      if (members[order[i]].first == members[order[i + 1]].first) dropped[order[i]] = 1;
    std::vector<std::uint32_t> position(members.size(), 0);
    std::uint32_t n = 0;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      position[i] = n;
      if (dropped[i] != 0) continue;
      if (n != i) members[n] = std::move(members[i]);
      ++n;
    }
    members.resize(n);
    for (const std::uint32_t i : order)
      if (dropped[i] == 0) object.by_name.push_back(position[i]);
  }

  JsonTree& tree_;
  const std::size_t depth_;
  std::vector<ValueId> open_;
  std::vector<std::string> key_;  // Names that wait for their values.
};

JsonTree::JsonTree(std::string_view text, int depth, const std::string& what) {
  Reader reader(*this, depth);
  if (!nlohmann::json::sax_parse(text, &reader))
    refuse(what + ": " + (reader.error.empty() ? "not valid JSON" : reader.error));
}

ValueId JsonTree::find(ValueId object, std::string_view key) const {
  const JsonValue& value = values_[object];
  const auto at =
      std::lower_bound(value.by_name.begin(), value.by_name.end(), key,
                       [&](std::uint32_t i, std::string_view name) { return value.members[i].first < name; });
  if (at == value.by_name.end() || value.members[*at].first != key) return kNoValue;
  return value.members[*at].second;
}

std::string JsonTree::pointer_to(ValueId id) const {
  std::string pointer;
  while (id != root_) {
    const JsonValue& parent = values_[values_[id].parent];
    std::string name;
    if (parent.kind == JsonKind::kArray) {
      // Ids of items ascend.
      const auto at = std::lower_bound(parent.items.begin(), parent.items.end(), id);
      name = std::to_string(at - parent.items.begin());
    } else {
      const auto at = std::find_if(parent.members.begin(), parent.members.end(),
                                   [&](const auto& member) { return member.second == id; });
      if (at == parent.members.end()) break;  // A later member has the same key and replaced this one.
      name = at->first;
    }
    std::string escaped;
    for (const char c : name) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    pointer = "/" + escaped + pointer;
    id = values_[id].parent;
  }
  return "#" + pointer;
}

std::string json_quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\r':
        result += "\\r";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\b':
        result += "\\b";
        break;
      case '\f':
        result += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) {
          result += c;
        } else {
          result += "\\u00";
          result += kHex[static_cast<unsigned char>(c) >> 4];
          result += kHex[static_cast<unsigned char>(c) & 15];
        }
    }
  }
  return result + "\"";
}

}  // namespace weft::grammar
