// Describes a file's contents, for people and scripts.
#include <algorithm>
#include <cstdio>

#include "backend/cpu/device.h"
#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/context_params.h"
#include "engine/graph_sizes.h"
#include "engine/memories.h"
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
    return "array of " + std::string(gguf::to_string(array->element_type));
  return std::string(gguf::to_string(value.type));
}

/// As a CPU packs them.
std::int64_t weight_bytes(const model::ModelGraph& graph, const Device& cpu) {
  std::size_t bytes = 0;
  for (const model::WeightUse& use : graph.weights) {
    const ValueInfo& value = graph.graph.value(use.value);
    bytes += cpu.bytes_of(ValueKind::kWeight, value.dtype, value.shape.dims({}));
  }
  return static_cast<std::int64_t>(bytes);
}

std::uint64_t page_bytes(const ValueInfo& cache) {
  return row_bytes(cache.dtype, cache.shape[1].constant() * cache.shape[2].constant()) * kPageCells;
}

FileInfo::Cache cache_need(const model::ModelGraph& model, const ContextParams& params) {
  const auto pages = [](std::int64_t n_tokens) {
    return static_cast<std::uint64_t>((n_tokens + kPageCells - 1) / kPageCells);
  };
  FileInfo::Cache need;
  need.n_ctx = params.n_ctx;
  for (const Node& node : model.graph.nodes()) {
    const auto* const moves = get_op<ops::MoveCells>(node);
    if (moves == nullptr) continue;
    const auto in = named_inputs<ops::MoveCells>(node);
    const ValueInfo& cache = model.graph.value(in.cache);
    if (cache.kind != ValueKind::kState) continue;
    const engine::TextInCache text = engine::text_in_cache(model, node, params);
    need.bytes += page_bytes(cache) * pages(text.n_tokens);
    if (text.grows) need.bytes_per_token += page_bytes(cache) / kPageCells;
    const std::string type(info(cache.dtype).name);
    if (need.type.empty()) {
      need.type = type;
    } else if (!need.type.starts_with(type) && !need.type.ends_with(type)) {
      need.type += ", " + type;
    }
  }
  for (const auto& states : {model.running_states, model.source_states})
    for (const ValueId state : states) {
      const ValueInfo& value = model.graph.value(state);
      need.bytes += row_bytes(value.dtype, value.shape[1].constant() * value.shape[2].constant()) *
                    static_cast<std::uint64_t>(value.shape[0].constant());
    }
  return need;
}

}  // namespace

FileInfo inspect(const std::filesystem::path& path) { return inspect(path, {}); }

FileInfo inspect(const std::filesystem::path& path, const ContextParams& context) try {
  const gguf::File file = gguf::File::open(path);
  FileInfo result;
  result.version = static_cast<int>(file.version());
  result.n_parts = file.n_parts();
  result.file_bytes = file.file_bytes();
  for (const gguf::File::Entry& entry : file.metadata())
    result.metadata.push_back({entry.key, type_of(entry.value), text_of(entry.value)});
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::size_t bytes =
        row_bytes(tensor.dtype, tensor.shape.back()) * to_size(tensor.n_elements() / tensor.shape.back());
    result.tensors.push_back({tensor.name, std::string(info(tensor.dtype).name), tensor.shape, bytes});
  }
  std::optional<model::ModelDescription> description;
  try {
    description = model::describe(file);
    (void)model::build_graph(file, *description, {});  // Building the graph checks the file.
  } catch (const Error& error) {
    result.problem = error.what();
    return result;
  }
  const model::HParams& h = description->hparams;
  const auto cpu = cpu::make_device({.n_threads = 1});
  result.model = engine::model_info(file, *description);
  const ContextParams params =
      engine::fill_in(context, *result.model, engine::auto_cache_type(h, cpu->best_cache_type()));
  const model::ModelGraph graph =
      model::build_graph(file, *description,
                         engine::graph_sizes(params, engine::k_cache_dtype(params.k_type, h),
                                             engine::v_cache_dtype(params.v_type, h), {1.0}));
  result.model->weight_bytes = weight_bytes(graph, *cpu);
  result.cache = cache_need(graph, params);
  return result;
} catch (...) {
  engine::rethrow_as_error();
}

}  // namespace weft
