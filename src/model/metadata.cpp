#include "model/metadata.h"

#include <algorithm>
#include <cmath>

#include "base/counted.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::model {
namespace {

std::string range(double min, double max) {
  const auto text = [](double v) {
    return v == std::floor(v) && std::abs(v) < 1e15 ? std::to_string(static_cast<std::int64_t>(v))
                                                    : std::to_string(v);
  };
  return "expected " + text(min) + " to " + text(max);
}

}  // namespace

void Metadata::refuse(std::string_view key, const std::string& reason) const {
  throw Error(ErrorCode::kInvalidFile, about(key, reason));
}

int Metadata::require_int(std::string_view key, std::int64_t min, std::int64_t max) const {
  if (file_.find(full(key)) == nullptr)
    refuse(key, "missing, " + range(static_cast<double>(min), static_cast<double>(max)));
  return get_int(key, min, max, 0);
}

int Metadata::get_int(std::string_view key, std::int64_t min, std::int64_t max, int otherwise) const {
  const std::optional<std::int64_t> value = file_.get_int(full(key));
  if (!value) return otherwise;
  if (*value < min || *value > max)
    refuse(key, "found " + std::to_string(*value) + ", " +
                    range(static_cast<double>(min), static_cast<double>(max)));
  return static_cast<int>(*value);
}

std::vector<int> Metadata::get_per_layer(std::string_view key, int n_layers, std::int64_t min,
                                         std::int64_t max, int otherwise) const {
  const auto n = to_size(n_layers);
  const gguf::Value* value = file_.find(full(key));
  if (value == nullptr || value->type != gguf::ValueType::kArray)
    return std::vector<int>(n, get_int(key, min, max, otherwise));
  const std::optional<std::vector<std::int64_t>> values = file_.get_ints(full(key));
  if (!values || values->size() != n)
    refuse(key, "an array of " + base::counted(values ? values->size() : 0, "integer") +
                    ", expected one for each of " + base::counted(n_layers, "layer"));
  std::vector<int> result;
  for (const std::int64_t v : *values) {
    if (v < min || v > max)
      refuse(key,
             "found " + std::to_string(v) + ", " + range(static_cast<double>(min), static_cast<double>(max)));
    result.push_back(static_cast<int>(v));
  }
  return result;
}

int Metadata::get_uniform(std::string_view key, int n_layers, std::int64_t min, std::int64_t max,
                          int otherwise) const {
  const std::vector<int> values = get_per_layer(key, n_layers, min, max, otherwise);
  if (std::any_of(values.begin(), values.end(), [&](int v) { return v != values.front(); }))
    throw Error(ErrorCode::kUnsupported,
                "metadata key " + full(key) + ": layers of different sizes are not supported");
  return values.front();
}

int Metadata::get_uniform_or_none(std::string_view key, int n_layers, std::int64_t max, int otherwise) const {
  int any = 0;
  for (const int value : get_per_layer(key, n_layers, 0, max, otherwise)) {
    if (any != 0 && value != 0 && any != value)
      throw Error(ErrorCode::kUnsupported,
                  "metadata key " + full(key) + ": layers of different sizes are not supported");
    any = std::max(any, value);
  }
  return any;
}

std::vector<int> Metadata::get_ints(std::string_view key, std::size_t least, std::size_t most,
                                    std::int64_t min, std::int64_t max) const {
  const std::optional<std::vector<std::int64_t>> values = file_.get_ints(full(key));
  if (!values || values->size() < least || values->size() > most)
    refuse(key, "expected an array of " + std::to_string(least) + " to " + std::to_string(most) + " numbers");
  for (const std::int64_t v : *values)
    if (v < min || v > max)
      refuse(key,
             "found " + std::to_string(v) + ", " + range(static_cast<double>(min), static_cast<double>(max)));
  return std::vector<int>(values->begin(), values->end());
}

float Metadata::require_float(std::string_view key, double min, double max) const {
  if (file_.find(full(key)) == nullptr) refuse(key, "missing, " + range(min, max));
  return get_float(key, min, max, 0.0f);
}

float Metadata::get_float(std::string_view key, double min, double max, float otherwise) const {
  const std::optional<double> value = file_.get_float(full(key));
  if (!value) return otherwise;
  if (!(*value >= min && *value <= max))
    refuse(key, "found " + std::to_string(*value) + ", " + range(min, max));
  return static_cast<float>(*value);
}

std::vector<float> Metadata::get_floats(std::string_view key, int n_layers, double min, double max) const {
  const auto n = to_size(n_layers);
  const gguf::Value* const value = file_.find(full(key));
  if (value == nullptr || value->type != gguf::ValueType::kArray)
    return std::vector<float>(n, require_float(key, min, max));
  const std::optional<std::vector<double>> values = file_.get_floats(full(key));
  if (!values || values->size() != n)
    refuse(key, "expected a number for each of " + std::to_string(n_layers) + " layers");
  for (const double v : *values)
    if (!(v >= min && v <= max)) refuse(key, "found " + std::to_string(v) + ", " + range(min, max));
  return std::vector<float>(values->begin(), values->end());
}

bool Metadata::get_bool(std::string_view key, bool otherwise) const {
  return file_.get_bool(full(key)).value_or(otherwise);
}

std::optional<std::vector<bool>> Metadata::get_bools(std::string_view key, int n_layers) const {
  const gguf::Value* const value = file_.find(full(key));
  if (value == nullptr || value->type != gguf::ValueType::kArray) return std::nullopt;
  std::optional<std::vector<bool>> flags = file_.get_bools(full(key));
  if (flags->size() != to_size(n_layers))
    refuse(key, "expected a bool for each of " + std::to_string(n_layers) + " layers");
  return flags;
}

std::string Metadata::get_string(std::string_view key, std::string_view otherwise) const {
  return std::string(file_.get_string(full(key)).value_or(otherwise));
}

}  // namespace weft::model
