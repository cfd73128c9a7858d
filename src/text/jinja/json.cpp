#include "text/jinja/json.h"

#include <algorithm>
#include <cmath>

#include "base/json_reader.h"
#include "base/to_size.h"

namespace weft::text::jinja {
namespace {

/// Builds values while parsing.
class Builder final : public base::JsonHandler {
 public:
  explicit Builder(Heap& heap) : heap_(heap) {}
  Value result;

  void null() override { add(None{}); }
  void boolean(bool value) override { add(value); }
  void negative(std::int64_t value) override { add(value); }
  void natural(std::uint64_t value) override {
    if (value > INT64_MAX) return add(static_cast<double>(value));
    add(static_cast<std::int64_t>(value));
  }
  void real(double value, const std::string& /*spelling*/) override { add(value); }
  void string(std::string& value) override { add(computed(value)); }
  void begin_object() override { open(heap_.make<Dict>()); }
  void begin_array() override { open(heap_.make<List>()); }
  void key(std::string& name) override { open_.back().key = computed(name); }
  void end_object() override { open_.pop_back(); }
  void end_array() override { open_.pop_back(); }

 private:
  struct Open {
    Value container;
    Value key;
  };

  void add(Value value) {
    if (open_.empty()) {
      result = std::move(value);
    } else if (Dict* dict = as<Dict>(open_.back().container)) {
      set(heap_, *dict, std::move(open_.back().key), std::move(value));
    } else {
      as<List>(open_.back().container)->items.push_back(std::move(value));
    }
  }
  void open(Value container) {
    add(container);
    open_.push_back({std::move(container), {}});
  }

  Heap& heap_;
  std::vector<Open> open_;
};

class Writer {
 public:
  Writer(Heap& heap, const JsonStyle& style) : heap_(heap), style_(style) {}
  Text out;

  void write(const Value& value, int depth) {
    if (depth > kMaxValueDepth) throw Problem("tojson: nested deeper than " + std::to_string(kMaxValueDepth));
    heap_.budget.spend();
    if (const Text* text = as_text(value)) return write_string(*text);
    if (const List* list = as<List>(value); list && list->kind <= ListKind::kTuple)
      return write_list(*list, depth);
    if (const Dict* dict = as<Dict>(value)) return write_dict(*dict, depth);
    put(scalar(value));
  }

 private:
  void put(std::string_view bytes) { out.append(bytes, false); }

  static std::string scalar(const Value& value) {
    if (is_none(value)) return "null";
    if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    if (const auto* number = std::get_if<double>(&value)) {
      if (std::isnan(*number)) return "NaN";
      if (std::isinf(*number)) return *number < 0 ? "-Infinity" : "Infinity";
      return float_repr(*number);
    }
    throw Problem("Object of type " + std::string(type_name(value)) + " is not JSON serializable");
  }

  void write_string(const Text& text) {
    heap_.budget.spend_bytes(text.size());
    const std::string_view bytes = text.bytes();
    put("\"");
    std::size_t plain = 0;  // Start of the bytes that are copied unchanged.
    for (std::size_t i = 0; i < bytes.size();) {
      const Character character = character_at(bytes, i);
      const std::string escape = escaped(character.code);
      if (!escape.empty()) {
        out.append(text, plain, i);
        put(escape);
        plain = i + character.n_bytes;
      }
      i += character.n_bytes;
    }
    out.append(text, plain, bytes.size());
    put("\"");
  }

  std::string escaped(char32_t code) const {
    switch (code) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '\n':
        return "\\n";
      case '\r':
        return "\\r";
      case '\t':
        return "\\t";
      case '\b':
        return "\\b";
      case '\f':
        return "\\f";
      default:
        break;
    }
    if (code >= 0x20 && (code < 0x7F || !style_.ascii_only)) return {};
    if (code == kBadByte) return "\\ufffd";
    if (code == 0x7F) return {};
    if (code < 0x10000) return hexadecimal(code);
    return hexadecimal(0xD800 + ((code - 0x10000) >> 10)) + hexadecimal(0xDC00 + ((code - 0x10000) & 0x3FF));
  }
  static std::string hexadecimal(char32_t unit) {
    constexpr char kHex[] = "0123456789abcdef";
    return {'\\', 'u', kHex[unit >> 12 & 15], kHex[unit >> 8 & 15], kHex[unit >> 4 & 15], kHex[unit & 15]};
  }

  void new_line(int depth) {
    if (!style_.indented) return;
    put("\n");
    heap_.budget.spend_bytes(style_.indent.size() * to_size(depth));
    for (int i = 0; i < depth; ++i) put(style_.indent);
  }

  void write_list(const List& list, int depth) {
    if (list.items.empty()) return put("[]");
    put("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(depth + 1);
      write(list.items[i], depth + 1);
    }
    new_line(depth);
    put("]");
  }

  void write_dict(const Dict& dict, int depth) {
    if (dict.entries.empty()) return put("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style_.sorted) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto* a, const auto* b) { return less(heap_, a->first, b->first); });
    }
    put("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(style_.item_separator);
      new_line(depth + 1);
      if (const Text* key = as_text(entries[i]->first)) {
        write_string(*key);
      } else {
        put("\"" + scalar(entries[i]->first) + "\"");
      }
      put(style_.key_separator);
      write(entries[i]->second, depth + 1);
    }
    new_line(depth);
    put("}");
  }

  Heap& heap_;
  const JsonStyle& style_;
};

}  // namespace

Value parse_json(Heap& heap, std::string_view json, std::string_view what) {
  Builder builder(heap);
  try {
    base::read_json(json, {.depth = to_size(kMaxValueDepth)}, builder);
  } catch (const base::JsonError& error) {
    throw Problem(std::string(what) + ": " + error.what());
  }
  return builder.result;
}

Text to_json(Heap& heap, const Value& value, const JsonStyle& style) {
  Writer writer(heap, style);
  writer.write(value, 0);
  heap.budget.spend_bytes(writer.out.size());
  return std::move(writer.out);
}

}  // namespace weft::text::jinja
