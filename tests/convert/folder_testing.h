#pragma once
// Folders that tests write themselves.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/weights.h"

namespace weft::test {

struct StoredTensor {
  std::string dtype;  ///< As safetensors names it.
  std::vector<std::int64_t> shape;
  std::string bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// A file of this header.
inline std::string safetensors(const std::string& header, const std::string& data) {
  std::string file(sizeof(std::uint64_t), '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + data;
}

inline void write_safetensors(const std::filesystem::path& path, const StoredTensors& tensors) {
  std::string header = "{", data;
  for (const auto& [name, tensor] : tensors) {
    std::string shape;
    for (const std::int64_t size : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    header += (data.empty() ? "\"" : ",\"") + name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":[)" +
              shape + R"(],"data_offsets":[)" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  write_text(path, safetensors(header + "}", data));
}

/// A Llama with `n_tokens` tokens, one layer of width 4 and no tokenizer.
inline void write_small_model(const std::filesystem::path& folder, std::int64_t n_tokens) {
  StoredTensors tensors;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    std::int64_t n = 4;
    for (const std::int64_t size : shape) n *= size;
    tensors[name] = {"F32", std::move(shape), std::string(static_cast<std::size_t>(n), '\0')};
  };
  add("model.embed_tokens.weight", {n_tokens, 4});
  add("model.norm.weight", {4});
  for (const char* norm : {"input_layernorm", "post_attention_layernorm"})
    add("model.layers.0." + std::string(norm) + ".weight", {4});
  for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    add("model.layers.0." + std::string(part) + ".weight", {4, 4});
  write_safetensors(folder / "model.safetensors", tensors);
  write_text(folder / "config.json",
             R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 4, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "intermediate_size": 4, "max_position_embeddings": 16,
                 "rms_norm_eps": 1e-5, "vocab_size": )" +
                 std::to_string(n_tokens) + "}");
}

inline StoredTensors read_tensors(const std::filesystem::path& path) {
  const WeightFile file(path);
  StoredTensors tensors;
  for (const WeightFile::Tensor& tensor : file.tensors()) {
    std::string bytes(tensor.bytes.size(), '\0');
    file.read(tensor.bytes, std::as_writable_bytes(std::span(bytes)));
    tensors[tensor.name] = {tensor.dtype == DType::kF16 ? "F16" : "F32", tensor.shape, bytes};
  }
  return tensors;
}

}  // namespace weft::test
