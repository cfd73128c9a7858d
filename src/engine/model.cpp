#include "weft/model.h"

#include <algorithm>
#include <utility>

#include "backend/cpu/device.h"
#include "backend/cpu/limits.h"
#include "engine/model_impl.h"
#include "engine/vocabulary_from_gguf.h"
#include "weft/error.h"

namespace weft {
namespace {

cpu::Isa isa_of(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kGeneric:
      return cpu::Isa::kGeneric;
    case CpuIsa::kAvx2:
      return cpu::Isa::kAvx2;
    case CpuIsa::kAvx512:
      return cpu::Isa::kAvx512;
    case CpuIsa::kBest:
      break;
  }
  return cpu::best_isa();
}

/// The canonical bytes of a weight's part of its tensor.
std::span<const std::byte> source_bytes(const model::WeightUse& use, bool vector) {
  const gguf::TensorInfo& tensor = *use.tensor;
  if (tensor.shape.size() == 3) return tensor.data;
  const std::size_t row = vector ? row_bytes(tensor.dtype, 1) : row_bytes(tensor.dtype, tensor.shape.back());
  return tensor.data.subspan(static_cast<std::size_t>(use.row_begin) * row,
                             static_cast<std::size_t>(use.n_rows) * row);
}

std::vector<std::int64_t> constant_dims(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i].factor);
  return dims;
}

void load_weights(engine::ModelImpl& impl, const model::ModelGraph& graph, const ModelParams& params) {
  std::size_t total = 0, in_memory = 0;
  for (const model::WeightUse& use : graph.weights) {
    const ValueInfo& value = graph.graph.value(use.value);
    total += source_bytes(use, value.shape.rank() == 1).size();
    in_memory += impl.device->bytes_of(ValueKind::kWeight, value.dtype, constant_dims(value.shape));
  }
  if (in_memory > impl.device->info().memory_total) {
    throw Error(ErrorCode::kOutOfMemory, "the model needs " + std::to_string(in_memory >> 20) +
                                             " MiB and this machine has " +
                                             std::to_string(impl.device->info().memory_total >> 20) +
                                             " MiB; use a smaller or more strongly quantised model");
  }
  std::size_t done = 0;
  for (const model::WeightUse& use : graph.weights) {
    const ValueInfo& value = graph.graph.value(use.value);
    const std::span<const std::byte> bytes = source_bytes(use, value.shape.rank() == 1);
    const DType dtype = value.shape.rank() == 1 ? use.tensor->dtype : value.dtype;
    impl.weights[value.name] = impl.device->create_weight(dtype, constant_dims(value.shape),
                                                          {bytes, [&] { impl.file.release(*use.tensor); }});
    impl.info.weight_bytes += static_cast<std::int64_t>(impl.weights[value.name]->bytes());
    done += bytes.size();
    if (params.progress && !params.progress(static_cast<float>(done) / static_cast<float>(total)))
      throw Error(ErrorCode::kCancelled, "loading was cancelled");
  }
}

}  // namespace

namespace engine {

ModelInfo model_info(const gguf::File& file, const model::ModelDescription& description) {
  const model::HParams& h = description.hparams;
  ModelInfo info;
  info.name = std::string(file.get_string("general.name").value_or(""));
  info.architecture = h.architecture;
  info.file_bytes = static_cast<std::int64_t>(file.file_bytes());
  info.n_vocab = h.n_vocab;
  info.n_ctx_train = h.n_ctx_train;
  info.n_embd = h.n_embd;
  info.n_layers = h.n_layers;
  info.n_heads = h.n_heads;
  info.n_kv_heads = h.n_kv_heads;
  info.recurrent = h.recurrent();
  std::map<DType, std::int64_t> matrices_of;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    info.n_parameters += tensor.n_elements();
    if (tensor.shape.size() >= 2) ++matrices_of[tensor.dtype];
  }
  const auto most = std::max_element(matrices_of.begin(), matrices_of.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != matrices_of.end()) info.quantisation = std::string(weft::info(most->first).name);
  return info;
}

}  // namespace engine

Model::Model(std::unique_ptr<engine::ModelImpl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

std::shared_ptr<const Model> Model::load(const std::filesystem::path& path, const ModelParams& params) {
  gguf::File file = gguf::File::open(path);
  const model::ModelDescription description = model::describe(file);
  const model::ModelGraph graph = model::build_graph(file, description, {});
  ModelInfo info = engine::model_info(file, description);
  auto tokenizer = std::make_unique<Tokenizer>(engine::vocabulary_from_gguf(file));
  if (tokenizer->n_vocab() != info.n_vocab) {
    throw Error(ErrorCode::kInvalidFile, "tensor token_embd.weight has " + std::to_string(info.n_vocab) +
                                             " rows, the vocabulary has " +
                                             std::to_string(tokenizer->n_vocab()) + " tokens");
  }

  auto impl = std::unique_ptr<engine::ModelImpl>(new engine::ModelImpl{
      std::move(file), description, std::move(info), nullptr, {}, std::move(tokenizer), nullptr});
  if (const auto source = impl->file.get_string("tokenizer.chat_template")) {
    const Tokenizer& t = *impl->tokenizer;
    const auto text_of = [&](Token id) { return id == kNoToken ? std::string() : std::string(t.text(id)); };
    try {
      impl->chat_template = std::make_unique<ChatTemplate>(*source, text_of(t.bos()), text_of(t.eos()));
    } catch (const Error&) {
      // A model with a template that weft cannot read is still a model; chat asks for another template.
    }
  }
  impl->fingerprint = engine::model_fingerprint(impl->file, impl->description);
  impl->device = cpu::make_device({.isa = isa_of(params.isa), .n_threads = params.n_threads});
  load_weights(*impl, graph, params);
  return std::shared_ptr<const Model>(new Model(std::move(impl)));
}

const ModelInfo& Model::info() const { return impl_->info; }
const Tokenizer& Model::tokenizer() const { return *impl_->tokenizer; }
const ChatTemplate* Model::chat_template() const { return impl_->chat_template.get(); }

Tokenizer load_tokenizer(const std::filesystem::path& path) {
  return Tokenizer(engine::vocabulary_from_gguf(gguf::File::open(path)));
}

std::vector<DeviceInfo> devices() { return {cpu::make_device()->info()}; }

MachineLimits measure_limits(int n_threads, CpuIsa isa) {
  return cpu::measure_limits(isa_of(isa), n_threads);
}

}  // namespace weft
