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

/// Voxtral (arXiv 2507.13264): several rows side by side, through two products.
Value project_voxtral(encoders::TransformerBuilder& b, const HParams& h, Value x) {
  const std::int64_t width = std::int64_t{h.stacked} * h.width;
  const Value hidden = b.linear(reshape(x, {h.n_rows(), width}), "mm.a.mlp.1", h.n_embd, width, false);
  return b.linear(gelu(hidden), "mm.a.mlp.2", h.n_embd, h.n_embd, false);
}

/// Qwen2-Audio (arXiv 2407.10759): two rows were averaged before the last norm.
Value project_qwen2(encoders::TransformerBuilder& b, const HParams& h, Value x) {
  return b.linear(x, "mm.a.fc", h.n_embd, h.width, true);
}

constexpr std::string_view kLlama[] = {"llama"};
constexpr std::string_view kQwen2[] = {"qwen2"};

constexpr Family kFamilies[] = {
    {"voxtral", kLlama, "[BEGIN_AUDIO]", "", true, 4, project_voxtral},
    {"qwen2a", kQwen2, "<|audio_bos|>", "<|audio_eos|>", false, 2, project_qwen2},
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
                                           std::string(projector.substr(0, 64)) + "\"; weft knows " + known);
}

HParams read_hparams(const gguf::File& file, const WeightFile& weights, const Family& family) {
  HParams h;
  const std::string audio = "clip.audio.";
  h.name = file.get_string("general.name").value_or("");
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
  const std::string stacked = audio + "projector.stack_factor";
  if (file.find(stacked) != nullptr) h.stacked = require_int(file, stacked, kMaxStacked);
  if (h.width % h.n_heads != 0)
    refuse(audio + "attention.head_count",
           std::to_string(h.n_heads) + " heads do not divide a width of " + std::to_string(h.width));
  const WeightFile::Tensor* const positions = weights.find("a.position_embd.weight");
  if (positions == nullptr || positions->shape.size() != 2 || positions->shape[0] < h.stacked ||
      positions->shape[0] > kMaxPositions || positions->shape[0] % h.stacked != 0)
    throw Error(ErrorCode::kInvalidFile,
                "tensor a.position_embd.weight is missing, or its rows are not 1 to " +
                    std::to_string(kMaxPositions / h.stacked) + " times " + std::to_string(h.stacked));
  h.n_positions = static_cast<int>(positions->shape[0]);
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
  if (!family.sees_silence) x = mean(reshape(x, {h.n_rows(), h.stacked, d}), {1});
  return family.project(b, h, b.norm(x, "a.post_ln"));
}

}  // namespace weft::audio
