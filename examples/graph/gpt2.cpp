// GPT-2 written directly on the graph API, without the model loader: a graph with a symbol for its sizes, its
// layers placed on two devices, compiled once, and run token by token. The second device is a GPU, or the CPU
// once more where there is none.
//
//   gpt2 -m MODEL [DEVICE] [PROMPT] [TOKENS]
//
// Unlike the other examples this one stands on weft's inside (graph, backend, exec, gguf), which is what a
// new kind of model or a scheduler of one's own is written on. Nothing there is promised to stay.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "exec/plan.h"
#include "exec/splits.h"
#include "gguf/gguf.h"
#include "weft/backend/registry.h"
#include "weft/error.h"
#include "weft/graph/extent.h"
#include "weft/model.h"

namespace {

using namespace weft;

constexpr std::int64_t kMaxTokens = 32;  // Of one step.

/// The graph, and which part of the model each node belongs to.
struct Gpt2 {
  explicit Gpt2(const gguf::File& file) : file_(file) {
    const auto number = [&](const char* key) { return file.get_int(key).value(); };
    const std::int64_t d = number("gpt2.embedding_length"), n_heads = number("gpt2.attention.head_count");
    const std::int64_t d_ffn = number("gpt2.feed_forward_length");
    n_layers = static_cast<int>(number("gpt2.block_count"));
    n_ctx = number("gpt2.context_length");
    n_vocab = file.find_tensor("token_embd.weight")->shape[0];
    const std::int64_t n_pages = (n_ctx + kPageCells - 1) / kPageCells;

    // Sizes that change from step to step are symbols; memory is laid out for their bounds, once.
    const SymbolId n = graph.add_symbol("n_tokens", 1, kMaxTokens);
    const auto input = [&](const char* name, const Shape& shape) {
      return graph.add_input(name, DType::kI32, shape);
    };
    const Shape per_token = {Dim(1, n)};
    const ValueId tokens = input("tokens", per_token), positions = input("positions", per_token);
    const ValueId cells = input("cells", per_token), sequences = input("sequences", per_token);
    const ValueId ends = input("ends", per_token), hidden_first = input("hidden_first", per_token);
    const ValueId extents = input("extents", {1, n_pages, kExtentWords}), counts = input("counts", {1});
    const ValueId hidden = input("hidden", {1, kHiddenWords}), last = input("last", {1});

    const auto norm = [&](ValueId x, const std::string& name) {
      const ops::Norm op = {NormKind::kLayer,
                            static_cast<float>(file.get_float("gpt2.attention.layer_norm_epsilon").value())};
      return graph.add(op, {x, weight(name + ".weight"), weight(name + ".bias")}, name);
    };
    const auto linear = [&](ValueId x, const std::string& name, std::int64_t row = 0,
                            std::int64_t n_rows = 0) {
      return graph.add(ops::Matmul{},
                       {weight(name + ".weight", row, n_rows), x, weight(name + ".bias", row, n_rows)},
                       name + "@" + std::to_string(row));
    };
    ValueId x = graph.add(ops::Add{},
                          {graph.add(ops::GetRows{}, {weight("token_embd.weight"), tokens}, "embeddings"),
                           graph.add(ops::GetRows{}, {weight("position_embd.weight"), positions}, "places")},
                          "embedded");
    parts.resize(graph.nodes().size(), 0);
    for (int layer = 0; layer < n_layers; ++layer) {
      const std::string blk = "blk." + std::to_string(layer) + ".";
      const ValueId y = norm(x, blk + "attn_norm");
      const ValueId q = linear(y, blk + "attn_qkv", 0, d);
      // Caches are states. To store is a node whose result stands for the cache from there on.
      const auto store = [&](const char* name, CacheRole role, std::int64_t row) {
        const ValueId cache =
            graph.add_state(blk + name, DType::kF16, {n_pages * kPageCells, n_heads, d / n_heads});
        return graph.add(ops::StoreCache{role}, {cache, linear(y, blk + "attn_qkv", row, d), cells},
                         blk + name + "_stored");
      };
      const ValueId k = store("k", CacheRole::kKeys, d), v = store("v", CacheRole::kValues, 2 * d);
      ops::Attention attention;
      attention.n_heads = static_cast<int>(n_heads);
      attention.scale = 1.0f / std::sqrt(static_cast<float>(d) / static_cast<float>(n_heads));
      const ValueId seen = graph.add(attention,
                                     {.q = q,
                                      .k = k,
                                      .v = v,
                                      .positions = positions,
                                      .sequences = sequences,
                                      .extents = extents,
                                      .counts = counts,
                                      .ends = ends,
                                      .hidden_first = hidden_first,
                                      .hidden = hidden},
                                     blk + "seen");
      x = graph.add(ops::Add{}, {x, linear(seen, blk + "attn_output")}, blk + "attended");
      const ValueId up = linear(norm(x, blk + "ffn_norm"), blk + "ffn_up", 0, d_ffn);
      const ValueId down =
          linear(graph.add(ops::Activate{Activation::kGelu}, {up}, blk + "gelu"), blk + "ffn_down");
      x = graph.add(ops::Add{}, {x, down}, blk + "out");
      parts.resize(graph.nodes().size(), layer);
    }
    const ValueId wanted = graph.add(ops::GetRows{}, {x, last}, "last_row");
    logits = graph.add(ops::Matmul{}, {weight("token_embd.weight"), norm(wanted, "output_norm")}, "logits");
    graph.add_output(logits);
    parts.resize(graph.nodes().size(), n_layers);
  }

  /// Rows of a tensor of the file (n_rows 0: all); vectors are kept as F32.
  ValueId weight(const std::string& name, std::int64_t row = 0, std::int64_t n_rows = 0) {
    const gguf::TensorInfo* const tensor = file_.find_tensor(name);
    if (tensor == nullptr) throw Error(ErrorCode::kInvalidFile, "there is no tensor " + name);
    const bool vector = tensor->shape.size() == 1;
    if (n_rows == 0) n_rows = tensor->shape[0];
    const std::string part = name + "@" + std::to_string(row);
    if (const ValueId known = graph.find(part); known != kNoValue) return known;
    const std::size_t row_size = row_bytes(tensor->dtype, vector ? 1 : tensor->shape[1]);
    const ValueId value = vector ? graph.add_weight(part, DType::kF32, {n_rows})
                                 : graph.add_weight(part, tensor->dtype, {n_rows, tensor->shape[1]});
    data[value] = {tensor->dtype, tensor->data.subspan(static_cast<std::size_t>(row) * row_size,
                                                       static_cast<std::size_t>(n_rows) * row_size)};
    return value;
  }

  struct Data {
    DType dtype;
    std::span<const std::byte> bytes;
  };
  Graph graph;
  std::vector<int> parts;  // By node: its layer, n_layers for the output.
  std::map<ValueId, Data> data;
  ValueId logits = kNoValue;
  int n_layers = 0;
  std::int64_t n_ctx = 0, n_vocab = 0;

 private:
  const gguf::File& file_;
};

int run(const char* path, std::string device_name, const char* prompt, int n_predict,
        const std::filesystem::path& folder) {
  const gguf::File file = gguf::File::open(path);
  Gpt2 model(file);
  const Graph& graph = model.graph;

  // Two devices of the registry; modules lie beside the program or one folder up.
  const std::filesystem::path folders[] = {folder / ".."};
  const auto registry = find_backends(folders);
  const std::vector<DeviceInfo> known = registry->devices();
  if (device_name.empty()) device_name = known[known.size() > 1 ? 1 : 0].name;
  const std::shared_ptr<Device> opened[] = {registry->open("cpu"),
                                            registry->open(device_name, {.name = "second"})};
  const std::vector<Device*> devices = {opened[0].get(), opened[1].get()};

  // Placement: the first half of the layers on the CPU, the rest on the second device where it can.
  std::vector<int> device_of;
  for (std::size_t n = 0; n < graph.nodes().size(); ++n)
    device_of.push_back(
        model.parts[n] >= model.n_layers / 2 && devices[1]->supports(graph, graph.nodes()[n]) ? 1 : 0);
  const exec::Splits splits =
      exec::split(graph, device_of, {devices[0]->info().beside_host, devices[1]->info().beside_host});
  for (const exec::Split& split : splits.splits)
    std::printf("split on %s: %zu nodes, to %s\n",
                devices[static_cast<std::size_t>(split.device)]->info().name.c_str(),
                split.graph.nodes().size(),
                split.graph.value(split.graph.nodes().back().output).name.c_str());
  const std::int64_t one = 1;
  for (const exec::Copy& copy : splits.copies)
    std::printf("copy of %s to %s: %zu bytes a token\n", graph.value(copy.value).name.c_str(),
                devices[static_cast<std::size_t>(copy.to)]->info().name.c_str(),
                exec::value_bytes(graph.value(copy.value), {&one, 1}));

  // Tensors: weights and caches where nodes use them, inputs and the output at home.
  std::vector<Bindings> bindings(2, Bindings(graph.values().size(), nullptr));
  std::vector<std::unique_ptr<DeviceTensor>> tensors;
  const auto bind = [&](ValueId value, int device, std::unique_ptr<DeviceTensor> tensor) {
    bindings[static_cast<std::size_t>(device)][static_cast<std::size_t>(value)] = tensor.get();
    tensors.push_back(std::move(tensor));
  };
  for (std::size_t v = 0; v < graph.values().size(); ++v) {
    const ValueInfo& value = graph.values()[v];
    const auto id = static_cast<ValueId>(v);
    std::vector<std::int64_t> shape;
    for (int i = 0; i < value.shape.rank(); ++i) shape.push_back(value.shape[i].value(graph.bounds()));
    if (value.kind == ValueKind::kInput || id == model.logits) {
      const int home = splits.home[v];
      bind(id, home, devices[static_cast<std::size_t>(home)]->create_host_tensor(value.dtype, shape));
    }
    if (value.kind != ValueKind::kWeight && value.kind != ValueKind::kState) continue;
    for (int d = 0; d < 2; ++d) {
      bool used = false;
      for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
        const auto& inputs = graph.nodes()[n].inputs;
        used = used || (device_of[n] == d && std::find(inputs.begin(), inputs.end(), id) != inputs.end());
      }
      Device& device = *devices[static_cast<std::size_t>(d)];
      if (used && value.kind == ValueKind::kState) bind(id, d, device.create_state(value.dtype, shape));
      if (used && value.kind == ValueKind::kWeight)
        bind(
            id, d,
            device.create_weight(model.data[id].dtype, shape, {.bytes = model.data[id].bytes, .reader = {}}));
    }
  }
  const auto host = [&]<typename T>(const char* name, T) {
    const ValueId value = graph.find(name);
    const auto home = static_cast<std::size_t>(splits.home[static_cast<std::size_t>(value)]);
    return reinterpret_cast<T*>(bindings[home][static_cast<std::size_t>(value)]->host().data());
  };
  std::int32_t* const words[] = {host("tokens", 0),    host("positions", 0), host("cells", 0),
                                 host("sequences", 0), host("ends", 0),      host("hidden_first", 0)};
  std::int32_t* const counts = host("counts", 0);
  auto* const extents = reinterpret_cast<Extent*>(host("extents", 0));
  *reinterpret_cast<HiddenCells*>(host("hidden", 0)) = {};  // Nothing is hidden.
  const float* const logits = host("logits", 0.0f);

  // Compiled once; steps may change sizes, nothing else.
  exec::Plan plan(devices, {graph, device_of, bindings}, {.allowed = {.shapes = true}});
  const Tokenizer tokenizer = load_tokenizer(path);
  std::vector<Token> text = tokenizer.encode(prompt);
  const std::size_t n_prompt = text.size(), n_all = n_prompt + static_cast<std::size_t>(n_predict);
  if (n_prompt == 0 || n_prompt > kMaxTokens || n_all > static_cast<std::size_t>(model.n_ctx))
    throw Error(ErrorCode::kInvalidArgument, "the prompt is empty or too long for this example");
  std::int64_t last_n = 0;
  for (std::size_t done = 0; text.size() < n_all;) {
    const std::size_t n = text.size() - done;
    for (std::size_t i = 0; i < n; ++i) {
      const auto pos = static_cast<std::int32_t>(done + i);
      const std::int32_t row[] = {text[done + i], pos, pos, 0, pos + 1, -1};  // Token i is in cell i.
      for (std::size_t w = 0; w < std::size(row); ++w) words[w][i] = row[w];
    }
    *host("last", 0) = static_cast<std::int32_t>(n - 1);
    done = text.size();
    counts[0] = static_cast<std::int32_t>((done + kPageCells - 1) / kPageCells);
    for (std::int32_t page = 0; page < counts[0]; ++page) {
      const std::size_t used =
          std::min<std::size_t>(done - static_cast<std::size_t>(page) * kPageCells, kPageCells);
      extents[page] = {
          .mask = ~std::uint64_t{0} >> (kPageCells - used), .page = page, .base = page * kPageCells};
    }
    const auto n_tokens = static_cast<std::int64_t>(n);
    exec::Step step;
    step.symbols = {&n_tokens, 1};
    step.actual.shapes = last_n != 0 && n_tokens != last_n;
    last_n = n_tokens;
    plan.run(step);
    text.push_back(static_cast<Token>(std::max_element(logits, logits + model.n_vocab) - logits));
  }
  std::printf(
      "%lld steps, %lld copies, %lld bytes copied\nids:", static_cast<long long>(plan.counters().steps),
      static_cast<long long>(plan.counters().copies), static_cast<long long>(plan.counters().copied_bytes));
  for (const Token token : std::span(text).subspan(n_prompt)) std::printf(" %d", token);
  std::printf("\n%s\n", tokenizer.decode(text).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: gpt2 -m MODEL [DEVICE] [PROMPT] [TOKENS]\n");
    return 2;
  }
  return run(argv[2], argc > 3 ? argv[3] : "", argc > 4 ? argv[4] : "The sea is",
             argc > 5 ? std::atoi(argv[5]) : 12, std::filesystem::path(argv[0]).parent_path());
} catch (const weft::Error& error) {
  std::fprintf(stderr, "gpt2: %s\n", error.what());
  return 1;
}
