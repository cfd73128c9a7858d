#pragma once
// Values of a template: Python's None, bool, int, float, str, list, tuple, dict and a few objects.
//
// Ownership: lists, dicts and objects belong to the Heap of one rendering, which frees them all at once. So
// cycles and deep nesting cost nothing to destroy. Strings are shared and immutable. A Heap is used by one
// thread.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/limits.h"
#include "text/jinja/text.h"

namespace weft::text::jinja {

class Interpreter;
struct List;
struct Dict;
struct Object;

/// A name or attribute that does not exist. It prints as nothing, is false and empty. Most other uses fail
/// with `what`.
struct Undefined {
  std::shared_ptr<const std::string> what;
};
struct None {};
using String = std::shared_ptr<const Text>;
using Value = std::variant<Undefined, None, bool, std::int64_t, double, String, List*, Dict*, Object*>;

struct HeapItem {
  HeapItem() = default;
  HeapItem(const HeapItem&) = delete;
  HeapItem& operator=(const HeapItem&) = delete;
  virtual ~HeapItem() = default;
};

enum class ListKind : std::uint8_t {
  kList,
  kTuple,
  kView,       ///< dict.items(), keys(), values(): has a length, no indices.
  kGenerator,  ///< The result of map, select and others: true, without length, read once.
};
struct List final : HeapItem {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  std::size_t n_read = 0;  ///< For a generator.
};

/// Keeps the order of insertion. Keys are hashable values as in Python.
struct Dict final : HeapItem {
  std::vector<std::pair<Value, Value>> entries;
  std::map<std::string, std::size_t, std::less<>> index;  ///< Of each key (see key_name) in `entries`.
};

/// Arguments of a call. For filters and tests, positional[0] is the value that they apply to.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Object : HeapItem {
  virtual std::string_view type_name() const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter&, Arguments) {
    throw Problem(std::string(type_name()) + " is not callable");
  }
  virtual std::optional<Value> attribute(Interpreter&, std::string_view) { return std::nullopt; }
};

class Heap {
 public:
  Heap() = default;
  explicit Heap(Budget steps) : budget(steps) {}
  Budget budget;

  template <class T, class... A>
  T* make(A&&... arguments) {
    budget.spend();
    auto item = std::make_unique<T>(std::forward<A>(arguments)...);
    T* result = item.get();
    items_.push_back(std::move(item));
    return result;
  }
  List* list(std::vector<Value> values, ListKind kind = ListKind::kList);

 private:
  std::vector<std::unique_ptr<HeapItem>> items_;
};

Value undefined(std::string what);
Value string(Text text);
Value computed(std::string_view bytes);  ///< A string made by the interpreter: not from the template.

inline const Text* as_text(const Value& value) {
  const auto* text = std::get_if<String>(&value);
  return text ? text->get() : nullptr;
}
template <class T>
T* as(const Value& value) {
  const auto* item = std::get_if<T*>(&value);
  return item ? *item : nullptr;
}
inline bool is_undefined(const Value& value) { return std::holds_alternative<Undefined>(value); }
inline bool is_none(const Value& value) { return std::holds_alternative<None>(value); }
/// bool and int.
std::optional<std::int64_t> as_integer(const Value& value);
/// bool, int and float.
std::optional<double> as_number(const Value& value);

std::string_view type_name(const Value& value);  ///< As Python calls it.
bool truth(const Value& value);
bool equal(Heap& heap, const Value& a, const Value& b, int depth = 0);
/// Throws Problem for values that have no order.
bool less(Heap& heap, const Value& a, const Value& b, int depth = 0);
/// len(). Throws Problem for a value without a length.
std::size_t length(Heap& heap, const Value& value);
/// The items of a list, keys of a dict or characters of a string, as a copy. Reads a generator to its end.
std::vector<Value> items_of(Heap& heap, const Value& value);
bool is_iterable(const Value& value);

/// str() and repr().
Text to_text(Heap& heap, const Value& value);
Text to_repr(Heap& heap, const Value& value, int depth = 0);
std::string float_repr(double value);

/// The name that equal keys share. Throws Problem for values that cannot be keys.
std::string key_name(Heap& heap, const Value& key, int depth = 0);
const Value* get(Heap& heap, const Dict& dict, const Value& key);
const Value* get(const Dict& dict, std::string_view key);
void set(Heap& heap, Dict& dict, Value key, Value value);
void set(Heap& heap, Dict& dict, std::string_view key, Value value);
/// False if there is no such key.
bool remove(Heap& heap, Dict& dict, const Value& key);

}  // namespace weft::text::jinja
