#include "convert/family.h"

#include <array>

namespace weft::convert_impl {
namespace {

constexpr Rename kLayer[] = {
    {"input_layernorm", "attn_norm"},
    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.qkv_proj", "attn_qkv"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.*.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.*.up_proj", "ffn_up_exps"},
    {"mlp.experts.*.down_proj", "ffn_down_exps"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"},
};
constexpr Rename kWhole[] = {{"embed_tokens", "token_embd"}, {"norm", "output_norm"}, {"lm_head", "output"}};

constexpr Rename kMixtral[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps"},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps"},
};
constexpr Rename kGemma2[] = {{"post_attention_layernorm", "post_attention_norm"},
                              {"pre_feedforward_layernorm", "ffn_norm"},
                              {"post_feedforward_layernorm", "post_ffw_norm"}};
constexpr Rename kPhi3[] = {{"mlp.gate_up_proj", "ffn_up"}};
constexpr Rename kPhi2[] = {
    {"self_attn.dense", "attn_output"}, {"mlp.fc1", "ffn_up"}, {"mlp.fc2", "ffn_down"}};
constexpr Rename kPhi2Whole[] = {{"final_layernorm", "output_norm"}};
constexpr Rename kOlmo2[] = {{"post_attention_layernorm", "post_attention_norm"},
                             {"post_feedforward_layernorm", "post_ffw_norm"}};
constexpr Rename kGraniteMoe[] = {{"block_sparse_moe.router.layer", "ffn_gate_inp"},
                                  {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
                                  {"block_sparse_moe.output_linear", "ffn_down_exps"}};
constexpr Rename kStarCoder2[] = {{"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};
constexpr Rename kGptNeox[] = {{"attention.query_key_value", "attn_qkv"},
                               {"attention.dense", "attn_output"},
                               {"mlp.dense_h_to_4h", "ffn_up"},
                               {"mlp.dense_4h_to_h", "ffn_down"}};
constexpr Rename kGptNeoxWhole[] = {
    {"embed_in", "token_embd"}, {"final_layer_norm", "output_norm"}, {"embed_out", "output"}};
constexpr Rename kFalcon[] = {{"self_attention.query_key_value", "attn_qkv"},
                              {"self_attention.dense", "attn_output"},
                              {"mlp.dense_h_to_4h", "ffn_up"},
                              {"mlp.dense_4h_to_h", "ffn_down"},
                              {"ln_mlp", "attn_norm"},
                              {"ln_attn", "attn_norm_2"}};
constexpr Rename kFalconWhole[] = {{"word_embeddings", "token_embd"}, {"ln_f", "output_norm"}};
constexpr Rename kGlm4[] = {{"post_attention_layernorm", "ffn_norm"},
                            {"post_self_attn_layernorm", "post_attention_norm"},
                            {"post_mlp_layernorm", "post_ffw_norm"},
                            {"mlp.gate_up_proj", "ffn_up"}};
constexpr Rename kPostNorm[] = {{"post_attention_layernorm", "post_attention_norm"}};
constexpr Rename kHunYuan[] = {{"self_attn.query_layernorm", "attn_q_norm"},
                               {"self_attn.key_layernorm", "attn_k_norm"}};
constexpr Rename kMiniMax[] = {
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
    {"block_sparse_moe.experts.*.w2", "ffn_down_exps"},
    {"block_sparse_moe.experts.*.w3", "ffn_up_exps"},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
};
constexpr Rename kBert[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
};
constexpr Rename kBertWhole[] = {{"embeddings.word_embeddings", "token_embd"},
                                 {"embeddings.position_embeddings", "position_embd"},
                                 {"embeddings.token_type_embeddings", "token_types"},
                                 {"embeddings.LayerNorm", "token_embd_norm"}};

constexpr std::string_view kGemma3Defaults =
    R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6,
        "vocab_size": 262208, "max_position_embeddings": 131072, "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0, "tie_word_embeddings": true})";
constexpr std::string_view kTied = R"({"tie_word_embeddings": true})";

// Those that most people have come first.
constexpr Family kFamilies[] = {
    {"LlamaForCausalLM", "llama", kNeighbours},
    {"MistralForCausalLM", "llama", kNeighbours},
    {"MixtralForCausalLM", "llama", kNeighbours, kMixtral},
    {"Qwen2ForCausalLM", "qwen2"},
    {"Qwen2MoeForCausalLM", "qwen2moe"},
    {"Qwen3ForCausalLM", "qwen3"},
    {"Qwen3MoeForCausalLM", "qwen3moe"},
    {"GemmaForCausalLM", "gemma", kNormsPlusOne, {}, {}, "layers.", kTied},
    {"Gemma2ForCausalLM", "gemma2", kNormsPlusOne | kSliding, kGemma2, {}, "layers.", kTied},
    {"Gemma3ForCausalLM", "gemma3", kNormsPlusOne | kSliding, kGemma2, {}, "layers.", kGemma3Defaults},
    {"Gemma3ForConditionalGeneration",
     "gemma3",
     kNormsPlusOne | kSliding,
     kGemma2,
     {},
     "layers.",
     kGemma3Defaults},
    {"Phi3ForCausalLM", "phi3", kPlain, kPhi3},
    {"PhiForCausalLM", "phi2", kPlain, kPhi2, kPhi2Whole},
    {"SmolLM3ForCausalLM", "smollm3", kNeighbours},
    {"OlmoForCausalLM", "olmo", kNeighbours, {}, {}, "layers.", R"({"layer_norm_eps": 1e-5})"},
    {"Olmo2ForCausalLM", "olmo2", kPlain, kOlmo2},
    {"OlmoeForCausalLM", "olmoe"},
    {"GraniteForCausalLM", "granite", kNeighbours},
    {"GraniteMoeForCausalLM", "granitemoe", kNeighbours, kGraniteMoe},
    {"Starcoder2ForCausalLM", "starcoder2", kPlain, kStarCoder2},
    {"GPTNeoXForCausalLM", "gptneox", kQkvByHeads, kGptNeox, kGptNeoxWhole, "layers.",
     R"({"rotary_pct": 0.25, "use_parallel_residual": true})"},
    {"FalconForCausalLM", "falcon", kQkvByGroups, kFalcon, kFalconWhole, "h.",
     R"({"max_position_embeddings": 2048, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})"},
    {"StableLmForCausalLM",
     "stablelm",
     kPlain,
     {},
     {},
     "layers.",
     R"({"partial_rotary_factor": 0.25, "use_parallel_residual": false})"},
    {"CohereForCausalLM", "command-r", kPlain, {}, {}, "layers.", kTied},
    {"Cohere2ForCausalLM", "cohere2", kSliding, {}, {}, "layers.", kTied},
    {"Glm4ForCausalLM", "glm4", kPlain, kGlm4, {}, "layers.", R"({"partial_rotary_factor": 0.5})"},
    {"Glm4MoeForCausalLM", "glm4moe", kSigmoidRouter, kPostNorm},
    {"Exaone4ForCausalLM", "exaone4", kSliding, kOlmo2},
    {"Ernie4_5ForCausalLM", "ernie4_5", kPlain, {}, {}, "layers.", kTied},
    {"SeedOssForCausalLM", "seed_oss", kPlain, kPostNorm},
    {"HunYuanDenseV1ForCausalLM", "hunyuan-dense", kPlain, kHunYuan},
    {"ArceeForCausalLM", "arcee", kNeighbours},
    {"NemotronForCausalLM",
     "nemotron",
     kNormsPlusOne,
     {},
     {},
     "layers.",
     R"({"partial_rotary_factor": 0.5})"},
    {"Dots1ForCausalLM", "dots1", kSigmoidRouter},
    {"MiniMaxM2ForCausalLM", "minimax-m2", kSigmoidRouter, kMiniMax},
    {"BertModel", "bert", kEncoder, kBert, kBertWhole, "encoder.layer."},
    {"BertForMaskedLM", "bert", kEncoder, kBert, kBertWhole, "encoder.layer."},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view name) {
  for (const Family& family : kFamilies)
    if (family.name == name) return &family;
  return nullptr;
}

std::span<const Rename> shared_layer_names() { return kLayer; }
std::span<const Rename> shared_whole_names() { return kWhole; }

}  // namespace weft::convert_impl
