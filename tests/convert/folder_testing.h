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
