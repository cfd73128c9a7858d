#include "text/jinja/builtins.h"

#include <algorithm>

#include "base/to_size.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/strings.h"

namespace weft::text::jinja {
namespace {

class FunctionObject final : public Object {
 public:
  FunctionObject(NativeFunction body, Value self) : body_(body), self_(std::move(self)) {}
  std::string_view type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override {
    return body_(interpreter, self_, arguments);
  }

 private:
  NativeFunction body_;
  Value self_;
};

class NamespaceObject final : public Object {
 public:
  explicit NamespaceObject(Dict* values) : attributes(values) {}
  Dict* const attributes;
  std::string_view type_name() const override { return "namespace"; }
  std::optional<Value> attribute(Interpreter&, std::string_view name) override {
    const Value* found = get(*attributes, name);
    return found ? std::optional<Value>(*found) : std::nullopt;
  }
};

/// joiner(", ")(): nothing the first time, the separator afterwards.
class JoinerObject final : public Object {
 public:
  explicit JoinerObject(Value separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "joiner"; }
  bool callable() const override { return true; }
  Value call(Interpreter&, Arguments) override {
    if (std::exchange(used_, true)) return separator_;
    return computed("");
  }

 private:
  Value separator_;
  bool used_ = false;
};

/// cycler(a, b): next(), reset(), current.
class CyclerObject final : public Object {
 public:
  explicit CyclerObject(std::vector<Value> items) : items_(std::move(items)) {}
  std::string_view type_name() const override { return "cycler"; }
  std::optional<Value> attribute(Interpreter& interpreter, std::string_view name) override {
    if (name == "current") return items_[position_];
    if (name == "next") return function(interpreter.heap(), &CyclerObject::next, this);
    if (name == "reset") return function(interpreter.heap(), &CyclerObject::reset, this);
    return std::nullopt;
  }

 private:
  static CyclerObject& cycler(const Value& self) { return *static_cast<CyclerObject*>(as<Object>(self)); }
  static Value next(Interpreter&, const Value& self, const Arguments&) {
    CyclerObject& it = cycler(self);
    const std::size_t at = it.position_;
    it.position_ = (at + 1) % it.items_.size();
    return it.items_[at];
  }
  static Value reset(Interpreter&, const Value& self, const Arguments&) {
    cycler(self).position_ = 0;
    return None{};
  }

  std::vector<Value> items_;
  std::size_t position_ = 0;
};

Value range(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters given("range", arguments, {"start", "stop", "step"});
  const bool has_start = given.has(1);
  const std::int64_t first = has_start ? given.integer(0) : 0, last = given.integer(has_start ? 1 : 0);
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) throw Problem("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (std::int64_t i = first; step > 0 ? i < last : i > last;) {
    if (items.size() >= kMaxRange) {
      throw Problem("range() of more than " + std::to_string(kMaxRange) + " numbers");
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return interpreter.heap().list(std::move(items));
}

// dict() and namespace(): named arguments over a dict or a list of pairs.
Dict* make_dict(Interpreter& interpreter, const Arguments& arguments, const char* what) {
  Heap& heap = interpreter.heap();
  Dict* dict = heap.make<Dict>();
  if (arguments.positional.size() > 1) throw Problem(std::string(what) + "() takes at most one value");
  for (const Value& source : arguments.positional) {
    if (const Dict* other = as<Dict>(source)) {
      for (const auto& [key, value] : other->entries) set(heap, *dict, key, value);
      continue;
    }
    for (const Value& pair : items_of(heap, source)) {
      std::vector<Value> parts = items_of(heap, pair);
      if (parts.size() != 2) throw Problem(std::string(what) + "() needs pairs");
      set(heap, *dict, std::move(parts[0]), std::move(parts[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) set(heap, *dict, name, value);
  return dict;
}

Value dict(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  return make_dict(interpreter, arguments, "dict");
}

Value make_namespace(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  Dict* attributes = make_dict(interpreter, arguments, "namespace");
  return static_cast<Object*>(interpreter.heap().make<NamespaceObject>(attributes));
}

Value raise_exception(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters given("raise_exception", arguments, {"message"});
  throw Problem(std::string(to_text(interpreter.heap(), given[0]).bytes()));
}

Value joiner(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  const Parameters given("joiner", arguments, {"sep"});
  const Value separator = given.get(0, computed(", "));
  return static_cast<Object*>(interpreter.heap().make<JoinerObject>(separator));
}

Value cycler(Interpreter& interpreter, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) throw Problem("cycler() needs values");
  return static_cast<Object*>(interpreter.heap().make<CyclerObject>(arguments.positional));
}

}  // namespace

Parameters::Parameters(std::string_view what, const Arguments& arguments,
                       std::initializer_list<std::string_view> names)
    : what_(what), names_(names.begin(), names.size()) {
  if (arguments.positional.size() > names.size()) {
    fail("takes at most " + std::to_string(names.size()) + " argument(s)");
  }
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) fail("has no argument '" + name + "'");
    const Value*& slot = values_[to_size(place - names.begin())];
    if (slot) fail("got several values for '" + name + "'");
    slot = &value;
  }
  names_ = {};
}

void Parameters::fail(const std::string& what) const { throw Problem(std::string(what_) + "() " + what); }

const Value& Parameters::operator[](std::size_t i) const {
  if (!values_[i]) fail("lacks argument " + std::to_string(i + 1));
  return *values_[i];
}

std::int64_t Parameters::integer(std::size_t i, std::optional<std::int64_t> otherwise) const {
  if (!has(i) && otherwise) return *otherwise;
  const auto number = as_integer((*this)[i]);
  if (!number) fail("needs an integer, not '" + std::string(type_name(*values_[i])) + "'");
  return *number;
}

const Text& Parameters::text(std::size_t i) const {
  const Text* text = as_text((*this)[i]);
  if (!text) fail("needs a string, not '" + std::string(type_name(*values_[i])) + "'");
  return *text;
}

Value function(Heap& heap, NativeFunction body, Value self) {
  return static_cast<Object*>(heap.make<FunctionObject>(body, std::move(self)));
}

Dict* namespace_attributes(const Value& value) {
  auto* object = dynamic_cast<NamespaceObject*>(as<Object>(value));
  return object ? object->attributes : nullptr;
}

FilterFunction find_filter(std::string_view name) {
  for (const auto group : {text_filters(), number_filters(), sequence_filters()}) {
    for (const FilterEntry& entry : group) {
      if (entry.name == name) return entry.body;
    }
  }
  return nullptr;
}

std::optional<Value> find_function(Heap& heap, std::string_view name) {
  struct Entry {
    std::string_view name;
    NativeFunction body;
  };
  constexpr Entry kFunctions[] = {
      {"range", range},
      {"dict", dict},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"joiner", joiner},
      {"cycler", cycler},
  };
  for (const Entry& entry : kFunctions) {
    if (entry.name == name) return function(heap, entry.body, {});
  }
  if (name == "strftime_now") return undefined("strftime_now() needs the time: give the variable now");
  return std::nullopt;
}

Value path_of(Interpreter& interpreter, const Value& item, const Value& path) {
  const Text* name = as_text(path);
  if (!name) return interpreter.item(item, path);
  Value value = item;
  for (const Text& part : split(interpreter.budget(), *name, ".")) {
    const bool is_index = is_digit(part.bytes()) && part.size() < 10;
    const Value key = is_index ? Value(std::int64_t{std::stol(std::string(part.bytes()))}) : string(part);
    value = interpreter.item(value, key);
  }
  return value;
}

}  // namespace weft::text::jinja
