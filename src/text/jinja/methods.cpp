// Methods of str, list and dict, as in Python.
#include <algorithm>

#include "base/to_size.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

using A = const Arguments&;
using I = Interpreter&;
using Self = const Value&;

const Text& text_of(Self self) { return *as_text(self); }
List& list_of(Self self) { return *as<List>(self); }
Dict& dict_of(Self self) { return *as<Dict>(self); }

std::size_t limit_of(const Parameters& given, std::size_t i) {
  const std::int64_t limit = given.integer(i, -1);
  return limit < 0 ? kAll : to_size(limit);
}

Value strings(I interpreter, std::vector<Text> parts, ListKind kind = ListKind::kList) {
  std::vector<Value> values;
  for (Text& part : parts) values.push_back(string(std::move(part)));
  return interpreter.heap().list(std::move(values), kind);
}

// str

template <Text (*kMap)(Budget&, const Text&)>
Value mapped(I interpreter, Self self, A arguments) {
  const Parameters given("a string's method", arguments, {});
  return string(kMap(interpreter.budget(), text_of(self)));
}

template <bool (*kHolds)(std::string_view)>
Value text_predicate(I interpreter, Self self, A arguments) {
  const Parameters given("a string's method", arguments, {});
  interpreter.budget().spend(text_of(self).size() / 16);
  return kHolds(text_of(self).bytes());
}

template <Side kSide>
Value stripped(I interpreter, Self self, A arguments) {
  const Parameters given("strip", arguments, {"chars"});
  std::optional<std::string_view> characters;
  if (!given.is_none(0)) characters = given.text(0).bytes();
  return string(strip(interpreter.budget(), text_of(self), kSide, characters));
}

template <bool kFromRight>
Value split_method(I interpreter, Self self, A arguments) {
  const Parameters given("split", arguments, {"sep", "maxsplit"});
  const std::size_t limit = limit_of(given, 1);
  Budget& budget = interpreter.budget();
  const Text& text = text_of(self);
  if (given.is_none(0)) {
    return strings(interpreter, kFromRight ? split_last_at_space(budget, text, limit)
                                           : split_at_space(budget, text, limit));
  }
  const std::string_view separator = given.text(0).bytes();
  if (separator.empty()) throw Problem("split: empty separator");
  return strings(interpreter, kFromRight ? split_last(budget, text, separator, limit)
                                         : split(budget, text, separator, limit));
}

Value split_lines_method(I interpreter, Self self, A arguments) {
  const Parameters given("splitlines", arguments, {"keepends"});
  return strings(interpreter, split_lines(interpreter.budget(), text_of(self), given.flag(0)));
}

Value replace_method(I interpreter, Self self, A arguments) {
  const Parameters given("replace", arguments, {"old", "new", "count"});
  const Text& text = text_of(self);
  return string(
      replace(interpreter.budget(), text, given.text(0).bytes(), given.text(1), limit_of(given, 2)));
}

// The part [start:end] of a string and the position of its first byte, for methods with such bounds.
std::pair<std::string_view, std::size_t> part_of(I interpreter, Self self, const Parameters& given) {
  const std::string_view bytes = text_of(self).bytes();
  interpreter.budget().spend_bytes(bytes.size());
  if (given.is_none(1) && given.is_none(2)) return {bytes, 0};
  const auto n_characters = static_cast<std::int64_t>(count_characters(bytes));
  const auto place = [&](std::size_t i, std::int64_t otherwise) {
    const std::int64_t at = given.is_none(i) ? otherwise : given.integer(i);
    const std::int64_t index = std::clamp<std::int64_t>(at < 0 ? at + n_characters : at, 0, n_characters);
    return character_position(bytes, to_size(index));
  };
  const std::size_t begin = place(1, 0), end = std::max(begin, place(2, n_characters));
  return {bytes.substr(begin, end - begin), begin};
}

template <bool kAtEnd>
Value starts_or_ends(I interpreter, Self self, A arguments) {
  const Parameters given("startswith", arguments, {"prefix", "start", "end"});
  const std::string_view part = part_of(interpreter, self, given).first;
  const auto fits = [&](const Value& what) {
    const Text* text = as_text(what);
    if (!text) throw Problem("startswith and endswith need a string or a tuple of strings");
    return kAtEnd ? part.ends_with(text->bytes()) : part.starts_with(text->bytes());
  };
  const List* choices = as<List>(given[0]);
  if (!choices) return fits(given[0]);
  interpreter.budget().spend(choices->items.size());
  return std::any_of(choices->items.begin(), choices->items.end(), fits);
}

template <bool kLast>
Value find_method_of_text(I interpreter, Self self, A arguments) {
  const Parameters given("find", arguments, {"sub", "start", "end"});
  const auto [part, begin] = part_of(interpreter, self, given);
  const std::string_view what = given.text(0).bytes();
  const std::size_t at =
      kLast ? find_last(interpreter.budget(), part, what) : find(interpreter.budget(), part, what);
  if (at == kNotFound) return std::int64_t{-1};
  return static_cast<std::int64_t>(count_characters(text_of(self).bytes().substr(0, begin + at)));
}

Value index_of_text(I interpreter, Self self, A arguments) {
  const Value at = find_method_of_text<false>(interpreter, self, arguments);
  if (*as_integer(at) < 0) throw Problem("substring not found");
  return at;
}

Value count_in_text(I interpreter, Self self, A arguments) {
  const Parameters given("count", arguments, {"sub", "start", "end"});
  const auto part = part_of(interpreter, self, given).first;
  return static_cast<std::int64_t>(find_all(interpreter.budget(), part, given.text(0).bytes()).size());
}

Value join_method(I interpreter, Self self, A arguments) {
  const Parameters given("join", arguments, {"iterable"});
  Text out;
  bool first = true;
  for (const Value& item : items_of(interpreter.heap(), given[0])) {
    if (!as_text(item))
      throw Problem("join: expected str instance, " + std::string(type_name(item)) + " found");
    if (!std::exchange(first, false)) out.append(text_of(self));
    out.append(*as_text(item));
    interpreter.budget().spend_bytes(as_text(item)->size() + text_of(self).size());
  }
  return string(std::move(out));
}

template <bool kAtEnd>
Value remove_affix(I interpreter, Self self, A arguments) {
  const Parameters given("removeprefix", arguments, {"affix"});
  const Text& text = text_of(self);
  const std::string_view affix = given.text(0).bytes();
  interpreter.budget().spend_bytes(text.size());
  if (kAtEnd) return string(text.slice(0, text.size() - (text.bytes().ends_with(affix) ? affix.size() : 0)));
  return string(text.slice(text.bytes().starts_with(affix) ? affix.size() : 0, text.size()));
}

template <bool kLast>
Value partition(I interpreter, Self self, A arguments) {
  const Parameters given("partition", arguments, {"sep"});
  const Text& text = text_of(self);
  const std::string_view what = given.text(0).bytes();
  if (what.empty()) throw Problem("partition: empty separator");
  interpreter.budget().spend_bytes(text.size());
  Budget& budget = interpreter.budget();
  const std::size_t at = kLast ? find_last(budget, text.bytes(), what) : find(budget, text.bytes(), what);
  std::vector<Text> parts(3);
  if (at == kNotFound) {
    parts[kLast ? 2 : 0] = text;
  } else {
    parts = {text.slice(0, at), text.slice(at, at + what.size()), text.slice(at + what.size(), text.size())};
  }
  return strings(interpreter, std::move(parts), ListKind::kTuple);
}

enum class Align { kLeft, kRight, kZeros };
template <Align kAlign>
Value padded(I interpreter, Self self, A arguments) {
  const Parameters given("ljust", arguments, {"width", "fillchar"});
  const Text fill = given.has(1) ? given.text(1) : Text(kAlign == Align::kZeros ? "0" : " ", false);
  if (count_characters(fill.bytes()) != 1) throw Problem("the fill character must be one character long");
  const auto size = static_cast<std::int64_t>(length(interpreter.heap(), self));
  const std::int64_t n_missing = std::max<std::int64_t>(given.integer(0) - size, 0);
  if (n_missing > static_cast<std::int64_t>(kMaxTextBytes)) throw Problem("a padded string is too long");
  interpreter.budget().spend_bytes(to_size(n_missing) + text_of(self).size());
  Text padding, out;
  for (std::int64_t i = 0; i < n_missing; ++i) padding.append(fill);
  const Text& text = text_of(self);
  const bool sign =
      kAlign == Align::kZeros && (text.bytes().starts_with('-') || text.bytes().starts_with('+'));
  out.append(text, 0, sign ? 1 : 0);
  if (kAlign != Align::kLeft) out.append(padding);
  out.append(text, sign ? 1 : 0, text.size());
  if (kAlign == Align::kLeft) out.append(padding);
  return string(std::move(out));
}

Value format_method(I interpreter, Self self, A arguments) {
  return string(format_braces(interpreter.heap(), text_of(self), arguments));
}

// list

std::size_t position_in(const List& list, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(list.items.size());
  if (index < -size || index >= size) throw Problem("list index out of range");
  return to_size(index < 0 ? index + size : index);
}

Value append(I, Self self, A arguments) {
  const Parameters given("append", arguments, {"value"});
  list_of(self).items.push_back(given[0]);
  return None{};
}

Value extend(I interpreter, Self self, A arguments) {
  const Parameters given("extend", arguments, {"values"});
  const std::vector<Value> more = items_of(interpreter.heap(), given[0]);
  list_of(self).items.insert(list_of(self).items.end(), more.begin(), more.end());
  return None{};
}

Value insert(I interpreter, Self self, A arguments) {
  const Parameters given("insert", arguments, {"index", "value"});
  auto& items = list_of(self).items;
  interpreter.budget().spend_values(items.size());
  const auto size = static_cast<std::int64_t>(items.size());
  const std::int64_t at = given.integer(0);
  items.insert(items.begin() + std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size), given[1]);
  return None{};
}

Value pop_item(I interpreter, Self self, A arguments) {
  const Parameters given("pop", arguments, {"index"});
  auto& items = list_of(self).items;
  if (items.empty()) throw Problem("pop from empty list");
  interpreter.budget().spend_values(items.size());
  const auto place =
      items.begin() + static_cast<std::ptrdiff_t>(position_in(list_of(self), given.integer(0, -1)));
  Value value = *place;
  items.erase(place);
  return value;
}

Value index_of_item(I interpreter, Self self, A arguments) {
  const Parameters given("index", arguments, {"value"});
  for (std::size_t i = 0; i < list_of(self).items.size(); ++i) {
    if (equal(interpreter.heap(), list_of(self).items[i], given[0])) return static_cast<std::int64_t>(i);
  }
  throw Problem("value is not in the list");
}

Value count_items(I interpreter, Self self, A arguments) {
  const Parameters given("count", arguments, {"value"});
  std::int64_t count = 0;
  for (const Value& item : list_of(self).items) count += equal(interpreter.heap(), item, given[0]) ? 1 : 0;
  return count;
}

Value reverse_items(I interpreter, Self self, A arguments) {
  const Parameters given("reverse", arguments, {});
  interpreter.budget().spend_values(list_of(self).items.size());
  std::reverse(list_of(self).items.begin(), list_of(self).items.end());
  return None{};
}

Value copy_list(I interpreter, Self self, A arguments) {
  const Parameters given("copy", arguments, {});
  return interpreter.heap().list(list_of(self).items);
}

// dict

Value get_entry(I interpreter, Self self, A arguments) {
  const Parameters given("get", arguments, {"key", "default"});
  const Value* found = get(interpreter.heap(), dict_of(self), given[0]);
  return found ? *found : given.get(1, None{});
}

enum class Part { kKeys, kValues, kItems };
template <Part kPart>
Value view(I interpreter, Self self, A arguments) {
  const Parameters given("a dict's method", arguments, {});
  Heap& heap = interpreter.heap();
  std::vector<Value> values;
  for (const auto& [key, value] : dict_of(self).entries) {
    if (kPart == Part::kKeys) values.push_back(key);
    if (kPart == Part::kValues) values.push_back(value);
    if (kPart == Part::kItems) values.emplace_back(heap.list({key, value}, ListKind::kTuple));
  }
  return heap.list(std::move(values), ListKind::kView);
}

Value update(I interpreter, Self self, A arguments) {
  const Arguments unnamed{arguments.positional, {}};
  const Parameters given("update", unnamed, {"other"});
  Heap& heap = interpreter.heap();
  if (given.has(0)) {
    const Dict* other = as<Dict>(given[0]);
    if (!other) throw Problem("update: needs a dict");
    const auto entries = other->entries;  // It may be the same dict.
    for (const auto& [key, value] : entries) set(heap, dict_of(self), key, value);
  }
  for (const auto& [name, value] : arguments.named) set(heap, dict_of(self), name, value);
  return None{};
}

Value pop_entry(I interpreter, Self self, A arguments) {
  const Parameters given("pop", arguments, {"key", "default"});
  const Value* found = get(interpreter.heap(), dict_of(self), given[0]);
  if (!found && !given.has(1)) throw Problem("pop: the dict has no such key");
  Value value = found ? *found : given[1];
  remove(interpreter.heap(), dict_of(self), given[0]);
  return value;
}

Value set_default(I interpreter, Self self, A arguments) {
  const Parameters given("setdefault", arguments, {"key", "default"});
  if (const Value* found = get(interpreter.heap(), dict_of(self), given[0])) return *found;
  Value value = given.get(1, None{});
  set(interpreter.heap(), dict_of(self), given[0], value);
  return value;
}

Value copy_dict(I interpreter, Self self, A arguments) {
  const Parameters given("copy", arguments, {});
  Dict* copy = interpreter.heap().make<Dict>();
  for (const auto& [key, value] : dict_of(self).entries) set(interpreter.heap(), *copy, key, value);
  return copy;
}

struct Method {
  std::string_view name;
  NativeFunction body;
};

constexpr Method kTextMethods[] = {
    {"strip", stripped<Side::kBoth>},
    {"lstrip", stripped<Side::kLeft>},
    {"rstrip", stripped<Side::kRight>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", split_lines_method},
    {"startswith", starts_or_ends<false>},
    {"endswith", starts_or_ends<true>},
    {"replace", replace_method},
    {"upper", mapped<upper>},
    {"lower", mapped<lower>},
    {"casefold", mapped<lower>},
    {"title", mapped<title>},
    {"capitalize", mapped<capitalize>},
    {"swapcase", mapped<swap_case>},
    {"join", join_method},
    {"format", format_method},
    {"find", find_method_of_text<false>},
    {"rfind", find_method_of_text<true>},
    {"index", index_of_text},
    {"count", count_in_text},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"ljust", padded<Align::kLeft>},
    {"rjust", padded<Align::kRight>},
    {"zfill", padded<Align::kZeros>},
    {"isupper", text_predicate<is_upper>},
    {"islower", text_predicate<is_lower>},
    {"isdigit", text_predicate<is_digit>},
    {"isdecimal", text_predicate<is_digit>},
    {"isalpha", text_predicate<is_alpha>},
    {"isalnum", text_predicate<is_alnum>},
    {"isspace", text_predicate<is_blank>},
};
constexpr Method kListMethods[] = {
    {"append", append},       {"extend", extend},     {"insert", insert},         {"pop", pop_item},
    {"index", index_of_item}, {"count", count_items}, {"reverse", reverse_items}, {"copy", copy_list},
};
constexpr Method kDictMethods[] = {
    {"get", get_entry},          {"items", view<Part::kItems>},
    {"keys", view<Part::kKeys>}, {"values", view<Part::kValues>},
    {"update", update},          {"pop", pop_entry},
    {"setdefault", set_default}, {"copy", copy_dict},
};

}  // namespace

std::optional<Value> find_method(Heap& heap, const Value& self, std::string_view name) {
  std::span<const Method> methods;
  if (as_text(self)) methods = kTextMethods;
  if (as<Dict>(self)) methods = kDictMethods;
  const List* list = as<List>(self);
  if (list && list->kind == ListKind::kList) methods = kListMethods;
  for (const Method& method : methods) {
    if (method.name == name) return function(heap, method.body, self);
  }
  return std::nullopt;
}

}  // namespace weft::text::jinja
