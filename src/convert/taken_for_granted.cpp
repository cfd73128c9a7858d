#include "convert/taken_for_granted.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/to_size.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

/// All approximations of GELU count as GELU: they differ only in the last digits.
struct Activation {
  std::string_view architecture, name;
};
constexpr Activation kActivations[] = {
    {"gemma", "gelu"},        {"gemma2", "gelu"},      {"gemma3", "gelu"},
    {"gemma3n", "gelu"},      {"gemma4", "gelu"},      {"phi2", "gelu"},
    {"gptneox", "gelu"},      {"falcon", "gelu"},      {"starcoder", "gelu"},
    {"starcoder2", "gelu"},   {"gpt2", "gelu"},        {"gptj", "gelu"},
    {"bloom", "gelu"},        {"mpt", "gelu"},         {"codeshell", "gelu"},
    {"nemotron", "relu2"},    {"nemotron_h", "relu2"}, {"nemotron_h_moe", "relu2"},
    {"bert", "gelu"},         {"modern-bert", "gelu"}, {"gemma-embedding", "gelu"},
    {"jina-bert-v3", "gelu"}, {"arcee", "relu2"},      {"bitnet-b1.58", "relu2"},
    {"jais2", "relu2"},       {"apertus", "xielu"}};

/// A field and its required value as JSON. Missing and null fields are accepted. Without an architecture the
/// rule applies to all.
struct Fixed {
  std::string_view architecture;
  const char* field;
  std::string_view value;
};
constexpr Fixed kFixed[] = {
    {"", "mamba_hidden_act", R"("silu")"},
    {"olmoe", "clip_qkv", "null"},
    {"deepseek2", "rope_interleave", "true"},
    {"mistral4", "rope_interleave", "true"},
    {"mistral4", "n_group", "1"},
    {"mimo2", "n_group", "1"},
    {"ernie4_5-moe", "moe_norm_min", "1e-12"},
    {"afmoe", "mup_enabled", "true"},
    {"gpt-oss", "swiglu_alpha", "1.702"},
    {"gpt-oss", "swiglu_limit", "7.0"},
    {"phimoe", "router_jitter_noise", "0.01"},
    {"gemma3n", "altup_correct_scale", "true"},
    {"gemma-embedding", "use_bidirectional_attention", "true"},
    {"falcon", "alibi", "false"},
    {"falcon", "parallel_attn", "true"},
    {"bloom", "apply_residual_connection_post_layernorm", "false"},
    {"mpt", "qk_ln", "false"},
    {"mpt", "softmax_scale", "null"},
    {"gpt2", "scale_attn_weights", "true"},
    {"gpt2", "scale_attn_by_inverse_layer_idx", "false"},
    {"starcoder", "scale_attn_weights", "true"},
    {"t5", "relative_attention_max_distance", "128"},
    {"t5encoder", "relative_attention_max_distance", "128"},
};

[[noreturn]] void refuse(const Family& family, const std::string& field, const std::string& found,
                         const std::string& expected) {
  throw Error(ErrorCode::kUnsupported, "config.json: " + field + " is " + found.substr(0, 60) +
                                           ", but weft supports only " + std::string(family.architecture) +
                                           " models with " + expected);
}

void check_activation(const Config& config, const Family& family) {
  for (const char* field :
       {"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act", "activation"}) {
    // Encoders' last field may name what the feed-forward part is as a whole.
    const bool of_part = (family.traits & kEncoder) != 0 && std::string_view(field).starts_with("activation");
    const Json* const said = config.find({field});
    if (said == nullptr || of_part) continue;
    std::string name = said->is_string() ? said->get<std::string>() : said->dump();
    if (name == "swish") name = "silu";
    std::string_view expected = "silu";
    for (const Activation& other : kActivations)
      if (other.architecture == family.architecture) expected = other.name;
    if (expected == "gelu" ? !name.starts_with(expected) : name != expected)
      refuse(family, field, '"' + name + '"', std::string(expected));
  }
}

/// Rope may have separate settings for sliding-window and full-attention layers.
void check_rope(const Config& config, const Family& family) {
  const bool is = family.architecture == "gpt-oss";
  const Json* const truncate = find(config.rope(), "truncate");
  if (const bool said = truncate == nullptr || *truncate != false; config.rope_type() == "yarn" && said == is)
    refuse(family, "rope's truncate", said ? "true" : "false", is ? "false" : "true");
  if (family.architecture == "minicpm3" && find(config.rope(), "mscale_all_dim") != nullptr)
    refuse(family, "rope's mscale_all_dim", "set", "none");
  const Json* const rope = config.find({"rope_parameters"});
  const Json* const slides = rope == nullptr ? nullptr : find(*rope, "sliding_attention");
  if (slides == nullptr) return;
  if (const std::string type = find_text(*slides, "rope_type").value_or("default"); type != "default")
    refuse(family, "rope_type of sliding_attention", type, "default");
  const bool two_sizes = (family.traits & kTwoHeadSizes) != 0;
  constexpr const char* kPart = "partial_rotary_factor";
  const Json *const part = find(config.rope(), kPart), *const part_of = find(*slides, kPart);
  if (two_sizes ? part_of != nullptr
                : (part == nullptr) != (part_of == nullptr) || (part != nullptr && *part != *part_of))
    refuse(family, "partial_rotary_factor of sliding_attention",
           part_of == nullptr ? "none" : part_of->dump(), two_sizes ? "none" : "that of full_attention");
  // In other models, rope scaling applies to all layers.
  for (const std::string_view of_full : {"olmo2", "gemma3", "gemma-embedding", "mellum"})
    if (of_full == family.architecture) return;
  if (const std::string type = config.rope_type();
      type != "default" && !(two_sizes && type == "proportional"))
    refuse(family, "rope_type of full_attention", type, "default");
}

/// Windows where weft's models have none.
void check_window(const Config& config, const Family& family) {
  if ((family.traits & kSliding) != 0 || config.find({"sliding_window"}) == nullptr) return;
  const Json* const types = config.find({"layer_types"});
  const bool listed = types != nullptr && types->is_array();
  const bool slides = listed && std::find(types->begin(), types->end(), "sliding_attention") != types->end();
  constexpr std::int64_t kUsual = 28;  // Qwen's classes.
  const bool behind =
      !listed && config.get_bool("use_sliding_window", false) &&
      config.get_int({"max_window_layers"}).value_or(kUsual) < config.require_int({"num_hidden_layers"});
  if (slides || behind) refuse(family, "sliding_window", config.find({"sliding_window"})->dump(), "none");
}

/// The layers with rope must follow from the layers' indices.
void check_positions(const Config& config, const Family& family) {
  const Json* const knows = config.find({"no_rope_layers"});
  if (knows == nullptr || !knows->is_array()) return;
  const Json* const types = config.find({"layer_types"});
  const bool llama4 = family.architecture == "llama4", smollm3 = family.architecture == "smollm3";
  constexpr std::size_t kEvery = 4;
  for (std::size_t i = 0; i < knows->size(); ++i) {
    const bool chunked = types != nullptr && types->is_array() && i < types->size()
                             ? (*types)[i] == "chunked_attention"
                             : (i + 1) % kEvery != 0;
    const bool expected = llama4 ? chunked : (i + 1) % kEvery != 0;
    if ((llama4 || smollm3) && (*knows)[i] != (expected ? 1 : 0))
      refuse(family, "no_rope_layers", knows->dump(),
             llama4 ? "1 for each layer of chunked_attention, else 0" : "0 for every fourth layer, else 1");
  }
}

std::string text_of(const Config& config, const char* field, const char* otherwise) {
  const Json* const said = config.find({field});
  return said != nullptr && said->is_string() ? said->get<std::string>() : otherwise;
}

/// Conditions on two fields.
void check_others(const Config& config, const Family& family) {
  constexpr std::int64_t kExpertsOfMaverick = 128;
  if (family.architecture == "llama4") {
    const bool normed = config.get_bool("use_qk_norm", true);
    if (normed == (config.get_int({"num_local_experts"}).value_or(0) == kExpertsOfMaverick))
      refuse(family, "use_qk_norm", normed ? "true" : "false", "true unless they have 128 experts");
  }
  if ((family.traits & kBothSides) != 0) {
    const std::string part = text_of(config, "feed_forward_proj", "relu");
    if (part != "relu" && part != "gated-gelu")
      refuse(family, "feed_forward_proj", part, "relu or gated-gelu");
    const bool gated = config.get_bool("is_gated_act", part == "gated-gelu");
    const std::string act = text_of(config, "dense_act_fn", gated ? "gelu" : "relu");
    if (gated ? !act.starts_with("gelu") : act != "relu")
      refuse(family, "dense_act_fn", act, gated ? "gelu with gates" : "relu without gates");
  }
  // ModernBERT's layers that see all.
  const Json* const types = config.find({"layer_types"});
  if (const auto every = config.get_int({"global_attn_every_n_layers"});
      (family.traits & kEncoder) != 0 && every && *every > 0 && types != nullptr && types->is_array())
    for (std::size_t i = 0; i < types->size(); ++i)
      if (((*types)[i] == "full_attention") != (i % to_size(*every) == 0))
        refuse(family, "layer_types", types->dump(), "full_attention every global_attn_every_n_layers");
  // "vision" concerns image rows only.
  if (const Json* const both = config.find({"use_bidirectional_attention"});
      both != nullptr && (family.traits & kEncoder) == 0 && (*both == "all" || *both == true))
    refuse(family, "use_bidirectional_attention", both->dump(), "false");
  if (family.architecture == "falcon-h1" && config.get_bool("mamba_rms_norm", false) &&
      config.get_bool("mamba_norm_before_gate", true))
    refuse(family, "mamba_norm_before_gate", "true", "false");
  const Json* const limit = config.find({"time_step_limit"});
  if (limit != nullptr && limit->is_array() && limit->size() == 2 &&
      !family.architecture.starts_with("nemotron_h") && ((*limit)[0] != 0.0 || (*limit)[1].is_number()))
    refuse(family, "time_step_limit", limit->dump(), "0 to infinity");
}

bool same(const Json& a, const Json& b) {
  constexpr double kDigitCharacters = 1e-6;
  if (a.is_number() && b.is_number())
    return std::abs(a.get<double>() - b.get<double>()) <= kDigitCharacters * std::abs(b.get<double>());
  return a == b;
}

}  // namespace

void check_taken_for_granted(const Config& config, const Family& family) {
  check_activation(config, family);
  if ((family.traits & kEncoder) == 0) check_window(config, family);
  check_rope(config, family);
  check_positions(config, family);
  check_others(config, family);
  for (const auto& [architecture, field, value] : kFixed) {
    const bool meant = architecture.empty() || architecture == family.architecture;
    const Json* const said = meant ? config.find({field}) : nullptr;
    if (said != nullptr && !same(*said, base::parse_json<Json>(value)))
      refuse(family, field, said->dump(), value == "null" ? "none" : std::string(value));
  }
}

}  // namespace weft::convert_impl
