#include "weights.h"

#include <weft/error.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>

#include "json_file.h"

namespace gpt2 {
namespace {

using weft::DType;
using weft::Value;

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto at = bytes.size();
  bytes.resize(at + sizeof(T));
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// A block as GGUF has it: a scale, and 32 numbers of 8 bits.
void append_q8_0(std::vector<std::byte>& bytes, std::span<const float> block) {
  float largest = 0.0f;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  const float scale = largest / 127.0f;
  append(bytes, static_cast<_Float16>(scale));
  for (const float x : block)
    append(bytes, static_cast<std::int8_t>(scale > 0.0f ? std::lround(x / scale) : 0));
}

std::vector<std::byte> to_bytes(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes;
  bytes.reserve(values.size() * 4);
  if (dtype == DType::kQ8_0) {
    for (std::size_t i = 0; i < values.size(); i += 32) append_q8_0(bytes, values.subspan(i, 32));
  } else if (dtype == DType::kF16) {
    for (const float x : values) append(bytes, static_cast<_Float16>(x));
  } else {
    for (const float x : values) append(bytes, x);
  }
  bytes.shrink_to_fit();
  return bytes;
}

template <typename T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

WeightReader::WeightReader(weft::Graph& graph, const std::filesystem::path& file, DType matrices)
    : graph_(graph), path_(file), file_(file), matrices_(matrices) {}

const weft::WeightFile::Tensor* WeightReader::find(const std::string& name) const {
  // A language model's variables are in a part of their own.
  const weft::WeightFile::Tensor* const tensor = file_.find("transformer." + name);
  return tensor != nullptr ? tensor : file_.find(name);
}

std::vector<float> WeightReader::read(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const weft::WeightFile::Tensor* const tensor = find(name);
  if (tensor == nullptr) refuse(path_, "has no variable " + name);
  if (tensor->shape != shape) refuse(path_, name + " has another shape than config.json says");
  std::vector<std::byte> bytes(tensor->bytes.size());
  file_.read(tensor->bytes, bytes);
  std::size_t n = 1;
  for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    switch (tensor->dtype) {
      case DType::kF32:
        values[i] = element<float>(bytes, i);
        break;
      case DType::kF16:
        values[i] = static_cast<float>(element<_Float16>(bytes, i));
        break;
      case DType::kBF16:
        values[i] = std::bit_cast<float>(std::uint32_t{element<std::uint16_t>(bytes, i)} << 16);
        break;
      default:
        refuse(path_, name + " is none of F32, F16 and BF16");
    }
  }
  return values;
}

Value WeightReader::add(const std::string& name, DType dtype, weft::Shape shape,
                        const std::vector<float>& values) {
  bytes_[name] = to_bytes(values, dtype);
  return graph_.weight(name, dtype, std::move(shape));
}

DType WeightReader::type_for(std::int64_t columns) const {
  return columns % weft::info(matrices_).block_elements == 0 ? matrices_ : DType::kF16;
}

Value WeightReader::matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
  return add(name, type_for(columns), {rows, columns}, read(name, {rows, columns}));
}

Value WeightReader::vector(const std::string& name, std::int64_t size) {
  return add(name, DType::kF32, {size}, read(name, {size}));
}

Value WeightReader::linear(Value x, const std::string& name, std::int64_t outputs, int part, int n_parts) {
  const std::int64_t inputs = x.size(-1).constant(), columns = outputs * n_parts;
  const std::vector<float> file = read(name + ".weight", {inputs, columns});
  const std::vector<float> all_biases = read(name + ".bias", {columns});
  const std::int64_t first = outputs * part;
  std::vector<float> weight;
  weight.reserve(static_cast<std::size_t>(inputs * outputs));
  for (std::int64_t o = first; o < first + outputs; ++o)
    for (std::int64_t i = 0; i < inputs; ++i)
      weight.push_back(file[static_cast<std::size_t>(i * columns + o)]);
  const std::vector<float> bias(all_biases.begin() + first, all_biases.begin() + first + outputs);
  const std::string own = n_parts > 1 ? name + "." + std::to_string(part) : name;
  return weft::linear(x, add(own + ".weight", type_for(inputs), {outputs, inputs}, weight),
                      add(own + ".bias", DType::kF32, {outputs}, bias));
}

Value WeightReader::norm(Value x, const std::string& name, float eps) {
  const std::int64_t width = x.size(-1).constant();
  return weft::layer_norm(x, vector(name + ".weight", width), vector(name + ".bias", width), eps);
}

}  // namespace gpt2
