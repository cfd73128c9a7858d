#pragma once
// What tests of adapters share: adapters of random numbers for the matrices of any model, and the model with
// them merged in.
#include <unistd.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "tensor/codec.h"

namespace weft::test {

struct LowRank {
  std::int64_t rank = 0;
  std::vector<float> a, b;  ///< {rank, n_in}, {n_out, rank}; for experts, concatenated pairs.
};
struct RandomAdapter {
  std::map<std::string, LowRank> matrices;
  float alpha = 8.0f;
};

/// Whether weft adapts such a tensor: a matrix that rows are multiplied with, and no router, whose choices
/// would make differences of rounding large.
inline bool is_adapted(const gguf::TensorInfo& tensor) {
  static constexpr std::array kParts = {".attn_q.",
                                        ".attn_k.",
                                        ".attn_v.",
                                        ".attn_qkv.",
                                        ".attn_output.",
                                        ".attn_o.",
                                        ".cross_attn_q.",
                                        ".cross_attn_k.",
                                        ".cross_attn_v.",
                                        ".cross_attn_o.",
                                        ".ffn_gate.",
                                        ".ffn_up.",
                                        ".ffn_down.",
                                        ".attn_q_a.",
                                        ".attn_q_b.",
                                        ".attn_kv_a_mqa.",
                                        ".ssm_in.",
                                        ".ssm_out.",
                                        ".ssm_x.",
                                        ".ssm_dt.",
                                        ".ffn_up_shexp.",
                                        ".ffn_gate_shexp.",
                                        ".ffn_down_shexp.",
                                        ".shortconv.in_proj.",
                                        ".shortconv.out_proj.",
                                        ".ffn_up_exps.",
                                        ".ffn_gate_exps.",
                                        ".ffn_gate_up_exps.",
                                        ".ffn_down_exps."};
  const bool of_experts = tensor.name.find("_exps.") != std::string::npos;
  if (tensor.shape.size() != (of_experts ? 3u : 2u) || !tensor.name.ends_with(".weight")) return false;
  return tensor.name == "output.weight" || std::any_of(kParts.begin(), kParts.end(), [&](const char* part) {
           return tensor.name.find(part) != std::string::npos;
         });
}

/// The tensor that an adapter's matrix adds to. An output head may share the embeddings' tensor.
inline const gguf::TensorInfo& adapted_tensor(const gguf::File& model, const std::string& matrix) {
  const gguf::TensorInfo* const own = model.find_tensor(matrix);
  return own != nullptr ? *own : *model.find_tensor("token_embd.weight");
}

/// The names of all matrices that adapters may add to. Without its own tensor, T5's head has another scale,
/// so the model with a merged head would be another one.
inline std::vector<std::string> adapted_matrices(const gguf::File& model) {
  std::vector<std::string> names;
  for (const gguf::TensorInfo& tensor : model.tensors())
    if (is_adapted(tensor)) names.push_back(tensor.name);
  if (model.find_tensor("output.weight") == nullptr && model.get_string("general.architecture") != "t5")
    names.emplace_back("output.weight");
  return names;
}

/// `share`: how many of the matrices it adds to.
inline RandomAdapter random_adapter(const gguf::File& model, std::uint64_t seed, std::int64_t rank,
                                    double share = 1.0) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  RandomAdapter adapter;
  for (const std::string& name : adapted_matrices(model)) {
    if (std::uniform_real_distribution<>()(random) > share && !adapter.matrices.empty()) continue;
    const gguf::TensorInfo& tensor = adapted_tensor(model, name);
    const std::int64_t n_out = tensor.shape.end()[-2], n_in = tensor.shape.back();
    const std::int64_t n_experts = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
    LowRank& of = adapter.matrices[name];
    of.rank = rank;
    for (std::int64_t i = 0; i < n_experts * rank * n_in; ++i)
      of.a.push_back(normal(random) / std::sqrt(static_cast<float>(n_in)));
    for (std::int64_t i = 0; i < n_experts * rank * n_out; ++i) of.b.push_back(0.05f * normal(random));
  }
  return adapter;
}

inline std::filesystem::path temporary(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / (std::to_string(::getpid()) + "-" + name);
}

inline std::filesystem::path write_adapter(const gguf::File& model, const RandomAdapter& adapter,
                                           const std::string& name) {
  gguf::Writer writer;
  writer.set("general.type", "adapter");
  writer.set("adapter.type", "lora");
  writer.set("general.architecture", *model.get_string("general.architecture"));
  writer.set("adapter.lora.alpha", adapter.alpha);
  for (const auto& [matrix, of] : adapter.matrices) {
    std::vector<std::int64_t> a = adapted_tensor(model, matrix).shape, b = a;
    a.end()[-2] = b.back() = of.rank;
    writer.add_tensor(matrix + ".lora_a", DType::kF32, a, std::as_bytes(std::span(of.a)));
    writer.add_tensor(matrix + ".lora_b", DType::kF32, b, std::as_bytes(std::span(of.b)));
  }
  const std::filesystem::path path = temporary(name + ".gguf");
  writer.write_file(path);
  return path;
}

/// The model's file with scale * alpha / rank * B A added to its matrices.
inline std::filesystem::path write_merged(const gguf::File& model, const RandomAdapter& adapter, float scale,
                                          const std::string& name) {
  gguf::Writer writer;
  for (const auto& entry : model.metadata()) writer.set(entry.key, entry.value);
  std::vector<std::vector<float>> merged;
  merged.reserve(adapter.matrices.size());
  const auto add = [&](const gguf::TensorInfo& tensor, const std::string& matrix) {
    const auto found = adapter.matrices.find(matrix);
    if (found == adapter.matrices.end()) {
      writer.add_tensor(matrix, tensor.dtype, tensor.shape, tensor.data);
      return;
    }
    const LowRank& of = found->second;
    const std::int64_t n_out = tensor.shape.end()[-2], n_in = tensor.shape.back();
    const std::int64_t n_rows = tensor.n_elements() / n_in;
    std::vector<float>& w = merged.emplace_back(static_cast<std::size_t>(n_rows * n_in));
    unpack_row(tensor.dtype, tensor.data.data(), w);
    const double factor = static_cast<double>(scale) * adapter.alpha / static_cast<double>(of.rank);
    for (std::int64_t o = 0; o < n_rows; ++o)
      for (std::int64_t i = 0; i < n_in; ++i) {
        double sum = 0.0;
        for (std::int64_t r = 0; r < of.rank; ++r)
          sum += static_cast<double>(of.b[static_cast<std::size_t>(o * of.rank + r)]) *
                 of.a[static_cast<std::size_t>((o / n_out * of.rank + r) * n_in + i)];
        float& value = w[static_cast<std::size_t>(o * n_in + i)];
        value = static_cast<float>(value + factor * sum);
      }
    writer.add_tensor(matrix, DType::kF32, tensor.shape, std::as_bytes(std::span(w)));
  };
  for (const gguf::TensorInfo& tensor : model.tensors()) add(tensor, tensor.name);
  if (model.find_tensor("output.weight") == nullptr && adapter.matrices.contains("output.weight"))
    add(adapted_tensor(model, "output.weight"), "output.weight");
  const std::filesystem::path path = temporary(name + ".gguf");
  writer.write_file(path);
  return path;
}

}  // namespace weft::test
