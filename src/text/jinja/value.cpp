#include "text/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace weft::text::jinja {
namespace {

[[noreturn]] void fail_undefined(const Undefined& value) {
  throw Problem(value.what ? *value.what : std::string("a value is undefined"));
}

void check_depth(int depth) {
  if (depth > kMaxValueDepth)
    throw Problem("a value is nested deeper than " + std::to_string(kMaxValueDepth));
}

std::size_t n_unread(const List& list) {
  return list.items.size() - std::min(list.n_read, list.items.size());
}

// repr() of a string: quoted as in Python, printable characters unchanged.
void append_quoted(Text& out, const Text& text) {
  const std::string_view bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string_view::npos;
  const char quote = has_single && bytes.find('"') == std::string_view::npos ? '"' : '\'';
  out.append({&quote, 1}, false);
  for (std::size_t i = 0; i < bytes.size();) {
    const Character character = character_at(bytes, i);
    const char32_t code = character.code;
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      out.append("\\", false);
      out.append(text, i, i + 1);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out.append(code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t", false);
    } else if (code < 0x20 || (code >= 0x7F && code <= 0xA0) || code == 0xAD) {
      constexpr char kHex[] = "0123456789abcdef";
      out.append(std::string{'\\', 'x', kHex[code >> 4], kHex[code & 15]}, false);
    } else {
      out.append(text, i, i + character.n_bytes);
    }
    i += character.n_bytes;
  }
  out.append({&quote, 1}, false);
}

void append_list(Heap& heap, Text& out, const List& list, int depth) {
  const bool tuple = list.kind == ListKind::kTuple;
  if (list.kind == ListKind::kGenerator) return out.append("<generator object>", false);
  if (list.kind == ListKind::kView) out.append("dict_view(", false);
  out.append(tuple ? "(" : "[", false);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ", false);
    out.append(to_repr(heap, list.items[i], depth + 1));
  }
  if (tuple && list.items.size() == 1) out.append(",", false);
  out.append(tuple ? ")" : "]", false);
  if (list.kind == ListKind::kView) out.append(")", false);
}

void append_dict(Heap& heap, Text& out, const Dict& dict, int depth) {
  out.append("{", false);
  for (std::size_t i = 0; i < dict.entries.size(); ++i) {
    if (i > 0) out.append(", ", false);
    out.append(to_repr(heap, dict.entries[i].first, depth + 1));
    out.append(": ", false);
    out.append(to_repr(heap, dict.entries[i].second, depth + 1));
  }
  out.append("}", false);
}

bool equal_lists(Heap& heap, const List& a, const List& b, int depth) {
  if (a.kind != b.kind || a.items.size() != b.items.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(heap, a.items[i], b.items[i], depth + 1)) return false;
  }
  return true;
}

bool equal_dicts(Heap& heap, const Dict& a, const Dict& b, int depth) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [name, position] : a.index) {
    const auto other = b.index.find(name);
    if (other == b.index.end()) return false;
    const Value& mine = a.entries[position].second;
    if (!equal(heap, mine, b.entries[other->second].second, depth + 1)) return false;
  }
  return true;
}

}  // namespace

List* Heap::list(std::vector<Value> values, ListKind kind) {
  budget.spend_values(values.size());
  List* result = make<List>();
  result->items = std::move(values);
  result->kind = kind;
  return result;
}

Value undefined(std::string what) { return Undefined{std::make_shared<const std::string>(std::move(what))}; }
Value string(Text text) { return std::make_shared<const Text>(std::move(text)); }
Value computed(std::string_view bytes) { return string(Text(bytes, false)); }

std::optional<std::int64_t> as_integer(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  return std::nullopt;
}

std::optional<double> as_number(const Value& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto number = as_integer(value)) return static_cast<double>(*number);
  return std::nullopt;
}

std::string_view type_name(const Value& value) {
  constexpr std::array<std::string_view, 6> kNames = {"Undefined", "NoneType", "bool", "int", "float", "str"};
  if (value.index() < kNames.size()) return kNames[value.index()];
  if (const List* list = as<List>(value)) {
    constexpr std::array<std::string_view, 4> kLists = {"list", "tuple", "dict_view", "generator"};
    return kLists[static_cast<std::size_t>(list->kind)];
  }
  if (const Object* object = as<Object>(value)) return object->type_name();
  return "dict";
}

bool truth(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto number = as_number(value)) return *number != 0.0;
  if (const Text* text = as_text(value)) return !text->empty();
  if (const List* list = as<List>(value)) return list->kind == ListKind::kGenerator || !list->items.empty();
  if (const Dict* dict = as<Dict>(value)) return !dict->entries.empty();
  return as<Object>(value) != nullptr;
}

bool equal(Heap& heap, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  heap.budget.spend();
  const auto left_integer = as_integer(a), right_integer = as_integer(b);
  if (left_integer && right_integer) return *left_integer == *right_integer;
  const auto left = as_number(a), right = as_number(b);
  if (left && right) return *left == *right;
  if (a.index() != b.index()) return false;
  if (const Text* text = as_text(a)) {
    const Text* other = as_text(b);
    if (text->size() == other->size()) heap.budget.spend_bytes(text->size());
    return text->bytes() == other->bytes();
  }
  if (const List* list = as<List>(a))
    return list == as<List>(b) || equal_lists(heap, *list, *as<List>(b), depth);
  if (const Dict* dict = as<Dict>(a))
    return dict == as<Dict>(b) || equal_dicts(heap, *dict, *as<Dict>(b), depth);
  if (const Object* object = as<Object>(a)) return object == as<Object>(b);
  return true;  // Both None or both undefined.
}

bool less(Heap& heap, const Value& a, const Value& b, int depth) {
  check_depth(depth);
  heap.budget.spend();
  if (const auto* value = std::get_if<Undefined>(&a)) fail_undefined(*value);
  if (const auto* value = std::get_if<Undefined>(&b)) fail_undefined(*value);
  const auto left_integer = as_integer(a), right_integer = as_integer(b);
  if (left_integer && right_integer) return *left_integer < *right_integer;
  const auto left = as_number(a), right = as_number(b);
  if (left && right) return *left < *right;
  if (as_text(a) && as_text(b)) {
    heap.budget.spend_bytes(std::min(as_text(a)->size(), as_text(b)->size()));
    return as_text(a)->bytes() < as_text(b)->bytes();  // Order of UTF-8 = order of code points.
  }
  const List *list = as<List>(a), *other = as<List>(b);
  if (list && other && list->kind == other->kind && list->kind <= ListKind::kTuple) {
    const std::size_t n_common = std::min(list->items.size(), other->items.size());
    for (std::size_t i = 0; i < n_common; ++i) {
      if (equal(heap, list->items[i], other->items[i], depth + 1)) continue;
      return less(heap, list->items[i], other->items[i], depth + 1);
    }
    return list->items.size() < other->items.size();
  }
  throw Problem("'" + std::string(type_name(a)) + "' and '" + std::string(type_name(b)) + "' have no order");
}

std::size_t length(Heap& heap, const Value& value) {
  if (is_undefined(value)) return 0;
  if (const Text* text = as_text(value)) {
    heap.budget.spend_bytes(text->size());
    return count_characters(text->bytes());
  }
  const List* list = as<List>(value);
  if (list && list->kind != ListKind::kGenerator) return list->items.size();
  if (const Dict* dict = as<Dict>(value)) return dict->entries.size();
  throw Problem("object of type '" + std::string(type_name(value)) + "' has no length");
}

bool is_iterable(const Value& value) {
  return is_undefined(value) || as_text(value) || as<List>(value) || as<Dict>(value);
}

std::vector<Value> items_of(Heap& heap, const Value& value) {
  std::vector<Value> items;
  if (List* list = as<List>(value)) {
    heap.budget.spend_values(n_unread(*list));
    items.assign(list->items.end() - static_cast<std::ptrdiff_t>(n_unread(*list)), list->items.end());
    if (list->kind == ListKind::kGenerator) list->n_read = list->items.size();
  } else if (const Dict* dict = as<Dict>(value)) {
    heap.budget.spend_values(dict->entries.size());
    for (const auto& entry : dict->entries) items.push_back(entry.first);
  } else if (const Text* text = as_text(value)) {
    heap.budget.spend(text->size());  // Each character becomes a string of its own.
    for (std::size_t i = 0; i < text->size();) {
      const std::size_t end = i + character_at(text->bytes(), i).n_bytes;
      items.push_back(string(text->slice(i, end)));
      i = end;
    }
  } else if (!is_undefined(value)) {
    throw Problem("'" + std::string(type_name(value)) + "' object is not iterable");
  }
  return items;
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double magnitude = std::fabs(value);
  // Python writes the shortest digits, with an exponent outside of [1e-4, 1e16).
  const bool plain = magnitude == 0.0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string result(buffer.data(), end.ptr);
  if (plain && result.find('.') == std::string::npos) result += ".0";
  return result;
}

Text to_text(Heap& heap, const Value& value) {
  if (is_undefined(value)) return {};
  if (const Text* text = as_text(value)) {
    heap.budget.spend_bytes(text->size());
    return *text;
  }
  return to_repr(heap, value);
}

Text to_repr(Heap& heap, const Value& value, int depth) {
  check_depth(depth);
  heap.budget.spend();
  if (is_undefined(value)) return {"Undefined", false};
  if (is_none(value)) return {"None", false};
  if (const auto* flag = std::get_if<bool>(&value)) return {*flag ? "True" : "False", false};
  if (const auto* number = std::get_if<std::int64_t>(&value)) return {std::to_string(*number), false};
  if (const auto* number = std::get_if<double>(&value)) return {float_repr(*number), false};
  if (const Object* object = as<Object>(value)) return {"<" + std::string(object->type_name()) + ">", false};
  Text out;
  if (const Text* text = as_text(value)) append_quoted(out, *text);
  if (const List* list = as<List>(value)) append_list(heap, out, *list, depth);
  if (const Dict* dict = as<Dict>(value)) append_dict(heap, out, *dict, depth);
  heap.budget.spend_bytes(out.size());
  return out;
}

std::string key_name(Heap& heap, const Value& key, int depth) {
  check_depth(depth);
  heap.budget.spend();
  if (const Text* text = as_text(key)) {
    heap.budget.spend_bytes(text->size());
    return "s" + std::string(text->bytes());
  }
  if (const auto number = as_integer(key)) return "n" + std::to_string(*number);
  if (const auto* number = std::get_if<double>(&key)) {
    const bool whole = std::fabs(*number) < 9e18 && *number == std::trunc(*number);
    return "n" + (whole ? std::to_string(static_cast<std::int64_t>(*number)) : float_repr(*number));
  }
  if (is_none(key)) return "-";
  if (is_undefined(key)) return "?";  // All undefined values are equal.
  const List* list = as<List>(key);
  if (!list || list->kind != ListKind::kTuple) {
    throw Problem("unhashable type: '" + std::string(type_name(key)) + "'");
  }
  std::string name = "(";
  for (const Value& item : list->items) {
    const std::string part = key_name(heap, item, depth + 1);
    name += std::to_string(part.size()) + ":" + part;
    heap.budget.spend_bytes(name.size());
  }
  return name;
}

const Value* get(Heap& heap, const Dict& dict, const Value& key) {
  const auto found = dict.index.find(key_name(heap, key));
  return found == dict.index.end() ? nullptr : &dict.entries[found->second].second;
}

const Value* get(const Dict& dict, std::string_view key) {
  const auto found = dict.index.find("s" + std::string(key));
  return found == dict.index.end() ? nullptr : &dict.entries[found->second].second;
}

void set(Heap& heap, Dict& dict, Value key, Value value) {
  const auto [place, is_new] = dict.index.try_emplace(key_name(heap, key), dict.entries.size());
  if (is_new) {
    dict.entries.emplace_back(std::move(key), std::move(value));
  } else {
    dict.entries[place->second].second = std::move(value);
  }
}

void set(Heap& heap, Dict& dict, std::string_view key, Value value) {
  set(heap, dict, computed(key), std::move(value));
}

bool remove(Heap& heap, Dict& dict, const Value& key) {
  const auto found = dict.index.find(key_name(heap, key));
  if (found == dict.index.end()) return false;
  const std::size_t position = found->second;
  heap.budget.spend(dict.entries.size() / 16);
  dict.index.erase(found);
  for (auto& [name, other] : dict.index) other -= other > position ? 1 : 0;
  dict.entries.erase(dict.entries.begin() + static_cast<std::ptrdiff_t>(position));
  return true;
}

}  // namespace weft::text::jinja
