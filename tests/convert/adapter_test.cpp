// Adapters of PEFT: what the file adds to each matrix of the converted base is what merging in the folder
// adds to the matrix there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert_testing.h"
#include "convert/folder_testing.h"
#include "tensor/codec.h"
#include "weft/gguf.h"
#include "weft/weights.h"

namespace weft {
namespace {

using nlohmann::json;

struct Matrix {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Matrices = std::map<std::string, Matrix>;

Matrices read_matrices(const std::filesystem::path& path) {
  const WeightFile file(path);
  Matrices all;
  for (const WeightFile::Tensor& tensor : file.tensors()) {
    std::vector<std::byte> bytes(tensor.bytes.size());
    file.read(tensor.bytes, bytes);
    std::size_t n = 1;
    for (const std::int64_t size : tensor.shape) n *= static_cast<std::size_t>(size);
    Matrix& matrix = all[tensor.name];
    matrix.shape = tensor.shape;
    matrix.values.resize(n);
    unpack_row(tensor.dtype, bytes.data(), matrix.values);
  }
  return all;
}

test::StoredTensors stored(const Matrices& matrices) {
  test::StoredTensors result;
  for (const auto& [name, matrix] : matrices)
    result[name] = {"F32", matrix.shape, test::bytes_of(matrix.values)};
  return result;
}

/// Small numbers that differ from place to place.
Matrix pattern(std::int64_t rows, std::int64_t columns, int seed) {
  Matrix matrix{{rows, columns}, {}};
  for (std::int64_t i = 0; i < rows * columns; ++i)
    matrix.values.push_back(static_cast<float>((i * 37 + seed * 101) % 211 - 105) / 256.0f);
  return matrix;
}

/// to += scale * b a, where `at` is where the matrix begins in `to`.
void add_product(Matrix& to, std::size_t at, const Matrix& a, const Matrix& b, double scale) {
  const auto rank = static_cast<std::size_t>(a.shape.end()[-2]),
             columns = static_cast<std::size_t>(a.shape.back());
  const auto rows = static_cast<std::size_t>(b.shape.end()[-2]);
  const std::size_t part = at / (rows * columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      double sum = 0.0;
      for (std::size_t k = 0; k < rank; ++k)
        sum += double{b.values[(part * rows + i) * rank + k]} * a.values[(part * rank + k) * columns + j];
      to.values[at + i * columns + j] += static_cast<float>(scale * sum);
    }
}

class Adapter : public ConvertTest {
 protected:
  void use_base(const std::string& name) {
    base_ = copy_of(name);
    weights_ = read_matrices(base_ / "model.safetensors");
    std::filesystem::create_directories(scratch_ / "lora");
    lora_ = scratch_ / "lora";
  }

  /// A pair for a module, scaled so in the merged folder.
  void add(const std::string& module, std::int64_t rank, double scale) {
    Matrix& matrix = weights_.at(module + ".weight");
    const int seed = static_cast<int>(pairs_.size()) + 1;
    const Matrix a = pattern(rank, matrix.shape[1], seed), b = pattern(matrix.shape[0], rank, seed + 50);
    add_product(matrix, 0, a, b, scale);
    pairs_["base_model.model." + module + ".lora_A.weight"] = a;
    pairs_["base_model.model." + module + ".lora_B.weight"] = b;
  }

  void write_adapter(json config) {
    config["peft_type"] = "LORA";
    config["base_model_name_or_path"] = "someone/model";
    write(lora_ / "adapter_config.json", config.dump());
    test::write_safetensors(lora_ / "adapter_model.safetensors", stored(pairs_));
  }

  void expect_adds_what_merging_adds(std::size_t n_pairs) {
    ConvertParams params{.type = "f32"};
    convert(base_, scratch_ / "base.gguf", params);
    test::write_safetensors(base_ / "model.safetensors", stored(weights_));
    convert(base_, scratch_ / "merged.gguf", params);
    params.base = base_;
    const ConvertResult result = convert(lora_, scratch_ / "lora.gguf", params);
    EXPECT_EQ(result.n_tensors, 2 * n_pairs);
    notes_ = result.notes;

    const auto entries = read_gguf_metadata(scratch_ / "lora.gguf");
    const std::map<std::string, GgufValue> keys(entries.begin(), entries.end());
    EXPECT_EQ(std::get<std::string>(keys.at("general.type")), "adapter");
    EXPECT_EQ(std::get<std::string>(keys.at("adapter.type")), "lora");
    const double alpha = std::get<float>(keys.at("adapter.lora.alpha"));
    Matrices base = read_matrices(scratch_ / "base.gguf");
    const Matrices lora = read_matrices(scratch_ / "lora.gguf");
    if (lora.contains("output.weight.lora_a"))  // A head may share the embeddings' matrix.
      base.try_emplace("output.weight", base.at("token_embd.weight"));
    for (auto& [name, matrix] : base) {
      const auto a = lora.find(name + ".lora_a"), b = lora.find(name + ".lora_b");
      if (a == lora.end()) continue;
      ASSERT_NE(b, lora.end()) << name;
      const auto size = static_cast<std::size_t>(matrix.shape.end()[-2] * matrix.shape.back());
      for (std::size_t at = 0; at < matrix.values.size(); at += size)
        add_product(matrix, at, a->second, b->second, alpha / static_cast<double>(a->second.shape.end()[-2]));
    }
    for (const auto& [name, wanted] : read_matrices(scratch_ / "merged.gguf")) {
      const Matrix& found = base.at(name);
      ASSERT_EQ(found.shape, wanted.shape) << name;
      for (std::size_t i = 0; i < wanted.values.size(); ++i)
        ASSERT_NEAR(found.values[i], wanted.values[i], 1e-5) << name << " at " << i;
    }
  }

  std::filesystem::path base_, lora_;
  Matrices weights_, pairs_;
  std::vector<std::string> notes_;
};

TEST_F(Adapter, TurnedQueriesAndKeysExpertsAndTheHead) {
  use_base("mixtral");
  for (const char* layer : {"model.layers.0.", "model.layers.1."})
    for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
      add(layer + std::string("self_attn.") + part, 4, 2.0);
  add("lm_head", 4, 2.0);
  for (int expert = 0; expert < 6; ++expert)
    for (const char* part : {"w1", "w2", "w3"})
      add("model.layers.1.block_sparse_moe.experts." + std::to_string(expert) + "." + part, 4, 2.0);
  write_adapter({{"r", 4}, {"lora_alpha", 8}});
  expect_adds_what_merging_adds(8 + 1 + 3);
}

TEST_F(Adapter, JoinedQueriesKeysAndValues) {
  use_base("falcon-40b");
  add("transformer.h.0.self_attention.query_key_value", 3, 4.0);
  add("transformer.h.1.mlp.dense_h_to_4h", 3, 4.0);
  write_adapter({{"r", 3}, {"lora_alpha", 12}});
  expect_adds_what_merging_adds(2);
}

TEST_F(Adapter, RanksAndScalesOfTheirOwn) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 16.0 / 4);
  add("model.layers.0.self_attn.v_proj", 2, 16.0 / 2);
  add("model.layers.1.self_attn.v_proj", 8, 6.0 / 8);
  write_adapter({{"r", 4},
                 {"lora_alpha", 16},
                 {"rank_pattern", {{"v_proj", 2}}},
                 {"alpha_pattern", {{"layers.1.self_attn.v_proj", 6}}}});
  expect_adds_what_merging_adds(3);
}

TEST_F(Adapter, ScalesByTheRootOfTheRank) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 16.0 / 2);
  add("model.layers.0.self_attn.o_proj", 9, 16.0 / 3);
  write_adapter({{"r", 4}, {"lora_alpha", 16}, {"use_rslora", true}});
  expect_adds_what_merging_adds(2);
}

TEST_F(Adapter, AMissingAlphaIsTheDefaultOfPeft) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 8.0 / 4);
  write_adapter({{"r", 4}});
  expect_adds_what_merging_adds(1);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("no lora_alpha"), std::string::npos) << notes_[0];
}

TEST_F(Adapter, AnAlphaOfZeroHasNoEffect) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 0.0);
  write_adapter({{"r", 4}, {"lora_alpha", 0}});
  expect_adds_what_merging_adds(1);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("is 0 for all matrices"), std::string::npos) << notes_[0];
  add("model.layers.1.self_attn.v_proj", 4, 6.0 / 4);
  write_adapter({{"r", 4}, {"lora_alpha", 0}, {"alpha_pattern", {{"v_proj", 6}}}});
  expect_adds_what_merging_adds(2);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("is 0 for 1 of 2 matrices"), std::string::npos) << notes_[0];
}

TEST_F(Adapter, NamesThatOtherSaversWrite) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 2.0);
  Matrices renamed;
  for (const auto& [name, matrix] : pairs_) {
    std::string other = name;
    other.replace(other.find(".lora_"), 0, ".base_layer").replace(other.rfind(".weight"), 0, ".default");
    renamed[other] = matrix;
  }
  pairs_ = renamed;
  write_adapter({{"r", 4}, {"lora_alpha", 8}});
  expect_adds_what_merging_adds(1);
}

TEST_F(Adapter, RejectsUnsupportedFeaturesByName) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 2.0);
  const ConvertParams params{.base = base_};
  const json plain = {{"r", 4}, {"lora_alpha", 8}};
  const auto refused = [&](const json& more, const std::string& text) {
    json config = plain;
    config.update(more);
    write_adapter(config);
    expect_refused(lora_, ErrorCode::kUnsupported, text, params);
  };
  for (const char* key : {"use_dora", "lora_bias"}) refused({{key, true}}, std::string(key) + " is set");
  refused({{"alora_invocation_tokens", {1, 2}}}, "alora_invocation_tokens");
  refused({{"trainable_token_indices", {5}}}, "trainable_token_indices");
  const Matrices good = pairs_;
  const auto refused_tensor = [&](const std::string& name, const Matrix& matrix, const std::string& text) {
    pairs_ = good;
    pairs_[name] = matrix;
    write_adapter(plain);
    expect_refused(lora_, ErrorCode::kUnsupported, text, params);
  };
  refused_tensor("base_model.model.lm_head.modules_to_save.weight", pattern(512, 64, 1),
                 "fully trained weight");
  refused_tensor("base_model.model.model.norm.weight", pattern(1, 64, 1),
                 "'base_model.model.model.norm.weight'");
  refused_tensor("base_model.model.model.embed_tokens.lora_embedding_A", pattern(4, 512, 1),
                 "adapts embeddings");
  refused_tensor("base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight",
                 pattern(64, 1, 1), "DoRA");
  pairs_ = good;
  // One expert of six.
  add("model.layers.1.block_sparse_moe.experts.2.w1", 4, 2.0);
  write_adapter(plain);
  expect_refused(lora_, ErrorCode::kUnsupported, "1 of 6 matrices of blk.1.ffn_gate_exps.weight", params);
  pairs_ = good;
  write_adapter(plain);
  write(lora_ / "adapter_config.json", R"({"peft_type": "LOHA"})");
  expect_refused(lora_, ErrorCode::kUnsupported, "peft_type is LOHA", params);
  write(lora_ / "adapter_config.json", R"({"fine_tune_type": "lora", "lora_parameters": {"rank": 8}})");
  expect_refused(lora_, ErrorCode::kUnsupported, "MLX adapters are not supported", params);
}

TEST_F(Adapter, DamagedOnesAreRefused) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 2.0);
  const ConvertParams params{.base = base_};
  const Matrices good = pairs_;
  const std::string stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_";
  const auto refused = [&](const json& config, const std::string& text) {
    write_adapter(config);
    expect_refused(lora_, ErrorCode::kInvalidFile, text, params);
  };
  refused({{"r", 4}, {"lora_alpha", "8"}}, "lora_alpha is not a number");
  refused({{"r", 4}, {"lora_alpha", 1e308}, {"alpha_pattern", {{"q_proj", "8"}}}},
          "alpha_pattern has a value");
  pairs_.erase(stem + "B.weight");
  refused({{"r", 4}, {"lora_alpha", 8}}, "lacks the other matrix of its pair");
  pairs_ = good;
  pairs_[stem + "B.weight"] = pattern(64, 5, 1);
  refused({{"r", 4}, {"lora_alpha", 8}}, "has 5 columns, but the other matrix of its pair has 4 rows");
  pairs_[stem + "B.weight"] = pattern(60, 4, 1);
  refused({{"r", 4}, {"lora_alpha", 8}}, "lora_B.weight' has the shape [60, 4], expected [64, 4] for");
  pairs_.clear();
  refused({{"r", 4}, {"lora_alpha", 8}}, "no tensors");
}

TEST_F(Adapter, PairsThatDoNotFitTheBaseAreRefused) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 2.0);
  add("model.layers.0.self_attn.o_proj", 4, 2.0);
  const Matrices good = pairs_;
  const std::string layer = "base_model.model.model.layers.", stem = layer + "0.self_attn.q_proj.lora_";
  // Without weights the configuration alone says what fits.
  for (const bool has_weights : {true, false}) {
    if (!has_weights) std::filesystem::remove(base_ / "model.safetensors");
    const auto refused = [&](const std::string& text) {
      write_adapter({{"r", 4}, {"lora_alpha", 8}});
      expect_refused(lora_, ErrorCode::kInvalidFile, text, {.base = base_});
      pairs_ = good;
    };
    pairs_[stem + "A.weight"] = pattern(4, 16, 1);
    refused("lora_A.weight' has the shape [4, 16], expected [4, 64] for");
    pairs_[layer + "0.self_attn.o_proj.lora_B.weight"] = pattern(128, 4, 1);
    refused("lora_B.weight' has the shape [128, 4], expected [64, 4] for");
    for (const char* side : {"A.weight", "B.weight"}) {
      pairs_[layer + "9.self_attn.q_proj.lora_" + side] = pairs_.at(stem + side);
      pairs_.erase(stem + side);
    }
    refused("adapts layer 9, the base model has");
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
      pairs_[stem + "B.weight"].values[7] = bad;
      refused("lora_B.weight' has a value that is not finite");
    }
    pairs_[stem + "A.weight"].values[3] = 1e6f;
    write_adapter({{"r", 4}, {"lora_alpha", 8}});
    expect_refused(lora_, ErrorCode::kInvalidFile, "(inf, as f16)", {.type = "f16", .base = base_});
    pairs_ = good;
  }
}

TEST_F(Adapter, NeedsItsBase) {
  use_base("mixtral");
  add("model.layers.0.self_attn.q_proj", 4, 2.0);
  write_adapter({{"r", 4}, {"lora_alpha", 8}});
  expect_refused(
      lora_, ErrorCode::kInvalidArgument,
      "an adapter of the model 'someone/model'; --base (ConvertParams::base) must name the folder");
  expect_refused(lora_, ErrorCode::kInvalidArgument, "there is none in", {.base = scratch_ / "nowhere"});
  expect_refused(base_, ErrorCode::kInvalidArgument, "is not an adapter", {.base = base_});
  // Some savers copy the model's configuration.
  std::filesystem::copy(base_ / "config.json", lora_ / "config.json");
  EXPECT_EQ(convert(lora_, scratch_ / "lora.gguf").n_tensors, 2u);
  std::filesystem::remove(lora_ / "config.json");
  std::filesystem::remove(lora_ / "adapter_model.safetensors");
  expect_refused(lora_, ErrorCode::kNotFound, "no adapter_model.safetensors", {.base = base_});
  write(lora_ / "adapter_model.bin", "x");
  expect_refused(lora_, ErrorCode::kUnsupported, "pickled", {.base = base_});
}

TEST_F(Adapter, RejectsOptionsOfModels) {
  use_base("mixtral");
  write_adapter(json::object());
  expect_refused(lora_, ErrorCode::kInvalidArgument, "leave --mmproj", {.mmproj = true, .base = base_});
  expect_refused(lora_, ErrorCode::kInvalidArgument, "leave --pre",
                 {.pre_tokenizer = "gpt-2", .base = base_});
}

TEST_F(Adapter, AFolderWithPartsOfAModelIsNoAdapter) {
  const auto folder = copy_of("phi2");
  write(folder / "adapter_config.json", "{}");
  EXPECT_FALSE(is_adapter_folder(folder));
  std::filesystem::rename(folder / "model.safetensors", folder / "model-00001-of-00001.safetensors");
  EXPECT_FALSE(is_adapter_folder(folder));
  EXPECT_EQ(convert(folder, scratch_ / "made.gguf").architecture, "phi2");
  std::filesystem::rename(folder / "model-00001-of-00001.safetensors", folder / "adapter_model.safetensors");
  EXPECT_TRUE(is_adapter_folder(folder));
}

TEST_F(Adapter, TheHeadOfTiedModelsIsAdaptedApart) {
  use_base("falcon-40b");
  ASSERT_FALSE(weights_.contains("lm_head.weight"));
  weights_["lm_head.weight"] = weights_.at("transformer.word_embeddings.weight");
  add("lm_head", 4, 2.0);
  write_adapter({{"r", 4}, {"lora_alpha", 8}});
  expect_adds_what_merging_adds(1);
  pairs_["base_model.model.lm_head.lora_B.weight"] = pattern(7, 4, 1);
  write_adapter({{"r", 4}, {"lora_alpha", 8}});
  expect_refused(lora_, ErrorCode::kInvalidFile, "for lm_head.weight", {.base = base_});
}

}  // namespace
}  // namespace weft
