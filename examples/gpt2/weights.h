#pragma once
// The variables of GPT-2's model.safetensors as weights of a graph.
#include <weft/graph.h>
#include <weft/weights.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "model.h"

namespace gpt2 {

/// Adds weights to a graph, and keeps their bytes for the plan. The file is untrusted: a variable that is
/// missing or has another shape throws weft::Error kInvalidFile that names it.
class WeightReader {
 public:
  WeightReader(weft::Graph& graph, const std::filesystem::path& file, weft::DType matrices);

  /// {rows, columns}, of the type for matrices.
  weft::Value matrix(const std::string& name, std::int64_t rows, std::int64_t columns);
  weft::Value vector(const std::string& name, std::int64_t size);
  /// x {m, inputs} -> {m, outputs}. Files have these matrices transposed, {inputs, outputs}. A file's matrix
  /// may have `n_parts` products next to each other; `part` selects one of them.
  weft::Value linear(weft::Value x, const std::string& name, std::int64_t outputs, int part = 0,
                     int n_parts = 1);
  weft::Value norm(weft::Value x, const std::string& name, float eps);
  bool has(const std::string& name) const { return find(name) != nullptr; }

  WeightBytes take() { return std::move(bytes_); }

 private:
  const weft::WeightFile::Tensor* find(const std::string& name) const;
  std::vector<float> read(const std::string& name, const std::vector<std::int64_t>& shape) const;
  weft::Value add(const std::string& name, weft::DType dtype, weft::Shape shape,
                  const std::vector<float>& values);
  weft::DType type_for(std::int64_t columns) const;

  weft::Graph& graph_;
  std::filesystem::path path_;
  weft::WeightFile file_;
  weft::DType matrices_;
  WeightBytes bytes_;
};

}  // namespace gpt2
