#include "weft/model.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/cpu/limits.h"
#include "base/counted.h"
#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/devices/device_choice.h"
#include "engine/devices/fit_model.h"
#include "engine/devices/placement_rules.h"
#include "engine/model_impl.h"
#include "engine/model_params.h"
#include "engine/vocabulary_from_gguf.h"
#include "exec/device_set.h"
#include "exec/placement.h"
#include "gguf/file_types.h"
#include "weft/error.h"

namespace weft {
namespace {

/// The chat template of an encoder-decoder model whose file has none. Each question is independent, after the
/// system message.
constexpr std::string_view kQuestionAlone = R"({%- set ns = namespace(system='', question=none) -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}{%- set ns.system = message.content + ' ' -%}
  {%- elif message.role == 'user' -%}{%- set ns.question = message.content -%}{%- endif -%}
{%- endfor -%}
{%- if ns.question is none -%}{{- raise_exception('there is no message of the user') -}}{%- endif -%}
{{- ns.system + ns.question + eos_token -}})";

const char* feature_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric:
      return "generic";
    case CpuIsa::kAvx2:
      return "avx2";
    case CpuIsa::kAvxVnni:
      return "avxvnni";
    case CpuIsa::kAvx512:
      return "avx512";
    case CpuIsa::kAvx512Bf16:
      return "avx512bf16";
    case CpuIsa::kAmx:
      return "amx";
    case CpuIsa::kNeon:
      return "neon";
    case CpuIsa::kI8mm:
      return "i8mm";
    case CpuIsa::kBest:
      break;
  }
  return "";
}

/// The canonical bytes of a weight's part of its tensor; of parts of several matrices, the tensor's.
std::span<const std::byte> source_bytes(const model::WeightUse& use, const Shape& shape) {
  const gguf::TensorInfo& tensor = *use.tensor;
  if (shape.rank() == 3) return tensor.data;
  // By the value's shape: the tensor's may have additional sizes of 1.
  const std::size_t row = row_bytes(tensor.dtype, shape.rank() == 1 ? 1 : shape[1].constant());
  return tensor.data.subspan(to_size(use.row_begin) * row, to_size(use.n_rows) * row);
}

/// For the model's file.
std::size_t bytes_to_read(const model::WeightUse& use, const ValueInfo& value) {
  if (use.tensor == nullptr) return 0;
  if (!use.of_each) return source_bytes(use, value.shape).size();
  const std::size_t row = row_bytes(use.tensor->dtype, use.tensor->shape.back());
  return row * to_size(use.tensor->shape[0] * use.n_rows);
}

/// The cache of the CPU's packed weights, if requested. With several devices, each start may place other
/// weights here.
KeptWeights kept_weights(const engine::ModelImpl& impl, const ModelParams& params,
                         std::span<const std::string> devices) {
  const bool cpu_alone = devices.size() == 1 && devices[0] == exec::kHostDevice;
  if (params.pack_cache.empty() || !params.repack || !cpu_alone) return {};
  return {.folder = params.pack_cache,
          .max_bytes = params.pack_cache_bytes,
          .model = impl.path.stem().string(),
          .key = impl.fingerprint,
          .identity = impl.file.identity(),
          .n_bytes = impl.file.file_bytes()};
}

/// Rows of each matrix of a tensor.
WeightSource::Pieces rows_of_each(const model::WeightUse& use) {
  const gguf::TensorInfo& tensor = *use.tensor;
  const std::size_t row = row_bytes(tensor.dtype, tensor.shape.back());
  return {.first = tensor.data.subspan(row * to_size(use.row_begin), row * to_size(use.n_rows)),
          .n = to_size(tensor.shape[0]),
          .stride = row * to_size(tensor.shape[1])};
}

/// Concatenated.
std::vector<std::byte> copy_of(const WeightSource::Pieces& pieces, const gguf::File& file) {
  const std::size_t n = pieces.first.size();
  std::vector<std::byte> bytes(n * pieces.n);
  for (std::size_t i = 0; i < pieces.n; ++i)
    file.read({pieces.first.data() + i * pieces.stride, n}, std::span(bytes).subspan(i * n, n));
  return bytes;
}

/// A generated weight.
void load_made(engine::ModelImpl& impl, const ValueInfo& value, std::vector<std::byte> bytes,
               const WeightSource::Pieces& copied_from, std::span<const int> places) {
  bool in_place = false;
  for (const int place : places) {
    auto& weight = impl.weights[index(place)][value.name];
    weight = impl.devices.devices[index(place)]->create_weight(
        value.dtype, value.shape.dims({}),
        {.bytes = bytes, .reader = {}, .name = {}, .copied_from = copied_from});
    impl.weight_bytes += static_cast<std::int64_t>(weight->bytes());
    in_place = in_place || weight->reads_source();
  }
  if (in_place) impl.made_weights.push_back(std::move(bytes));
}

void load_weights(engine::ModelImpl& impl, const model::ModelGraph& graph, const ModelParams& params) {
  std::size_t total = 0;
  for (const model::WeightUse& use : graph.weights) total += bytes_to_read(use, graph.graph.value(use.value));
  impl.weights.resize(impl.devices.devices.size());
  std::size_t done = 0;
  const auto read = [&impl](std::span<const std::byte> part, std::span<std::byte> to) {
    impl.file.read(part, to);
  };
  const auto readers = exec::devices_reading(graph.graph, impl.device_of);
  // A weight that no node of this graph reads may be read by a context's graph on any device.
  std::vector<int> all(impl.devices.devices.size());
  std::iota(all.begin(), all.end(), 0);
  for (const model::WeightUse& use : graph.weights) {
    const ValueInfo& value = graph.graph.value(use.value);
    const std::vector<int>& own = readers[index(use.value)];
    const std::vector<int>& places = own.empty() ? all : own;
    if (use.tensor == nullptr || use.of_each) {
      const auto from = use.make ? WeightSource::Pieces() : rows_of_each(use);
      load_made(impl, value, use.make ? use.make() : copy_of(from, impl.file), from, places);
    } else {
      const std::span<const std::byte> bytes = source_bytes(use, value.shape);
      const DType dtype = value.shape.rank() == 1 ? use.tensor->dtype : value.dtype;
      for (const int place : places) {
        const auto device = to_size(place);
        auto& weight = impl.weights[device][value.name];
        weight = impl.devices.devices[device]->create_weight(
            dtype, value.shape.dims({}),
            {.bytes = bytes, .reader = read, .name = value.name, .file = impl.file.file_of(bytes)});
        impl.weight_bytes += static_cast<std::int64_t>(weight->bytes());
      }
    }
    done += bytes_to_read(use, value);
    if (params.progress && !params.progress(static_cast<float>(done) / static_cast<float>(total)))
      throw Error(ErrorCode::kCancelled, "loading was cancelled");
  }
}

/// The devices of the weights, and the graph that reads them.
struct Destination {
  std::shared_ptr<const Registry> registry;
  PlacementParams placement;
  model::ModelGraph graph;
};

Destination destination_of(const gguf::File& file, const model::ModelDescription& description,
                           const ModelInfo& info, const ModelParams& params) {
  const auto registry = params.registry != nullptr ? params.registry : load_backends();
  const PlacementParams placement = engine::choose_devices(*registry, params.placement);
  return {
      registry, placement,
      model::build_graph(file, description, engine::expected_sizes(placement, info, description.hparams))};
}

/// Opens the devices and loads the weights. If it throws, some of them are loaded.
void place_weights(engine::ModelImpl& impl, Destination to, const ModelParams& params, bool has_contexts) {
  impl.isa = feature_of(params.isa);
  impl.devices = exec::open_devices(*to.registry, to.placement,
                                    {.n_threads = params.n_threads,
                                     .feature = impl.isa,
                                     .repack = params.repack,
                                     .kept = kept_weights(impl, params, to.placement.devices),
                                     .compiled = params.pack_cache});
  impl.row_shares = engine::row_shares(to.placement);
  const auto build = [&](int n_ctx) {
    return model::build_graph(
        impl.file, impl.description,
        engine::expected_sizes(to.placement, impl.info, impl.description.hparams, n_ctx));
  };
  engine::PlacedGraph placed = engine::place_model(std::move(to.graph), build, impl.info, impl.devices,
                                                   to.placement, params.n_cpu_moe, has_contexts);
  impl.device_of = std::move(placed.device_of);
  const PlacementReport& report = placed.report;
  if (to.placement.n_ctx == 0 && report.n_ctx < report.n_ctx_full) impl.info.n_ctx_fit = report.n_ctx;
  if (params.placed) params.placed(report);
  load_weights(impl, placed.graph, params);
  // Contexts have rotations according to the types of their own caches.
  const auto nodes = placed.graph.graph.nodes();
  for (std::size_t n = nodes.size(); n-- > 0;)
    if (get_op<ops::Hadamard>(nodes[n]) != nullptr)
      impl.device_of.erase(impl.device_of.begin() + static_cast<std::ptrdiff_t>(n));
  impl.weights_mapped = true;
  for (const auto& device : impl.devices.devices)
    impl.weights_mapped = device->finish_weights() && impl.weights_mapped;
}

/// Matrices are often padded to a round number of rows; rows after the last token are unused. Throws Error
/// kInvalidFile if tokens have no row.
void fit_vocabulary(text::Vocabulary& vocabulary, int n_rows) {
  const std::size_t n_tokens = vocabulary.tokens.size(), n = to_size(n_rows);
  if (n_tokens == n) return;
  const std::string counts = "tensor token_embd.weight has " + base::counted(n, "row") +
                             ", but the vocabulary (tokenizer.ggml.tokens) has " +
                             base::counted(n_tokens, "token");
  if (n_tokens > n || n_tokens == 0) throw Error(ErrorCode::kInvalidFile, counts);
  vocabulary.tokens.resize(n);
  if (!vocabulary.kinds.empty()) vocabulary.kinds.resize(n, TokenKind::kUnused);
  if (!vocabulary.scores.empty()) vocabulary.scores.resize(n);
  vocabulary.notes.push_back(counts + "; the last rows belong to no token");
}

/// The file's pooling; kMean if it has none.
Pooling pooling_of(const model::HParams& hparams) {
  switch (hparams.pooling.value_or(model::PoolingType::kMean)) {
    case model::PoolingType::kNone:
      return Pooling::kNone;
    case model::PoolingType::kMean:
      return Pooling::kMean;
    case model::PoolingType::kLast:
      return Pooling::kLast;
    case model::PoolingType::kCls:
    case model::PoolingType::kRank:
      break;
  }
  return Pooling::kCls;
}

}  // namespace

namespace engine {

void check_has_weights(const Model& model) {
  if (model.impl().devices.devices.empty())
    throw Error(ErrorCode::kDevice, "the model has no weights, because reloading it failed; try again");
}

model::Additions load_additions(const ModelParams& params, const gguf::File& file,
                                const model::HParams& hparams) {
  model::Additions additions;
  if (hparams.encoder && !(params.adapters.empty() && params.control_vectors.empty()))
    throw Error(ErrorCode::kUnsupported,
                "adapters and control vectors need a model that generates text; this one is an encoder");
  if (!params.adapters.empty()) additions.adapters = std::make_shared<model::Adapters>(params.adapters, file);
  if (!params.control_vectors.empty())
    additions.control = std::make_shared<model::ControlVectors>(
        params.control_vectors, params.first_control_layer, params.last_control_layer, hparams);
  return additions;
}

ModelInfo model_info(const gguf::File& file, const model::ModelDescription& description) {
  const model::HParams& h = description.hparams;
  ModelInfo info;
  info.name = file.get_label("general.name");
  info.architecture = h.architecture;
  info.file_bytes = static_cast<std::int64_t>(file.file_bytes());
  info.n_vocab = h.n_vocab;
  info.n_ctx_train = h.n_ctx_train;
  info.n_embd = h.n_embd;
  info.n_embd_input = h.n_embd_input();
  info.axes = h.axes.has_value();
  info.n_layers = h.n_layers;
  if (h.attention) {
    info.n_heads = h.attention->n_heads;
    info.n_kv_heads = h.attention->n_kv_heads;
  }
  info.window = h.window_size();
  info.recurrent = h.recurrent();
  info.encoder = h.encoder.has_value();
  info.reads_source = h.source.has_value();
  if (h.source) info.first_token = h.source->first_token;
  info.ranks = h.encoder && (file.find_tensor("cls.weight") != nullptr ||
                             file.find_tensor("cls.output.weight") != nullptr);
  info.pooling = pooling_of(h);
  // The first token of a causal sequence does not depend on the others.
  if (!h.encoder && info.pooling == Pooling::kCls) info.pooling = Pooling::kMean;
  std::map<DType, std::int64_t> matrices_of;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    info.n_parameters += tensor.n_elements();
    if (tensor.shape.size() >= 2) ++matrices_of[tensor.dtype];
  }
  const auto most = std::max_element(matrices_of.begin(), matrices_of.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const gguf::Value* const file_type = file.find(gguf::kFileTypeKey);
  if (const auto* number = file_type != nullptr ? std::get_if<std::uint64_t>(&file_type->data) : nullptr)
    info.quantisation = gguf::file_type_name(*number);
  if (info.quantisation.empty() && most != matrices_of.end())
    info.quantisation = std::string(weft::info(most->first).name);
  return info;
}

}  // namespace engine

Model::Model(std::unique_ptr<engine::ModelImpl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

std::shared_ptr<Model> Model::load(const std::filesystem::path& path, const ModelParams& params) try {
  engine::check(params);
  gguf::File file = gguf::File::open(path);
  model::ModelDescription description = model::describe(file);
  description.additions = engine::load_additions(params, file, description.hparams);
  ModelInfo info = engine::model_info(file, description);
  Destination to = destination_of(file, description, info, params);
  text::Vocabulary vocabulary = engine::vocabulary_from_gguf(file, params.pre_tokenizer);
  fit_vocabulary(vocabulary, info.n_vocab);
  if (!params.chat_template.empty()) vocabulary.chat_template = params.chat_template;
  std::string source = vocabulary.chat_template;
  auto tokenizer = std::make_unique<Tokenizer>(std::move(vocabulary));

  auto impl = std::unique_ptr<engine::ModelImpl>(new engine::ModelImpl{
      {path, std::move(file), description, std::move(info), std::move(tokenizer), nullptr, {}}, {}});
  for (const std::span<const std::string> notes :
       {impl->file.notes(), std::span<const std::string>(description.hparams.notes),
        impl->tokenizer->notes()})
    impl->notes.insert(impl->notes.end(), notes.begin(), notes.end());
  if (source.empty() && impl->info.reads_source) source = kQuestionAlone;
  if (!source.empty()) {
    try {
      impl->chat_template = std::make_unique<ChatTemplate>(source, *impl->tokenizer);
    } catch (const Error& error) {
      if (!params.chat_template.empty()) throw;
      // A model with a template that weft cannot read is still a model; chat needs another template.
      impl->notes.push_back("tokenizer.chat_template is ignored: " + std::string(error.what()));
    }
  }
  impl->fingerprint = engine::model_fingerprint(impl->file, impl->description);
  place_weights(*impl, std::move(to), params, false);
  impl->info.weight_bytes = impl->weight_bytes;
  impl->info.weights_mapped = impl->weights_mapped;
  return std::shared_ptr<Model>(new Model(std::move(impl)));
} catch (...) {
  engine::rethrow_as_error();
}

void Model::reload(const ModelParams& params) try {
  engine::check(params);
  const auto drop = [&] { (void)std::exchange(static_cast<engine::PlacedWeights&>(*impl_), {}); };
  drop();  // First, because the new weights need their memory.
  try {
    impl_->file.check_unchanged();
    if (const auto& adapters = impl_->description.additions.adapters) adapters->check_unchanged();
    place_weights(*impl_, destination_of(impl_->file, impl_->description, impl_->info, params), params, true);
  } catch (...) {
    drop();
    throw;
  }
} catch (...) {
  engine::rethrow_as_error();
}

const ModelInfo& Model::info() const { return impl_->info; }
std::span<const AdapterInfo> Model::adapters() const {
  const auto& adapters = impl_->description.additions.adapters;
  return adapters != nullptr ? adapters->infos() : std::span<const AdapterInfo>();
}
void Model::check_weights() const {
  for (const auto& device : impl_->devices.devices) device->check_weights();
}
void Model::settle() const {
  for (const auto& device : impl_->devices.devices) device->settle();
}
const Tokenizer& Model::tokenizer() const { return *impl_->tokenizer; }
std::span<const std::string> Model::notes() const { return impl_->notes; }
const ChatTemplate* Model::chat_template() const { return impl_->chat_template.get(); }

Tokenizer load_tokenizer(const std::filesystem::path& path, std::string_view pre_tokenizer) {
  return engine::throwing_errors([&] {
    const gguf::File file = gguf::File::open(path);
    text::Vocabulary vocabulary = engine::vocabulary_from_gguf(file, pre_tokenizer);
    vocabulary.notes.insert(vocabulary.notes.begin(), file.notes().begin(), file.notes().end());
    return Tokenizer(std::move(vocabulary));
  });
}

MachineLimits measure_limits(int n_threads, CpuIsa isa) {
  return engine::throwing_errors([&] {
    ModelParams params;
    params.n_threads = n_threads;
    params.isa = isa;
    engine::check(params);
    return cpu::measure_limits(cpu::isa_named(feature_of(isa)), n_threads);
  });
}

double measure_products(DType weights, int n_threads, CpuIsa isa) {
  return engine::throwing_errors([&] {
    ModelParams params;
    params.n_threads = n_threads;
    params.isa = isa;
    engine::check(params);
    return cpu::measure_products(cpu::isa_named(feature_of(isa)), weights, n_threads);
  });
}

}  // namespace weft
