// Files of a folder next to tokenizer.json and model.safetensors: which are read, and which are refused.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert_testing.h"
#include "convert/folder_testing.h"
#include "engine/vocabulary_from_gguf.h"
#include "weft/gguf.h"
#include "weft/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;
using Keys = std::map<std::string, GgufValue>;
using Texts = std::vector<std::string>;

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 538090408\n";

class FolderFiles : public ConvertTest {
 protected:
  Keys converted(const std::filesystem::path& folder) {
    const ConvertResult result = convert(folder, scratch_ / "made.gguf");
    notes_ = result.notes;
    const auto entries = read_gguf_metadata(scratch_ / "made.gguf");
    return {entries.begin(), entries.end()};
  }

  /// With a file of SentencePiece and rows for more tokens than it has.
  std::filesystem::path sentencepiece_folder(std::int64_t n_tokens) {
    const std::filesystem::path folder = scratch_ / "pieces";
    std::filesystem::create_directories(folder);
    test::write_small_model(folder, n_tokens);
    std::filesystem::copy(kData / "tokenizers/unigram-bytes.model", folder / "tokenizer.model");
    return folder;
  }

  static std::string text_of(const Keys& keys, const std::string& key) {
    return std::get<std::string>(keys.at("tokenizer." + key));
  }

  /// The weights of a folder in several files, without an index.
  static void split_weights(const std::filesystem::path& folder, const Texts& names) {
    const test::StoredTensors all = test::read_tensors(folder / "model.safetensors");
    std::vector<test::StoredTensors> parts(names.size());
    std::size_t next = 0;
    for (const auto& tensor : all) parts[next++ % parts.size()].insert(tensor);
    for (std::size_t i = 0; i < names.size(); ++i) test::write_safetensors(folder / names[i], parts[i]);
    std::filesystem::remove(folder / "model.safetensors");
  }

  void expect_without(const std::string& model, const std::string& tensor, const std::string& text) {
    const std::filesystem::path folder = copy_of(model);
    test::StoredTensors tensors = test::read_tensors(folder / "model.safetensors");
    ASSERT_EQ(tensors.erase(tensor), 1u) << tensor;
    test::write_safetensors(folder / "model.safetensors", tensors);
    expect_refused(folder, ErrorCode::kInvalidFile, text);
    std::filesystem::remove_all(folder);
  }

  Texts notes_;
};

TEST_F(FolderFiles, AddedTokensWithSentencePiece) {
  const auto folder = sentencepiece_folder(1010);
  write(
      folder / "added_tokens.json",
      R"({"<unk>": 0, "<s>": 1, "<|im_end|>": 1000, "<|im_start|>": 1001, "<tool>": 1002, "<beyond>": 2000})");
  write(folder / "special_tokens_map.json",
        R"({"eos_token": {"content": "<|im_end|>"}, "additional_special_tokens": ["<|im_start|>"]})");
  const Keys keys = converted(folder);
  const auto tokens = std::get<Texts>(keys.at("tokenizer.ggml.tokens"));
  const auto kinds = std::get<std::vector<std::int32_t>>(keys.at("tokenizer.ggml.token_type"));
  constexpr std::int32_t kControl = 3, kUserDefined = 4, kUnused = 5;
  EXPECT_EQ(tokens[1000], "<|im_end|>");
  EXPECT_EQ(kinds[1000], kControl);
  EXPECT_EQ(kinds[1001], kControl);
  EXPECT_EQ(kinds[1002], kUserDefined);
  EXPECT_EQ(kinds[1], kControl);  // As the file of SentencePiece says.
  EXPECT_EQ(kinds[1003], kUnused);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_EQ(notes_[0], "left out 1 token that the embeddings have no row for, e.g. '<beyond>'");
  // No tokenizer_config.json names the end.
  EXPECT_EQ(std::get<std::uint32_t>(keys.at("tokenizer.ggml.eos_token_id")), 1000u);
}

TEST_F(FolderFiles, TokenizerConfigCountsBeforeOlderFiles) {
  const auto folder = sentencepiece_folder(1010);
  write(folder / "tokenizer_config.json",
        R"({"eos_token": "</s>", "pad_token": null,
            "added_tokens_decoder": {"1000": {"content": "<a>", "special": true, "rstrip": true}}})");
  write(folder / "added_tokens.json", R"({"<b>": 1000, "<c>": 1001})");
  write(folder / "special_tokens_map.json", R"({"eos_token": "<c>", "pad_token": "<c>"})");
  const Keys keys = converted(folder);
  const auto tokens = std::get<Texts>(keys.at("tokenizer.ggml.tokens"));
  EXPECT_EQ(tokens[1000], "<a>");
  EXPECT_EQ(tokens[1001], "<c>");
  EXPECT_EQ(std::get<std::uint32_t>(keys.at("tokenizer.ggml.eos_token_id")), 2u);
  EXPECT_EQ(std::get<std::uint32_t>(keys.at("tokenizer.ggml.padding_token_id")), 1001u);
  EXPECT_EQ(std::get<std::vector<std::int32_t>>(keys.at("weft.tokenizer.rstrip")), std::vector{1000});
}

// As transformers' tokenizers without a tokenizer.json.
TEST_F(FolderFiles, SentencePieceHasTheTokensAroundPromptsOfItsKind) {
  const auto folder = copy_of("mixtral");
  std::filesystem::remove(folder / "tokenizer.json");
  std::filesystem::remove(folder / "tokenizer_config.json");
  const auto ids = [&] {
    convert(folder, scratch_ / "made.gguf");
    const Tokenizer tokenizer(engine::vocabulary_from_gguf(gguf::File::open(scratch_ / "made.gguf")));
    std::vector<Token> around = tokenizer.encode("hello", {.add_special = true, .parse_special = false});
    const auto text = tokenizer.encode("hello", {.add_special = false, .parse_special = false});
    const auto at = std::search(around.begin(), around.end(), text.begin(), text.end());
    EXPECT_NE(at, around.end());
    around.erase(at, at + static_cast<std::ptrdiff_t>(text.size()));
    return around;
  };
  std::filesystem::copy(kData / "tokenizers/sentencepiece-bpe.model", folder / "tokenizer.model");
  EXPECT_EQ(ids(), std::vector<Token>{1});
  EXPECT_FALSE(converted(folder).contains("tokenizer.ggml.add_bos_token"));
  expect_refused(folder, ErrorCode::kInvalidArgument, "only byte-level BPE vocabularies have one",
                 {.pre_tokenizer = "gpt-2"});
  write(folder / "tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_EQ(ids(), std::vector<Token>{2});
  // T5's kind.
  std::filesystem::remove(folder / "tokenizer_config.json");
  std::filesystem::remove(folder / "tokenizer.model");
  std::filesystem::copy(kData / "tokenizers/unigram-bytes.model", folder / "spiece.model");
  EXPECT_EQ(ids(), std::vector<Token>{2});
  // XLM-R's kind.
  std::filesystem::rename(folder / "spiece.model", folder / "sentencepiece.bpe.model");
  EXPECT_EQ(ids(), (std::vector<Token>{0, 2}));
}

TEST_F(FolderFiles, AllEndsAreKept) {
  const auto folder = copy_of("mixtral");
  write(folder / "generation_config.json", R"({"eos_token_id": [5, 4, 3, 7, 6]})");
  const Keys keys = converted(folder);
  const auto ends = std::get<std::vector<std::int32_t>>(keys.at("tokenizer.ggml.eos_token_ids"));
  for (const std::int32_t id : {3, 4, 5, 6, 7}) EXPECT_EQ(std::count(ends.begin(), ends.end(), id), 1) << id;
  EXPECT_EQ(std::get<std::uint32_t>(keys.at("tokenizer.ggml.eos_token_id")),
            static_cast<std::uint32_t>(ends[0]));
}

TEST_F(FolderFiles, TokensAroundPromptsThatGgufCannotStoreAreNoted) {
  const auto folder = copy_of("mixtral");
  json tokenizer = json::parse(read(folder / "tokenizer.json"));
  const auto convert_with = [&](const Texts& before, const Texts& after) {
    json single = json::array();
    for (const auto& id : before) single.push_back({{"SpecialToken", {{"id", id}, {"type_id", 0}}}});
    single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    for (const auto& id : after) single.push_back({{"SpecialToken", {{"id", id}, {"type_id", 0}}}});
    tokenizer["post_processor"] = {{"type", "TemplateProcessing"}, {"single", single}};
    write(folder / "tokenizer.json", tokenizer.dump());
    return converted(folder);
  };
  write(folder / "tokenizer_config.json", R"({"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"})");
  const std::string token = "<|endoftext|>";
  EXPECT_TRUE(std::get<bool>(convert_with({token}, {token}).at("tokenizer.ggml.add_eos_token")));
  EXPECT_TRUE(notes_.empty());
  EXPECT_TRUE(std::get<bool>(convert_with({token, token}, {}).at("tokenizer.ggml.add_bos_token")));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("adds <|endoftext|> <|endoftext|> before and nothing after"), std::string::npos)
      << notes_[0];
  EXPECT_FALSE(std::get<bool>(convert_with({"a"}, {}).at("tokenizer.ggml.add_bos_token")));
  EXPECT_EQ(notes_.size(), 1u);
  EXPECT_FALSE(std::get<bool>(convert_with({}, {"a"}).at("tokenizer.ggml.add_eos_token")));
  EXPECT_EQ(notes_.size(), 1u);
  write(folder / "tokenizer_config.json", R"({"bos_token": "<|endoftext|>", "add_bos_token": true})");
  EXPECT_TRUE(std::get<bool>(convert_with({"a"}, {}).at("tokenizer.ggml.add_bos_token")));
  EXPECT_EQ(notes_.size(), 1u);
}

TEST_F(FolderFiles, LayersBeyondTheConfigAreLeftOutWithANote) {
  const auto folder = copy_of("mixtral");
  json config = json::parse(read(folder / "config.json"));
  const auto n_layers = config["num_hidden_layers"].get<std::uint32_t>();
  ASSERT_GT(n_layers, 1u);
  config["num_hidden_layers"] = n_layers - 1;
  write(folder / "config.json", config.dump());
  EXPECT_EQ(std::get<std::uint32_t>(converted(folder).at("llama.block_count")), n_layers - 1);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("left out 1 layer:"), std::string::npos) << notes_[0];
  config["num_nextn_predict_layers"] = 1;
  write(folder / "config.json", config.dump());
  converted(folder);
  EXPECT_TRUE(notes_.empty());
}

TEST_F(FolderFiles, AMissingHeadIsTiedWithANote) {
  const auto folder = copy_of("mixtral");
  json config = json::parse(read(folder / "config.json"));
  ASSERT_EQ(config["tie_word_embeddings"], false);
  converted(folder);
  EXPECT_TRUE(notes_.empty());
  test::StoredTensors tensors = test::read_tensors(folder / "model.safetensors");
  ASSERT_EQ(tensors.erase("lm_head.weight"), 1u);
  test::write_safetensors(folder / "model.safetensors", tensors);
  converted(folder);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("tie_word_embeddings"), std::string::npos) << notes_[0];
  EXPECT_NE(notes_[0].find("lm_head.weight"), std::string::npos) << notes_[0];
  for (const json& said : {json(true), json(nullptr)}) {
    config["tie_word_embeddings"] = said;
    write(folder / "config.json", config.dump());
    converted(folder);
    EXPECT_TRUE(notes_.empty()) << said;
  }
}

TEST_F(FolderFiles, AHeadThatDiffersIsKeptWithANote) {
  const auto folder = copy_of("mixtral");
  json config = json::parse(read(folder / "config.json"));
  config["tie_word_embeddings"] = true;
  write(folder / "config.json", config.dump());
  const auto has_head = [&] {
    converted(folder);
    return gguf::File::open(scratch_ / "made.gguf").find_tensor("output.weight") != nullptr;
  };
  EXPECT_TRUE(has_head());
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("lm_head.weight differs from the embeddings"), std::string::npos) << notes_[0];
  test::StoredTensors tensors = test::read_tensors(folder / "model.safetensors");
  tensors["lm_head.weight"] = tensors.at("model.embed_tokens.weight");
  test::write_safetensors(folder / "model.safetensors", tensors);
  EXPECT_FALSE(has_head());
  EXPECT_TRUE(notes_.empty());
}

TEST_F(FolderFiles, MissingFieldsOfLlamaGetDefaultsWithNotes) {
  test::write_small_model(scratch_, 3);
  write(
      scratch_ / "tokenizer.json",
      R"({"model": {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}}})");
  json config = json::parse(read(scratch_ / "config.json"));
  config.erase("max_position_embeddings");
  config.erase("rms_norm_eps");
  write(scratch_ / "config.json", config.dump());
  const Keys keys = converted(scratch_);
  EXPECT_EQ(std::get<std::uint32_t>(keys.at("llama.context_length")), 2048u);
  EXPECT_EQ(std::get<float>(keys.at("llama.attention.layer_norm_rms_epsilon")), 1e-6f);
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_NE(notes_[0].find("no max_position_embeddings; weft uses 2048"), std::string::npos) << notes_[0];
  EXPECT_NE(notes_[1].find("no rms_norm_eps"), std::string::npos) << notes_[1];
}

TEST_F(FolderFiles, DynamicRopeScalingIsLeftOutWithANote) {
  const auto folder = copy_of("mixtral");
  const Keys plain = converted(folder);
  json config = json::parse(read(folder / "config.json"));
  const int trained = config["max_position_embeddings"].get<int>();
  config["rope_theta"] = config["rope_parameters"]["rope_theta"];
  config.erase("rope_parameters");
  const auto note_of = [&](const char* scaling) {
    config["rope_scaling"] = json::parse(scaling);
    write(folder / "config.json", config.dump());
    EXPECT_TRUE(converted(folder) == plain) << scaling;
    return notes_.empty() ? std::string() : notes_.front();
  };
  const std::string note = "config.json: rope_scaling \"dynamic\" is not applied; output is worse beyond ";
  EXPECT_EQ(note_of(R"({"type": "dynamic", "factor": 2.0})"), note + std::to_string(trained) + " tokens");
  EXPECT_EQ(note_of(R"({"rope_type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 16})"),
            note + "16 tokens");
  EXPECT_EQ(note_of(R"({"rope_type": "default"})"), "");
}

TEST_F(FolderFiles, ChatTemplates) {
  const auto folder = copy_of("mixtral");
  EXPECT_FALSE(converted(folder).contains("tokenizer.chat_template"));
  // As processors save it.
  write(folder / "chat_template.json", R"({"chat_template": "of the processor"})");
  EXPECT_EQ(text_of(converted(folder), "chat_template"), "of the processor");

  write(folder / "tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"},
                              {"name": "my rag-2", "template": "R"}, {"name": "", "template": "E"}, 3]})");
  Keys keys = converted(folder);
  EXPECT_EQ(text_of(keys, "chat_template"), "D");
  EXPECT_EQ(text_of(keys, "chat_template.tool_use"), "T");
  EXPECT_EQ(text_of(keys, "chat_template.my_rag_2"), "R");
  EXPECT_EQ(std::get<Texts>(keys.at("tokenizer.chat_templates")), (Texts{"my_rag_2", "tool_use"}));
  EXPECT_TRUE(notes_.empty());

  write(folder / "tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "T"}, {"name": "chatml", "template": "C"}]})");
  EXPECT_EQ(text_of(converted(folder), "chat_template"), "C");
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("\"chatml\""), std::string::npos) << notes_[0];

  write(folder / "chat_template.jinja", "\xEF\xBB\xBF{{ text }}");
  std::filesystem::create_directories(folder / "additional_chat_templates");
  write(folder / "additional_chat_templates/rag.jinja", "\xEF\xBB\xBFR");
  write(folder / "additional_chat_templates/readme.txt", "no template");
  keys = converted(folder);
  EXPECT_EQ(text_of(keys, "chat_template"), "{{ text }}");
  EXPECT_EQ(text_of(keys, "chat_template.rag"), "R");
  EXPECT_FALSE(keys.contains("tokenizer.chat_template.readme"));
}

TEST_F(FolderFiles, MissingWeightsAreNamed) {
  expect_without("mixtral", "model.layers.1.self_attn.k_proj.weight", "blk.1.attn_k.weight");
  expect_without("mixtral", "model.layers.0.input_layernorm.weight", "blk.0.attn_norm.weight");
  expect_without("mixtral", "model.norm.weight", "output_norm.weight");
  expect_without("mixtral", "model.layers.1.block_sparse_moe.gate.weight", "blk.1.ffn_gate_inp.weight");
  expect_without("gemma2", "model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight");
  expect_without("qwen2moe", "model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias");
  expect_without("gptneox", "gpt_neox.layers.1.mlp.dense_h_to_4h.bias", "blk.1.ffn_up.bias");
  expect_without("flan-t5", "decoder.block.0.layer.1.EncDecAttention.k.weight",
                 "dec.blk.0.cross_attn_k.weight");
}

TEST_F(FolderFiles, PartsWithoutAnIndex) {
  const auto folder = copy_of("phi2");
  convert(folder, scratch_ / "whole.gguf");
  split_weights(folder, {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                         "model-00003-of-00003.safetensors"});
  convert(folder, scratch_ / "parts.gguf");
  EXPECT_EQ(read(scratch_ / "whole.gguf"), read(scratch_ / "parts.gguf"));
  std::filesystem::remove(folder / "model-00002-of-00003.safetensors");
  expect_refused(folder, ErrorCode::kNotFound, "lacks part 2 of the 3 files");
  write(folder / "model-00001-of-00002.safetensors", "");
  expect_refused(folder, ErrorCode::kInvalidFile, "files; remove those of one model");
}

TEST_F(FolderFiles, OnePartThatIsAll) {
  const auto folder = copy_of("phi2");
  split_weights(folder, {"model-00001-of-00001.safetensors"});
  convert(folder, scratch_ / "made.gguf");
  std::filesystem::rename(folder / "model-00001-of-00001.safetensors", folder / "model-1-of-1.safetensors");
  expect_refused(folder, ErrorCode::kNotFound, "no model-00001-of-0000N.safetensors");
}

TEST_F(FolderFiles, RejectsGitLfsPointersWithAdvice) {
  const auto folder = sentencepiece_folder(1000);
  write(folder / "tokenizer.model", kPointer);
  expect_refused(folder, ErrorCode::kInvalidFile, "git lfs pull");
  write(folder / "tokenizer.json", kPointer);
  expect_refused(folder, ErrorCode::kInvalidFile, "git lfs pull");
  write(folder / "model.safetensors", kPointer);
  expect_refused(folder, ErrorCode::kInvalidFile, "git lfs pull");
}

TEST_F(FolderFiles, RejectsWebPagesInPlaceOfFiles) {
  const auto folder = copy_of("phi2");
  const std::string page = "<!DOCTYPE html><html><body>Please log in to download this file.</body></html>";
  write(folder / "model.safetensors", page);
  expect_refused(folder, ErrorCode::kInvalidFile, "HTML page");
  write(folder / "config.json", page);
  expect_refused(folder, ErrorCode::kInvalidFile, "HTML page");
  write(folder / "config.json", "{");
  expect_refused(folder, ErrorCode::kInvalidFile, "invalid JSON");
}

TEST_F(FolderFiles, MlxIsRefusedByItsName) {
  const auto folder = copy_of("mixtral");
  const std::string config = read(folder / "config.json");
  for (const char* said : {R"({"quantization": {"group_size": 64, "bits": 4},)",
                           R"({"quantization": {"group_size": 64, "bits": 4},
                               "quantization_config": {"group_size": 64, "bits": 4},)"}) {
    write(folder / "config.json", config);
    replace(folder / "config.json", "{", said);
    expect_refused(folder, ErrorCode::kUnsupported, "quantization method (mlx)");
  }
}

}  // namespace
}  // namespace weft
