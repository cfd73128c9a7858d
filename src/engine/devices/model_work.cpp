#include "engine/devices/model_work.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backend/host_tensor.h"
#include "base/to_size.h"
#include "engine/boundary.h"
#include "model/family.h"
#include "model/shard.h"
#include "weft/dtype.h"
#include "weft/error.h"

namespace weft::engine {
namespace {

/// The number of a layer in the name of its tensor, or -1.
int layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int layer = 0;
  std::size_t i = kPrefix.size();
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < 1000000; ++i)
    layer = layer * 10 + (name[i] - '0');
  return i > kPrefix.size() && i < name.size() && name[i] == '.' ? layer : -1;
}

double number_in(const FileInfo& file, const std::string& key) {
  for (const FileInfo::Entry& entry : file.metadata)
    if (entry.key == file.model->architecture + "." + key) return std::strtod(entry.value.c_str(), nullptr);
  return 0.0;
}

/// Whether it is one of the products that are divided by KV heads.
bool makes_heads(std::string_view tensor) {
  const auto is = [&](std::string_view part) { return tensor.find(part) != std::string_view::npos; };
  return is(".attn_q.") || is(".attn_k.") || is(".attn_v.") || is(".attn_qkv.");
}

bool is_product(const Node& node) {
  return get_op<ops::Matmul>(node) != nullptr || get_op<ops::MatmulExperts>(node) != nullptr;
}

/// The live nodes of a graph for several devices, with the part of the work of each.
template <typename F>
void for_each_node(const Graph& graph, int n_layers, F f) {
  const std::vector<bool> live = live_nodes(graph);
  int part = 0;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    if (!live[n]) continue;
    if (node.tag.part == Part::kHead)
      part = n_layers;
    else if (node.tag.layer != NodeTag::kNone)
      part = node.tag.layer;
    f(node, to_size(part));
  }
}

int device_of(const Node& node) { return std::max(node.tag.shard, 0); }

/// By part: the number of messages that a row waits for one after another.
std::vector<double> messages_of(const Graph& graph, int n_layers) {
  std::vector<int> depth(graph.values().size());
  std::vector<int> end(to_size(n_layers) + 1);
  for_each_node(graph, n_layers, [&](const Node& node, std::size_t part) {
    int& own = depth[index(node.output)];
    for (const ValueId input : node.inputs) {
      const NodeId maker = graph.value(input).producer;
      if (maker == kNoNode) continue;
      const bool crosses = device_of(graph.node(maker)) != device_of(node);
      own = std::max(own, depth[index(input)] + (crosses ? 1 : 0));
    }
    end[part] = std::max(end[part], own);
  });
  std::vector<double> messages;
  int so_far = 0;
  for (const int at : end) {
    messages.push_back(std::max(at - so_far, 0));
    so_far = std::max(so_far, at);
  }
  return messages;
}

}  // namespace

void add_exchanges(ModelWork& work, const model::ModelGraph& two) {
  const Graph& graph = two.graph;
  const int n_layers = static_cast<int>(work.layers.size());
  const auto part_at = [&](std::size_t part) -> ModelWork::Part& {
    return part < work.layers.size() ? work.layers[part] : work.head;
  };
  std::vector<std::int64_t> one_row;
  for (const Symbol& symbol : graph.symbols()) one_row.push_back(symbol.min);
  for (const SymbolId symbol : {two.n_tokens, two.n_wanted, two.n_outputs})
    if (symbol != kNoSymbol) one_row[to_size(symbol)] = 1;

  struct Crossing {
    std::size_t part = 0;
    double from_first = 0.0, to_first = 0.0;
  };
  std::map<std::string_view, Crossing> crossings;  // By the value's name in the graph of one device.
  std::vector<std::size_t> part_of(graph.values().size());
  std::vector<bool> counted(graph.values().size());
  for_each_node(graph, n_layers, [&](const Node& node, std::size_t part) {
    part_of[index(node.output)] = part;
    for (const ValueId input : node.inputs) {
      const ValueInfo& value = graph.value(input);
      if (node.tag.shard == NodeTag::kNone) {
        if (state_behind(graph, input) != kNoValue) part_at(part).is_cache_whole = true;
        if (is_product(node) && value.kind == ValueKind::kWeight) {
          const std::int64_t n = value.shape.elements({});
          part_at(part).whole_bytes += static_cast<double>(row_bytes(value.dtype, n));
          part_at(part).whole_multiply_adds += static_cast<double>(n);
        }
      }
      if (value.producer == kNoNode || counted[index(input)]) continue;
      const Node& maker = graph.node(value.producer);
      if (device_of(maker) == device_of(node)) continue;
      counted[index(input)] = true;
      Crossing& crossing = crossings[model::whole_name(value.name)];
      crossing.part = part_of[index(input)];
      (device_of(maker) == 0 ? crossing.from_first : crossing.to_first) +=
          static_cast<double>(value_bytes(value, one_row));
    }
  });
  for (const auto& [name, crossing] : crossings) {
    ModelWork::Part& part = part_at(crossing.part);
    if (crossing.from_first > 0.0 && crossing.to_first > 0.0)
      part.gathered_bytes += crossing.from_first + crossing.to_first;
    else if (crossing.to_first > 0.0)
      part.collected_bytes += 2.0 * crossing.to_first;  // The first node has its own half.
    else
      part.handed_out_bytes += crossing.from_first;
  }
  const std::vector<double> messages = messages_of(graph, n_layers);
  for (std::size_t p = 0; p < messages.size(); ++p) {
    part_at(p).messages = messages[p];
    if (part_at(p).is_cache_whole) part_at(p).heads_bytes = part_at(p).heads_multiply_adds = 0.0;
  }
}

ModelWork work_of(const FileInfo& file) {
  if (!file.model) throw Error(ErrorCode::kUnsupported, "no model that weft can run: " + file.problem);
  const ModelInfo& model = *file.model;
  if (model.encoder || model.reads_source)
    throw Error(ErrorCode::kUnsupported,
                "clusters are planned for models that only decode; this one has an encoder");
  ModelWork work;
  work.width = model.n_embd;
  work.n_heads = model.n_heads;
  work.n_kv_heads = model.n_kv_heads;
  work.layers.resize(to_size(model.n_layers));
  work.n_experts = number_in(file, "expert_count");
  work.used_experts = std::min(number_in(file, "expert_used_count"), work.n_experts);
  bool own_head = false;
  for (const FileInfo::Tensor& tensor : file.tensors) own_head |= tensor.name == "output.weight";
  for (const FileInfo::Tensor& tensor : file.tensors) {
    const int layer = layer_of(tensor.name);
    if (layer >= model.n_layers) continue;  // Layers that predict further tokens.
    const bool is_table = layer < 0 && tensor.name.find("_embd.weight") != std::string::npos;
    const bool is_head = tensor.name == (own_head ? "output.weight" : "token_embd.weight");
    const auto bytes = static_cast<double>(tensor.bytes);
    if (is_table) work.table_bytes += bytes;
    if (is_table && !is_head) continue;
    ModelWork::Part& part = layer < 0 ? work.head : work.layers[to_size(layer)];
    double multiply_adds = tensor.shape.size() < 2 ? 0.0 : 1.0;
    for (const std::int64_t extent : tensor.shape)
      if (multiply_adds > 0.0) multiply_adds *= static_cast<double>(extent);
    const bool experts = work.n_experts > 0.0 && tensor.name.find("_exps.") != std::string::npos;
    (experts ? part.expert_bytes : part.bytes) += bytes;
    (experts ? part.expert_multiply_adds : part.multiply_adds) += multiply_adds;
    part.memory_bytes += bytes;
    if (!makes_heads(tensor.name)) continue;
    part.heads_bytes += bytes;
    part.heads_multiply_adds += multiply_adds;
  }
  if (model.n_layers > 0) {
    work.cache_bytes_per_token = static_cast<double>(file.cache.bytes_per_token) / model.n_layers;
    for (ModelWork::Part& layer : work.layers)
      layer.memory_bytes += static_cast<double>(file.cache.bytes) / model.n_layers;
  }
  if (model.n_heads > 0) {
    double head_size = number_in(file, "attention.key_length");
    if (head_size == 0.0) head_size = static_cast<double>(model.n_embd) / model.n_heads;
    work.attention_multiply_adds = 2.0 * model.n_heads * head_size;  // Scores, and sums of values.
  }
  return work;
}

}  // namespace weft::engine

namespace weft {

ModelWork work_of(const std::filesystem::path& path, const ContextParams& context) try {
  ModelWork work = engine::work_of(inspect(path, context));
  const gguf::File file = gguf::File::open(path);
  const model::ModelDescription description = model::describe(file);
  model::GraphSizes two;
  two.row_shares = {1.0, 1.0};
  engine::add_exchanges(work, model::build_graph(file, description, two));
  return work;
} catch (...) {
  engine::rethrow_as_error();
}

}  // namespace weft
