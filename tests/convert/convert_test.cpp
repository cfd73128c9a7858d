#include "weft/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convert/convert_testing.h"
#include "convert/folder_testing.h"
#include "tensor/codec.h"
#include "weft/error.h"
#include "weft/gguf.h"
#include "weft/weights.h"

namespace weft {
namespace {

std::vector<float> values_of(const WeightFile& file, const WeightFile::Tensor& tensor) {
  std::vector<std::byte> bytes(tensor.bytes.size());
  file.read(tensor.bytes, bytes);
  std::size_t n = 1;
  for (const std::int64_t size : tensor.shape) n *= static_cast<std::size_t>(size);
  std::vector<float> values(n);
  unpack_row(tensor.dtype, bytes.data(), values);
  return values;
}

// The golden models come with transformers' logits, and were written by Python's gguf package.
class Golden : public ConvertTest {};
TEST_P(Golden, FolderGivesTheGoldenModel) {
  const std::string name = GetParam();
  const std::filesystem::path made = scratch_ / "made.gguf";
  std::filesystem::path golden;
  for (const char* kind : {"golden", "golden_encoders", "golden_sources"})
    if (const auto file = kData / kind / name / "model.gguf"; std::filesystem::exists(file)) golden = file;
  convert(kData / "convert" / name, made);

  const auto entries = read_gguf_metadata(made);
  const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
  for (const auto& [key, value] : read_gguf_metadata(golden)) {
    if (key == "general.name" || key == "tokenizer.ggml.pre") continue;
    if (key == "t5.attention.layer_norm_epsilon") continue;  // That of RMS norms counts.
    const auto found = keys.find(key);
    ASSERT_NE(found, keys.end()) << key;
    if (const auto* number = std::get_if<float>(&value))
      EXPECT_FLOAT_EQ(std::get<float>(found->second), *number) << key;
    else
      EXPECT_EQ(found->second, value) << key;
  }

  const WeightFile ours(made), theirs(golden);
  EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const WeightFile::Tensor& expected : theirs.tensors()) {
    const WeightFile::Tensor* const tensor = ours.find(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(tensor->shape, expected.shape) << expected.name;
    const std::vector<float> values = values_of(ours, *tensor), wanted = values_of(theirs, expected);
    if (expected.name.ends_with("ssm_a")) {  // Exponentials, which libraries round differently.
      ASSERT_EQ(values.size(), wanted.size());
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(values[i], wanted[i]) << expected.name;
    } else {
      EXPECT_EQ(values, wanted) << expected.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Folders, Golden,
                         testing::Values("mixtral", "gemma2", "gptneox", "qwen2moe", "falcon-40b", "phi2",
                                         "gpt-oss", "qwen35", "gemma-embedding", "flan-t5", "gemma4",
                                         "kimi-linear"),
                         [](const auto& folder) {
                           std::string name = folder.param;
                           std::erase(name, '-');
                           return name;
                         });

// Image encoders: the files whose rows the tests of vision compare with transformers.
class Mmproj : public ConvertTest {};
TEST_P(Mmproj, FolderGivesTheImageEncoder) {
  const std::string name = GetParam();
  const std::filesystem::path made = scratch_ / "mmproj.gguf";
  const ConvertResult result =
      convert(kData / "convert_vision" / name, made, {.type = "f16", .mmproj = true});
  EXPECT_EQ(result.architecture, "clip");

  const auto entries = read_gguf_metadata(made);
  const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
  const std::filesystem::path golden = kData / "vision" / name / "mmproj.gguf";
  for (const auto& [key, value] : read_gguf_metadata(golden)) {
    // Encoders that keep the aspect ratio have another image size in the golden files, and one has a wrong
    // width there.
    const bool of_tests = name.starts_with("qwen2") && key == "clip.vision.image_size";
    if (key == "general.name" || of_tests) continue;
    if (name == "qwen2vl" && key == "clip.vision.feed_forward_length") continue;
    const auto found = keys.find(key);
    ASSERT_NE(found, keys.end()) << key;
    EXPECT_EQ(found->second, value) << key;
  }
  const WeightFile ours(made), theirs(golden);
  EXPECT_EQ(ours.tensors().size(), theirs.tensors().size());
  for (const WeightFile::Tensor& expected : theirs.tensors()) {
    const WeightFile::Tensor* const tensor = ours.find(expected.name);
    ASSERT_NE(tensor, nullptr) << expected.name;
    EXPECT_EQ(tensor->shape, expected.shape) << expected.name;
    EXPECT_EQ(values_of(ours, *tensor), values_of(theirs, expected)) << expected.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Folders, Mmproj,
                         testing::Values("gemma3", "idefics3", "pixtral", "qwen2vl", "qwen25vl", "qwen3vl"));

class Convert : public ConvertTest {};

TEST_F(Convert, RejectsUnsupportedImageEncoders) {
  expect_refused(kData / "convert/phi2", ErrorCode::kUnsupported, "PhiForCausalLM have no image encoder",
                 {.mmproj = true});
  expect_refused(kData / "convert_vision/gemma3", ErrorCode::kInvalidArgument, "leave --pre",
                 {.pre_tokenizer = "gpt-2", .mmproj = true});
  const std::filesystem::path folder = scratch_ / "qwen25vl";
  std::filesystem::copy(kData / "convert_vision/qwen25vl", folder);
  const std::string config = read(folder / "config.json");
  replace(folder / "config.json", "\"vision_config\"", "\"other_config\"");
  expect_refused(folder, ErrorCode::kInvalidFile, "no object vision_config", {.mmproj = true});
  write(folder / "config.json", config);
  replace(folder / "config.json", "\"depth\": 4", "\"depth\": 6");
  expect_refused(folder, ErrorCode::kUnsupported, "fullatt_block_indexes", {.mmproj = true});
  write(folder / "config.json", config);
  replace(folder / "config.json", "\"depth\": 4", "\"depth\": 2");
  expect_refused(folder, ErrorCode::kUnsupported, "fullatt_block_indexes", {.mmproj = true});
  write(folder / "config.json", config);
  write(folder / "preprocessor_config.json", R"({"image_mean": [0.5, "red", 0.5]})");
  expect_refused(folder, ErrorCode::kInvalidFile, "image_mean is not a list of three", {.mmproj = true});
  test::StoredTensors tensors = test::read_tensors(folder / "model.safetensors");
  for (auto tensor = tensors.begin(); tensor != tensors.end();)
    tensor = tensor->first.find("blocks.2.") == std::string::npos ? std::next(tensor) : tensors.erase(tensor);
  test::write_safetensors(folder / "model.safetensors", tensors);
  std::filesystem::remove(folder / "preprocessor_config.json");
  expect_refused(folder, ErrorCode::kInvalidFile, "layer 2 of the 4", {.mmproj = true});
}

TEST_F(Convert, ModulesAroundAnEncoderAreReadOrRefused) {
  const auto folder = copy_of("gemma-embedding");
  const auto pooling = [&] {
    convert(folder, scratch_ / "made.gguf");
    const auto entries = read_gguf_metadata(scratch_ / "made.gguf");
    const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
    return std::get<std::uint32_t>(keys.at("gemma-embedding.pooling_type"));
  };
  EXPECT_EQ(pooling(), 1u);
  write(folder / "1_Pooling/config.json", R"({"pooling_mode": "cls"})");
  EXPECT_EQ(pooling(), 2u);
  write(folder / "1_Pooling/config.json",
        R"({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false})");
  EXPECT_EQ(pooling(), 3u);
  for (const char* unknown :
       {R"({"pooling_mode": "max"})", R"({"pooling_mode_max_tokens": true})",
        R"({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})", "{}"}) {
    write(folder / "1_Pooling/config.json", unknown);
    expect_refused(folder, ErrorCode::kUnsupported, "which weft does not support");
  }
  write(folder / "1_Pooling/config.json", R"({"pooling_mode": "mean"})");
  replace(folder / "2_Dense/config.json", "Identity", "Tanh");
  expect_refused(folder, ErrorCode::kUnsupported, "activation torch.nn.modules.linear.Tanh");
  replace(folder / "2_Dense/config.json", "Tanh", "Identity");
  replace(folder / "2_Dense/config.json", "\"bias\": false", "\"bias\": true");
  expect_refused(folder, ErrorCode::kUnsupported, "dense layer with a bias");
  replace(folder / "modules.json", "2_Dense", "../2_Dense");
  expect_refused(folder, ErrorCode::kInvalidFile, "expected one inside its own folder");
  write(folder / "modules.json", R"([{"type": "sentence_transformers.models.LSTM", "path": "1_LSTM"}])");
  expect_refused(folder, ErrorCode::kUnsupported, "LSTM");
  write(folder / "modules.json", R"({"type": 1})");
  expect_refused(folder, ErrorCode::kInvalidFile, "is not a JSON list");
}

TEST_F(Convert, NamesClassesThatCannotBeConverted) {
  const auto folder = copy_of("phi2");
  replace(folder / "config.json", "PhiForCausalLM", "BaichuanForCausalLM");
  expect_refused(folder, ErrorCode::kUnsupported,
                 "weft only runs such models (baichuan) from existing GGUF files");
}

TEST_F(Convert, KimiLinearsPublishedConfigurationSaysTheSame) {
  const auto folder = copy_of("kimi-linear");
  convert(folder, scratch_ / "saved.gguf");
  replace(folder / "config.json", "\"linear_head_dim\": 16", "\"head_dim_of_others\": 16");
  replace(folder / "config.json", "\"linear_conv_kernel_dim\": 4",
          R"("linear_attn_config": {"head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4})");
  replace(folder / "config.json", "\"mlp_layer_types\"", "\"first_k_dense_replace\": 1, \"unused\"");
  convert(folder, scratch_ / "published.gguf");
  EXPECT_EQ(read(scratch_ / "saved.gguf"), read(scratch_ / "published.gguf"));
}

TEST_F(Convert, RejectsDenseLayersAfterExperts) {
  const auto folder = copy_of("kimi-linear");
  replace(folder / "config.json", "\"sparse\"", "\"sparse\", \"dense\"");
  expect_refused(folder, ErrorCode::kInvalidFile, "mlp_layer_types has dense layers after sparse ones");
}

TEST_F(Convert, VisionModelsHaveTheClassOfTheirLanguageModel) {
  const auto folder = copy_of("phi2");
  replace(folder / "config.json", "PhiForCausalLM", "Mistral3ForConditionalGeneration");
  expect_refused(folder, ErrorCode::kInvalidFile,
                 "not part of any known model of the class Mistral3ForConditional");
  replace(folder / "config.json", "{", R"({"text_config": {"model_type": "mistral4"},)");
  expect_refused(folder, ErrorCode::kInvalidFile,
                 "not part of any known model of the class Mistral4ForCausalLM");
}

TEST_F(Convert, WritesTheRequestedTypes) {
  for (const auto& [type, dtype] : {std::pair("f32", DType::kF32), std::pair("bf16", DType::kBF16),
                                    std::pair("q8_0", DType::kQ8_0), std::pair("auto", DType::kF16)}) {
    const std::filesystem::path made = scratch_ / (std::string(type) + ".gguf");
    convert(kData / "convert/phi2", made, {.type = type});
    const WeightFile file(made);
    EXPECT_EQ(file.find("blk.0.ffn_up.weight")->dtype, dtype);
    EXPECT_EQ(file.find("blk.0.attn_norm.weight")->dtype, DType::kF32);
  }
  expect_refused(kData / "convert/phi2", ErrorCode::kInvalidArgument, "known are f32", {.type = "q3"});
}

TEST_F(Convert, PartsOfAnIndexAreOneModel) {
  const auto folder = copy_of("phi2");
  convert(folder, scratch_ / "whole.gguf");
  std::filesystem::rename(folder / "model.safetensors", folder / "model-00001-of-00001.safetensors");
  const std::string index = R"({"weight_map": {"lm_head.weight": "model-00001-of-00001.safetensors"}})";
  write(folder / "model.safetensors.index.json", index);
  convert(folder, scratch_ / "parts.gguf");
  EXPECT_EQ(read(scratch_ / "whole.gguf"), read(scratch_ / "parts.gguf"));

  const auto with = [&](const std::string& text) { write(folder / "model.safetensors.index.json", text); };
  with(R"({"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors"}})");
  expect_refused(folder, ErrorCode::kNotFound, "model-00002-of-00002.safetensors, which does not exist");
  for (const char* outside : {"../phi2/model.safetensors", "/etc/passwd", "..", ""}) {
    with(std::string(R"({"weight_map": {"lm_head.weight": ")") + outside + "\"}}");
    expect_refused(folder, ErrorCode::kInvalidFile, "expected a file in its own folder");
  }
  with(R"({"weight_map": {"other.weight": "model-00001-of-00001.safetensors"}})");
  expect_refused(folder, ErrorCode::kInvalidFile, "'other.weight' is in");
  with(R"({"weight_map": 1})");
  expect_refused(folder, ErrorCode::kInvalidFile, "weight_map");
}

TEST_F(Convert, RopeIsAsItsParametersSay) {
  const auto folder = copy_of("phi2");
  const std::string config = read(folder / "config.json");
  const auto key = [&](const std::string& rope, const std::string& name) {
    write(folder / "config.json", config);
    replace(folder / "config.json", "{",
            R"({"rope_scaling": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, )" + rope + "},");
    replace(folder / "config.json", "\"rope_parameters\"", "\"unused\"");
    const std::filesystem::path made = scratch_ / "made.gguf";
    convert(folder, made);
    for (const auto& [found, value] : read_gguf_metadata(made))
      if (found == "phi2.rope." + name) return std::get<float>(value);
    ADD_FAILURE() << name;
    return 0.0f;
  };
  // Half of a head of 16 turns: 10000 * 1000^(8 / 6).
  EXPECT_FLOAT_EQ(key(R"("type": "dynamic", "alpha": 1000.0, "factor": 1.0)", "freq_base"), 1e8f);
  EXPECT_FLOAT_EQ(key(R"("type": "dynamic", "factor": 2.0)", "freq_base"), 1e4f);
  // Qwen2-VL's published folders call rope of several axes so.
  EXPECT_FLOAT_EQ(key(R"("type": "mrope")", "freq_base"), 1e4f);
  // Beside the factor that YaRN has by itself, 1 + 0.1 ln 4.
  EXPECT_FLOAT_EQ(key(R"("type": "yarn", "factor": 4.0, "attention_factor": 2.0)", "scaling.attn_factor"),
                  2.0f / (1.0f + 0.1f * std::log(4.0f)));
  EXPECT_FLOAT_EQ(
      key(R"("type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0)", "scaling.attn_factor"),
      1.0f / (1.0f + 0.1f * std::log(4.0f)));
  const std::string long_rope = R"("type": "longrope", "original_max_position_embeddings": 64,
                                   "short_factor": [1, 1, 1, 1], "long_factor": [1, 2, 3, 4])";
  EXPECT_FLOAT_EQ(key(long_rope + R"(, "attention_factor": 1.5)", "scaling.attn_factor"), 1.5f);
  EXPECT_FLOAT_EQ(key(long_rope + R"(, "factor": 4.0)", "scaling.attn_factor"), std::sqrt(4.0f / 3.0f));
  // Llama 3 has a factor for each rotated pair of dimensions; the expected values are transformers'.
  key(R"("type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 64)",
      "freq_base");
  const WeightFile file(scratch_ / "made.gguf");
  const WeightFile::Tensor* const factors = file.find("rope_freqs.weight");
  ASSERT_NE(factors, nullptr);
  const std::vector<float> expected = {1.0f, 7.667385f, 8.0f, 8.0f}, found = values_of(file, *factors);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5f);
}

TEST_F(Convert, RejectsOverriddenFixedFields) {
  struct Case {
    const char *folder, *from, *to, *refusal;
  };
  constexpr const char* kRope = R"("rope_type": "default")";
  for (const auto& [name, from, to, refusal] : {
           Case{"gemma2", R"("hidden_activation": "gelu_pytorch_tanh")", R"("hidden_activation": "silu")",
                R"(hidden_activation is "silu", but weft supports only gemma2 models with gelu)"},
           Case{"gemma2", R"("use_bidirectional_attention": null)", R"("use_bidirectional_attention": true)",
                "use_bidirectional_attention is true"},
           Case{"gpt-oss", R"("swiglu_limit": 7.0)", R"("swiglu_limit": 5.0)", "swiglu_limit is 5.0"},
           Case{"gpt-oss", "\"truncate\": false", "\"truncate\": true", "rope's truncate is true"},
           Case{"phi2", kRope, R"("rope_type": "yarn", "factor": 4.0, "truncate": false)",
                "rope's truncate is false, but weft supports only phi2 models with true"},
           Case{"flan-t5", R"("relative_attention_max_distance": 128)",
                R"("relative_attention_max_distance": 64)", "relative_attention_max_distance is 64"},
           Case{"flan-t5", R"("feed_forward_proj": "gated-gelu")", R"("feed_forward_proj": "gated-silu")",
                "feed_forward_proj is gated-silu"},
           Case{"gemma-embedding", R"("hidden_activation": "gelu_pytorch_tanh")",
                R"("hidden_activation": "relu")", "hidden_activation is \"relu\""},
           Case{"falcon-40b", R"("alibi": false)", R"("alibi": true)", "alibi is true"},
           Case{"gemma4", kRope, R"("rope_type": "linear", "factor": 2.0)",
                "rope_type of sliding_attention is linear"},
           Case{"gemma4", R"("rope_type": "proportional")", R"("rope_type": "linear", "factor": 2.0)",
                "rope_type of full_attention is linear"},
           Case{"qwen2moe", "\"full_attention\"", "\"sliding_attention\"", "sliding_window is 0"},
       }) {
    const auto folder = copy_of(name);
    replace(folder / "config.json", from, to);
    expect_refused(folder, ErrorCode::kUnsupported, refusal);
    std::filesystem::remove_all(folder);
  }
}

TEST_F(Convert, FieldsThatFilesHaveKeysForAreKept) {
  const auto kept = [&](const char* name, const char* from, const char* to, const char* key) {
    const auto folder = copy_of(name);
    replace(folder / "config.json", from, to);
    const std::filesystem::path made = scratch_ / "made.gguf";
    convert(folder, made);
    std::filesystem::remove_all(folder);
    for (const auto& [found, value] : read_gguf_metadata(made))
      if (found == key) return value;
    ADD_FAILURE() << key;
    return GgufValue();
  };
  EXPECT_EQ(kept("gemma2", R"("query_pre_attn_scalar": 32)", R"("query_pre_attn_scalar": 64)",
                 "gemma2.attention.scale"),
            GgufValue(0.125f));
  EXPECT_EQ(kept("mixtral", R"("sliding_window": null)", R"("sliding_window": 4096)",
                 "llama.attention.sliding_window"),
            GgufValue(std::uint32_t{4096}));
}

TEST_F(Convert, IgnoresPythonOnlyNumbers) {
  const auto folder = copy_of("phi2");
  convert(folder, scratch_ / "before.gguf");
  replace(folder / "config.json", "{",
          R"({"time_step_limit": [0.0, Infinity], "others": [-Infinity, NaN], "text": "\"Infinity\\",)");
  convert(folder, scratch_ / "after.gguf");
  EXPECT_EQ(read(scratch_ / "before.gguf"), read(scratch_ / "after.gguf"));
}

TEST_F(Convert, AddsEosOnlyIfTheFolderSays) {
  // What GGUF's readers assume of Unigram is another matter.
  const std::filesystem::path made = scratch_ / "made.gguf";
  convert(copy_of("phi2"), made);
  const auto entries = read_gguf_metadata(made);
  const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
  EXPECT_EQ(keys.at("tokenizer.ggml.add_eos_token"), GgufValue(false));
}

TEST_F(Convert, CanBeCancelled) {
  expect_refused(kData / "convert/phi2", ErrorCode::kCancelled, "cancelled",
                 {.progress = [](double) { return false; }});
}

/// A BERT of five tokens, without a vocabulary. Returns its number of tensors.
std::size_t write_small_bert(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const auto write = [](const std::filesystem::path& path, const std::string& text) {
    test::write_text(path, text);
  };
  write(folder / "config.json",
        R"({"architectures": ["BertModel"], "hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 5,
            "num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 16,
            "layer_norm_eps": 1e-12})");
  test::StoredTensors tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::size_t n = sizeof(float);
    for (const std::int64_t size : shape) n *= static_cast<std::size_t>(size);
    tensors[name] = {"F32", std::move(shape), std::string(n, '\0')};
  };
  add("embeddings.word_embeddings.weight", {5, 4});
  add("embeddings.position_embeddings.weight", {16, 4});
  add("embeddings.token_type_embeddings.weight", {2, 4});
  add("pooler.dense.bias", {4});  // For classifiers only.
  const auto add_both = [&](const std::string& name, std::vector<std::int64_t> shape) {
    add(name + ".bias", {shape.front()});
    add(name + ".weight", std::move(shape));
  };
  add_both("embeddings.LayerNorm", {4});
  const std::string layer = "encoder.layer.0.";
  for (const char* part : {"self.query", "self.key", "self.value", "output.dense"})
    add_both(layer + "attention." + part, {4, 4});
  add_both(layer + "attention.output.LayerNorm", {4});
  add_both(layer + "intermediate.dense", {8, 4});
  add_both(layer + "output.dense", {4, 8});
  add_both(layer + "output.LayerNorm", {4});
  test::write_safetensors(folder / "model.safetensors", tensors);
  return tensors.size();
}

TEST_F(Convert, WordPiecesAreThoseOfVocabTxt) {
  const std::filesystem::path folder = scratch_ / "bert", made = scratch_ / "bert.gguf";
  const std::size_t n_tensors = write_small_bert(folder);
  write(folder / "vocab.txt", "[UNK]\n[CLS]\nword\n##s\n[SEP]\n");
  const ConvertResult result = convert(folder, made);
  EXPECT_EQ(result.architecture, "bert");
  EXPECT_EQ(result.n_tensors, n_tensors - 1);
  const auto entries = read_gguf_metadata(made);
  const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
  EXPECT_EQ(std::get<std::vector<std::string>>(keys.at("tokenizer.ggml.tokens")),
            (std::vector<std::string>{"[UNK]", "[CLS]", "\u2581word", "s", "[SEP]"}));
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(keys.at("tokenizer.ggml.token_type")),
            (std::vector<std::int32_t>{2, 3, 1, 1, 3}));
  EXPECT_EQ(std::get<std::uint32_t>(keys.at("tokenizer.ggml.bos_token_id")), 1u);
  EXPECT_EQ(std::get<bool>(keys.at("bert.attention.causal")), false);
}

TEST_F(Convert, WordPiecesHaveTheSpecialTokensThatTheFolderNames) {
  const std::filesystem::path folder = scratch_ / "bert", made = scratch_ / "bert.gguf";
  write_small_bert(folder);
  write(folder / "vocab.txt", "<unk>\n<s>\nword\n##s\n</s>\n");
  expect_refused(folder, ErrorCode::kInvalidFile, "no token [UNK], and tokenizer_config.json names no other");
  write(folder / "tokenizer_config.json", R"({"unk_token": "<unk>", "cls_token": "<s>"})");
  expect_refused(folder, ErrorCode::kInvalidFile, "no token [SEP]");
  write(folder / "tokenizer_config.json",
        R"({"unk_token": "<unk>", "cls_token": {"content": "<s>"}, "sep_token": "</s>"})");
  convert(folder, made);
  const auto entries = read_gguf_metadata(made);
  const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
  const auto id = [&](const char* name) {
    return std::get<std::uint32_t>(keys.at(std::string("tokenizer.ggml.") + name + "_token_id"));
  };
  EXPECT_EQ(id("unknown"), 0u);
  EXPECT_EQ(id("bos"), 1u);
  EXPECT_EQ(id("seperator"), 4u);
  EXPECT_EQ(std::get<std::vector<std::string>>(keys.at("tokenizer.ggml.tokens")),
            (std::vector<std::string>{"<unk>", "<s>", "\u2581word", "s", "</s>"}));
  expect_refused(folder, ErrorCode::kInvalidArgument, "only byte-level BPE vocabularies have one",
                 {.pre_tokenizer = "gpt-2"});
}

TEST_F(Convert, KeepsNonFiniteWeights) {
  const auto folder = copy_of("phi2");
  test::StoredTensors tensors = test::read_tensors(folder / "model.safetensors");
  std::string& bytes = tensors.at("model.layers.0.mlp.fc1.weight").bytes;
  bytes[0] = '\x01', bytes[1] = '\x7c';  // A NaN.
  test::write_safetensors(folder / "model.safetensors", tensors);
  for (const char* type : {"f16", "f32", "bf16"}) {
    convert(folder, scratch_ / "made.gguf", {.type = type});
    const WeightFile file(scratch_ / "made.gguf");
    EXPECT_TRUE(std::isnan(values_of(file, *file.find("blk.0.ffn_up.weight")).front())) << type;
  }
  convert(folder, scratch_ / "made.gguf", {.type = "q8_0"});  // It has no code for it; nothing breaks.
}

}  // namespace
}  // namespace weft
