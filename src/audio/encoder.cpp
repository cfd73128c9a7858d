#include "audio/encoder.h"

#include "weft/error.h"

namespace weft::audio {
namespace {

// Far above any encoder of today, far below what could overflow.
constexpr std::int64_t kMaxWidth = 1 << 16;
constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kMaxMels = 1024;
constexpr std::int64_t kMaxPositions = 1 << 15;
constexpr std::int64_t kMaxStacked = 64;

[[noreturn]] void refuse(const std::string& key, const std::string& why) {
  throw Error(ErrorCode::kInvalidFile, "metadata key " + key + ": " + why);
}

int require_int(const gguf::File& file, const std::string& key, std::int64_t max) {
  const auto value = file.get_int(key);
  const std::string expected = ", expected 1 to " + std::to_string(max);
  if (!value) refuse(key, "missing" + expected);
  if (*value < 1 || *value > max) refuse(key, "found " + std::to_string(*value) + expected);
  return static_cast<int>(*value);
}

/// Voxtral (arXiv 2507.13264): concatenated rows, then two products with a GELU between them.
Value project_voxtral(encoders::TransformerBuilder& b, const HParams& h, Value x) {
  const std::int64_t width = std::int64_t{h.stacked} * h.width;
  const Value hidden = b.linear(reshape(x, {h.n_rows(), width}), "mm.a.mlp.1", h.n_embd, width, false);
  return b.linear(gelu(hidden), "mm.a.mlp.2", h.n_embd, h.n_embd, false);
}

/// Qwen2-Audio (arXiv 2407.10759): two rows were averaged before the last norm.
Value project_qwen2(encoders::TransformerBuilder& b, const HParams& h, Value x) {
  return b.linear(x, "mm.a.fc", h.n_embd, h.width, true);
}

/// Ultravox (fixie.ai, 2024): concatenated rows, a norm, a product, SwiGLU, a second norm and a second
/// product.
Value project_ultravox(encoders::TransformerBuilder& b, const HParams& h, Value x) {
  constexpr float kEps = 1e-6f;
  const std::int64_t width = std::int64_t{h.stacked} * h.width;
  const std::int64_t rows = std::int64_t{h.n_rows()} * h.stacked;
  x = x * b.graph().input("heard", {h.n_positions, 1});
  x = reshape(pad(x, 0, 0, rows - h.n_positions), {h.n_rows(), width});
  x = rms_norm(x, b.weight("mm.a.norm_pre.weight", {width}), kEps);
  const std::int64_t inner = h.n_inner;
  const Value both = b.linear(x, "mm.a.mlp.1", 2 * inner, width, false);
  const Value product = slice(both, 1, 0, inner) * silu(slice(both, 1, inner, 2 * inner));
  const Value normed = rms_norm(product, b.weight("mm.a.norm_mid.weight", {inner}), kEps);
  return b.linear(normed, "mm.a.mlp.2", h.n_embd, inner, false);
}

constexpr std::string_view kUltravoxName = "ultravox";
constexpr std::string_view kLlama[] = {"llama"};
constexpr std::string_view kUltravox[] = {"llama", "gemma3", "qwen3", "mistral3"};
constexpr std::string_view kQwen2[] = {"qwen2"};

constexpr Family kFamilies[] = {
    {"voxtral", kLlama, "[BEGIN_AUDIO]", "", true, 4, false, project_voxtral},
    {"qwen2a", kQwen2, "<|audio_bos|>", "<|audio_eos|>", false, 2, true, project_qwen2},
    {kUltravoxName, kUltravox, "", "", false, 8, false, project_ultravox},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family& find_family(std::string_view projector) {
  std::string known;
  for (const Family& family : families()) {
    if (family.projector == projector) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.projector);
  }
  throw Error(ErrorCode::kUnsupported, "the audio encoder's projector is \"" +
                                           std::string(projector.substr(0, 64)) + "\"; known are " + known);
}

HParams read_hparams(const gguf::File& file, const WeightFile& weights, const Family& family) {
  HParams h;
  const std::string audio = "clip.audio.";
  h.name = file.get_label("general.name");
  h.projector = family.projector;
  h.n_mels = require_int(file, audio + "num_mel_bins", kMaxMels);
  h.width = require_int(file, audio + "embedding_length", kMaxWidth);
  h.n_heads = require_int(file, audio + "attention.head_count", kMaxWidth);
  h.n_layers = require_int(file, audio + "block_count", kMaxLayers);
  h.n_embd = require_int(file, audio + "projection_dim", kMaxWidth);
  const std::string eps = audio + "attention.layer_norm_epsilon";
  const double found = file.get_float(eps).value_or(1e-5);
  if (!(found >= 0.0 && found <= 1.0)) refuse(eps, "found " + std::to_string(found) + ", expected 0 to 1");
  h.eps = static_cast<float>(found);
  h.activation = encoders::Activation::kGelu;
  h.stacked = family.stacked;
  h.whole_stacks = family.sees_silence || family.averages;
  const std::string stacked = audio + "projector.stack_factor";
  if (file.find(stacked) != nullptr) h.stacked = require_int(file, stacked, kMaxStacked);
  if (h.width % h.n_heads != 0)
    refuse(audio + "attention.head_count",
           std::to_string(h.n_heads) + " heads do not divide the width " + std::to_string(h.width));
  const WeightFile::Tensor* const positions = weights.find("a.position_embd.weight");
  if (positions == nullptr || positions->shape.size() != 2 || positions->shape[0] < h.stacked ||
      positions->shape[0] > kMaxPositions || (h.whole_stacks && positions->shape[0] % h.stacked != 0))
    throw Error(ErrorCode::kInvalidFile,
                "tensor a.position_embd.weight is missing, or its number of rows is not 1 to " +
                    std::to_string(kMaxPositions / h.stacked) + " times " + std::to_string(h.stacked));
  h.n_positions = static_cast<int>(positions->shape[0]);
  if (const WeightFile::Tensor* const norm = weights.find("mm.a.norm_mid.weight"))
    if (norm->shape.size() == 1 && norm->shape[0] >= 1 && norm->shape[0] <= kMaxWidth)
      h.n_inner = static_cast<int>(norm->shape[0]);
  if (h.n_inner == 0 && family.projector == kUltravoxName)
    throw Error(ErrorCode::kUnsupported,
                "tensor mm.a.norm_mid.weight is missing: weft supports the projectors of Ultravox 0.5 and "
                "later, which have a norm between their matrices");
  return h;
}

Value encode(encoders::TransformerBuilder& b, const HParams& h, const Family& family) {
  const std::int64_t d = h.width;
  const auto convolved = [&](Value x, const std::string& name, std::int64_t columns, std::int64_t stride) {
    return gelu(conv1d_channels_last(x, b.kernel_weight(name + ".weight", d, columns, 3),
                                     b.column(name + ".bias", d), 3, stride, 1));
  };
  Value x = b.graph().input("mels", {h.n_frames(), h.n_mels});
  x = convolved(convolved(x, "a.conv1d.1", h.n_mels, 1), "a.conv1d.2", d, 2);
  x = x + b.weight("a.position_embd.weight", {h.n_positions, d});
  const auto index = [&](const char* name) { return b.graph().input(name, {h.n_positions}, DType::kI32); };
  const encoders::TransformerBuilder::Ranges sees{index("begins"), index("ends")};
  for (int i = 0; i < h.n_layers; ++i) x = b.layer(x, "a.blk." + std::to_string(i) + ".", sees, {});
  if (family.averages) x = mean(reshape(x, {h.n_rows(), h.stacked, d}), {1});
  return family.project(b, h, b.norm(x, "a.post_ln"));
}

}  // namespace weft::audio
