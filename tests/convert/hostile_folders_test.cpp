// What a stranger's folder may say: an error in words, no file, and no more memory than the folder is large.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convert/convert_testing.h"
#include "convert/folder_testing.h"
#include "weft/gguf.h"

namespace weft {
namespace {

class HostileFolders : public ConvertTest {};

TEST_F(HostileFolders, RejectsBadFolders) {
  expect_refused(scratch_ / "nowhere", ErrorCode::kNotFound, "not a folder with a config.json");
  const auto folder = copy_of("phi2");
  const std::string config = read(folder / "config.json"), tokenizer = read(folder / "tokenizer.json");
  const auto restore = [&] {
    write(folder / "config.json", config);
    write(folder / "tokenizer.json", tokenizer);
  };
  write(folder / "config.json", "{\"architectures\": [");
  expect_refused(folder, ErrorCode::kInvalidFile, "invalid JSON at byte");
  write(folder / "config.json", std::string(100000, '['));
  expect_refused(folder, ErrorCode::kInvalidFile, "nested more than 64 levels deep");
  write(folder / "config.json", "{}");
  expect_refused(folder, ErrorCode::kInvalidFile, "architectures");
  restore();
  replace(folder / "config.json", "PhiForCausalLM", "UnheardOf");
  expect_refused(folder, ErrorCode::kUnsupported,
                 "'UnheardOf' cannot be converted; known are LlamaForCausalLM");
  restore();
  replace(folder / "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  expect_refused(folder, ErrorCode::kInvalidFile, "layer 2 of 3 has no tensors");
  restore();
  replace(folder / "config.json", "\"hidden_size\": 64", "\"hidden_size\": 128");
  expect_refused(folder, ErrorCode::kInvalidFile, "hidden_size 128");
  restore();
  replace(folder / "config.json", "\"hidden_size\": 64", "\"hidden_size\": \"64\"");
  expect_refused(folder, ErrorCode::kInvalidFile, "expected an integer");
  for (const auto& [number, part] : {std::pair("1e999", "1e999"), std::pair("1e300", "at most 1e15")}) {
    restore();
    replace(folder / "config.json", "\"rope_theta\": 10000.0", std::string("\"rope_theta\": ") + number);
    expect_refused(folder, ErrorCode::kInvalidFile, part);
  }
  restore();
  replace(folder / "config.json", "\"intermediate_size\": 96", "\"intermediate_size\": \"96\"");
  expect_refused(folder, ErrorCode::kInvalidFile, "config.json: intermediate_size is");
  restore();
  replace(folder / "config.json", "\"hidden_act\": \"gelu_new\"", "\"hidden_act\": \"silu\"");
  expect_refused(folder, ErrorCode::kUnsupported,
                 "hidden_act is \"silu\", but weft supports only phi2 models with gelu");
  restore();
  replace(folder / "config.json", "{", R"({"quantization_config": {"quant_method": "awq"},)");
  expect_refused(folder, ErrorCode::kUnsupported, "quantization method (awq)");
  restore();
  replace(folder / "tokenizer.json", "\"ByteLevel\"", "\"Unheard\"");
  expect_refused(folder, ErrorCode::kUnsupported, "(Unheard)");
  convert(folder, scratch_ / "named.gguf", {.pre_tokenizer = "gpt-2"});
  expect_refused(folder, ErrorCode::kInvalidArgument, "unknown pre-tokenizer 'nonsense'",
                 {.pre_tokenizer = "nonsense"});
  restore();
  replace(folder / "tokenizer.json", "{", R"({"normalizer": {"type": "Reverse"},)");
  expect_refused(folder, ErrorCode::kUnsupported, "Reverse");
  restore();
  replace(
      folder / "tokenizer.json", "\"pre_tokenizer\": {",
      R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
             {"type": "ByteLevel", "add_prefix_space": true}]}, "other": {)");
  expect_refused(folder, ErrorCode::kUnsupported, "add_prefix_space");
  restore();
  replace(folder / "tokenizer.json", "\"BPE\"", "\"Other\"");
  expect_refused(folder, ErrorCode::kUnsupported, "known are BPE");
  restore();
  std::filesystem::resize_file(folder / "model.safetensors", 5000);
  expect_refused(folder, ErrorCode::kInvalidFile, "safetensors");
  std::filesystem::remove(folder / "model.safetensors");
  expect_refused(folder, ErrorCode::kNotFound, "no model.safetensors");
  write(folder / "pytorch_model.bin", "pickle");
  expect_refused(folder, ErrorCode::kUnsupported, "pickled");
}

TEST_F(HostileFolders, RejectsDamagedWeights) {
  const auto folder = copy_of("phi2");
  const auto with = [&](const std::string& header, const std::string& text, const std::string& data = "") {
    write(folder / "model.safetensors", test::safetensors(header, data));
    expect_refused(folder, ErrorCode::kInvalidFile, text);
  };
  with(R"({"lm_head.weight": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9]}})", "outside of the file",
       "12345678");
  with(R"({"lm_head.weight": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", "its shape needs 12",
       "12345678");
  with(R"({"lm_head.weight": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 8]}})",
       "no memory has", "12345678");
  with(R"({"lm_head.weight": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}})", "negative",
       "12345678");
  with(R"({"lm_head.weight": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}})", "of the type I64",
       "12345678");
  with(R"({"lm_head.weight": {"dtype": "X9", "shape": [8], "data_offsets": [0, 8]}})", "of the type X9",
       "12345678");
  with(R"({"lm_head.weight": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}})", "is empty");
  with(R"({"lm_head.weight": {"dtype": "F8_E4M3", "shape": [2, 4], "data_offsets": [0, 8]}})",
       "of the type F8_E4M3", "12345678");
  with(R"({"lm_head.bias": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},)"
       R"("lm_head.weight": {"dtype": "F32", "shape": [1], "data_offsets": [2, 6]}})",
       "'lm_head.bias' and 'lm_head.weight' overlap", "12345678");
  with(std::string(1000, '['), "safetensors");
  with("{}", "layer 0 of 2 has no tensors");
  write(folder / "model.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f", 8) + "{}");
  expect_refused(folder, ErrorCode::kInvalidFile, "the header would have");
  write(folder / "model.safetensors", "");
  expect_refused(folder, ErrorCode::kInvalidFile, "too short");
}

TEST_F(HostileFolders, PartsOfAMatrixHaveRows) {
  const std::filesystem::path folder = scratch_ / "glm";
  std::filesystem::create_directories(folder);
  write(folder / "config.json",
        R"({"architectures": ["GlmForCausalLM"], "hidden_size": 4, "num_hidden_layers": 1, "vocab_size": 5,
            "num_attention_heads": 2, "max_position_embeddings": 16})");
  const std::string numbers(4, '\0');
  for (const std::vector<std::int64_t>& second : {std::vector<std::int64_t>{1}, {}}) {
    test::write_safetensors(folder / "model.safetensors",
                            {{"model.layers.0.self_attn.k_proj.bias", {"F32", second, numbers}},
                             {"model.layers.0.self_attn.q_proj.bias", {"F32", {}, numbers}}});
    expect_refused(folder, ErrorCode::kInvalidFile, "has another shape");
  }
}

TEST_F(HostileFolders, RejectsWildConfigurations) {
  const auto folder = copy_of("phi2");
  const auto with = [&](const std::string& from, const std::string& to, const std::string& text) {
    expect_change_refused(folder / "config.json", from, to, text);
  };
  with("\"hidden_size\": 64", "\"hidden_size\": 1e999", "1e999 is out of range");
  with("\"hidden_size\": 64", "\"hidden_size\": 64.5", "expected an integer");
  with("\"hidden_size\": 64", "\"hidden_size\": -64", "expected an integer");
  with("\"hidden_size\": 64", "\"hidden_size\": 18446744073709551615", "at most 31 bits");
  with("\"hidden_size\": 64", "\"hidden_sizes\": 64", "hidden_size is missing");
  with("\"num_attention_heads\": 4", "\"num_attention_heads\": 65", "heads would have 0 dimensions");
  with("\"num_attention_heads\": 4", "\"num_attention_heads\": 0", "num_attention_heads is missing or 0");
  with("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2000000000", "layer 2 of 2000000000");
  with("\"rope_parameters\": {", "\"rope_parameters\": 1, \"other\": {",
       "rope_parameters (or rope_scaling) is not an object");
  with("\"vocab_size\": 512", "\"vocab_size\": 513", "vocab_size 513");
  with("\"vocab_size\": 512", "\"vocab_size\": [512]", "expected an integer");
  with("{", "{\"head_dim\": 2000000000, ", "heads would have 2000000000");
  with("{", "{\"text_config\": {\"hidden_size\": \"\"}, ", "expected an integer");
  with("{", "{\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [0, 1]}, ",
       "expected two positive integers");
}

TEST_F(HostileFolders, RejectsWildTokenizers) {
  const auto folder = copy_of("phi2");
  const auto with = [&](const std::string& from, const std::string& to, const std::string& text) {
    expect_change_refused(folder / "tokenizer.json", from, to, text);
  };
  with("\"vocab\": {", "\"vocab\": {\"twice\": 300, ", "have the same id");
  with("\"vocab\": {", "\"vocab\": {\"below\": -1, ", "negative id");
  with("\"vocab\": {", "\"vocab\": {\"wide\": 18446744073709551615, ", "negative id");
  with("\"vocab\": {", "\"vocab\": {\"half\": 1.5, ", "id is not an integer");
  with("\"vocab\": {", "\"vocab\": 1, \"other\": {", "no object \"vocab\"");
  with("\"merges\": [", "\"merges\": [1, ", "a merge is not a pair");
  with("\"added_tokens\": [", "\"added_tokens\": [{\"id\": 1}, ", "no id or no content");
  // A gap in the ids gets a placeholder, and ids past the table are dropped.
  replace(folder / "tokenizer.json", "\"vocab\": {", "\"vocab\": {\"behind\": 100000, ");
  replace(folder / "tokenizer.json", ": 400", ": 100001");
  convert(folder, scratch_ / "made.gguf");
  const auto entries = read_gguf_metadata(scratch_ / "made.gguf");
  const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
  const auto& tokens = std::get<std::vector<std::string>>(keys.at("tokenizer.ggml.tokens"));
  EXPECT_EQ(tokens.size(), 512u);
  EXPECT_EQ(tokens[400], "[PAD400]");
}

TEST_F(HostileFolders, LeavesNothingOnWriteErrors) {
  for (const char* to : {"/proc/weft/result.gguf", "/proc/result.gguf"})
    EXPECT_THROW(convert(kData / "convert/phi2", to), Error) << to;
  // As of a disk that is full: half of the file fits.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {64 << 10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_refused(kData / "convert/phi2", ErrorCode::kIo, "result.gguf");
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  convert(kData / "convert/phi2", scratch_ / "result.gguf");
}

}  // namespace
}  // namespace weft
