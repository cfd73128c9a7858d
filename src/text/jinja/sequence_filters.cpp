// Filters of lists and dicts.
#include <algorithm>
#include <set>

#include "base/to_size.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

using A = const Arguments&;
using I = Interpreter&;

Value generator(I interpreter, std::vector<Value> items) {
  return interpreter.heap().list(std::move(items), ListKind::kGenerator);
}
Value list_of(I interpreter, std::vector<Value> items) { return interpreter.heap().list(std::move(items)); }

Value default_value(I, A arguments) {
  const Parameters given("default", arguments, {"value", "default_value", "boolean"});
  const bool missing = is_undefined(given[0]) || (given.flag(2) && !truth(given[0]));
  return missing ? given.get(1, computed("")) : given[0];
}

Value length_filter(I interpreter, A arguments) {
  const Parameters given("length", arguments, {"value"});
  return static_cast<std::int64_t>(length(interpreter.heap(), given[0]));
}

Value to_list(I interpreter, A arguments) {
  const Parameters given("list", arguments, {"value"});
  return list_of(interpreter, items_of(interpreter.heap(), given[0]));
}

Value first(I interpreter, A arguments) {
  const Parameters given("first", arguments, {"value"});
  if (List* list = as<List>(given[0]); list && list->n_read < list->items.size()) {
    const std::size_t at = list->kind == ListKind::kGenerator ? list->n_read++ : 0;
    return list->items[at];
  }
  const std::vector<Value> items = items_of(interpreter.heap(), given[0]);
  return items.empty() ? undefined("No first item, sequence was empty.") : items.front();
}

Value last(I interpreter, A arguments) {
  const Parameters given("last", arguments, {"value"});
  const List* list = as<List>(given[0]);
  if (list && list->kind == ListKind::kGenerator) throw Problem("'generator' object is not reversible");
  if (list && !list->items.empty()) return list->items.back();
  const std::vector<Value> items = items_of(interpreter.heap(), given[0]);
  return items.empty() ? undefined("No last item, sequence was empty.") : items.back();
}

Value reverse(I interpreter, A arguments) {
  const Parameters given("reverse", arguments, {"value"});
  std::vector<Value> items = items_of(interpreter.heap(), given[0]);
  std::reverse(items.begin(), items.end());
  if (!as_text(given[0])) return generator(interpreter, std::move(items));
  Text out;
  for (const Value& item : items) out.append(*as_text(item));
  return string(std::move(out));
}

Value join(I interpreter, A arguments) {
  const Parameters given("join", arguments, {"value", "d", "attribute"});
  Heap& heap = interpreter.heap();
  const Text separator = given.has(1) ? to_text(heap, given[1]) : Text();
  Text out;
  bool is_first = true;
  for (const Value& item : items_of(heap, given[0])) {
    heap.budget.spend(1 + separator.size() / kBytesPerStep);
    if (!std::exchange(is_first, false)) out.append(separator);
    out.append(to_text(heap, given.is_none(2) ? item : path_of(interpreter, item, given[2])));
  }
  return string(std::move(out));
}

// map, select and similar filters treat any false value (none, undefined, 0) as an empty sequence.

// map("filter", ...), map(attribute="a.b", default=...)
Value map(I interpreter, A arguments) {
  if (arguments.positional.empty()) throw Problem("map() needs a sequence");
  if (!truth(arguments.positional.front())) return generator(interpreter, {});
  std::vector<Value> items = items_of(interpreter.heap(), arguments.positional.front());
  if (arguments.positional.size() == 1) {
    const Parameters given("map", arguments, {"value", "attribute", "default"});
    for (Value& item : items) {
      item = path_of(interpreter, item, given[1]);
      if (is_undefined(item) && given.has(2)) item = given[2];
    }
    return generator(interpreter, std::move(items));
  }
  const Text* name = as_text(arguments.positional[1]);
  if (!name) throw Problem("map() needs the name of a filter");
  Arguments inner = arguments;
  inner.positional.erase(inner.positional.begin());
  for (Value& item : items) {
    inner.positional.front() = item;
    item = interpreter.filter(name->bytes(), inner);
  }
  return generator(interpreter, std::move(items));
}

// select and selectattr keep the items that pass a test (by default: is true); reject and rejectattr drop
// them.
template <bool kKeep, bool kByAttribute>
Value choose(I interpreter, A arguments) {
  constexpr std::size_t kTest = kByAttribute ? 2 : 1;
  const auto& positional = arguments.positional;
  if (positional.empty()) throw Problem("select() needs a sequence");
  if (!truth(positional.front())) return generator(interpreter, {});
  if (positional.size() < kTest) throw Problem("selectattr() needs the name of an attribute");
  std::vector<Value> items = items_of(interpreter.heap(), positional.front());
  Arguments inner{{Value{}}, arguments.named};
  const Text* test = positional.size() > kTest ? as_text(positional[kTest]) : nullptr;
  if (positional.size() > kTest && !test) throw Problem("select() needs the name of a test");
  if (test) inner.positional.insert(inner.positional.end(), positional.begin() + kTest + 1, positional.end());
  std::erase_if(items, [&](const Value& item) {
    interpreter.budget().spend();
    const Value value = kByAttribute ? path_of(interpreter, item, positional[1]) : item;
    if (!test) return truth(value) != kKeep;
    inner.positional.front() = value;
    return interpreter.test(test->bytes(), inner) != kKeep;
  });
  return generator(interpreter, std::move(items));
}

// The values that min, max, sort, unique and groupby compare: the item or its attribute, strings without
// case.
class SortKey {
 public:
  SortKey(I interpreter, std::optional<Value> attribute, bool case_sensitive)
      : interpreter_(interpreter), case_sensitive_(case_sensitive) {
    const Text* names = attribute ? as_text(*attribute) : nullptr;
    if (names) {
      for (Text& name : split(interpreter.budget(), *names, ",")) paths_.push_back(string(std::move(name)));
    } else if (attribute && !is_none(*attribute)) {
      paths_.push_back(*attribute);
    }
  }

  Value operator()(const Value& item) const {
    if (paths_.empty()) return folded(item);
    std::vector<Value> keys;
    for (const Value& path : paths_) keys.push_back(folded(path_of(interpreter_, item, path)));
    if (keys.size() == 1) return keys.front();
    return interpreter_.heap().list(std::move(keys), ListKind::kTuple);
  }

 private:
  Value folded(const Value& value) const {
    const Text* text = case_sensitive_ ? nullptr : as_text(value);
    return text ? string(lower(interpreter_.budget(), *text)) : value;
  }
  Interpreter& interpreter_;
  bool case_sensitive_;
  std::vector<Value> paths_;
};

struct Keyed {
  Value key, item;
};

std::vector<Keyed> keyed(I interpreter, std::vector<Value> items, const SortKey& key) {
  std::vector<Keyed> all;
  for (Value& item : items) {
    interpreter.budget().spend();
    Value k = key(item);
    all.push_back({std::move(k), std::move(item)});
  }
  return all;
}

// Its own merge sort: std::stable_sort does not allow comparisons that throw or contradict each other (NaN).
void sort_keyed(Heap& heap, std::vector<Keyed>& all, bool descending) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    return descending ? less(heap, b.key, a.key) : less(heap, a.key, b.key);
  };
  std::vector<Keyed> merged(all.size());
  for (std::size_t width = 1; width < all.size(); width *= 2) {
    for (std::size_t begin = 0; begin < all.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, all.size()),
                        end = std::min(begin + 2 * width, all.size());
      std::size_t a = begin, b = middle;
      for (std::size_t i = begin; i < end; ++i) {
        const bool from_right = b < end && (a >= middle || before(all[b], all[a]));
        merged[i] = all[from_right ? b++ : a++];
      }
    }
    std::swap(all, merged);
  }
}

std::vector<Value> items_only(std::vector<Keyed> all) {
  std::vector<Value> items;
  for (Keyed& one : all) items.push_back(std::move(one.item));
  return items;
}

Value sort(I interpreter, A arguments) {
  const Parameters given("sort", arguments, {"value", "reverse", "case_sensitive", "attribute"});
  Heap& heap = interpreter.heap();
  auto all = keyed(interpreter, items_of(heap, given[0]), {interpreter, given.get(3, None{}), given.flag(2)});
  sort_keyed(heap, all, given.flag(1));
  return list_of(interpreter, items_only(std::move(all)));
}

template <bool kMaximum>
Value extreme(I interpreter, A arguments) {
  const Parameters given("min", arguments, {"value", "case_sensitive", "attribute"});
  Heap& heap = interpreter.heap();
  const auto all =
      keyed(interpreter, items_of(heap, given[0]), {interpreter, given.get(2, None{}), given.flag(1)});
  if (all.empty()) return undefined("No aggregated item, sequence was empty.");
  const Keyed* best = &all.front();
  for (const Keyed& one : all) {
    if (kMaximum ? less(heap, best->key, one.key) : less(heap, one.key, best->key)) best = &one;
  }
  return best->item;
}

Value unique(I interpreter, A arguments) {
  const Parameters given("unique", arguments, {"value", "case_sensitive", "attribute"});
  Heap& heap = interpreter.heap();
  std::set<std::string> seen;
  std::vector<Value> items;
  for (Keyed& one :
       keyed(interpreter, items_of(heap, given[0]), {interpreter, given.get(2, None{}), given.flag(1)})) {
    if (seen.insert(key_name(heap, one.key)).second) items.push_back(std::move(one.item));
  }
  return generator(interpreter, std::move(items));
}

Value sum(I interpreter, A arguments) {
  const Parameters given("sum", arguments, {"iterable", "attribute", "start"});
  Value total = given.get(2, std::int64_t{0});
  for (const Value& item : items_of(interpreter.heap(), given[0])) {
    const Value value = given.is_none(1) ? item : path_of(interpreter, item, given[1]);
    total = arithmetic(interpreter.heap(), ast::Arithmetic::kAdd, total, value);
  }
  return total;
}

Value group_by(I interpreter, A arguments) {
  const Parameters given("groupby", arguments, {"value", "attribute", "default", "case_sensitive"});
  Heap& heap = interpreter.heap();
  auto all = keyed(interpreter, items_of(heap, given[0]), {interpreter, given[1], given.flag(3)});
  for (Keyed& one : all) {
    if (is_undefined(one.key) && given.has(2)) one.key = given[2];
  }
  sort_keyed(heap, all, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    std::vector<Value> members;
    while (end < all.size() && equal(heap, all[begin].key, all[end].key)) members.push_back(all[end++].item);
    if (end == begin) members.push_back(all[end++].item);          // A key that does not equal itself (NaN).
    Value name = path_of(interpreter, members.front(), given[1]);  // In the spelling of the first member.
    if (is_undefined(name)) name = given.get(2, name);
    groups.emplace_back(
        heap.list({std::move(name), list_of(interpreter, std::move(members))}, ListKind::kTuple));
    begin = end;
  }
  return list_of(interpreter, std::move(groups));
}

Value items_filter(I interpreter, A arguments) {
  const Parameters given("items", arguments, {"value"});
  std::vector<Value> items;
  if (const Dict* dict = as<Dict>(given[0])) {
    for (const auto& [key, value] : dict->entries) {
      items.emplace_back(interpreter.heap().list({key, value}, ListKind::kTuple));
    }
  } else if (!is_undefined(given[0])) {
    throw Problem("Can only get item pairs from a mapping.");
  }
  return generator(interpreter, std::move(items));
}

Value sort_dict(I interpreter, A arguments) {
  const Parameters given("dictsort", arguments, {"value", "case_sensitive", "by", "reverse"});
  Heap& heap = interpreter.heap();
  const std::string_view by = given.has(2) ? given.text(2).bytes() : "key";
  if (by != "key" && by != "value") throw Problem("dictsort: by must be 'key' or 'value'");
  const Dict* dict = as<Dict>(given[0]);
  if (!dict) throw Problem("dictsort needs a mapping");
  std::vector<Value> pairs;
  for (const auto& [key, value] : dict->entries)
    pairs.emplace_back(heap.list({key, value}, ListKind::kTuple));
  const Value position = std::int64_t{by == "key" ? 0 : 1};
  auto all = keyed(interpreter, std::move(pairs), {interpreter, position, given.flag(1)});
  sort_keyed(heap, all, given.flag(3));
  return list_of(interpreter, items_only(std::move(all)));
}

std::size_t size_argument(const Parameters& given, std::size_t i) {
  const std::int64_t size = given.integer(i);
  if (size < 1 || size > static_cast<std::int64_t>(kMaxRange))
    throw Problem("batch and slice need a size from 1");
  return to_size(size);
}

// Rows of `linecount` items.
Value batch(I interpreter, A arguments) {
  const Parameters given("batch", arguments, {"value", "linecount", "fill_with"});
  const std::size_t size = size_argument(given, 1);
  const std::vector<Value> items = items_of(interpreter.heap(), given[0]);
  std::vector<Value> rows;
  for (std::size_t begin = 0; begin < items.size(); begin += size) {
    const std::size_t end = std::min(begin + size, items.size());
    std::vector<Value> row(items.begin() + static_cast<std::ptrdiff_t>(begin),
                           items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!given.is_none(2)) row.resize(size, given[2]);
    rows.push_back(list_of(interpreter, std::move(row)));
  }
  return generator(interpreter, std::move(rows));
}

// `slices` columns, the first ones longer by one.
Value slice_filter(I interpreter, A arguments) {
  const Parameters given("slice", arguments, {"value", "slices", "fill_with"});
  const std::size_t n_columns = size_argument(given, 1);
  const std::vector<Value> items = items_of(interpreter.heap(), given[0]);
  const std::size_t n_each = items.size() / n_columns, n_longer = items.size() % n_columns;
  std::vector<Value> columns;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < n_columns; ++i) {
    const std::size_t end = begin + n_each + (i < n_longer ? 1 : 0);
    std::vector<Value> column(items.begin() + static_cast<std::ptrdiff_t>(begin),
                              items.begin() + static_cast<std::ptrdiff_t>(end));
    if (!given.is_none(2) && i >= n_longer) column.push_back(given[2]);
    columns.push_back(list_of(interpreter, std::move(column)));
    begin = end;
  }
  return generator(interpreter, std::move(columns));
}

Value attribute_filter(I interpreter, A arguments) {
  const Parameters given("attr", arguments, {"obj", "name"});
  if (as<Dict>(given[0]) && !find_method(interpreter.heap(), given[0], given.text(1).bytes())) {
    return undefined("'dict object' has no attribute '" + std::string(given.text(1).bytes()) + "'");
  }
  return interpreter.attribute(given[0], given.text(1).bytes());
}

constexpr FilterEntry kFilters[] = {
    {"default", default_value},
    {"d", default_value},
    {"length", length_filter},
    {"count", length_filter},
    {"list", to_list},
    {"first", first},
    {"last", last},
    {"reverse", reverse},
    {"join", join},
    {"map", map},
    {"select", choose<true, false>},
    {"reject", choose<false, false>},
    {"selectattr", choose<true, true>},
    {"rejectattr", choose<false, true>},
    {"sort", sort},
    {"min", extreme<false>},
    {"max", extreme<true>},
    {"unique", unique},
    {"sum", sum},
    {"groupby", group_by},
    {"items", items_filter},
    {"dictsort", sort_dict},
    {"batch", batch},
    {"slice", slice_filter},
    {"attr", attribute_filter},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

}  // namespace weft::text::jinja
