#pragma once
// What the engine's tests share: golden models, real models, comparisons.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "weft/context.h"
#include "weft/error.h"
#include "weft/model.h"

namespace weft::test {

/// Those of them that the machine lacks are refused.
inline constexpr CpuIsa kInstructionSets[] = {CpuIsa::kGeneric, CpuIsa::kAvx2,       CpuIsa::kAvxVnni,
                                              CpuIsa::kAvx512,  CpuIsa::kAvx512Bf16, CpuIsa::kAmx,
                                              CpuIsa::kNeon,    CpuIsa::kI8mm};

/// The code of the Error that `call` throws; nullopt: it throws none.
inline std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

inline std::filesystem::path golden_dir() { return std::filesystem::path(WEFT_TEST_DATA) / "golden"; }

/// The file of a golden model that generates: a decoder, or a model with an encoder and a decoder.
inline std::filesystem::path golden_file(const std::string& name) {
  const std::filesystem::path plain = golden_dir() / name / "model.gguf";
  if (std::filesystem::exists(plain)) return plain;
  return std::filesystem::path(WEFT_TEST_DATA) / "golden_sources" / name / "model.gguf";
}

inline std::shared_ptr<const Model> golden(const std::string& name) {
  static std::map<std::string, std::shared_ptr<const Model>> models;
  auto& model = models[name];
  if (!model) model = Model::load(golden_file(name));
  return model;
}

/// The golden models: a family each, or a form of one.
inline constexpr const char* kFamilies[] = {"arcee",          "cohere2",
                                            "command-r",      "command-r-plus",
                                            "ernie4_5",       "exaone4",
                                            "falcon",         "falcon-40b",
                                            "deepseek2-lite", "dots1",
                                            "minimax-m2",     "hunyuan-moe",
                                            "lfm2moe",        "deepseek3",
                                            "glm4moe",        "gpt-oss",
                                            "gemma",          "gemma2",
                                            "gemma3",         "glm4",
                                            "gpt2",           "gptneox",
                                            "granite",        "granitemoe",
                                            "hunyuan-dense",  "lfm2",
                                            "llama",          "llama-rope3",
                                            "mamba",          "mamba2",
                                            "mixtral",        "nemotron",
                                            "olmo",           "olmo2",
                                            "olmo3",          "olmoe",
                                            "phi2",           "phi3",
                                            "qwen2",          "qwen2moe",
                                            "qwen3",          "qwen3moe",
                                            "seed_oss",       "smollm3",
                                            "stablelm",       "stablelm2",
                                            "starcoder2",     "afmoe",
                                            "apertus",        "bailingmoe",
                                            "bailingmoe2",    "bitnet",
                                            "bitnet-b158",    "chatglm",
                                            "codeshell",      "dbrx",
                                            "ernie4_5-moe",   "exaone",
                                            "gptj",           "internlm2",
                                            "jais2",          "minicpm",
                                            "minicpm3",       "mistral3",
                                            "orion",          "phimoe",
                                            "qwen",           "starcoder",
                                            "xverse",         "qwen3next",
                                            "qwen35",         "qwen35moe",
                                            "falcon-mamba",   "jamba",
                                            "granitehybrid",  "granitehybridmoe",
                                            "nemotron_h",     "nemotron_h_moe",
                                            "falcon-h1",      "kimi-linear",
                                            "baichuan",       "baichuan-13b",
                                            "bloom",          "gemma3n",
                                            "llama4",         "mpt",
                                            "refact",         "gemma4",
                                            "gemma4-moe",     "qwen2vl",
                                            "qwen3vl",        "qwen3vlmoe",
                                            "arctic",         "arwkv7",
                                            "deci",           "deepseek",
                                            "exaone-moe",     "llama4-dense",
                                            "maincoder",      "mimo2",
                                            "openelm",        "pangu-embedded",
                                            "qwen3next-old",  "rwkv7",
                                            "smallthinker",   "grok",
                                            "grok2",          "jais",
                                            "plamo",          "rwkv6",
                                            "rwkv6-fused",    "rwkv6qwen2",
                                            "chameleon",      "chameleon-swin",
                                            "plamo2",         "nemotron_h_puzzle",
                                            "grovemoe",       "mistral4",
                                            "step35",         "phi3-long",
                                            "phi3-short",     "exaone4-rope3",
                                            "mellum"};
/// For the names of tests, which take no dashes.
inline std::string name_of_family(const testing::TestParamInfo<const char*>& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// Integers of a JSON array without nesting.
inline std::vector<Token> read_tokens(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Token> tokens;
  for (char c; file.get(c);)
    if (c >= '0' && c <= '9') {
      file.unget();
      Token token = 0;
      file >> token;
      tokens.push_back(token);
    }
  return tokens;
}

inline std::vector<float> read_floats(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<float> values(std::filesystem::file_size(path) / sizeof(float));
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  return values;
}

/// sum((x - reference)^2) / sum(reference^2)
inline double nmse(std::span<const float> x, std::span<const float> reference) {
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(x[i]) - reference[i];
    difference += d * d;
    norm += static_cast<double>(reference[i]) * reference[i];
  }
  return difference / norm;
}

/// A model of the cache (WEFT_CACHE or ~/.cache/weft) by its file name, if it is there.
inline std::optional<std::filesystem::path> cached_model(const std::string& file) {
  const char* cache = std::getenv("WEFT_CACHE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path base = cache != nullptr
                                         ? std::filesystem::path(cache)
                                         : std::filesystem::path(home != nullptr ? home : "") / ".cache/weft";
  const std::filesystem::path path = base / "models" / file;
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

inline constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m-q4_k_m.gguf";

/// Changes an option of an item.
template <typename T>
void set(Batch& batch, int item, T ItemOptions::* option, std::type_identity_t<T> value) {
  ItemOptions options = batch.options(item);
  options.*option = value;
  batch.set_options(item, options);
}

/// The logits of every token of one sequence, computed in pieces.
inline std::vector<float> all_logits(Context& context, std::span<const Token> tokens, std::size_t piece,
                                     SeqId seq = 0) {
  std::vector<float> result;
  Batch batch;
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t n = std::min(piece, tokens.size() - done);
    batch.clear();
    for (std::size_t i = 0; i < n; ++i) batch.add(tokens[done + i], seq, {.logits = true});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    for (int i = 0; i < batch.size(); ++i) {
      const std::span<const float> row = context.logits(i);
      result.insert(result.end(), row.begin(), row.end());
    }
    done += n;
  }
  return result;
}

/// Decodes a batch with enough steps that another thread's cancel() comes in one of them. Returns the status.
inline DecodeStatus decode_and_cancel(Context& context, const Batch& batch) {
  std::atomic<bool> done{false};
  std::thread canceller([&] {
    while (!done.load()) {
      context.cancel();
      std::this_thread::yield();
    }
  });
  const DecodeStatus status = context.decode(batch);
  done.store(true);
  canceller.join();
  // A later call cancels the next decode, which is this one.
  context.cancel();
  EXPECT_EQ(context.decode(batch), DecodeStatus::kCancelled);
  return status;
}

}  // namespace weft::test
