#include "convert/metadata.h"

#include <cmath>
#include <string>
#include <vector>

#include "weft/error.h"

namespace weft::convert_impl {
namespace {

enum class Kind { kRequired, kInt, kFloat, kBool };

/// A key of GGUF, and what configurations call it.
struct Key {
  const char* key;
  Kind kind;
  Names names;
};

const std::vector<Key> kKeys = {
    {"context_length", Kind::kRequired, {"max_position_embeddings"}},
    {"embedding_length", Kind::kRequired, {"hidden_size"}},
    {"block_count", Kind::kRequired, {"num_hidden_layers"}},
    {"attention.head_count", Kind::kRequired, {"num_attention_heads"}},
    {"attention.layer_norm_rms_epsilon", Kind::kFloat, {"rms_norm_eps"}},
    {"attention.layer_norm_epsilon",
     Kind::kFloat,
     {"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}},
    {"attention.clamp_kqv", Kind::kFloat, {"clip_qkv"}},
    {"use_parallel_residual", Kind::kBool, {"use_parallel_residual"}},
    {"attn_logit_softcapping", Kind::kFloat, {"attn_logit_softcapping"}},
    {"final_logit_softcapping", Kind::kFloat, {"final_logit_softcapping"}},
    {"embedding_scale", Kind::kFloat, {"embedding_multiplier"}},
    {"residual_scale", Kind::kFloat, {"residual_multiplier"}},
    {"attention.scale", Kind::kFloat, {"attention_multiplier"}},
    {"logit_scale", Kind::kFloat, {"logits_scaling", "logit_scale"}},
    {"expert_count", Kind::kInt, {"num_local_experts", "num_experts", "n_routed_experts"}},
    {"expert_used_count", Kind::kInt, {"num_experts_per_tok"}},
    {"expert_shared_count", Kind::kInt, {"n_shared_experts"}},
    {"expert_feed_forward_length", Kind::kInt, {"moe_intermediate_size"}},
    {"expert_shared_feed_forward_length", Kind::kInt, {"shared_expert_intermediate_size"}},
    {"expert_weights_scale", Kind::kFloat, {"routed_scaling_factor"}},
    {"expert_weights_norm", Kind::kBool, {"norm_topk_prob"}},
    {"expert_group_count", Kind::kInt, {"n_group"}},
    {"expert_group_used_count", Kind::kInt, {"topk_group"}},
    {"leading_dense_block_count", Kind::kInt, {"first_k_dense_replace"}},
};

std::uint32_t u32(std::int64_t number) { return static_cast<std::uint32_t>(number); }

class Keys {
 public:
  Keys(const Config& config, const Family& family, GgufWriter& file)
      : config_(config), family_(family), file_(file) {}

  void set(const std::string& key, const GgufValue& value) {
    file_.set(std::string(family_.architecture) + "." + key, value);
  }

  void add_table() {
    for (const auto& [key, kind, names] : kKeys) {
      if (kind == Kind::kRequired) {
        set(key, u32(config_.require_int(names)));
      } else if (kind == Kind::kInt) {
        if (const auto value = config_.get_int(names)) set(key, u32(*value));
      } else if (kind == Kind::kFloat) {
        if (const auto value = config_.get_float(names)) set(key, static_cast<float>(*value));
      } else if (config_.find(names) != nullptr) {
        set(key, config_.get_bool(names.front(), false));
      }
    }
  }

  void add_sizes() {
    const std::int64_t width = config_.require_int({"hidden_size"});
    constexpr std::int64_t kUsualFactor = 4;  // Of models whose configuration does not say.
    set("feed_forward_length",
        u32(config_.get_int({"ffn_hidden_size", "intermediate_size"}).value_or(kUsualFactor * width)));
    set("vocab_size", u32(config_.require_int({"vocab_size"})));
  }

  void add_attention() {
    const std::int64_t n_heads = config_.require_int({"num_attention_heads"});
    std::int64_t n_kv = config_.get_int({"num_key_value_heads", "num_kv_heads"}).value_or(n_heads);
    if ((family_.traits & kQkvByGroups) != 0 && !config_.get_bool("new_decoder_architecture", false))
      n_kv = config_.get_bool("multi_query", true) ? 1 : n_heads;
    set("attention.head_count_kv", u32(n_kv));
    if (config_.find({"head_dim"}) != nullptr) {
      set("attention.key_length", u32(config_.head_dim()));
      set("attention.value_length", u32(config_.head_dim()));
    }
    if ((family_.traits & kSigmoidRouter) != 0) set("expert_gating_func", std::uint32_t{2});
    if ((family_.traits & kSliding) != 0) add_window();
  }

  void add_rope() {
    double part = config_.get_float({"partial_rotary_factor", "rotary_pct"}).value_or(1.0);
    part = config_.rope_float("partial_rotary_factor", part);
    if (!(part > 0.0 && part <= 1.0)) refuse("partial_rotary_factor is not above 0 and at most 1");
    const std::int64_t dim =
        config_.get_int({"rotary_dim"})
            .value_or(static_cast<std::int64_t>(part * static_cast<double>(config_.head_dim())));
    set("rope.dimension_count", u32(dim));
    const double base = config_.get_float({"rope_theta", "rotary_emb_base"}).value_or(10000.0);
    set("rope.freq_base", static_cast<float>(config_.rope_float("rope_theta", base)));
    const std::string kind = find_text(config_.rope(), "rope_type")
                                 .value_or(find_text(config_.rope(), "type").value_or("default"));
    if (kind == "linear" || kind == "yarn") {
      set("rope.scaling.type", kind);
      set("rope.scaling.factor", static_cast<float>(config_.rope_float("factor", 1.0)));
    }
    const std::int64_t n_trained = config_.require_int({"max_position_embeddings"});
    if (kind == "yarn")
      set("rope.scaling.original_context_length",
          u32(static_cast<std::int64_t>(
              config_.rope_float("original_max_position_embeddings", static_cast<double>(n_trained)))));
    if (kind == "longrope" || kind == "su") add_long_rope(static_cast<double>(n_trained));
    // What turns by less than the trained positions is as it was ("dynamic"), or a tensor ("llama3").
    if (kind != "linear" && kind != "yarn" && kind != "longrope" && kind != "su" && kind != "default" &&
        kind != "dynamic" && kind != "llama3")
      throw Error(ErrorCode::kUnsupported, "config.json: the scaling '" + kind.substr(0, 40) +
                                               "' of rope is unknown; known are linear, yarn, longrope, "
                                               "llama3, dynamic and default");
  }

  void add_encoder(const std::filesystem::path& folder) {
    const Json modes = read_json_if_there(folder / "1_Pooling" / "config.json");
    const auto on = [&](const char* name) {
      const Json* const value = find(modes, name);
      return value != nullptr && value->is_boolean() && value->get<bool>();
    };
    constexpr std::uint32_t kMean = 1, kCls = 2, kLast = 3;
    set("attention.causal", false);
    set("pooling_type", on("pooling_mode_cls_token") ? kCls : on("pooling_mode_lasttoken") ? kLast : kMean);
  }

 private:
  [[noreturn]] static void refuse(const std::string& reason) {
    throw Error(ErrorCode::kInvalidFile, "config.json: " + reason);
  }

  void add_window() {
    const auto window = config_.get_int({"sliding_window"});
    if (!window) return;
    set("attention.sliding_window", u32(*window));
    if (family_.architecture == "gemma3") {
      double base = config_.get_float({"rope_local_base_freq"}).value_or(10000.0);
      if (const Json* const rope = config_.find({"rope_parameters"}))
        if (const Json* const local = find(*rope, "sliding_attention"))
          if (const Json* const theta = find(*local, "rope_theta"); theta != nullptr && theta->is_number())
            base = theta->get<double>();
      set("rope.freq_base_swa", static_cast<float>(base));
    }
    const Json* const types = config_.find({"layer_types"});
    if (types == nullptr) return;
    std::vector<bool> slides;
    if (types->is_array())
      for (const Json& type : *types) slides.push_back(type == "sliding_attention");
    if (slides.size() != static_cast<std::size_t>(config_.require_int({"num_hidden_layers"})))
      refuse("layer_types is no list with a text for each layer");
    set("attention.sliding_window_pattern", slides);
  }

  void add_long_rope(double n_trained) {
    const double n_original = config_.rope_float(
        "original_max_position_embeddings",
        static_cast<double>(config_.get_int({"original_max_position_embeddings"}).value_or(0)));
    if (!(n_original > 1.0 && n_original < 1e9)) refuse("original_max_position_embeddings is missing");
    const double scale = n_trained / n_original;
    set("rope.scaling.original_context_length", u32(static_cast<std::int64_t>(n_original)));
    set("rope.scaling.attn_factor",
        static_cast<float>(scale <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(scale) / std::log(n_original))));
  }

  const Config& config_;
  const Family& family_;
  GgufWriter& file_;
};

}  // namespace

void add_metadata(const std::filesystem::path& folder, const Config& config, const Family& family,
                  GgufWriter& file) {
  Keys keys(config, family, file);
  keys.add_table();
  keys.add_sizes();
  keys.add_attention();
  (family.traits & kEncoder) != 0 ? keys.add_encoder(folder) : keys.add_rope();
}

}  // namespace weft::convert_impl
