// What a file holds, for people and scripts.
#include <cstdio>

#include "backend/cpu/device.h"
#include "engine/model_impl.h"
#include "gguf/gguf.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft {
namespace {

constexpr std::size_t kMaxText = 200;
constexpr std::size_t kMaxElements = 8;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

std::string text_of(const gguf::Value& value);

struct ElementText {
  std::string operator()(std::uint64_t v) const { return std::to_string(v); }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number(v); }
  std::string operator()(const std::string& v) const {
    return v.size() <= kMaxText ? v : v.substr(0, kMaxText) + "... (" + std::to_string(v.size()) + " bytes)";
  }
  std::string operator()(const gguf::Value& v) const { return text_of(v); }
  std::string operator()(const gguf::Array& array) const {
    std::string text = "[";
    std::visit(
        [&](const auto& elements) {
          for (std::size_t i = 0; i < elements.size() && i < kMaxElements; ++i)
            text += (i > 0 ? ", " : "") + (*this)(elements[i]);
        },
        array.elements);
    if (array.size() > kMaxElements) text += ", ... (" + std::to_string(array.size()) + ")";
    return text + "]";
  }
};

std::string text_of(const gguf::Value& value) {
  if (value.type == gguf::ValueType::kBool)
    return std::get<std::uint64_t>(value.data) != 0 ? "true" : "false";
  return std::visit(ElementText{}, value.data);
}

std::string type_of(const gguf::Value& value) {
  if (const auto* array = std::get_if<gguf::Array>(&value.data))
    return "array of " + std::string(gguf::name(array->element_type));
  return std::string(gguf::name(value.type));
}

/// As a CPU holds them that packs them.
std::int64_t weight_bytes(const model::ModelGraph& graph) {
  const auto device = cpu::make_device({.n_threads = 1});
  std::size_t bytes = 0;
  for (const model::WeightUse& use : graph.weights) {
    const ValueInfo& value = graph.graph.value(use.value);
    bytes += device->bytes_of(ValueKind::kWeight, value.dtype, value.shape.dims({}));
  }
  return static_cast<std::int64_t>(bytes);
}

}  // namespace

FileInfo inspect(const std::filesystem::path& path) {
  const gguf::File file = gguf::File::open(path);
  FileInfo result;
  result.version = static_cast<int>(file.version());
  result.n_parts = file.n_parts();
  result.file_bytes = file.file_bytes();
  for (const gguf::File::Entry& entry : file.metadata())
    result.metadata.push_back({entry.key, type_of(entry.value), text_of(entry.value)});
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::size_t bytes = row_bytes(tensor.dtype, tensor.shape.back()) *
                              static_cast<std::size_t>(tensor.n_elements() / tensor.shape.back());
    result.tensors.push_back({tensor.name, std::string(info(tensor.dtype).name), tensor.shape, bytes});
  }
  try {
    const model::ModelDescription description = model::describe(file);
    const model::ModelGraph graph = model::build_graph(file, description, {});
    result.model = engine::model_info(file, description);
    result.model->weight_bytes = weight_bytes(graph);
    const model::HParams& h = description.hparams;
    result.cache_bytes_per_token = 2 *
                                   static_cast<std::uint64_t>(h.n_layers_of(model::LayerKind::kAttention)) *
                                   static_cast<std::uint64_t>(h.n_kv_heads * (h.k_head_dim + h.v_head_dim));
  } catch (const Error& error) {
    result.problem = error.what();
  }
  return result;
}

}  // namespace weft
