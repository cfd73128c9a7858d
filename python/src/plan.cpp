// Plans: graphs on devices, with arrays in and out.
#include "weft/plan.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/unique_ptr.h>

#include <map>

#include "graph.h"

namespace weft::python {

namespace {

using Array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Arrays = std::map<std::string, Array>;

std::span<const std::byte> bytes_of(const Array& array) {
  return {static_cast<const std::byte*>(array.data()), array.nbytes()};
}

std::string shape_text(const Array& array) {
  std::string text = "(";
  for (std::size_t i = 0; i < array.ndim(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(array.shape(i));
  return text + ")";
}

/// A plan, the arrays that hold its weights, and the sizes of the last step. All functions except the reading
/// ones are called without the interpreter's lock.
class PyPlan {
 public:
  PyPlan(const Graph& graph, const std::vector<std::string>& devices, const PlanParams& params)
      : plan_(graph, open_devices(devices), params), sizes_(graph.symbols().size()) {}

  void set_weight(const std::string& name, Array array) {
    const auto hold = user_.hold("the plan");
    plan_.set_weight(name, bytes_of(array));
    weights_.insert_or_assign(name, std::move(array));
  }
  void set_weights(const std::filesystem::path& path) {
    const auto hold = user_.hold("the plan");
    plan_.set_weights(WeightFile(path));
  }
  void set_graph(Graph graph, const Arrays& constants) {
    const auto hold = user_.hold("the plan");
    const std::size_t n_symbols = graph.symbols().size();
    plan_.set_graph(std::move(graph));
    sizes_.assign(n_symbols, std::nullopt);
    set_constants(constants);
    has_other_graph_ = true;
  }
  /// Sets the graph's own constants, except arrays that are set already.
  void set_constants(const Arrays& constants) {
    for (const auto& [name, array] : constants) {
      if (const auto there = weights_.find(name);
          there != weights_.end() && there->second.data() == array.data())
        continue;
      plan_.set_weight(name, bytes_of(array));
      weights_.insert_or_assign(name, array);
    }
  }

  /// One step. Sizes that follow from an input's shape need not be given.
  void run(const Arrays& inputs, const std::map<std::string, std::int64_t>& sizes) {
    const auto hold = user_.hold("the plan");
    const std::vector<std::optional<std::int64_t>> now = sizes_of(inputs, sizes);
    std::vector<Plan::SymbolValue> values;
    for (std::size_t s = 0; s < now.size(); ++s)
      if (now[s]) values.emplace_back(plan_.graph().symbols()[s].name, *now[s]);
    std::vector<Plan::InputData> data;
    for (const auto& [name, array] : inputs) {
      check_input(name, array, now);
      data.emplace_back(name, bytes_of(array));
    }
    plan_.run(values, data);
    if (has_other_graph_) forget_weights();
    sizes_ = now;
  }

  nb::object read(const std::string& name) {
    const auto hold = user_.hold("the plan");
    const std::vector<std::int64_t> shape = plan_.shape(name);
    const ValueId id = plan_.graph().find(name);
    return plan_.graph().value(id).dtype == DType::kI32 ? read_as<std::int32_t>(name, shape)
                                                        : read_as<float>(name, shape);
  }
  std::vector<std::string> outputs() {
    const auto hold = user_.hold("the plan");
    std::vector<std::string> names;
    for (const ValueId id : plan_.graph().outputs()) names.push_back(plan_.graph().value(id).name);
    return names;
  }
  /// "f32" or "i32"; nullopt if there is no such input.
  std::optional<std::string> type_of(const std::string& name) {
    const auto hold = user_.hold("the plan");
    const ValueId id = plan_.graph().find(name);
    if (id == kNoValue) return std::nullopt;
    return std::string(info(plan_.graph().value(id).dtype).name);
  }
  /// The shape of a weight of a type without blocks; nullopt for other values.
  std::optional<std::vector<std::int64_t>> shape_of_weight(const std::string& name) {
    const auto hold = user_.hold("the plan");
    const ValueId id = plan_.graph().find(name);
    if (id == kNoValue) return std::nullopt;
    const ValueInfo& value = plan_.graph().value(id);
    if (value.kind != ValueKind::kWeight || info(value.dtype).block_elements > 1) return std::nullopt;
    return value.shape.dims({});
  }
  /// Inputs and outputs with their shapes, for people.
  std::string describe() {
    const auto hold = user_.hold("the plan");
    const Graph& graph = plan_.graph();
    const auto text = [&](const ValueInfo& value) {
      return value.name + " " + to_string(value.shape, graph.symbols());
    };
    std::string inputs, outputs;
    for (const ValueInfo& value : graph.values())
      if (value.kind == ValueKind::kInput) inputs += (inputs.empty() ? "" : ", ") + text(value);
    for (const ValueId id : graph.outputs()) outputs += (outputs.empty() ? "" : ", ") + text(graph.value(id));
    return "<weft.Plan " + inputs + " -> " + outputs + ", " + std::to_string(graph.nodes().size()) +
           " nodes>";
  }
  std::string explain() {
    const auto hold = user_.hold("the plan");
    return plan_.explain();
  }
  std::vector<std::string> placement() {
    const auto hold = user_.hold("the plan");
    return plan_.placement();
  }
  PlanCounters counters() {
    const auto hold = user_.hold("the plan");
    return plan_.counters();
  }

 private:
  using Sizes = std::vector<std::optional<std::int64_t>>;

  const ValueInfo& input(const std::string& name) const {
    const ValueId id = plan_.graph().find(name);
    if (id == kNoValue || plan_.graph().value(id).kind != ValueKind::kInput)
      throw Error(ErrorCode::kNotFound, "the graph has no input '" + name + "'");
    return plan_.graph().value(id);
  }
  Sizes sizes_of(const Arrays& inputs, const std::map<std::string, std::int64_t>& given) const {
    const std::span<const Symbol> symbols = plan_.graph().symbols();
    Sizes now = sizes_;
    Sizes said(symbols.size());
    for (const auto& [name, value] : given) {
      std::size_t s = 0;
      while (s < symbols.size() && symbols[s].name != name) ++s;
      if (s == symbols.size()) refuse("the graph has no symbol '" + name + "'");
      said[s] = value;
    }
    for (const auto& [name, array] : inputs)
      for (std::size_t s = 0; s < symbols.size(); ++s)
        if (!said[s]) said[s] = size_in(input(name).shape, array, s);
    for (std::size_t s = 0; s < symbols.size(); ++s)
      if (said[s]) now[s] = said[s];
    return now;
  }
  /// The size of a symbol in an array; nullopt if no axis of the shape is that symbol.
  static std::optional<std::int64_t> size_in(const Shape& shape, const Array& array, std::size_t symbol) {
    for (int axis = 0; axis < shape.rank() && axis < static_cast<int>(array.ndim()); ++axis)
      if (shape[axis] == Dim(1, static_cast<SymbolId>(symbol)))
        return static_cast<std::int64_t>(array.shape(static_cast<std::size_t>(axis)));
    return std::nullopt;
  }
  /// ", where n is 3": the symbols of a shape with their sizes.
  static std::string sizes_text(const Shape& shape, std::span<const Symbol> symbols,
                                std::span<const std::int64_t> values) {
    std::string text;
    for (std::size_t s = 0; s < symbols.size(); ++s)
      for (int axis = 0; axis < shape.rank(); ++axis)
        if (shape[axis].uses(static_cast<SymbolId>(s))) {
          text +=
              (text.empty() ? ", where " : " and ") + symbols[s].name + " is " + std::to_string(values[s]);
          break;
        }
    return text;
  }
  void check_input(const std::string& name, const Array& array, const Sizes& sizes) const {
    const ValueInfo& value = input(name);
    const bool fits = value.dtype == DType::kI32 ? array.dtype() == nb::dtype<std::int32_t>()
                                                 : array.dtype() == nb::dtype<float>();
    if (!fits) refuse("the input '" + name + "' is of " + std::string(info(value.dtype).name));
    const std::span<const Symbol> symbols = plan_.graph().symbols();
    bool same = value.shape.rank() == static_cast<int>(array.ndim());
    std::vector<std::int64_t> values;
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      if (!sizes[s]) refuse("a size is missing: " + symbols[s].name + "; no input's shape tells it");
      values.push_back(*sizes[s]);
    }
    for (int axis = 0; same && axis < value.shape.rank(); ++axis)
      same = value.shape[axis].value(values) ==
             static_cast<std::int64_t>(array.shape(static_cast<std::size_t>(axis)));
    if (!same)
      refuse("the input '" + name + "' has the shape " + shape_text(array) + ", not " +
             to_string(value.shape, symbols) + sizes_text(value.shape, symbols, values));
  }
  template <typename T>
  nb::object read_as(const std::string& name, const std::vector<std::int64_t>& shape) const {
    std::vector<std::size_t> dims(shape.begin(), shape.end());
    auto numbers = std::make_unique<std::vector<T>>(plan_.read<T>(name));
    T* const data = numbers->data();
    const nb::capsule owner(numbers.release(),
                            [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T>(data, dims.size(), dims.data(), owner));
  }

  /// Lets go of the arrays of weights that the graph does not have.
  void forget_weights() {
    const Graph& graph = plan_.graph();
    std::erase_if(weights_, [&](const auto& one) {
      const ValueId id = graph.find(one.first);
      return id == kNoValue || graph.value(id).kind != ValueKind::kWeight;
    });
    has_other_graph_ = false;
  }

  std::map<std::string, Array> weights_;  // They outlive the plan, which may refer to them.
  bool has_other_graph_ = false;          // The plan has a new graph, and no step was run with it.
  Plan plan_;
  Sizes sizes_;
  OneUser user_;
};

std::unique_ptr<PyPlan> make_plan(const PyGraph& graph, const std::vector<std::string>& devices,
                                  const std::vector<std::pair<std::string, std::string>>& pins, int n_threads,
                                  const std::vector<std::string>& allow) {
  PlanParams params{.allowed = {.shapes = false}, .n_threads = n_threads};
  for (const auto& [pattern, device] : pins) params.pins.push_back({.pattern = pattern, .device = device});
  for (const std::string& change : allow) {
    if (change == "shapes")
      params.allowed.shapes = true;
    else if (change == "tensors")
      params.allowed.tensors = true;
    else if (change == "topology")
      params.allowed.topology = true;
    else
      refuse("a plan may allow shapes, tensors and topology, not '" + change + "'");
  }
  const Graph own = graph;  // The caller may change its graph afterwards.
  const Arrays constants = graph.constants;
  const Unlocked unlocked;
  auto plan = std::make_unique<PyPlan>(own, devices, params);
  plan->set_constants(constants);
  return plan;
}

}  // namespace

void bind_plan(nb::module_& m) {
  nb::class_<PyPlan>(m, "Plan")
      .def_static("make", &make_plan, nb::arg("graph"), nb::arg("devices"), nb::arg("pins"),
                  nb::arg("n_threads"), nb::arg("allow"))
      .def("set_weight", &PyPlan::set_weight, nb::arg("name"), nb::arg("array").noconvert(), WithoutLock())
      .def("set_weights", &PyPlan::set_weights, nb::arg("path"), WithoutLock())
      .def(
          "set_graph",
          [](PyPlan& self, const PyGraph& graph) {
            Graph own = graph;
            const Arrays constants = graph.constants;
            const Unlocked unlocked;
            self.set_graph(std::move(own), constants);
          },
          nb::arg("graph"))
      .def("run", &PyPlan::run, nb::arg("inputs"), nb::arg("sizes"), WithoutLock())
      .def("read", &PyPlan::read, nb::arg("name"),
           nb::sig("def read(self, name: str) -> numpy.typing.NDArray[typing.Any]"))
      .def("type_of", &PyPlan::type_of, nb::arg("name"))
      .def("shape_of_weight", &PyPlan::shape_of_weight, nb::arg("name"))
      .def_prop_ro("outputs", &PyPlan::outputs)
      .def_prop_ro("placement", &PyPlan::placement)
      .def_prop_ro("counters",
                   [](PyPlan& self) {
                     const PlanCounters counters = self.counters();
                     nb::typed<nb::dict, std::string, std::int64_t> result;
                     result["compiled"] = counters.compiled;
                     result["steps"] = counters.steps;
                     result["shapes"] = counters.shapes;
                     result["tensors"] = counters.tensors;
                     result["topology"] = counters.topology;
                     return result;
                   })
      .def("describe", &PyPlan::describe)
      .def("explain", &PyPlan::explain);
}

}  // namespace weft::python
