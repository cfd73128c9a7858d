#include "convert/metadata.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "base/to_size.h"
#include "convert/refuse.h"
#include "convert/taken_for_granted.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

enum class FieldKind { kRequired, kInt, kFloat, kBool };

/// A key of GGUF, and what configurations call it.
struct Key {
  const char* key;
  FieldKind kind;
  Names names;
};

const std::vector<Key> kKeys = {
    {"context_length", FieldKind::kRequired, {"max_position_embeddings"}},
    {"embedding_length", FieldKind::kRequired, {"hidden_size"}},
    {"block_count", FieldKind::kRequired, {"num_hidden_layers"}},
    {"attention.clamp_kqv", FieldKind::kFloat, {"clip_qkv"}},
    {"use_parallel_residual", FieldKind::kBool, {"use_parallel_residual"}},
    {"swin_norm", FieldKind::kBool, {"swin_norm"}},
    {"attn_logit_softcapping", FieldKind::kFloat, {"attn_logit_softcapping"}},
    {"final_logit_softcapping", FieldKind::kFloat, {"final_logit_softcapping"}},
    {"residual_scale", FieldKind::kFloat, {"residual_multiplier"}},
    {"attention.scale", FieldKind::kFloat, {"attention_multiplier"}},
    {"attention.value_scale", FieldKind::kFloat, {"attention_value_scale"}},
    {"attention.max_alibi_bias", FieldKind::kFloat, {"alibi_bias_max"}},
    {"attention.q_lora_rank", FieldKind::kInt, {"q_lora_rank"}},
    {"attention.kv_lora_rank", FieldKind::kInt, {"kv_lora_rank"}},
    {"attention.shared_kv_layers", FieldKind::kInt, {"num_kv_shared_layers"}},
    {"attention.temperature_length", FieldKind::kInt, {"floor_scale"}},
    {"attention.temperature_scale", FieldKind::kFloat, {"attn_scale"}},
    {"logit_scale", FieldKind::kFloat, {"logits_scaling", "logit_scale"}},
    {"embedding_length_per_layer_input", FieldKind::kInt, {"hidden_size_per_layer_input"}},
    {"altup.num_inputs", FieldKind::kInt, {"altup_num_inputs"}},
    {"altup.active_idx", FieldKind::kInt, {"altup_active_idx"}},
    {"shortconv.l_cache", FieldKind::kInt, {"conv_L_cache"}},
    {"kda.head_dim", FieldKind::kInt, {"linear_head_dim"}},
    {"ssm.conv_kernel", FieldKind::kInt, {"conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim"}},
    {"ssm.state_size",
     FieldKind::kInt,
     {"state_size", "mamba_d_state", "ssm_state_size", "linear_key_head_dim"}},
    {"ssm.time_step_rank",
     FieldKind::kInt,
     {"mamba_num_heads", "mamba_n_heads", "linear_num_value_heads", "mamba_dt_rank", "time_step_rank"}},
    {"ssm.group_count", FieldKind::kInt, {"mamba_n_groups", "n_groups", "linear_num_key_heads"}},
};

// Keys of models with experts.
const std::vector<Key> kExpertKeys = {
    {"expert_count",
     FieldKind::kInt,
     {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}},
    {"expert_used_count",
     FieldKind::kInt,
     {"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "moe_top_k", "top_k_experts"}},
    {"expert_shared_count",
     FieldKind::kInt,
     {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}},
    {"expert_weights_scale", FieldKind::kFloat, {"routed_scaling_factor", "route_scale"}},
    {"expert_weights_norm", FieldKind::kBool, {"norm_topk_prob"}},
    {"expert_group_count", FieldKind::kInt, {"n_group"}},
    {"expert_group_used_count", FieldKind::kInt, {"topk_group"}},
    {"leading_dense_block_count",
     FieldKind::kInt,
     {"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"}},
    {"interleave_moe_layer_step", FieldKind::kInt, {"interleave_moe_layer_step", "moe_layer_interval"}},
    {"moe_latent_size", FieldKind::kInt, {"moe_latent_size"}},
};

std::uint32_t u32(std::int64_t number) { return static_cast<std::uint32_t>(number); }

class Keys {
 public:
  Keys(const Config& config, const Family& family, const std::vector<OutTensor>& tensors, GgufWriter& file)
      : config_(config), family_(family), file_(file) {
    for (const OutTensor& tensor : tensors) tensors_[tensor.name] = &tensor;
  }

  void set(const std::string& key, const GgufValue& value) {
    file_.set(std::string(family_.architecture) + "." + key, value);
  }

  void add_table(const std::vector<Key>& table) {
    for (const auto& [key, kind, names] : table) {
      if (kind == FieldKind::kRequired) {
        set(key, u32(config_.require_int(names)));
      } else if (kind == FieldKind::kInt) {
        if (const auto value = config_.get_int(names)) set(key, u32(*value));
      } else if (kind == FieldKind::kFloat) {
        if (const auto value = config_.get_float(names)) set(key, static_cast<float>(*value));
      } else if (config_.find(names) != nullptr) {
        set(key, config_.get_bool(names.front(), false));
      }
    }
  }

  void add_all() {
    check_taken_for_granted(config_, family_);
    add_table(kKeys);
    const auto rms = config_.get_float({"rms_norm_eps"});
    const auto mean = config_.get_float({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"});
    if (rms || (has(kRmsNorms) && mean))
      set("attention.layer_norm_rms_epsilon", static_cast<float>(rms ? *rms : *mean));
    else if (mean)
      set("attention.layer_norm_epsilon", static_cast<float>(*mean));
    if (const auto scale = config_.get_float({"embedding_multiplier"}); scale && !has(kMultipliers))
      set("embedding_scale", static_cast<float>(*scale));
    // MiniCPM 3.
    if (const auto scale = config_.get_float({"scale_emb"}))
      set("embedding_scale", static_cast<float>(*scale));
    if (const auto scale = config_.get_float({"scale_depth"}))
      set("residual_scale", static_cast<float>(*scale / std::sqrt(static_cast<double>(n_layers()))));
    if (const auto base = config_.get_float({"dim_model_base"}); base && *base > 0.0)
      set("logit_scale",
          static_cast<float>(static_cast<double>(config_.require_int({"hidden_size"})) / *base));
    add_sizes();
    add_experts();
    add_attention();
    add_recurrent();
    if (const Json* const shares = config_.find({"activation_sparsity_pattern"})) add_sparsity(*shares);
  }

  void add_sizes() {
    const std::int64_t width = config_.require_int({"hidden_size"});
    constexpr std::int64_t kUsualFactor = 4;  // For models whose configuration lacks the width.
    if (has(kFfOfTensors)) {
      std::vector<std::int32_t> widths;
      for (std::int64_t layer = 0; layer < n_layers(); ++layer) {
        const OutTensor* tensor = of_layer(layer, "ffn_down.weight");
        if (tensor == nullptr) tensor = of_layer(layer, "ffn_down_exps.weight");
        widths.push_back(tensor == nullptr ? 0 : static_cast<std::int32_t>(tensor->shape.back()));
      }
      set_per_layer("feed_forward_length", widths);
    } else {
      const Names names = {"intermediate_size_mlp", "ffn_hidden_size", "n_inner", "intermediate_size"};
      set("feed_forward_length",
          u32(has(kNoAttention) ? 0 : config_.get_int(names).value_or(kUsualFactor * width)));
    }
    set("vocab_size", u32(config_.require_int({"vocab_size"})));
  }

  void add_experts() {
    const OutTensor* const experts = of_any_layer("ffn_down_exps.weight");
    if (experts == nullptr) return;
    add_table(kExpertKeys);
    add_dense_layers();
    set("expert_feed_forward_length", u32(experts->shape.back()));
    if (const OutTensor* const shared = of_any_layer("ffn_down_shexp.weight"))
      set("expert_shared_feed_forward_length", u32(shared->shape.back()));
    if (has(kSigmoidRouter) || has(kLatent)) set("expert_gating_func", u32(has(kSigmoidRouter) ? 2 : 1));
  }

  /// The number of leading dense layers, from a list of layer types.
  void add_dense_layers() {
    const Json* const types = config_.find({"mlp_layer_types"});
    if (types == nullptr || !types->is_array()) return;
    const auto dense = [](const Json& type) { return type == "dense"; };
    const auto first = std::find_if_not(types->begin(), types->end(), dense);
    if (std::any_of(first, types->end(), dense))
      refuse_config("mlp_layer_types has dense layers after sparse ones, which weft does not support");
    set("leading_dense_block_count", u32(first - types->begin()));
  }

  void add_attention() {
    const std::int64_t n_heads = has(kNoAttention) ? 0 : config_.require_int({"num_attention_heads"});
    set("attention.head_count", u32(n_heads));
    std::int64_t n_kv = config_.get_int({"num_key_value_heads", "num_kv_heads"}).value_or(n_heads);
    if (has(kQkvByGroups) && !config_.get_bool("new_decoder_architecture", false))
      n_kv = config_.get_bool("multi_query", true) ? 1 : n_heads;
    if (has(kNoAttention)) n_kv = 0;
    if (has(kOfOneKey)) n_kv = config_.get_bool("multi_query", true) ? 1 : n_heads;
    if (has(kTwoHeadSizes)) {
      add_two_head_sizes();
    } else if (has(kHybrid)) {
      std::vector<std::int32_t> heads;
      for (std::int64_t layer = 0; layer < n_layers(); ++layer) {
        const OutTensor* const k = of_layer(layer, has(kLatent) ? "attn_kv_a_mqa.weight" : "attn_k.weight");
        heads.push_back(static_cast<std::int32_t>(k == nullptr   ? 0
                                                  : has(kLatent) ? 1
                                                                 : k->shape.front() / config_.head_dim()));
      }
      set_per_layer("attention.head_count_kv", heads);
    } else {
      set("attention.head_count_kv", u32(has(kLatent) ? 1 : n_kv));
    }
    if (const auto rank = config_.get_int({"kv_lora_rank"})) {
      const std::int64_t turned = config_.require_int({"qk_rope_head_dim"});
      const std::int64_t key = config_.require_int({"qk_nope_head_dim"}) + turned;
      const std::int64_t value = config_.require_int({"v_head_dim"});
      set("attention.key_length", u32(has(kLatent) ? *rank + turned : key));
      set("attention.value_length", u32(has(kLatent) ? *rank : value));
      if (has(kLatent)) {
        set("attention.key_length_mla", u32(key));
        set("attention.value_length_mla", u32(value));
      }
    } else if (config_.find({"head_dim"}) != nullptr && !has(kTwoHeadSizes)) {
      set("attention.key_length", u32(config_.head_dim()));
      set("attention.value_length", u32(config_.get_int({"v_head_dim"}).value_or(config_.head_dim())));
    }
    if (const auto scalar = config_.get_float({"query_pre_attn_scalar"}); scalar && *scalar > 0.0)
      set("attention.scale", static_cast<float>(1.0 / std::sqrt(*scalar)));
    if (has(kSliding)) add_window();
    if (const auto chunk = config_.get_int({"attention_chunk_size"}); chunk && !has(kSliding)) {
      set("attention.sliding_window", u32(*chunk));
      if (const std::vector<bool> chunked = layers_of("chunked_attention"); !chunked.empty())
        set("attention.sliding_window_pattern", chunked);
      if (const Json* const tuned = config_.find({"attn_temperature_tuning"});
          tuned != nullptr && (*tuned == false || *tuned == 0))
        set("attention.temperature_scale", 0.0f);
    }
  }

  /// The sizes of heads that slide and of others, which their norms have; of K's and V's heads how many.
  void add_two_head_sizes() {
    const std::vector<bool> slides = layers_of("sliding_attention");
    if (slides.empty()) refuse_config("layer_types is missing");
    std::array<std::int64_t, 2> dims{}, heads{};  // 0: full-attention layers, 1: sliding-window layers.
    std::vector<std::int32_t> n_kv;
    for (std::int64_t layer = 0; layer < n_layers(); ++layer) {
      const auto kind = to_size(slides[to_size(layer)] ? 1 : 0);
      const OutTensor* const norm = of_layer(layer, "attn_q_norm.weight");
      if (norm == nullptr) refuse_tensor("blk." + std::to_string(layer) + ".attn_q_norm", "is missing");
      const std::int64_t dim = norm->shape.front();
      if (dims[kind] != 0 && dims[kind] != dim)
        refuse_config("attention heads differ in size between layers of the same type");
      dims[kind] = dim;
      // Layers without keys of their own use the keys of the last layer of their kind.
      if (const OutTensor* const k = of_layer(layer, "attn_k.weight")) heads[kind] = k->shape.front() / dim;
      n_kv.push_back(static_cast<std::int32_t>(heads[kind]));
    }
    if (dims[0] == 0) refuse_config("layer_types has no full_attention");
    if (dims[1] == 0) dims[1] = dims[0];
    set_per_layer("attention.head_count_kv", n_kv);
    set("rope.dimension_count", u32(dims[0]));
    set("rope.dimension_count_swa", u32(dims[1]));
    for (const char* const part : {"key", "value"}) {
      set("attention." + std::string(part) + "_length", u32(dims[0]));
      set("attention." + std::string(part) + "_length_swa", u32(dims[1]));
    }
  }

  void add_recurrent() {
    const auto product = [&](const char* a, const char* b) {
      const auto first = config_.get_int({a}), second = config_.get_int({b});
      return first && second ? *first * *second : 0;
    };
    // The inner width of recurrent layers, by the fields of the classes.
    std::int64_t inner = config_.get_int({"mamba_d_ssm"}).value_or(0);
    if (inner == 0) inner = product("mamba_num_heads", "mamba_head_dim");
    if (inner == 0) inner = product("mamba_n_heads", "mamba_d_head");
    if (inner == 0) inner = product("linear_num_value_heads", "linear_value_head_dim");
    if (inner == 0) inner = product("mamba_expand", "hidden_size");
    if (inner == 0 && has(kNoAttention)) inner = product("expand", "hidden_size");
    if (inner > 0) set("ssm.inner_size", u32(inner));
    if (config_.find({"mixer_rms_eps"}) != nullptr) set("ssm.dt_b_c_rms", true);  // Falcon-Mamba.
    if (!has(kDeltaByGroups) && !has(kDeltaTiled)) return;
    std::vector<bool> recurrent;
    for (std::int64_t layer = 0; layer < n_layers(); ++layer)
      recurrent.push_back(of_layer(layer, "ssm_a") != nullptr);
    set("attention.recurrent_layers", recurrent);
  }

  void add_rope() {
    const std::int64_t dim = config_.rope_dim();
    if (!has(kTwoHeadSizes)) set("rope.dimension_count", u32(dim));
    const double base =
        config_.get_float({"rope_theta", "rotary_emb_base", "global_rope_theta"}).value_or(10000.0);
    set("rope.freq_base", static_cast<float>(config_.rope_float("rope_theta", base)));
    const std::string kind = config_.rope_type();
    // Hunyuan calls it dynamic, but it is one larger base for every sequence length.
    if (const double alpha = config_.rope_float("alpha", 0.0); kind == "dynamic" && alpha > 0.0 && dim > 2)
      set("rope.freq_base",
          static_cast<float>(config_.rope_float("rope_theta", base) *
                             std::pow(alpha, static_cast<double>(dim) / static_cast<double>(dim - 2))));
    // Files declare the absence of rope this way.
    if (!config_.turns()) set("rope.scaling.finetuned", false);
    if (kind == "linear" || kind == "yarn") {
      set("rope.scaling.type", kind);
      set("rope.scaling.factor", static_cast<float>(config_.rope_float("factor", 1.0)));
    }
    const std::int64_t n_trained = config_.require_int({"max_position_embeddings"});
    if (kind == "yarn") {
      const double n_original =
          config_.rope_float("original_max_position_embeddings", static_cast<double>(n_trained));
      if (!(n_original >= 1.0 && n_original < 1e9))
        refuse_config("original_max_position_embeddings is not above 0");
      set("rope.scaling.original_context_length", u32(static_cast<std::int64_t>(n_original)));
      const auto copy = [&](const char* from, const char* to, double factor) {
        if (find(config_.rope(), from) != nullptr)
          set(to, static_cast<float>(factor * config_.rope_float(from, 0.0)));
      };
      copy("beta_fast", "rope.scaling.yarn_beta_fast", 1.0);
      copy("beta_slow", "rope.scaling.yarn_beta_slow", 1.0);
      constexpr double kOfLatent = 0.1;  // Its files have the factor of the logarithm, too.
      copy("mscale_all_dim", "rope.scaling.yarn_log_multiplier", has(kLatent) ? kOfLatent : 1.0);
      copy("llama_4_scaling_beta", "attention.temperature_scale", 1.0);
      if (has(kLatent) && find(config_.rope(), "llama_4_scaling_beta") != nullptr)
        set("attention.temperature_length", u32(static_cast<std::int64_t>(n_original)));
      add_yarn_magnitude();
    }
    if (kind == "longrope" || kind == "su") add_long_rope(static_cast<double>(n_trained));
    // "dynamic" changes nothing up to the trained length, and "llama3" becomes a tensor.
    if (kind != "linear" && kind != "yarn" && kind != "longrope" && kind != "su" && kind != "default" &&
        kind != "dynamic" && kind != "llama3" && !(kind == "proportional" && has(kTwoHeadSizes)))
      throw Error(ErrorCode::kUnsupported,
                  "config.json: rope_type '" + kind.substr(0, 40) +
                      "' is unknown; known are linear, yarn, longrope, llama3, dynamic and default");
  }

  /// The factor that YaRN multiplies rotated values with. GGUF stores it relative to the usual factor, which
  /// grows with the logarithm of the lengths' ratio. Latent attention has no usual factor.
  void add_yarn_magnitude() {
    const double usual = 1.0 + 0.1 * std::log(std::max(1.0, config_.rope_float("factor", 1.0)));
    const auto grown = [&](double by) { return 1.0 + by * (usual - 1.0); };
    const double by = config_.rope_float("mscale", 0.0), all = config_.rope_float("mscale_all_dim", 0.0);
    const double inferred = by > 0.0 && all > 0.0 ? grown(by) / grown(all) : usual;
    const double wanted = config_.rope_float("attention_factor", inferred);
    const double base = has(kLatent) ? 1.0 : usual;
    // The value without the key. Ministral 3's corresponds to a mscale of 1.
    const double without = family_.architecture == "mistral3" && all > 0.0 ? usual / grown(all) : base;
    constexpr double kDigits = 1e-6;
    if (std::abs(wanted - without) > kDigits || find(config_.rope(), "attention_factor") != nullptr)
      set("rope.scaling.attn_factor", static_cast<float>(wanted / base));
  }

  /// T5: the sizes of the encoder and the decoder.
  void add_sides() {
    set("attention.relative_buckets_count", u32(config_.require_int({"relative_attention_num_buckets"})));
    set("attention.key_length", u32(config_.require_int({"d_kv"})));
    set("attention.value_length", u32(config_.require_int({"d_kv"})));
    const double eps = config_.get_float({"layer_norm_epsilon"}).value_or(1e-6);
    set("attention.layer_norm_rms_epsilon", static_cast<float>(eps));
    set("decoder_start_token_id", u32(config_.get_int({"decoder_start_token_id"}).value_or(0)));
    if (const auto n = config_.get_int({"num_decoder_layers"}); n && !has(kEncoder))
      set("decoder_block_count", u32(*n));
  }

  /// Numbers that each layer has learned, which weights have.
  void add_curve(const FolderWeights& weights) {
    for (const char* part : {"alpha_p", "alpha_n", "beta", "eps"}) {
      std::vector<float> values;
      for (std::int64_t layer = 0; layer < n_layers(); ++layer) {
        const std::string name = "model.layers." + std::to_string(layer) + ".mlp.act_fn." + part;
        const auto found = weights.all().find(name);
        if (found == weights.all().end() || found->second.n_elements() != 1 || !found->second.dtype)
          refuse_tensor(name, "is missing, or is not a single number");
        std::vector<std::byte> bytes(row_bytes(*found->second.dtype, 1));
        found->second.read(0, bytes);
        float value = 0.0f;
        unpack_row(*found->second.dtype, bytes.data(), {&value, 1});
        values.push_back(value);
      }
      file_.set("xielu." + std::string(part), values);
      set("xielu." + std::string(part), values);
    }
  }

  /// The number of a head's elements that rotate by time, by line and by column.
  void add_sections() {
    const Json* const list = find(config_.rope(), "mrope_section");
    if (list == nullptr || !list->is_array() || list->size() > 4)
      refuse_config("rope_parameters has no list mrope_section");
    std::vector<std::int32_t> sections;
    for (const Json& section : *list) {
      if (!section.is_number_unsigned() || section > 1 << 16)
        refuse_config("mrope_section is not a list of integers");
      sections.push_back(section.get<std::int32_t>());
    }
    sections.resize(4);
    set("rope.dimension_sections", sections);
    // Layers that get rows of the encoder's earlier layers, too.
    const Json* const vision = config_.find({"vision_config"});
    const Json* const taps = vision == nullptr ? nullptr : find(*vision, "deepstack_visual_indexes");
    if (taps != nullptr && taps->is_array())
      set("n_deepstack_layers", u32(static_cast<std::int64_t>(taps->size())));
  }

  void add_encoder(const Modules& modules) {
    constexpr std::uint32_t kMean = 1, kCls = 2, kRank = 4;
    set("attention.causal", false);
    const bool classifies = family_.name.ends_with("ForSequenceClassification");
    set("pooling_type", classifies ? kRank : modules.pooling.value_or(kMean));
    if (classifies) {
      const Json* const way = config_.find({"classifier_pooling"});  // ModernBERT.
      set("classifier.pooling_type", way != nullptr && *way == "mean" ? kMean : kCls);
    }
    if (const Json* const labels = config_.find({"id2label"});
        classifies && labels != nullptr && labels->is_object()) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < labels->size(); ++i)
        names.push_back(find_text(*labels, std::to_string(i).c_str()).value_or(""));
      set("classifier.output_labels", names);
    }
    if (has(kOffsetPositions))
      set("context_length",
          u32(std::max<std::int64_t>(1, config_.require_int({"max_position_embeddings"}) -
                                            config_.get_int({"pad_token_id"}).value_or(1) - 1)));
    if (const auto window = config_.get_int({"local_attention"})) {  // ModernBERT.
      set("attention.sliding_window", u32(*window));
      set("attention.sliding_window_pattern", u32(config_.require_int({"global_attn_every_n_layers"})));
      auto local = config_.get_float({"local_rope_theta"});
      if (const Json* const rope = config_.find({"rope_parameters"}))
        if (const Json* const part = find(*rope, "sliding_attention"))
          if (const Json* const theta = find(*part, "rope_theta"); theta != nullptr && theta->is_number())
            local = theta->get<double>();
      set("rope.freq_base_swa", static_cast<float>(local.value_or(10000.0)));
    }
  }

 private:
  void add_window() {
    const auto window = config_.get_int({"sliding_window"});
    if (!window) return;
    set("attention.sliding_window", u32(*window));
    auto base = config_.get_float({"rope_local_base_freq", "swa_rope_theta"});
    if (const Json* const rope = config_.find({"rope_parameters"}))
      if (const Json* const local = find(*rope, "sliding_attention"))
        if (const Json* const theta = find(*local, "rope_theta"); theta != nullptr && theta->is_number())
          base = theta->get<double>();
    if (base) set("rope.freq_base_swa", static_cast<float>(*base));
    const std::vector<bool> slides = layers_of("sliding_attention");
    if (slides.empty()) return;
    // For encoders, other readers accept only a period N: the last of every N layers has full attention.
    const auto every = to_size(std::find(slides.begin(), slides.end(), false) - slides.begin()) + 1;
    bool even = has(kEncoder) && every <= slides.size();
    for (std::size_t i = 0; i < slides.size(); ++i) even = even && slides[i] == ((i + 1) % every != 0);
    if (even)
      set("attention.sliding_window_pattern", static_cast<std::uint32_t>(every));
    else
      set("attention.sliding_window_pattern", slides);
  }

  /// Empty where the configuration does not list them.
  std::vector<bool> layers_of(const char* wanted) const {
    const Json* const types = config_.find({"layer_types"});
    if (types == nullptr) return {};
    std::vector<bool> slides;
    if (types->is_array())
      for (const Json& type : *types) slides.push_back(type == wanted);
    if (slides.size() != to_size(n_layers()))
      refuse_config("layer_types is not a list with a string for each layer");
    return slides;
  }

  void add_long_rope(double n_trained) {
    const double n_original = config_.rope_float(
        "original_max_position_embeddings",
        static_cast<double>(config_.get_int({"original_max_position_embeddings"}).value_or(0)));
    if (!(n_original > 1.0 && n_original < 1e9)) refuse_config("original_max_position_embeddings is missing");
    const double scale = config_.rope_float("factor", n_trained / n_original);
    set("rope.scaling.original_context_length", u32(static_cast<std::int64_t>(n_original)));
    set("rope.scaling.type", std::string("longrope"));
    const double factor = config_.rope_float("short_mscale", config_.rope_float("attention_factor", 0.0));
    set("rope.scaling.attn_factor",
        static_cast<float>(factor > 0.0   ? factor
                           : scale <= 1.0 ? 1.0
                                          : std::sqrt(1.0 + std::log(scale) / std::log(n_original))));
  }

  /// Writes each share as the quantile of the normal distribution below which it lies.
  void add_sparsity(const Json& shares) {
    if (!shares.is_array()) return;  // One share is for models that have none.
    std::vector<float> scales;
    for (const Json& share : shares) {
      const double wanted = share.is_number() ? share.get<double>() : -1.0;
      if (!(wanted >= 0.0 && wanted < 1.0))
        refuse_config("activation_sparsity_pattern is not a list of fractions below 1");
      double low = -40.0, high = 40.0;
      for (int i = 0; i < 100; ++i) {
        const double middle = 0.5 * (low + high);
        (0.5 * std::erfc(-middle / std::numbers::sqrt2) < wanted ? low : high) = middle;
      }
      scales.push_back(wanted == 0.0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(low));
    }
    set("activation_sparsity_scale", scales);
  }

  bool has(unsigned trait) const { return (family_.traits & trait) != 0; }
  std::int64_t n_layers() const { return config_.require_int({"num_hidden_layers"}); }

  const OutTensor* of_layer(std::int64_t layer, const char* name) const {
    const auto found = tensors_.find("blk." + std::to_string(layer) + "." + name);
    return found == tensors_.end() ? nullptr : found->second;
  }

  const OutTensor* of_any_layer(const char* name) const {
    for (std::int64_t layer = 0; layer < n_layers(); ++layer)
      if (const OutTensor* const tensor = of_layer(layer, name)) return tensor;
    return nullptr;
  }

  /// One number where all layers have the same.
  void set_per_layer(const std::string& key, const std::vector<std::int32_t>& numbers) {
    if (std::all_of(numbers.begin(), numbers.end(), [&](std::int32_t n) { return n == numbers.front(); }))
      set(key, u32(numbers.front()));
    else
      set(key, numbers);
  }

  const Config& config_;
  const Family& family_;
  GgufWriter& file_;
  std::map<std::string, const OutTensor*> tensors_;
};

}  // namespace

void add_metadata(const Modules& modules, const Config& config, const Family& family,
                  const FolderWeights& weights, const std::vector<OutTensor>& tensors, GgufWriter& file) {
  Keys keys(config, family, tensors, file);
  keys.add_all();
  if ((family.traits & kEncoder) != 0)
    keys.add_encoder(modules);
  else if (modules.pooling)
    keys.set("pooling_type", *modules.pooling);
  for (const OutTensor& tensor : tensors)
    if (tensor.name.starts_with("dense_")) {
      const std::string name = tensor.name.substr(0, tensor.name.find('.'));
      keys.set(name + "_feat_in", u32(tensor.shape.back()));
      keys.set(name + "_feat_out", u32(tensor.shape.front()));
    }
  const bool has_positions = std::any_of(tensors.begin(), tensors.end(), [](const OutTensor& tensor) {
    return tensor.name == "position_embd.weight";
  });
  const bool encodes_places = (family.traits & kEncoder) != 0 && has_positions;
  if ((family.traits & (kNoAttention | kBothSides)) == 0 && !encodes_places) keys.add_rope();
  if ((family.traits & kBothSides) != 0) keys.add_sides();
  if ((family.traits & kSections) != 0) keys.add_sections();
  if ((family.traits & kLearnedCurve) != 0) keys.add_curve(weights);
}

}  // namespace weft::convert_impl
