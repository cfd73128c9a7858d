#include "backend/conformance/case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/host_tensor.h"
#include "base/to_size.h"
#include "tensor/codec.h"

namespace weft::conformance {
namespace {

template <typename T>
std::vector<std::byte> to_bytes(std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

/// Packs the values, and replaces them by the stored ones.
std::vector<std::byte> pack(DType type, std::int64_t columns, Values& values) {
  const std::size_t n = row_bytes(type, columns), rows = values.size() / to_size(columns);
  std::vector<std::byte> packed(n * rows);
  std::vector<float> row(to_size(columns));
  for (std::size_t r = 0; r < rows; ++r) {
    double* const from = values.data() + r * row.size();
    std::transform(from, from + row.size(), row.begin(), [](double v) { return static_cast<float>(v); });
    pack_row(type, row, packed.data() + r * n);
    unpack_row(type, packed.data() + r * n, row);
    std::copy(row.begin(), row.end(), from);
  }
  return packed;
}

std::vector<std::int32_t> all_cells(std::int64_t n) {
  std::vector<std::int32_t> cells(to_size(n));
  for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<std::int32_t>(i);
  return cells;
}

}  // namespace

std::string text(const Shape& shape) {
  std::string result = "{";
  for (int i = 0; i < shape.rank(); ++i) result += (i > 0 ? "," : "") + std::to_string(shape[i].constant());
  return result + "}";
}

double mean_size(const Values& values) {
  double squares = 0.0;
  for (const double v : values) squares += v * v;
  return values.empty() ? 0.0 : std::sqrt(squares / static_cast<double>(values.size()));
}

Values Case::floats(const Shape& shape, float low, float high) {
  std::uniform_real_distribution<float> draw(low, high);
  Values values(to_size(shape.elements({})));
  for (double& v : values) v = static_cast<double>(draw(random_));
  return values;
}

std::int32_t Case::integer(std::int32_t low, std::int32_t high) {
  return std::uniform_int_distribution<std::int32_t>(low, high)(random_);
}

Dim Case::rows(std::int64_t n) {
  for (std::size_t i = 0; i < symbols_.size(); ++i)
    if (symbols_[i] == n) return Dim(1, static_cast<SymbolId>(i));
  symbols_.push_back(n);
  return Dim(1, graph.add_symbol("n" + std::to_string(n), 0, n + 1));
}

ValueId Case::input(const Shape& shape, const Values& values) {
  const ValueId id = graph.add_input(next_name(), DType::kF32, shape);
  std::vector<float> data(values.begin(), values.end());
  host_data_.push_back({id, to_bytes(std::span<const float>(data))});
  return id;
}

ValueId Case::input(const Shape& shape, const Indices& values) {
  const ValueId id = graph.add_input(next_name(), DType::kI32, shape);
  host_data_.push_back({id, to_bytes(std::span<const std::int32_t>(values))});
  return id;
}

ValueId Case::weight(DType type, const Shape& shape, Values& values) {
  const ValueId id = graph.add_weight(next_name(), type, shape);
  weights_.push_back({id, pack(type, shape.columns(), values)});
  return id;
}

ValueId Case::state(DType type, const Shape& shape, CacheRole role, Values& values) {
  const ValueId id = graph.add_state(next_name(), type, shape);
  const std::int64_t cell = shape[1].constant() * shape[2].constant();
  states_.push_back(
      {id, role, pack(type, shape[2].constant(), values), row_bytes(type, cell), shape[0].constant()});
  return id;
}

void Case::expect(ValueId value, Values truth) {
  graph.add_output(value);
  outputs_.push_back({value, std::move(truth)});
}

void Case::expect_state(ValueId state, ValueId last, Values truth) {
  state_truths_.push_back({state, last, std::move(truth)});
}

ConformanceCase Case::run(std::string what, double tolerance) {
  ConformanceCase result{std::string(to_string(graph.nodes().back().op)), std::move(what), true, 0.0,
                         tolerance};
  for (const Node& node : graph.nodes())
    if (!device_.supports(graph, node)) result.supported = false;
  if (result.supported) result.error = error_of_run();
  return result;
}

std::vector<std::int64_t> Case::dims(ValueId value) const {
  return graph.value(value).shape.dims(graph.bounds());
}

double Case::error_of_run() {
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  Bindings bindings(graph.values().size(), nullptr);
  const auto bind = [&](ValueId value, std::unique_ptr<DeviceTensor> tensor) {
    if (tensor == nullptr)
      throw Error(ErrorCode::kDevice, device_.info().name + " creates no tensor of " +
                                          std::string(info(graph.value(value).dtype).name) +
                                          " for an op that it supports: " + to_string(graph));
    bindings[to_size(value)] = tensor.get();
    tensors.push_back(std::move(tensor));
  };
  for (const Bytes& weight : weights_)
    bind(weight.value,
         device_.create_weight(graph.value(weight.value).dtype, dims(weight.value), {weight.bytes, {}}));
  for (const State& state : states_) {
    bind(state.value, device_.create_state(graph.value(state.value).dtype, dims(state.value)));
    device_.write_cells(*tensors.back(), state.role, all_cells(state.n_cells), state.bytes);
  }
  for (const Bytes& input : host_data_) {
    bind(input.value, create_host_tensor(device_, graph.value(input.value), dims(input.value)));
    // After the rows of the step are bytes that are neither a number nor a valid index.
    const auto host = tensors.back()->host();
    std::fill(std::copy(input.bytes.begin(), input.bytes.end(), host.begin()), host.end(), std::byte{0x7f});
  }
  for (const Truth& output : outputs_)
    bind(output.value, create_host_tensor(device_, graph.value(output.value), dims(output.value)));
  const auto plan = device_.compile(graph, bindings, {});
  plan->submit(symbols_, bindings, {});
  plan->wait();

  Values got, truth;
  for (const Truth& output : outputs_) {
    const auto bytes = bindings[to_size(output.value)]->host();
    for (std::size_t i = 0; i < output.values.size(); ++i) {
      float value = 0.0f;
      std::int32_t number = 0;
      const bool whole = graph.value(output.value).dtype == DType::kI32;
      std::memcpy(whole ? static_cast<void*>(&number) : &value, bytes.data() + i * 4, 4);
      got.push_back(whole ? static_cast<double>(number) : static_cast<double>(value));
    }
    truth.insert(truth.end(), output.values.begin(), output.values.end());
  }
  for (const StateTruth& expected : state_truths_) {
    const auto found = std::find_if(states_.begin(), states_.end(),
                                    [&](const State& s) { return s.value == expected.state; });
    std::vector<std::byte> bytes(found->bytes.size());
    device_.read_cells(*bindings[to_size(expected.state)], found->role, all_cells(found->n_cells), bytes);
    const DType type = graph.value(expected.state).dtype;
    std::vector<float> values(expected.values.size());
    unpack_row(type, bytes.data(), values);
    got.insert(got.end(), values.begin(), values.end());
    truth.insert(truth.end(), expected.values.begin(), expected.values.end());
  }
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (std::isnan(truth[i]) || std::isinf(truth[i])) {
      if (got[i] != truth[i] && !(std::isnan(got[i]) && std::isnan(truth[i])))
        return std::numeric_limits<double>::infinity();
      continue;
    }
    difference += (got[i] - truth[i]) * (got[i] - truth[i]);
    norm += truth[i] * truth[i];
  }
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  norm = std::max(norm, magnitude_ * magnitude_ * static_cast<double>(truth.size()));
  return difference == 0.0 ? 0.0 : std::sqrt(difference / std::max(norm, 1e-30));
}

}  // namespace weft::conformance
