#include "grammar/schema/json_value.h"

#include <algorithm>

#include "base/json_reader.h"
#include "base/to_size.h"

namespace weft::grammar {

/// Builds the tree without recursion.
class JsonTree::Reader final : public base::JsonHandler {
 public:
  explicit Reader(JsonTree& tree) : tree_(tree) {}

  void null() override { add({}); }
  void boolean(bool value) override {
    JsonValue v;
    v.kind = JsonKind::kBool;
    v.flag = value;
    add(std::move(v));
  }
  void negative(std::int64_t value) override { add(JsonKind::kInteger, std::to_string(value)); }
  void natural(std::uint64_t value) override { add(JsonKind::kInteger, std::to_string(value)); }
  void real(double /*value*/, const std::string& spelling) override { add(JsonKind::kNumber, spelling); }
  void string(std::string& value) override { add(JsonKind::kString, std::move(value)); }
  void begin_object() override { open(JsonKind::kObject); }
  void begin_array() override { open(JsonKind::kArray); }
  void key(std::string& name) override { key_.push_back(std::move(name)); }
  void end_object() override {
    index(tree_.values_[open_.back()]);
    open_.pop_back();
  }
  void end_array() override { open_.pop_back(); }

 private:
  void add(JsonKind kind, std::string text = {}) {
    JsonValue v;
    v.kind = kind;
    v.text = std::move(text);
    add(std::move(v));
  }

  void add(JsonValue value) {
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
  }

  void open(JsonKind kind) {
    add(kind);
    open_.push_back(static_cast<ValueId>(tree_.values_.size() - 1));
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
  std::vector<ValueId> open_;
  std::vector<std::string> key_;  // Names that wait for their values.
};

JsonTree::JsonTree(std::string_view text, int depth, const std::string& what) {
  Reader reader(*this);
  try {
    base::read_json(text, {.depth = to_size(std::max(depth, 1))}, reader);
  } catch (const base::JsonError& error) {
    refuse(what + ": " + error.what());
  }
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
