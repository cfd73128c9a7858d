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
                                 {"embeddings.LayerNorm", "token_embd_norm"},
                                 {"pooler.dense", "cls"},
                                 {"classifier.dense", "cls"},
                                 {"classifier.out_proj", "cls.output"},
                                 {"classifier", "cls.output"}};
constexpr Rename kNomic[] = {{"self_attn.q_proj", "attn_qkv#0"},
                             {"self_attn.k_proj", "attn_qkv#1"},
                             {"self_attn.v_proj", "attn_qkv#2"},
                             {"post_attention_layernorm", "attn_output_norm"},
                             {"post_mlp_layernorm", "layer_output_norm"},
                             {"mlp.fc1", "ffn_up"},
                             {"mlp.fc2", "ffn_down"}};
constexpr Rename kModern[] = {{"attn_norm", "attn_norm"}, {"attn.Wqkv", "attn_qkv"},
                              {"attn.Wo", "attn_output"}, {"mlp_norm", "ffn_norm"},
                              {"mlp.Wi", "ffn_up"},       {"mlp.Wo", "ffn_down"}};
constexpr Rename kModernWhole[] = {{"embeddings.tok_embeddings", "token_embd"},
                                   {"embeddings.norm", "token_embd_norm"},
                                   {"final_norm", "output_norm"},
                                   {"head.dense", "cls"},
                                   {"head.norm", "cls.norm"},
                                   {"classifier", "cls.output"}};
// Of encoders' and decoders' blocks, whose parts stand at other places.
constexpr Rename kT5[] = {{"layer.0.SelfAttention.q", "attn_q"},
                          {"layer.0.SelfAttention.k", "attn_k"},
                          {"layer.0.SelfAttention.v", "attn_v"},
                          {"layer.0.SelfAttention.o", "attn_o"},
                          {"layer.0.SelfAttention.relative_attention_bias", "attn_rel_b"},
                          {"layer.0.layer_norm", "attn_norm"},
                          {"layer.*.layer_norm", "ffn_norm"},
                          {"layer.*.EncDecAttention.q", "cross_attn_q"},
                          {"layer.*.EncDecAttention.k", "cross_attn_k"},
                          {"layer.*.EncDecAttention.v", "cross_attn_v"},
                          {"layer.*.EncDecAttention.o", "cross_attn_o"},
                          {"layer.*.DenseReluDense.wi_0", "ffn_gate"},
                          {"layer.*.DenseReluDense.wi_1", "ffn_up"},
                          {"layer.*.DenseReluDense.wi", "ffn_up"},
                          {"layer.*.DenseReluDense.wo", "ffn_down"}};
constexpr Rename kT5Whole[] = {{"shared", "token_embd"},
                               {"encoder.embed_tokens", "token_embd"},
                               {"encoder.final_layer_norm", "enc.output_norm"},
                               {"decoder.final_layer_norm", "dec.output_norm"}};
constexpr Rename kApertus[] = {{"attention_layernorm", "attn_norm"}, {"feedforward_layernorm", "ffn_norm"}};
constexpr Rename kMamba2Names[] = {{"norm", "attn_norm"},          {"mixer.in_proj", "ssm_in"},
                                   {"mixer.conv1d", "ssm_conv1d"}, {"mixer.dt_bias", "ssm_dt.bias"},
                                   {"mixer.A_log", "ssm_a"},       {"mixer.D", "ssm_d"},
                                   {"mixer.norm", "ssm_norm"},     {"mixer.out_proj", "ssm_out"}};

constexpr Rename kStableLm[] = {{"self_attn.q_layernorm.norms.*", "attn_q_norm"},
                                {"self_attn.k_layernorm.norms.*", "attn_k_norm"}};
constexpr Rename kGptOss[] = {{"post_attention_layernorm", "post_attention_norm"},
                              {"self_attn.sinks", "attn_sinks"},
                              {"mlp.router", "ffn_gate_inp"},
                              {"mlp.experts.gate_up_proj_bias", "ffn_gate_up_exps.bias"},
                              {"mlp.experts.down_proj_bias", "ffn_down_exps.bias"}};
constexpr Rename kLatentNames[] = {{"self_attn.q_a_proj", "attn_q_a"},
                                   {"self_attn.q_a_layernorm", "attn_q_a_norm"},
                                   {"self_attn.q_b_proj", "attn_q_b"},
                                   {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
                                   {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
                                   {"self_attn.kv_b_proj", "attn_kv_b"}};
constexpr Rename kHunYuanMoe[] = {{"self_attn.query_layernorm", "attn_q_norm"},
                                  {"self_attn.key_layernorm", "attn_k_norm"},
                                  {"mlp.gate.wg", "ffn_gate_inp"},
                                  {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp"},
                                  {"mlp.shared_mlp.up_proj", "ffn_up_shexp"},
                                  {"mlp.shared_mlp.down_proj", "ffn_down_shexp"}};
constexpr Rename kErnieMoe[] = {{"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias"}};
constexpr Rename kExaoneMoe[] = {{"mlp.e_score_correction_bias", "exp_probs_b.bias"}};
constexpr Rename kPhiMoe[] = {{"block_sparse_moe.gate", "ffn_gate_inp"},
                              {"block_sparse_moe.experts.*.w1", "ffn_gate_exps"},
                              {"block_sparse_moe.experts.*.w2", "ffn_down_exps"},
                              {"block_sparse_moe.experts.*.w3", "ffn_up_exps"}};
constexpr Rename kLlama4[] = {{"feed_forward.gate_proj", "ffn_gate"},
                              {"feed_forward.up_proj", "ffn_up"},
                              {"feed_forward.down_proj", "ffn_down"},
                              {"feed_forward.router", "ffn_gate_inp"},
                              {"feed_forward.experts.gate_up_proj", "ffn_gate_up_exps"},
                              {"feed_forward.experts.down_proj", "ffn_down_exps"},
                              {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp"},
                              {"feed_forward.shared_expert.up_proj", "ffn_up_shexp"},
                              {"feed_forward.shared_expert.down_proj", "ffn_down_shexp"}};
constexpr Rename kDeltaNet[] = {{"post_attention_layernorm", "post_attention_norm"},
                                {"linear_attn.in_proj_qkvz", "attn_qkvz"},
                                {"linear_attn.in_proj_ba", "ssm_ba"},
                                {"linear_attn.in_proj_qkv", "attn_qkv"},
                                {"linear_attn.in_proj_z", "attn_gate"},
                                {"linear_attn.in_proj_b", "ssm_beta"},
                                {"linear_attn.in_proj_a", "ssm_alpha"},
                                {"linear_attn.conv1d", "ssm_conv1d"},
                                {"linear_attn.A_log", "ssm_a"},
                                {"linear_attn.dt_bias", "ssm_dt.bias"},
                                {"linear_attn.norm", "ssm_norm"},
                                {"linear_attn.out_proj", "ssm_out"}};
constexpr Rename kMamba[] = {{"norm", "attn_norm"},
                             {"mixer.in_proj", "ssm_in"},
                             {"mixer.conv1d", "ssm_conv1d"},
                             {"mixer.x_proj", "ssm_x"},
                             {"mixer.dt_proj", "ssm_dt"},
                             {"mixer.dt_bias", "ssm_dt.bias"},
                             {"mixer.A_log", "ssm_a"},
                             {"mixer.D", "ssm_d"},
                             {"mixer.norm", "ssm_norm"},
                             {"mixer.out_proj", "ssm_out"},
                             // Of Nemotron-H, whose other layers are mixers, too.
                             {"mixer.q_proj", "attn_q"},
                             {"mixer.k_proj", "attn_k"},
                             {"mixer.v_proj", "attn_v"},
                             {"mixer.o_proj", "attn_output"},
                             {"mixer.up_proj", "ffn_up"},
                             {"mixer.down_proj", "ffn_down"},
                             {"mixer.gate", "ffn_gate_inp"},
                             {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
                             {"mixer.experts.*.up_proj", "ffn_up_exps"},
                             {"mixer.experts.*.down_proj", "ffn_down_exps"},
                             {"mixer.fc1_latent_proj", "ffn_latent_down"},
                             {"mixer.fc2_latent_proj", "ffn_latent_up"},
                             {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
                             {"mixer.shared_experts.down_proj", "ffn_down_shexp"}};
constexpr Rename kMambaWhole[] = {
    {"embeddings", "token_embd"}, {"embedding", "token_embd"}, {"norm_f", "output_norm"}};
constexpr Rename kMambaHybrid[] = {{"mamba.in_proj", "ssm_in"},
                                   {"mamba.conv1d", "ssm_conv1d"},
                                   {"mamba.x_proj", "ssm_x"},
                                   {"mamba.dt_proj", "ssm_dt"},
                                   {"mamba.dt_bias", "ssm_dt.bias"},
                                   {"mamba.A_log", "ssm_a"},
                                   {"mamba.D", "ssm_d"},
                                   {"mamba.norm", "ssm_norm"},
                                   {"mamba.out_proj", "ssm_out"},
                                   {"mamba.dt_layernorm", "ssm_dt_norm"},
                                   {"mamba.b_layernorm", "ssm_b_norm"},
                                   {"mamba.c_layernorm", "ssm_c_norm"},
                                   {"pre_ff_layernorm", "ffn_norm"},
                                   {"feed_forward.gate_proj", "ffn_gate"},
                                   {"feed_forward.up_proj", "ffn_up"},
                                   {"feed_forward.down_proj", "ffn_down"},
                                   {"feed_forward.router", "ffn_gate_inp"},
                                   {"feed_forward.experts.*.gate_proj", "ffn_gate_exps"},
                                   {"feed_forward.experts.*.up_proj", "ffn_up_exps"},
                                   {"feed_forward.experts.*.down_proj", "ffn_down_exps"},
                                   {"block_sparse_moe.router.layer", "ffn_gate_inp"},
                                   {"block_sparse_moe.input_linear", "ffn_gate_up_exps"},
                                   {"block_sparse_moe.output_linear", "ffn_down_exps"},
                                   {"shared_mlp.input_linear", "ffn_gate_up_shexp"},
                                   {"shared_mlp.output_linear", "ffn_down_shexp"}};
constexpr Rename kLfm2[] = {{"operator_norm", "attn_norm"},
                            {"ffn_norm", "ffn_norm"},
                            {"conv.conv", "shortconv.conv"},
                            {"conv.in_proj", "shortconv.in_proj"},
                            {"conv.out_proj", "shortconv.out_proj"},
                            {"self_attn.out_proj", "attn_output"},
                            {"self_attn.q_layernorm", "attn_q_norm"},
                            {"self_attn.k_layernorm", "attn_k_norm"},
                            {"feed_forward.w1", "ffn_gate"},
                            {"feed_forward.w2", "ffn_down"},
                            {"feed_forward.w3", "ffn_up"},
                            {"feed_forward.gate", "ffn_gate_inp"},
                            {"feed_forward.expert_bias", "exp_probs_b.bias"},
                            {"feed_forward.experts.*.w1", "ffn_gate_exps"},
                            {"feed_forward.experts.*.w2", "ffn_down_exps"},
                            {"feed_forward.experts.*.w3", "ffn_up_exps"}};
constexpr Rename kLfm2Whole[] = {{"embedding_norm", "token_embd_norm"}};
constexpr Rename kFinalNorm[] = {{"final_layernorm", "output_norm"}};
constexpr Rename kBloomWhole[] = {{"word_embeddings", "token_embd"},
                                  {"word_embeddings_layernorm", "token_embd_norm"},
                                  {"ln_f", "output_norm"}};
constexpr Rename kMpt[] = {{"norm_1", "attn_norm"},   {"norm_2", "ffn_norm"},
                           {"attn.Wqkv", "attn_qkv"}, {"attn.out_proj", "attn_output"},
                           {"ffn.up_proj", "ffn_up"}, {"ffn.down_proj", "ffn_down"}};
constexpr Rename kMptWhole[] = {{"wte", "token_embd"}, {"norm_f", "output_norm"}};
constexpr Rename kGpt2[] = {{"ln_1", "attn_norm"},
                            {"ln_2", "ffn_norm"},
                            {"attn.c_attn", "attn_qkv"},
                            {"attn.c_proj", "attn_output"},
                            {"mlp.c_fc", "ffn_up"},
                            {"mlp.c_proj", "ffn_down"},
                            // Of GPT-J.
                            {"attn.q_proj", "attn_q"},
                            {"attn.k_proj", "attn_k"},
                            {"attn.v_proj", "attn_v"},
                            {"attn.out_proj", "attn_output"},
                            {"mlp.fc_in", "ffn_up"},
                            {"mlp.fc_out", "ffn_down"}};
constexpr Rename kGpt2Whole[] = {{"wte", "token_embd"}, {"wpe", "position_embd"}, {"ln_f", "output_norm"}};
constexpr Rename kBitNet[] = {{"self_attn.attn_sub_norm", "attn_sub_norm"},
                              {"mlp.ffn_sub_norm", "ffn_sub_norm"}};
constexpr Rename kGlm[] = {{"self_attn.q_proj", "attn_qkv#0"},
                           {"self_attn.k_proj", "attn_qkv#1"},
                           {"self_attn.v_proj", "attn_qkv#2"},
                           {"mlp.gate_up_proj", "ffn_up"}};
constexpr Rename kDbrx[] = {
    {"norm_attn_norm.norm_1", "attn_norm"},   {"norm_attn_norm.norm_2", "attn_output_norm"},
    {"norm_attn_norm.attn.Wqkv", "attn_qkv"}, {"norm_attn_norm.attn.out_proj", "attn_output"},
    {"ffn.router.layer", "ffn_gate_inp"},     {"ffn.experts.mlp.w1", "ffn_gate_exps"},
    {"ffn.experts.mlp.v1", "ffn_up_exps"},    {"ffn.experts.mlp.w2", "ffn_down_exps"}};
constexpr Rename kAfmoe[] = {{"post_attention_layernorm", "post_attention_norm"},
                             {"pre_mlp_layernorm", "ffn_norm"},
                             {"post_mlp_layernorm", "post_ffw_norm"},
                             {"self_attn.gate_proj", "attn_gate"},
                             {"mlp.router.gate", "ffn_gate_inp"},
                             {"mlp.expert_bias", "exp_probs_b.bias"}};
constexpr Rename kMimo2[] = {{"self_attn.attention_sink_bias", "attn_sinks"}};
constexpr Rename kGemma3n[] = {{"post_attention_layernorm", "post_attention_norm"},
                               {"pre_feedforward_layernorm", "ffn_norm"},
                               {"post_feedforward_layernorm", "post_ffw_norm"},
                               {"per_layer_input_gate", "inp_gate"},
                               {"per_layer_projection", "proj"},
                               {"post_per_layer_input_norm", "post_norm"},
                               {"altup.correction_coefs", "altup_correct_coef"},
                               {"altup.correct_output_scale", "altup_correct_scale"},
                               {"altup.prediction_coefs", "altup_predict_coef"},
                               {"altup.modality_router", "altup_router"},
                               {"altup.router_norm", "altup_router_norm"},
                               {"laurel.linear_left", "laurel_l"},
                               {"laurel.linear_right", "laurel_r"},
                               {"laurel.post_laurel_norm", "laurel_post_norm"}};
constexpr Rename kGemma3nWhole[] = {{"embed_tokens_per_layer", "per_layer_token_embd"},
                                    {"per_layer_model_projection", "per_layer_model_proj"},
                                    {"per_layer_projection_norm", "per_layer_proj_norm"},
                                    {"altup_projections.*", "altup_proj"},
                                    {"altup_unembed_projections.*", "altup_unembd_proj"}};

constexpr std::string_view kGemma3Defaults =
    R"({"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6,
        "vocab_size": 262208, "max_position_embeddings": 131072, "rope_theta": 1000000.0,
        "rope_local_base_freq": 10000.0, "tie_word_embeddings": true})";
constexpr std::string_view kQuarter = R"({"partial_rotary_factor": 0.25})";
constexpr std::string_view kRecurrentDefaults =
    R"({"max_position_embeddings": 1048576, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})";
constexpr std::string_view kTied = R"({"tie_word_embeddings": true})";
constexpr std::string_view kModernDefaults =
    R"({"norm_eps": 1e-5, "global_attn_every_n_layers": 3, "local_attention": 128, "tie_word_embeddings": true})";
constexpr std::string_view kT5Defaults =
    R"({"relative_attention_num_buckets": 32, "layer_norm_epsilon": 1e-6, "d_kv": 64, "n_positions": 512,
        "tie_word_embeddings": true})";
constexpr std::string_view kRobertaDefaults =
    R"({"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5})";

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
     kStableLm,
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
    {"GptOssForCausalLM", "gpt-oss", kSliding | kExpertInputsFirst | kAlternating, kGptOss},
    {"DeepseekV2ForCausalLM", "deepseek2", kLatent, kLatentNames},
    {"DeepseekV3ForCausalLM", "deepseek2", kLatent | kSigmoidRouter, kLatentNames},
    {"Qwen3NextForCausalLM", "qwen3next", kNormsPlusOne | kDeltaByGroups, kDeltaNet, {}, "layers.", kQuarter},
    {"Qwen3_5ForCausalLM", "qwen35", kNormsPlusOne | kDeltaTiled, kDeltaNet, {}, "layers.", kQuarter},
    {"Qwen3_5ForConditionalGeneration",
     "qwen35",
     kNormsPlusOne | kDeltaTiled,
     kDeltaNet,
     {},
     "layers.",
     kQuarter},
    {"Qwen3_5MoeForCausalLM", "qwen35moe", kNormsPlusOne | kDeltaTiled, kDeltaNet, {}, "layers.", kQuarter},
    {"Qwen3_5MoeForConditionalGeneration",
     "qwen35moe",
     kNormsPlusOne | kDeltaTiled,
     kDeltaNet,
     {},
     "layers.",
     kQuarter},
    {"Llama4ForCausalLM", "llama4", kExpertInputsFirst, kLlama4},
    {"Llama4ForConditionalGeneration", "llama4", kExpertInputsFirst, kLlama4},
    {"Gemma3nForCausalLM", "gemma3n", kSliding | kFfOfTensors, kGemma3n, kGemma3nWhole, "layers.", kTied},
    {"Gemma3nForConditionalGeneration", "gemma3n", kSliding | kFfOfTensors, kGemma3n, kGemma3nWhole,
     "layers.", kTied},
    {"Ministral3ForCausalLM", "mistral3", kNeighbours},
    {"Mistral3ForConditionalGeneration", "mistral3", kNeighbours},
    {"Olmo3ForCausalLM", "olmo2", kSliding, kOlmo2},
    {"PhimoeForCausalLM", "phimoe", kPlain, kPhiMoe},
    {"PhiMoEForCausalLM", "phimoe", kPlain, kPhiMoe},
    {"HunYuanMoEV1ForCausalLM", "hunyuan-moe", kPlain, kHunYuanMoe},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5-moe", kPlain, kErnieMoe, {}, "layers.", kTied},
    {"ExaoneMoeForCausalLM", "exaone-moe", kSliding | kSigmoidRouter, kExaoneMoe},
    {"AfmoeForCausalLM",
     "afmoe",
     kSliding | kSigmoidRouter,
     kAfmoe,
     {},
     "layers.",
     R"({"norm_topk_prob": true})"},
    {"MiMoV2FlashForCausalLM", "mimo2", kSliding | kHybrid | kSigmoidRouter, kMimo2},
    {"MiniCPM3ForCausalLM", "minicpm3", kPlain, kLatentNames},
    {"GlmForCausalLM", "chatglm", kPlain, kGlm, {}, "layers.", R"({"partial_rotary_factor": 0.5})"},
    {"Jais2ForCausalLM", "jais2"},
    {"BitNetForCausalLM", "bitnet-b1.58", kPlain, kBitNet},
    {"MambaForCausalLM", "mamba", kNoAttention | kRmsNorms, kMamba, kMambaWhole, "layers.",
     kRecurrentDefaults},
    {"FalconMambaForCausalLM", "mamba", kNoAttention | kRmsNorms, kMamba, kMambaWhole, "layers.",
     kRecurrentDefaults},
    {"JambaForCausalLM", "jamba", kHybrid, kMambaHybrid, kFinalNorm},
    {"GraniteMoeHybridForCausalLM", "granitehybrid", kNeighbours | kHybrid | kMamba2 | kFfOfTensors,
     kMambaHybrid},
    {"FalconH1ForCausalLM", "falcon-h1", kMamba2 | kMultipliers, kMambaHybrid, kFinalNorm},
    {"NemotronHForCausalLM", "nemotron_h", kHybrid | kMamba2 | kFfOfTensors | kRmsNorms | kMoeByExperts,
     kMamba, kMambaWhole},
    {"Lfm2ForCausalLM", "lfm2", kHybrid | kRmsNorms | kFfOfTensors, kLfm2, kLfm2Whole, "layers.", kTied},
    {"Lfm2MoeForCausalLM", "lfm2moe", kHybrid | kRmsNorms | kSigmoidRouter, kLfm2, kLfm2Whole, "layers.",
     kTied},
    {"BloomForCausalLM", "bloom", kQkvByHeads | kFfOfTensors, kFalcon, kBloomWhole, "h.",
     R"({"max_position_embeddings": 2048, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": true})"},
    {"MptForCausalLM", "mpt", kFfOfTensors, kMpt, kMptWhole, "blocks.",
     R"({"layer_norm_epsilon": 1e-5, "tie_word_embeddings": true, "alibi_bias_max": 8})"},
    {"GPT2LMHeadModel", "gpt2", kInputsFirst, kGpt2, kGpt2Whole, "h.", kTied},
    {"GPTBigCodeForCausalLM", "starcoder", kOfOneKey, kGpt2, kGpt2Whole, "h.", kTied},
    {"GPTJForCausalLM", "gptj", kPlain, kGpt2, kGpt2Whole, "h."},
    {"DbrxForCausalLM", "dbrx", kRowsOfExperts, kDbrx, kMptWhole, "blocks.",
     R"({"layer_norm_epsilon": 1e-5})"},
    {"BertModel", "bert", kEncoder, kBert, kBertWhole, "encoder.layer."},
    {"BertForMaskedLM", "bert", kEncoder, kBert, kBertWhole, "encoder.layer."},
    {"BertForSequenceClassification", "bert", kEncoder, kBert, kBertWhole, "encoder.layer."},
    {"RobertaModel", "bert", kEncoder | kOffsetPositions, kBert, kBertWhole, "encoder.layer.",
     kRobertaDefaults},
    {"RobertaForMaskedLM", "bert", kEncoder | kOffsetPositions, kBert, kBertWhole, "encoder.layer.",
     kRobertaDefaults},
    {"RobertaForSequenceClassification", "bert", kEncoder | kOffsetPositions, kBert, kBertWhole,
     "encoder.layer.", kRobertaDefaults},
    {"XLMRobertaModel", "bert", kEncoder | kOffsetPositions, kBert, kBertWhole, "encoder.layer.",
     kRobertaDefaults},
    {"XLMRobertaForMaskedLM", "bert", kEncoder | kOffsetPositions, kBert, kBertWhole, "encoder.layer.",
     kRobertaDefaults},
    {"XLMRobertaForSequenceClassification", "bert", kEncoder | kOffsetPositions, kBert, kBertWhole,
     "encoder.layer.", kRobertaDefaults},
    {"ModernBertModel", "modern-bert", kEncoder, kModern, kModernWhole, "layers.", kModernDefaults},
    {"ModernBertForMaskedLM", "modern-bert", kEncoder, kModern, kModernWhole, "layers.", kModernDefaults},
    {"ModernBertForSequenceClassification", "modern-bert", kEncoder, kModern, kModernWhole, "layers.",
     kModernDefaults},
    {"EuroBertModel", "eurobert", kEncoder},
    {"EuroBertForMaskedLM", "eurobert", kEncoder},
    {"NomicBertModel", "nomic-bert", kEncoder, kNomic, kBertWhole},
    {"JinaEmbeddingsV3Model", "jina-bert-v3", kEncoder, kNomic, kBertWhole},
    {"Gemma3TextModel",
     "gemma-embedding",
     kEncoder | kNormsPlusOne | kSliding,
     kGemma2,
     {},
     "layers.",
     kGemma3Defaults},
    {"T5EncoderModel", "t5encoder", kEncoder | kBothSides, kT5, kT5Whole, "", kT5Defaults},
    {"MT5EncoderModel", "t5encoder", kEncoder | kBothSides, kT5, kT5Whole, "", kT5Defaults},
    {"UMT5EncoderModel", "t5encoder", kEncoder | kBothSides, kT5, kT5Whole, "", kT5Defaults},
    {"T5ForConditionalGeneration", "t5", kBothSides, kT5, kT5Whole, "", kT5Defaults},
    {"MT5ForConditionalGeneration", "t5", kBothSides, kT5, kT5Whole, "", kT5Defaults},
    {"UMT5ForConditionalGeneration", "t5", kBothSides, kT5, kT5Whole, "", kT5Defaults},
    {"Qwen2VLForConditionalGeneration", "qwen2vl", kSections},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2vl", kSections},
    {"Qwen3VLForConditionalGeneration", "qwen3vl", kSections},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe", kSections | kExpertInputsFirst},
    {"ApertusForCausalLM", "apertus", kLearnedCurve, kApertus},
    {"Mamba2ForCausalLM", "mamba2", kNoAttention | kRmsNorms | kMamba2, kMamba2Names, kMambaWhole, "layers.",
     kRecurrentDefaults},
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
