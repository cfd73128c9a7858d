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

template <typename T>
std::span<const T> part_of(std::span<const T> rows, Part part) {
  const std::size_t n = rows.size() / static_cast<std::size_t>(part.count);
  return rows.subspan(static_cast<std::size_t>(part.index) * n, n);
}

[[noreturn]] void refuse(const std::string& variable) {
  throw weft::Error(weft::ErrorCode::kInvalidFile, variable + ": has a shape that Whisper has not");
}

}  // namespace

std::string GraphBuilder::name_of(const std::string& variable, Part part) const {
  std::string name = variable;
  std::replace(name.begin(), name.end(), '/', '.');
  if (!name.starts_with(prefix_)) name.insert(0, prefix_);
  return part.count > 1 ? name + "." + std::to_string(part.index) : name;
}

Value GraphBuilder::add_weight(const std::string& name, weft::Shape shape, DType dtype,
                               std::vector<std::byte> bytes) {
  weights_[name] = std::move(bytes);
  return graph_.weight(name, dtype, std::move(shape));
}

DType GraphBuilder::type_for(std::int64_t columns) const {
  return columns % weft::info(matrices_).block_elements == 0 ? matrices_ : DType::kF16;
}

Value GraphBuilder::matrix(const std::string& variable, Part part) {
  const std::string name = name_of(variable, part);
  if (const weft::ValueId id = graph_.find(name); id != weft::kNoValue) return {graph_, id};
  const Ct2File::Variable& v = file_.variable(variable);
  if (v.shape.size() != 2 || v.shape[0] % part.count != 0) refuse(variable);
  const DType dtype = type_for(v.shape[1]);
  std::vector<std::byte> bytes;
  if (dtype == DType::kF16 && v.type == Ct2File::Type::kF16) {
    const std::span<const std::byte> rows = part_of(v.bytes, part);
    bytes.assign(rows.begin(), rows.end());
  } else {
    const std::vector<float> values = file_.floats(variable);
    bytes = to_bytes(part_of(std::span(values), part), dtype);
  }
  return add_weight(name, {v.shape[0] / part.count, v.shape[1]}, dtype, std::move(bytes));
}

Value GraphBuilder::vector(const std::string& variable, Part part) {
  const std::vector<float> values = file_.floats(variable);
  if (values.empty() || std::ssize(values) % part.count != 0) refuse(variable);
  const std::span<const float> some = part_of(std::span(values), part);
  return add_weight(name_of(variable, part), {std::ssize(some)}, DType::kF32, to_bytes(some, DType::kF32));
}

Value GraphBuilder::linear(Value x, const std::string& path, Part part) {
  return weft::linear(x, matrix(path + "/weight", part), vector(path + "/bias", part));
}

Value GraphBuilder::norm(Value x, const std::string& path) {
  return weft::layer_norm(x, vector(path + "/gamma"), vector(path + "/beta"));
}

Value GraphBuilder::conv(Value x, const std::string& path, int stride) {
  constexpr std::int64_t kKernel = 3;
  const std::string variable = path + "/weight";
  const std::vector<float> values = file_.floats(variable);
  const std::vector<std::int64_t>& shape = file_.variable(variable).shape;
  if (shape.size() != 3 || shape[2] != kKernel) refuse(variable);
  // The file has {outputs, inputs, times}; a row of the weight has the inputs of a time side by side.
  const std::int64_t n_out = shape[0], n_in = shape[1];
  std::vector<float> rows(values.size());
  for (std::int64_t o = 0; o < n_out; ++o)
    for (std::int64_t i = 0; i < n_in; ++i)
      for (std::int64_t t = 0; t < kKernel; ++t)
        rows[static_cast<std::size_t>((o * kKernel + t) * n_in + i)] =
            values[static_cast<std::size_t>((o * n_in + i) * kKernel + t)];
  const DType dtype = type_for(kKernel * n_in);
  const Value weight =
      add_weight(name_of(variable, kAll), {n_out, kKernel * n_in}, dtype, to_bytes(rows, dtype));
  return weft::conv1d_channels_last(x, weight, vector(path + "/bias"), kKernel, stride, 1);
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
