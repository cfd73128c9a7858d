// Graphs, ops by their names, and plans.
#include "weft/graph.h"

#include <limits>
#include <variant>

#include "attributes.h"
#include "support.h"
#include "weft/graph/custom.h"
#include "weft/plan.h"
#include "weft_graph.h"

using namespace weft;
using namespace weft::c;

struct weft_graph {
  Graph graph;
  std::vector<Dim> sizes = {};  // Symbolic sizes, indexed by weft_dim - kFirstSize.
  mutable OneUser user = {};
};

struct weft_plan {
  Plan plan;
  mutable OneUser user = {};
};

static_assert(WEFT_MAX_RANK == Shape::kMaxRank);
static_assert(WEFT_EXPLAIN_DOT == static_cast<int>(Explain::kDot));

namespace weft::c {

template <>
weft_plan_params defaults() {
  const PlanParams d;
  weft_plan_params p = {};
  p.n_threads = d.n_threads;
  p.allow_shapes = d.allowed.shapes;
  p.allow_tensors = d.allowed.tensors;
  p.allow_topology = d.allowed.topology;
  return p;
}

namespace {

constexpr Where kNowhere = {};

/// The first weft_dim that represents a symbolic size: far below all constant sizes.
constexpr weft_dim kFirstSize = std::numeric_limits<weft_dim>::min();
constexpr weft_dim kMostSizes = weft_dim{1} << 32;

Dim dim_of(const weft_graph& graph, weft_dim size) {
  if (size >= kFirstSize + kMostSizes) return size;
  const auto place = static_cast<std::size_t>(size - kFirstSize);
  if (place >= graph.sizes.size()) refuse("a size is of another graph");
  return graph.sizes[place];
}
weft_dim size_of(weft_graph& graph, const Dim& dim) {
  if (dim.is_constant()) return dim.constant();
  const auto known = std::ranges::find(graph.sizes, dim);
  const auto place = known - graph.sizes.begin();
  if (known == graph.sizes.end()) graph.sizes.push_back(dim);
  return kFirstSize + place;
}
Shape shape_of(const weft_graph& graph, const weft_dim* sizes, std::size_t rank) {
  std::vector<Dim> dims;
  for (const weft_dim size : list(sizes, rank, "shape")) dims.push_back(dim_of(graph, size));
  return Shape(std::span<const Dim>(dims));
}
DType dtype_of(const char* name) {
  const std::optional<DType> type = dtype_from_name(need_text(name, "dtype"));
  if (!type)
    refuse(std::string("there is no type '") + name + "'; types are f32, f16, bf16, i32, q8_0, q4_K, ...");
  return *type;
}
Value value_of(weft_graph& graph, weft_value value) {
  if (value < 0 || static_cast<std::size_t>(value) >= graph.graph.values().size())
    refuse("the graph has no value " + std::to_string(value));
  return Value(graph.graph, value);
}

// Attributes by the types of their fields: the member of weft_attribute that holds the value, and the valid
// values.

template <typename T>
constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::array<T, Shape::kMaxRank>> = true;

template <typename T>
constexpr std::string_view member_of() {
  if constexpr (std::is_enum_v<T>)
    return "text";
  else if constexpr (std::is_floating_point_v<T>)
    return "number";
  else if constexpr (std::is_same_v<T, Shape> || std::is_same_v<T, HeightWidth> || kIsList<T>)
    return "sizes";
  else if constexpr (std::is_integral_v<T> || std::is_same_v<T, Dim>)
    return "integer";
  else
    return "";  // Fields of ops with functions of their own (weft_graph_custom).
}

void check_members(const weft_attribute& given, std::string_view member) {
  const auto check = [&](bool is_set, std::string_view name) {
    if (is_set && name != member)
      refuse(std::string("the attribute '") + given.name + "' is said by " + std::string(member) +
             ", not by " + std::string(name));
  };
  check(given.text != nullptr, "text");
  check(given.number != 0.0, "number");
  check(given.integer != 0, "integer");
  check(given.n_sizes != 0, "sizes");
}

std::string joined(const std::vector<std::string>& words) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : ", ") + word;
  return result;
}

template <typename T>
void set(const weft_graph& graph, T& field, const weft_attribute& given) {
  const std::string name = given.name;
  if constexpr (std::is_same_v<T, DType>) {
    field = dtype_of(given.text);
  } else if constexpr (std::is_enum_v<T>) {
    const std::vector<std::string> all = choices<T>();
    const auto found = std::ranges::find(all, text_or_nothing(given.text));
    if (found == all.end())
      refuse("the attribute '" + name + "' is '" + text_or_nothing(given.text) + "'; it must be one of " +
             joined(all));
    field = static_cast<T>(found - all.begin());
  } else if constexpr (std::is_floating_point_v<T>) {
    field = static_cast<T>(given.number);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (given.integer != 0 && given.integer != 1) refuse("the attribute '" + name + "' is 0 or 1");
    field = given.integer != 0;
  } else if constexpr (kIsInteger<T>) {
    // Any value fits an unsigned 64-bit field.
    if (sizeof(T) < sizeof given.integer && !std::in_range<T>(given.integer))
      refuse("the attribute '" + name + "' is " + std::to_string(given.integer) + ", out of its range");
    field = static_cast<T>(given.integer);
  } else if constexpr (std::is_same_v<T, Dim>) {
    field = dim_of(graph, given.integer);
  } else if constexpr (std::is_same_v<T, Shape>) {
    field = shape_of(graph, given.sizes, given.n_sizes);
  } else if constexpr (std::is_same_v<T, HeightWidth>) {
    const auto sizes = list(given.sizes, given.n_sizes, "an attribute's sizes");
    if (sizes.size() != 1 && sizes.size() != 2)
      refuse("the attribute '" + name + "' has a height and a width, or one size for both");
    field = HeightWidth(sizes.front(), sizes.back());
  } else if constexpr (kIsList<T>) {
    const auto sizes = list(given.sizes, given.n_sizes, "an attribute's sizes");
    if (sizes.size() > field.size()) refuse("the attribute '" + name + "' has 4 sizes at most");
    using Item = typename T::value_type;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (!std::in_range<Item>(sizes[i])) refuse("the attribute '" + name + "' has a size out of its range");
      field[i] = static_cast<Item>(sizes[i]);
    }
  }
}

/// The default of a field as a string.
template <typename T>
std::string written(const T& field) {
  if constexpr (std::is_same_v<T, DType>) {
    return std::string(info(field).name);
  } else if constexpr (std::is_enum_v<T>) {
    return choices<T>()[static_cast<std::size_t>(field)];
  } else if constexpr (std::is_arithmetic_v<T>) {
    std::array<char, 32> text;
    if constexpr (std::is_same_v<T, bool>)
      return field ? "1" : "0";
    else
      return {text.data(), std::to_chars(text.begin(), text.end(), field).ptr};
  } else if constexpr (std::is_same_v<T, Dim> || std::is_same_v<T, Shape>) {
    return to_string(field, {});
  } else if constexpr (std::is_same_v<T, HeightWidth>) {
    return std::to_string(field.h) + ", " + std::to_string(field.w);
  } else if constexpr (kIsList<T>) {
    std::string result;
    for (const auto item : field) result += (result.empty() ? "" : ", ") + std::to_string(item);
    return result;
  } else {
    return {};
  }
}

Op op_of(const char* name) {
  for (const Op& op : all_ops())
    if (std::visit([](const auto& one) { return std::decay_t<decltype(one)>::kName; }, op) ==
        need_text(name, "op"))
      return op;
  std::vector<std::string> names;
  for (const Op& op : all_ops())
    names.emplace_back(std::visit([](const auto& one) { return std::decay_t<decltype(one)>::kName; }, op));
  throw Error(ErrorCode::kNotFound, std::string("there is no op '") + name + "'; there are " + joined(names));
}

void set_attribute(const weft_graph& graph, Op& op, const weft_attribute& given) {
  const std::string name = need_text(given.name, "an attribute's name");
  bool found = false;
  std::vector<std::string> names;
  std::visit(
      [&](auto& one) {
        each_field(one, [&]<typename T>(const std::string& field_name, T& field) {
          names.push_back(field_name);
          if (field_name != name) return;
          found = true;
          check_members(given, member_of<T>());
          set(graph, field, given);
        });
      },
      op);
  if (!found)
    refuse("there is no attribute '" + name + "'; there " +
           (names.empty() ? "are none" : "are " + joined(names)));
}

template <typename T>
std::string input_names() {
  if constexpr (HasNamedInputs<T>) {
    std::vector<std::string> names;
    const typename T::Inputs inputs = {};
    each_field(inputs, [&](const std::string& name, const ValueId&) { names.push_back(name); });
    return ": " + joined(names);
  } else {
    return {};
  }
}

std::string help(const Op& op) {
  return std::visit(
      []<typename Of>(const Of& one) {
        std::string text = std::string(Of::kName) + "\n  " + std::to_string(Of::kMinInputs);
        if (Of::kMaxInputs != Of::kMinInputs) text += " to " + std::to_string(Of::kMaxInputs);
        text += std::string(Of::kMaxInputs == 1 ? " input" : " inputs") + input_names<Of>() + "\n";
        each_field(one, [&]<typename T>(const std::string& name, const T& field) {
          if (member_of<T>().empty()) return;
          text += "  " + name + " (" + std::string(member_of<T>());
          if constexpr (std::is_enum_v<T> && !std::is_same_v<T, DType>) text += ": " + joined(choices<T>());
          text += "), by default " + written(field) + "\n";
        });
        return text;
      },
      op);
}

template <typename F>
weft_status run_with(const weft_graph* graph, weft_error** error, F&& use) {
  return run(error, [&] {
    // Functions that take const do not change it.
    auto& self = const_cast<weft_graph&>(need(graph, "graph"));
    const OneUser::Hold hold(self.user, "the graph");
    use(self);
  });
}
template <typename F>
weft_status run_with(const weft_plan* plan, weft_error** error, F&& use) {
  return run(error, [&] {
    auto& self = const_cast<weft_plan&>(need(plan, "plan"));
    const OneUser::Hold hold(self.user, "the plan");
    use(self.plan);
  });
}

/// Adds a value to a graph and returns its index.
template <typename F>
weft_status add(weft_graph* graph, weft_value* value, weft_error** error, F&& made) {
  return run_with(graph, error, [&](weft_graph& self) {
    const Value result = made(self);
    if (value != nullptr) *value = result.id();
  });
}

struct Step {
  std::vector<Plan::SymbolValue> symbols;
  std::vector<Plan::InputData> inputs;
  Step(const weft_symbol_value* given_symbols, std::size_t n_symbols, const weft_input* given_inputs,
       std::size_t n_inputs) {
    for (const weft_symbol_value& one : list(given_symbols, n_symbols, "symbols"))
      symbols.emplace_back(std::string_view(need_text(one.symbol, "a symbol's name")), one.value);
    for (const weft_input& one : list(given_inputs, n_inputs, "inputs"))
      inputs.emplace_back(need_text(one.name, "an input's name"),
                          list(static_cast<const std::byte*>(one.data), one.n_bytes, "an input's data"));
  }
};

}  // namespace

}  // namespace weft::c

weft_graph* weft_graph_create(weft_error** error) {
  return make(error, [] { return std::unique_ptr<weft_graph>(new weft_graph); });
}
void weft_graph_free(weft_graph* graph) { delete graph; }
weft_status weft_graph_symbol(weft_graph* graph, const char* name, int64_t min, int64_t max, weft_dim* size,
                              weft_error** error) {
  return run_with(graph, error, [&](weft_graph& self) {
    weft_dim& to = need(size, "size");
    to = size_of(self, self.graph.symbol(need_text(name, "name"), min, max, kNowhere));
  });
}
weft_status weft_graph_size(weft_graph* graph, weft_dim a, char op, weft_dim b, weft_dim* size,
                            weft_error** error) {
  return run_with(graph, error, [&](weft_graph& self) {
    weft_dim& to = need(size, "size");
    const Dim left = dim_of(self, a), right = dim_of(self, b);
    const auto result = [&] {
      switch (op) {
        case '+':
          return left + right;
        case '-':
          return left - right;
        case '*':
          return left * right;
        case '/':
          if (!right.is_constant()) refuse("a size is divided by a number only");
          return left / right.constant();
        default:
          refuse(std::string("sizes have no operation '") + op + "'; there are + - * /");
      }
    }();
    to = size_of(self, result);
  });
}
weft_status weft_graph_input(weft_graph* graph, const char* name, const char* dtype, const weft_dim* shape,
                             size_t rank, weft_value* value, weft_error** error) {
  return add(graph, value, error, [&](weft_graph& self) {
    return self.graph.input(need_text(name, "name"), shape_of(self, shape, rank), dtype_of(dtype), kNowhere);
  });
}
weft_status weft_graph_weight(weft_graph* graph, const char* name, const char* dtype, const weft_dim* shape,
                              size_t rank, weft_value* value, weft_error** error) {
  return add(graph, value, error, [&](weft_graph& self) {
    return self.graph.weight(need_text(name, "name"), dtype_of(dtype), shape_of(self, shape, rank), kNowhere);
  });
}
weft_status weft_graph_state(weft_graph* graph, const char* name, const char* dtype, const weft_dim* shape,
                             size_t rank, weft_value* value, weft_error** error) {
  return add(graph, value, error, [&](weft_graph& self) {
    return self.graph.state(need_text(name, "name"), dtype_of(dtype), shape_of(self, shape, rank), kNowhere);
  });
}
weft_status weft_graph_op(weft_graph* graph, const char* op, const weft_value* inputs, size_t n_inputs,
                          const weft_attribute* attributes, size_t n_attributes, weft_value* value,
                          weft_error** error) {
  return add(graph, value, error, [&](weft_graph& self) {
    Op made = op_of(need_text(op, "op"));
    if (std::holds_alternative<ops::Custom>(made))
      refuse("functions of one's own are made by weft_graph_custom");
    for (const weft_attribute& one : list(attributes, n_attributes, "attributes"))
      set_attribute(self, made, one);
    const std::span<const weft_value> ids = list(inputs, n_inputs, "inputs");
    return Value(self.graph, self.graph.add(made, ids, self.graph.free_name(op)));
  });
}
weft_status weft_graph_rename(weft_graph* graph, weft_value value, const char* name, weft_error** error) {
  return run_with(graph, error, [&](weft_graph& self) {
    static_cast<void>(value_of(self, value).named(need_text(name, "name"), kNowhere));
  });
}
weft_status weft_graph_output(weft_graph* graph, const char* name, weft_value value, weft_error** error) {
  return run_with(graph, error, [&](weft_graph& self) {
    self.graph.output(need_text(name, "name"), value_of(self, value), kNowhere);
  });
}
weft_value weft_graph_find(const weft_graph* graph, const char* name) {
  return value_or(WEFT_NO_VALUE, [&] { return need(graph, "graph").graph.find(need_text(name, "name")); });
}
weft_status weft_graph_get_value(weft_graph* graph, weft_value value, weft_value_info* info,
                                 weft_error** error) {
  return run_with(graph, error, [&](weft_graph& self) {
    const ValueInfo& from = self.graph.value(value_of(self, value).id());
    weft_value_info told = {};
    told.name = from.name.c_str();
    told.dtype = weft::info(from.dtype).name.data();  // Of a literal.
    told.rank = from.shape.rank();
    for (int i = 0; i < told.rank; ++i) told.shape[i] = size_of(self, from.shape[i]);
    write(info, told, "info");
  });
}
weft_status weft_graph_text(const weft_graph* graph, char** text, weft_error** error) {
  return run_with(graph, error,
                  [&](const weft_graph& self) { tell(&need(text, "text"), to_string(self.graph)); });
}
weft_status weft_graph_dot(const weft_graph* graph, char** text, weft_error** error) {
  return run_with(graph, error,
                  [&](const weft_graph& self) { tell(&need(text, "text"), to_dot(self.graph)); });
}

size_t weft_op_count(void) { return std::variant_size_v<Op>; }
const char* weft_op_name(size_t place) {
  return value_or<const char*>(nullptr, [&]() -> const char* {
    if (place >= all_ops().size()) return nullptr;
    return std::visit([](const auto& one) { return std::decay_t<decltype(one)>::kName.data(); },
                      all_ops()[place]);
  });
}
weft_status weft_op_help(const char* op, char** text, weft_error** error) {
  return run(error, [&] { tell(&need(text, "text"), help(op_of(need_text(op, "op")))); });
}

weft_status weft_graph_custom(weft_graph* graph, const char* name, const weft_value* inputs, size_t n_inputs,
                              const char* dtype, const weft_dim* shape, size_t rank, int64_t rows_per_task,
                              weft_custom_callback function, void* user_data, weft_value* value,
                              weft_error** error) {
  return add(graph, value, error, [&](weft_graph& self) {
    if (function == nullptr) refuse("function is NULL");
    std::vector<Value> values;
    for (const weft_value one : list(inputs, n_inputs, "inputs")) values.push_back(value_of(self, one));
    const auto call = [function, user_data](const CustomCall& from) {
      std::vector<weft_custom_value> all;
      for (const CustomInput& one : from.inputs)
        all.push_back({.dtype = weft::info(one.dtype).name.data(),
                       .shape = one.shape.data(),
                       .rank = one.shape.size(),
                       .data = one.bytes.data(),
                       .n_bytes = one.bytes.size()});
      const weft_custom_call told = {.struct_size = sizeof told,
                                     .inputs = all.data(),
                                     .n_inputs = all.size(),
                                     .shape = from.shape.data(),
                                     .rank = from.shape.size(),
                                     .begin = from.begin,
                                     .end = from.end,
                                     .data = from.bytes.data(),
                                     .n_bytes = from.bytes.size()};
      if (!function(&told, user_data)) throw Error(ErrorCode::kDevice, "the function said that it failed");
    };
    return custom(need_text(name, "name"), values, shape_of(self, shape, rank), call,
                  {.dtype = dtype_of(dtype), .rows_per_task = rows_per_task}, kNowhere);
  });
}

void weft_plan_params_init(weft_plan_params* params, size_t struct_size) { init(params, struct_size); }
weft_plan* weft_plan_create(const weft_graph* graph, const weft_plan_params* params, weft_error** error) {
  return make(error, [&] {
    const weft_graph& from = need(graph, "graph");
    const weft_plan_params p = read(params, "params");
    PlanParams how = {
        .allowed = {.shapes = p.allow_shapes, .tensors = p.allow_tensors, .topology = p.allow_topology},
        .n_threads = p.n_threads};
    for (const weft_pin& pin : list(p.pins, p.n_pins, "pins"))
      how.pins.push_back({.pattern = need_text(pin.pattern, "a pin's pattern"),
                          .device = need_text(pin.device, "a pin's device")});
    const std::vector<std::string> names = texts(p.devices, p.n_devices, "devices");
    return std::unique_ptr<weft_plan>(
        new weft_plan{.plan = Plan(from.graph, open_devices(std::span(names)), std::move(how))});
  });
}
void weft_plan_free(weft_plan* plan) { delete plan; }
weft_status weft_plan_set_weight(weft_plan* plan, const char* name, const void* data, size_t n_bytes,
                                 weft_error** error) {
  return run_with(plan, error, [&](Plan& self) {
    self.set_weight(need_text(name, "name"), list(static_cast<const std::byte*>(data), n_bytes, "data"));
  });
}
weft_status weft_plan_set_weights_file(weft_plan* plan, const char* path, weft_error** error) {
  return run_with(plan, error, [&](Plan& self) { self.set_weights(WeightFile(need_text(path, "path"))); });
}
weft_status weft_plan_run(weft_plan* plan, const weft_symbol_value* symbols, size_t n_symbols,
                          const weft_input* inputs, size_t n_inputs, weft_error** error) {
  return run_with(plan, error, [&](Plan& self) {
    const Step step(symbols, n_symbols, inputs, n_inputs);
    self.run(step.symbols, step.inputs);
  });
}
weft_status weft_plan_start(weft_plan* plan, const weft_symbol_value* symbols, size_t n_symbols,
                            const weft_input* inputs, size_t n_inputs, weft_error** error) {
  return run_with(plan, error, [&](Plan& self) {
    const Step step(symbols, n_symbols, inputs, n_inputs);
    self.start(step.symbols, step.inputs);
  });
}
weft_status weft_plan_finish(weft_plan* plan, weft_error** error) {
  return run_with(plan, error, [](Plan& self) { self.finish(); });
}
weft_status weft_plan_set_graph(weft_plan* plan, const weft_graph* graph, weft_error** error) {
  return run_with(plan, error, [&](Plan& self) { self.set_graph(need(graph, "graph").graph); });
}
weft_status weft_plan_shape(const weft_plan* plan, const char* output, int64_t* shape, size_t* rank,
                            weft_error** error) {
  return run_with(plan, error, [&](const Plan& self) {
    need(shape, "shape");
    need(rank, "rank");
    const std::vector<std::int64_t> sizes = self.shape(need_text(output, "output"));
    std::ranges::copy(sizes, shape);
    *rank = sizes.size();
  });
}
weft_status weft_plan_read(const weft_plan* plan, const char* output, void* data, size_t n_bytes,
                           weft_error** error) {
  return run_with(plan, error, [&](const Plan& self) {
    const char* const name = need_text(output, "output");
    if (n_bytes > 0) need(static_cast<std::byte*>(data), "data");
    self.read(name, std::span(static_cast<std::byte*>(data), n_bytes));
  });
}
weft_status weft_plan_get_counters(const weft_plan* plan, weft_plan_counters* counters, weft_error** error) {
  return run_with(plan, error, [&](const Plan& self) {
    const PlanCounters& from = self.counters();
    weft_plan_counters told = {};
    told.compiled = from.compiled;
    told.steps = from.steps;
    told.unchanged = from.unchanged;
    told.shapes = from.shapes;
    told.tensors = from.tensors;
    told.topology = from.topology;
    told.copies = from.copies;
    told.copied_bytes = from.copied_bytes;
    write(counters, told, "counters");
  });
}
weft_status weft_plan_explain(const weft_plan* plan, weft_explain as, char** text, weft_error** error) {
  return run_with(plan, error, [&](const Plan& self) {
    tell(&need(text, "text"), self.explain(choice(as, Explain::kDot, "as")));
  });
}
