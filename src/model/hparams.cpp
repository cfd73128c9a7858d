#include "model/hparams.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/counted.h"
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
  const auto n = static_cast<std::size_t>(n_layers);
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
  const auto n = static_cast<std::size_t>(n_layers);
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
  if (flags->size() != static_cast<std::size_t>(n_layers))
    refuse(key, "expected a bool for each of " + std::to_string(n_layers) + " layers");
  return flags;
}

std::string Metadata::get_string(std::string_view key, std::string_view otherwise) const {
  return std::string(file_.get_string(full(key)).value_or(otherwise));
}

ops::Rope read_rope(const Metadata& metadata, int head_dim, int n_ctx_train) {
  ops::Rope rope;
  rope.head_dim = head_dim;
  rope.n_rot = metadata.get_int("rope.dimension_count", 2, head_dim, head_dim);
  if (rope.n_rot % 2 != 0)
    metadata.refuse("rope.dimension_count", "found an odd number, expected an even one");
  rope.freq_base = metadata.get_float("rope.freq_base", 1.001, 1e12, 10000.0f);
  rope.n_ctx_orig = metadata.get_int("rope.scaling.original_context_length", 0, kMaxContext, 0);
  if (rope.n_ctx_orig == 0) rope.n_ctx_orig = n_ctx_train;

  // Files older than the scaling.* keys give the linear factor alone.
  std::string scaling = metadata.get_string("rope.scaling.type", "linear");
  if (scaling.empty()) scaling = "linear";
  if (scaling == "default") scaling = "none";
  float factor = metadata.get_float("rope.scaling.factor", 0.0, 1e6, 0.0f);
  if (factor == 0.0f) factor = metadata.get_float("rope.scale_linear", 0.0, 1e6, 0.0f);
  if (factor == 0.0f) factor = 1.0f;
  // "none" ignores a factor, as llama.cpp does. "dynamic" changes nothing up to the trained length. The other
  // types have tensors with factors.
  if (scaling == "linear" || scaling == "yarn") {
    rope.freq_scale = 1.0f / factor;
  } else if (scaling != "none" && scaling != "dynamic" && scaling != "longrope" && scaling != "su" &&
             scaling != "llama3") {
    metadata.refuse("rope.scaling.type",
                    "found \"" + scaling + "\", expected none, linear, yarn, longrope, llama3 or dynamic");
  }
  if (scaling == "yarn") {
    rope.ext_factor = metadata.get_float("rope.scaling.yarn_ext_factor", 0.0, 1e3, 1.0f);
    rope.beta_fast = metadata.get_float("rope.scaling.yarn_beta_fast", 0.001, 1e6, 32.0f);
    rope.beta_slow = metadata.get_float("rope.scaling.yarn_beta_slow", 0.001, 1e6, 1.0f);
  }
  rope.attn_factor = metadata.get_float("rope.scaling.attn_factor", 0.001, 1e3, 1.0f);
  if (rope.n_ctx_orig == 0 && (scaling == "yarn" || metadata.has_tensor("rope_factors_long.weight")))
    metadata.refuse("rope.scaling.original_context_length",
                    "missing, and so is a positive context_length, but this model's scaling depends on it; "
                    "'weft quantize --override-kv' adds a key");
  return rope;
}

void read_sections(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "rope.dimension_sections";
  // Three axes. Files have a fourth one, which is 0.
  const std::vector<int> sections = metadata.get_ints(kKey, 3, 4, 0, h.rope.n_rot / 2);
  std::copy_n(sections.begin(), 3, h.rope_sections.begin());
  if (std::accumulate(sections.begin(), sections.end(), 0) != h.rope.n_rot / 2 ||
      (sections.size() > 3 && sections[3] != 0))
    metadata.refuse(
        kKey, "expected three numbers of pairs, which are " + std::to_string(h.rope.n_rot / 2) + " together");
}

std::size_t axis_of_pair(const HParams& h, int pair) {
  const std::array<int, 3>& sections = h.rope_sections;
  if (!h.rope_interleaved) return pair < sections[0] ? 0 : pair < sections[0] + sections[1] ? 1 : 2;
  const auto axis = static_cast<std::size_t>(pair % 3);
  return pair < 3 * sections[axis] ? axis : 0;
}

int HParams::n_layers_of(LayerKind kind) const {
  return static_cast<int>(std::count(layers.begin(), layers.end(), kind));
}

void read_sliding(const Metadata& metadata, HParams& h, int n, FullLayer full) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (const auto listed = metadata.get_bools(kKey, h.n_layers)) {
    h.sliding = *listed;
  } else {
    n = metadata.get_int(kKey, 1, kMaxLayers, n);
    const int seen = full == FullLayer::kFirst ? 0 : n - 1;
    for (int layer = 0; layer < h.n_layers; ++layer) h.sliding.push_back(layer % n != seen);
  }
  if (h.window == 0) h.sliding.assign(h.sliding.size(), false);
}

void read_layers_with_kv(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "attention.shared_kv_layers";
  h.n_layers_with_kv = h.n_layers - metadata.get_int(kKey, 0, h.n_layers - 1, 0);
  for (int layer = h.n_layers_with_kv; layer < h.n_layers; ++layer)
    if (kv_layer_of(h, layer) < 0)
      metadata.refuse(kKey, "layer " + std::to_string(layer) + " has no earlier layer of its kind with keys");
}

int kv_layer_of(const HParams& h, int layer) {
  const auto slides = [&](int i) -> bool { return h.sliding[static_cast<std::size_t>(i)]; };
  int found = h.n_layers_with_kv - 1;
  while (found >= 0 && slides(found) != slides(layer)) --found;
  return found;
}

void require_experts(const Metadata& metadata, const HParams& h) {
  if (h.n_experts == 0) metadata.refuse("expert_count", "missing or 0, expected at least 1");
}

void read_router(const Metadata& metadata, HParams& h) {
  require_experts(metadata, h);
  // 1: softmax, 2: sigmoid; 0 where files leave it to the family.
  if (const int function = metadata.get_int("expert_gating_func", 0, 2, 0); function != 0)
    h.sigmoid_router = function == 2;
  h.expert_scale = metadata.get_float("expert_weights_scale", 0.0, 1e6, 1.0f);
  if (h.expert_scale == 0.0f) h.expert_scale = 1.0f;  // Files say so where there is none.
  h.n_dense_layers = metadata.get_int("leading_dense_block_count", 0, h.n_layers, 0);
  if (h.n_ff_shared == 0) {
    const std::int64_t wide =
        std::int64_t{h.n_ff_expert} * metadata.get_int("expert_shared_count", 0, kMaxExperts, 0);
    if (wide > kMaxFfWidth) metadata.refuse("expert_shared_count", "the shared experts are too wide");
    h.n_ff_shared = static_cast<int>(wide);
  }
  // Files have 0 without groups.
  h.n_expert_groups = std::max(1, metadata.get_int("expert_group_count", 0, h.n_experts, 1));
  h.n_expert_groups_used = metadata.get_int("expert_group_used_count", 0, h.n_expert_groups, 0);
  if (h.n_expert_groups_used == 0) h.n_expert_groups_used = h.n_expert_groups;
  const int per_group = h.n_experts / h.n_expert_groups;
  if (h.n_experts % h.n_expert_groups != 0 || per_group * h.n_expert_groups_used < h.n_experts_used)
    metadata.refuse("expert_group_count", "found " + std::to_string(h.n_expert_groups) + " for " +
                                              std::to_string(h.n_experts) + " experts, of which " +
                                              std::to_string(h.n_experts_used) + " are used");
}

void read_unused_layers(const Metadata& metadata, HParams& h) {
  h.n_layers_unused = metadata.get_int("nextn_predict_layers", 0, h.n_layers - 1, 0);
  h.n_layers -= h.n_layers_unused;
  h.layers.resize(static_cast<std::size_t>(h.n_layers));
}

void read_scales(const Metadata& metadata, HParams& h) {
  // Files say 0 where there is none.
  const auto scale = [&](std::string_view key, float otherwise) {
    const float found = metadata.get_float(key, 0.0, kMaxFactor, 0.0f);
    return found == 0.0f ? otherwise : metadata.get_float(key, kMinFactor, kMaxFactor, otherwise);
  };
  h.embedding_scale = scale("embedding_scale", 1.0f);
  h.residual_scale = scale("residual_scale", 1.0f);
  h.attention_scale = scale("attention.scale", 0.0f);
  h.logit_scale = 1.0f / scale("logit_scale", 1.0f);
}

void read_pooling(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "pooling_type";
  constexpr int kLastType = static_cast<int>(PoolingType::kRank);
  int type = metadata.get_int(kKey, std::numeric_limits<int>::min(), std::numeric_limits<int>::max(), -1);
  if (type < -1 || type > kLastType) {
    if (h.encoder) metadata.refuse(kKey, "found " + std::to_string(type) + ", expected -1 to 4");
    h.notes.push_back(metadata.about(kKey, "found " + std::to_string(type) + ", which is ignored"));
    type = -1;
  }
  if (type >= 0) h.pooling = static_cast<PoolingType>(type);
  if (h.pooling != PoolingType::kRank) return;
  // The pooling for a reranker's classifier. ModernBERT's files without the key use the mean.
  const PoolingType usual = h.architecture == "modern-bert" ? PoolingType::kMean : PoolingType::kCls;
  h.pooling = static_cast<PoolingType>(
      metadata.get_int("classifier.pooling_type", static_cast<int>(PoolingType::kMean),
                       static_cast<int>(PoolingType::kCls), static_cast<int>(usual)));
}

int read_conv_taps(const Metadata& metadata, std::string_view key) {
  return metadata.require_int(key, 2, kMaxConvTaps);
}

void read_ssm(const Metadata& metadata, HParams& h) {
  h.conv_taps = read_conv_taps(metadata, "ssm.conv_kernel");
  h.n_ssm_inner = metadata.require_int("ssm.inner_size", 1, kMaxWidth);
  h.n_ssm_state = metadata.require_int("ssm.state_size", 1, kMaxSsmState);
}

void read_ssm_heads(const Metadata& metadata, HParams& h) {
  h.n_ssm_heads = metadata.require_int("ssm.time_step_rank", 1, h.n_ssm_inner);
  h.n_ssm_groups = metadata.require_int("ssm.group_count", 1, h.n_ssm_heads);
  if (h.n_ssm_inner % h.n_ssm_heads != 0)
    metadata.refuse("ssm.time_step_rank", "found " + std::to_string(h.n_ssm_heads) +
                                              " heads, expected a divisor of the inner size " +
                                              std::to_string(h.n_ssm_inner));
  if (h.n_ssm_heads % h.n_ssm_groups != 0)
    metadata.refuse("ssm.group_count", "found " + std::to_string(h.n_ssm_groups) +
                                           ", expected a divisor of the number of heads " +
                                           std::to_string(h.n_ssm_heads));
}

void read_recurrent_layers(const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "attention.recurrent_layers";
  const std::optional<std::vector<bool>> listed = metadata.get_bools(kKey, h.n_layers);
  const int interval = metadata.get_int("full_attention_interval", 1, kMaxLayers, 4);
  for (int layer = 0; layer < h.n_layers; ++layer) {
    const auto i = static_cast<std::size_t>(layer);
    const bool recurrent = listed ? (*listed)[i] : (layer + 1) % interval != 0;
    h.layers[i] = recurrent ? LayerKind::kRecurrent : LayerKind::kAttention;
  }
}

namespace {

/// The keys "attention.*" and "rope.*", and which layers have attention.
void read_attention(const Metadata& metadata, LayerMix mix, HParams& h) {
  const bool sparse = mix == LayerMix::kSparse;
  if (sparse) {
    h.n_heads_of = metadata.get_per_layer("attention.head_count", h.n_layers, 0, kMaxHeads, 0);
  } else {
    const int n = mix == LayerMix::kMixed
                      ? metadata.get_uniform_or_none("attention.head_count", h.n_layers, kMaxHeads, 0)
                      : metadata.get_uniform("attention.head_count", h.n_layers, 1, kMaxHeads, 0);
    h.n_heads_of.assign(static_cast<std::size_t>(h.n_layers), n);
  }
  h.n_heads = *std::max_element(h.n_heads_of.begin(), h.n_heads_of.end());
  if (h.n_heads == 0) metadata.refuse("attention.head_count", "missing, expected at least 1");
  const std::string_view kv_key = "attention.head_count_kv";
  const int least = mix == LayerMix::kMixed || sparse ? 0 : 1;
  h.n_kv_heads_of = metadata.get_per_layer(kv_key, h.n_layers, least, kMaxHeads, h.n_heads);
  for (std::size_t layer = 0; layer < h.n_kv_heads_of.size(); ++layer) {
    const int n = h.n_kv_heads_of[layer], n_heads = h.n_heads_of[layer];
    const LayerKind without = sparse ? LayerKind::kNeither : LayerKind::kRecurrent;
    h.layers.push_back(n == 0 ? without : LayerKind::kAttention);
    if (n == 0) continue;
    if (mix != LayerMix::kVaried && !sparse && h.n_kv_heads != 0 && h.n_kv_heads != n)
      throw Error(ErrorCode::kUnsupported, "metadata key " + metadata.architecture() + "." +
                                               std::string(kv_key) +
                                               ": layers of different sizes are not supported");
    if (n_heads == 0 || n_heads % n != 0)
      metadata.refuse(kv_key, "found " + std::to_string(n) + ", expected a divisor of the head count " +
                                  std::to_string(n_heads));
    h.n_kv_heads = std::max(h.n_kv_heads, n);
  }
  if (h.n_kv_heads == 0) metadata.refuse(kv_key, "found no layer with attention, expected one at least");
  h.k_head_dim = metadata.get_int("attention.key_length", 1, kMaxHeadDim, 0);
  if (h.k_head_dim == 0) {
    if (h.n_embd % h.n_heads != 0 || h.n_embd / h.n_heads > kMaxHeadDim)
      metadata.refuse("attention.head_count", "found " + std::to_string(h.n_heads) +
                                                  ", expected a divisor of the embedding length " +
                                                  std::to_string(h.n_embd));
    h.k_head_dim = h.n_embd / h.n_heads;
  }
  h.v_head_dim = metadata.get_int("attention.value_length", 1, kMaxHeadDim, h.k_head_dim);
  h.rope = read_rope(metadata, h.k_head_dim, h.n_ctx_train);
  if (constexpr std::string_view kScaling = "rope.scaling.type";
      metadata.get_string(kScaling, "") == "dynamic")
    h.notes.push_back(metadata.about(
        kScaling, "found \"dynamic\", which weft does not apply; output is worse beyond the trained length" +
                      (h.rope.n_ctx_orig > 0 ? " of " + base::counted(h.rope.n_ctx_orig, "token") : "")));
  h.window = metadata.get_int("attention.sliding_window", 0, kMaxContext, 0);
  h.rope_base_window = metadata.get_float("rope.freq_base_swa", 1.001, 1e12, 10000.0f);
  h.attention_softcap = metadata.get_float("attn_logit_softcapping", 0.0, 1e6, 0.0f);
}

/// context_length. Without a positive value: the rows of a table of positions, else 0.
int read_length(const gguf::File& file, const Metadata& metadata, std::vector<std::string>& notes) {
  constexpr std::string_view kKey = "context_length", kTable = "position_embd.weight";
  std::string lack = "missing";
  if (const auto length = file.get_int(metadata.architecture() + "." + std::string(kKey))) {
    if (*length > 0) return metadata.require_int(kKey, 1, kMaxContext);
    lack = "found " + std::to_string(*length) + ", expected 1 or more";
  }
  const gguf::TensorInfo* const table = file.find_tensor(kTable);
  if (table == nullptr) {
    notes.push_back(
        metadata.about(kKey, lack + "; contexts are as long as you ask for (n_ctx, -c of the program)"));
    return 0;
  }
  const std::int64_t rows = table->shape.front();
  if (rows > kMaxContext) metadata.refuse(kKey, lack + ", and " + std::string(kTable) + " has too many rows");
  notes.push_back(metadata.about(kKey, lack + "; tensor " + std::string(kTable) + " has " +
                                           base::counted(rows, "row") + "; weft uses the rows"));
  return static_cast<int>(rows);
}

/// The width of each layer's feed-forward part from its last matrix, `name`; 0 for a layer without one.
std::vector<int> widths_of(const gguf::File& file, const Metadata& metadata, std::string_view key,
                           std::string_view name, HParams& h) {
  std::vector<int> widths(static_cast<std::size_t>(h.n_layers), 0);
  bool noted = false;
  for (std::size_t layer = 0; layer < widths.size(); ++layer) {
    const std::string own = "blk." + std::to_string(layer) + "." + std::string(name);
    const gguf::TensorInfo* tensor = file.find_tensor(own);
    if (tensor == nullptr) tensor = file.find_tensor("enc." + own);
    if (tensor == nullptr) continue;
    const std::int64_t columns = tensor->shape.back();
    if (tensor->shape.size() < 2 || columns > kMaxFfWidth)
      metadata.refuse(key, "missing, and the shape of tensor " + tensor->name + " does not give it");
    widths[layer] = static_cast<int>(columns);
    if (noted) continue;
    h.notes.push_back(metadata.about(key, "missing, tensor " + tensor->name + " has " +
                                              base::counted(columns, "column") + "; weft uses the columns"));
    noted = true;
  }
  return widths;
}

int most_of(const std::vector<int>& counts) { return *std::max_element(counts.begin(), counts.end()); }

/// n_ff and n_ff_of.
void read_widths(const gguf::File& file, const Metadata& metadata, LayerMix mix, HParams& h) {
  constexpr std::string_view kKey = "feed_forward_length";
  if (!metadata.has(kKey)) {
    h.n_ff_of = widths_of(file, metadata, kKey, "ffn_down.weight", h);
    if (most_of(h.n_ff_of) == 0)
      h.n_ff_of = widths_of(file, metadata, kKey, "channel_mix_value.weight", h);  // RWKV
    h.n_ff = most_of(h.n_ff_of);
    return;
  }
  h.n_ff_of = metadata.get_per_layer(kKey, h.n_layers, 0, kMaxFfWidth, 0);
  const bool has_experts = metadata.get_int("expert_count", 0, kMaxExperts, 0) > 0;
  if (mix == LayerMix::kVaried || mix == LayerMix::kSparse || (mix == LayerMix::kMixed && has_experts))
    h.n_ff = most_of(h.n_ff_of);
  else if (mix == LayerMix::kMixed)
    h.n_ff = metadata.get_uniform_or_none(kKey, h.n_layers, kMaxFfWidth, 0);
  else
    h.n_ff = metadata.get_uniform(kKey, h.n_layers, 0, kMaxFfWidth, 0);
}

/// n_ff_expert and n_ff_expert_of.
void read_expert_widths(const gguf::File& file, const Metadata& metadata, HParams& h) {
  constexpr std::string_view kKey = "expert_feed_forward_length";
  h.n_ff_expert_of = metadata.has(kKey) || metadata.has("feed_forward_length")
                         ? metadata.get_per_layer(kKey, h.n_layers, 0, kMaxFfWidth, h.n_ff)
                         : widths_of(file, metadata, kKey, "ffn_down_exps.weight", h);
  h.n_ff_expert = most_of(h.n_ff_expert_of);
}

}  // namespace

HParams read_hparams(const gguf::File& file, const Metadata& metadata, LayerMix mix) {
  HParams h;
  h.architecture = metadata.architecture();
  h.n_layers = metadata.require_int("block_count", 1, kMaxLayers);
  h.n_embd = metadata.require_int("embedding_length", 1, kMaxWidth);
  h.n_ctx_train = read_length(file, metadata, h.notes);
  read_widths(file, metadata, mix, h);
  if (mix == LayerMix::kRecurrent) {
    h.layers.assign(static_cast<std::size_t>(h.n_layers), LayerKind::kRecurrent);
  } else {
    read_attention(metadata, mix, h);
  }
  h.norm_eps = metadata.get_float("attention.layer_norm_rms_epsilon", 0.0, 1.0,
                                  metadata.get_float("attention.layer_norm_epsilon", 0.0, 1.0, -1.0f));
  if (h.norm_eps < 0.0f) metadata.refuse("attention.layer_norm_rms_epsilon", "missing, expected 0 to 1");

  h.n_experts = metadata.get_int("expert_count", 0, kMaxExperts, 0);
  if (h.n_experts > 0) {
    // Layers without experts have 0.
    h.n_experts_used_of = metadata.get_per_layer("expert_used_count", h.n_layers, 0, h.n_experts, 0);
    h.n_experts_used = most_of(h.n_experts_used_of);
    if (h.n_experts_used == 0) metadata.refuse("expert_used_count", "missing or 0, expected at least 1");
    read_expert_widths(file, metadata, h);
    h.n_ff_shared = metadata.get_int("expert_shared_feed_forward_length", 0, kMaxFfWidth, 0);
  } else if (const int used = metadata.get_int("expert_used_count", 0, kMaxExperts, 0); used != 0) {
    h.notes.push_back(
        metadata.about("expert_used_count",
                       "found " + std::to_string(used) + ", but expert_count is 0; there are no experts"));
  }
  h.logit_softcap = metadata.get_float("final_logit_softcapping", 0.0, 1e6, 0.0f);

  const gguf::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) throw Error(ErrorCode::kInvalidFile, "tensor token_embd.weight is missing");
  std::span<const std::int64_t> table = embedding->shape;
  while (table.size() > 2 && table.front() == 1) table = table.subspan(1);
  if (table.size() != 2 || table[0] > kMaxVocabulary)
    throw Error(ErrorCode::kInvalidFile, "tensor token_embd.weight must be a matrix of at most 2^24 rows");
  h.n_vocab = static_cast<int>(table[0]);
  // Files state it with or without the rows that fill the matrix up.
  if (const int stated = metadata.get_int("vocab_size", 0, kMaxVocabulary, h.n_vocab); stated != h.n_vocab)
    h.notes.push_back(
        metadata.about("vocab_size", "found " + std::to_string(stated) + ", tensor token_embd.weight has " +
                                         std::to_string(h.n_vocab) + " rows; weft uses the rows"));
  return h;
}

}  // namespace weft::model
