#include "graph_builder.h"

#include <weft/error.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

namespace whisper {
namespace {

using weft::DType;
using weft::Value;

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// Blocks as GGUF has them: a scale, and 32 numbers of 8 bits.
void append_q8_0(std::vector<std::byte>& bytes, std::span<const float> block) {
  float largest = 0.0f;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  const float scale = largest / 127.0f;
  append(bytes, static_cast<_Float16>(scale));
  for (const float x : block)
    append(bytes, static_cast<std::int8_t>(scale > 0.0f ? std::lround(x / scale) : 0));
}

std::vector<std::byte> to_bytes(std::span<const float> values, DType dtype) {
  const weft::DTypeInfo& type = weft::info(dtype);
  const auto n = static_cast<std::size_t>(type.block_elements);
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() / n * static_cast<std::size_t>(type.block_bytes));
  if (dtype == DType::kQ8_0) {
    for (std::size_t i = 0; i < values.size(); i += n) append_q8_0(bytes, values.subspan(i, n));
  } else if (dtype == DType::kF16) {
    for (const float x : values) append(bytes, static_cast<_Float16>(x));
  } else {
    bytes.resize(values.size_bytes());
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

}  // namespace

std::pair<std::string, std::vector<float>> GraphBuilder::read(const std::string& variable, Part part) const {
  std::vector<float> values = file_.floats(variable);
  const std::vector<std::int64_t>& shape = file_.variable(variable).shape;
  std::string name = variable;
  std::replace(name.begin(), name.end(), '/', '.');
  if (!name.starts_with(prefix_)) name.insert(0, prefix_);
  if (shape.empty() || values.empty() || shape[0] % part.count != 0)
    throw weft::Error(weft::ErrorCode::kInvalidFile, variable + ": has a shape that Whisper has not");
  if (part.count > 1) {
    const auto n = static_cast<std::ptrdiff_t>(values.size()) / part.count;
    values = {values.begin() + part.index * n, values.begin() + (part.index + 1) * n};
    name += "." + std::to_string(part.index);
  }
  return {std::move(name), std::move(values)};
}

Value GraphBuilder::add_weight(const std::string& name, const std::vector<float>& values, weft::Shape shape,
                               DType dtype) {
  if (shape.columns() % weft::info(dtype).block_elements != 0) dtype = DType::kF16;
  weights_[name] = to_bytes(values, dtype);
  return graph_.weight(name, dtype, std::move(shape));
}

Value GraphBuilder::matrix(const std::string& variable, Part part) {
  auto [name, values] = read(variable, part);
  if (const weft::ValueId id = graph_.find(name); id != weft::kNoValue) return {graph_, id};
  const auto rows = file_.variable(variable).shape[0] / part.count;
  return add_weight(name, values, {rows, std::ssize(values) / rows}, matrices_);
}

Value GraphBuilder::vector(const std::string& variable, Part part) {
  const auto [name, values] = read(variable, part);
  return add_weight(name, values, {std::ssize(values)}, DType::kF32);
}

Value GraphBuilder::linear(Value x, const std::string& path, Part part) {
  return weft::linear(x, matrix(path + "/weight", part), vector(path + "/bias", part));
}

Value GraphBuilder::norm(Value x, const std::string& path) {
  return weft::layer_norm(x, vector(path + "/gamma"), vector(path + "/beta"));
}

Value GraphBuilder::conv(Value x, const std::string& path, int stride) {
  constexpr std::int64_t kKernel = 3;
  const auto [name, values] = read(path + "/weight", kAll);
  const std::vector<std::int64_t>& shape = file_.variable(path + "/weight").shape;
  if (shape.size() != 3 || shape[2] != kKernel)
    throw weft::Error(weft::ErrorCode::kInvalidFile, path + ": has a shape that Whisper has not");
  // The file has {outputs, inputs, times}; a row of the weight has the inputs of a time side by side.
  const std::int64_t n_out = shape[0], n_in = shape[1];
  std::vector<float> rows(values.size());
  for (std::int64_t o = 0; o < n_out; ++o)
    for (std::int64_t i = 0; i < n_in; ++i)
      for (std::int64_t t = 0; t < kKernel; ++t)
        rows[static_cast<std::size_t>((o * kKernel + t) * n_in + i)] =
            values[static_cast<std::size_t>((o * n_in + i) * kKernel + t)];
  const Value weight = add_weight(name, rows, {n_out, kKernel * n_in}, matrices_);
  return weft::conv1d(x, weight, vector(path + "/bias"), kKernel, stride, 1);
}

Value GraphBuilder::feed_forward(Value x, const std::string& path) {
  const Value hidden = weft::gelu(linear(norm(x, path + "/layer_norm"), path + "/linear_0"));
  return x + linear(hidden, path + "/linear_1");
}

std::pair<weft::Graph, WeightBytes> GraphBuilder::finish() {
  for (weft::ValueId id = 0; id < std::ssize(graph_.values()); ++id) {
    const weft::ValueInfo& value = graph_.value(id);
    if (value.kind == weft::ValueKind::kResult && !value.name.starts_with(prefix_))
      graph_.rename(id, prefix_ + value.name);
  }
  return {std::move(graph_), std::move(weights_)};
}

}  // namespace whisper
