#pragma once
// Additions to a model at load time: low-rank additions to its matrices, for sequences that choose them
// (adapters), and vectors for all sequences (control vectors). Their files are read in full when they are
// opened, and checked against the model's.
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/to_size.h"
#include "gguf/gguf.h"
#include "model/hparams.h"
#include "weft/model.h"

namespace weft::model {

/// The additions of all adapters to a matrix W {n_out, n_in} of the model, as two stacks: A {n_adapters,
/// rank, n_in} and B {n_adapters, n_out, rank}. A row W x gets factor * B[i] (A[i] x) more, with the factor
/// of Adapters. `rank` is the largest rank; smaller ones are padded with zeros, and adapters that do not
/// change the matrix are all zeros. If W has matrices of experts, {n_experts, n_out, n_in}, each expert has
/// such pairs. The pairs of an adapter follow each other.
struct AdapterStack {
  struct Part {
    const gguf::TensorInfo* a = nullptr;  ///< Null: the adapter leaves the matrix alone.
    const gguf::TensorInfo* b = nullptr;
    float factor = 1.0f;  ///< Factor of B, if its rank differs from the adapter's.
  };
  std::string matrix;
  std::int64_t n_experts = 1, n_in = 0, n_out = 0, rank = 0;
  DType dtype = DType::kF32;  ///< 16 bits where nothing is lost by that.
  std::vector<Part> parts;    ///< By adapter.
};

class Adapters {
 public:
  /// Throws Error kInvalidFile that names the file and the key or tensor. Reasons are files that are not LoRA
  /// adapters or have another architecture, and tensors that fit none of the model's. Throws the errors of
  /// File::open.
  Adapters(std::span<const AdapterFile> files, const gguf::File& model);

  std::span<const AdapterInfo> infos() const { return infos_; }
  int size() const { return static_cast<int>(infos_.size()); }
  /// alpha / rank: what a use's scale is multiplied by.
  float factor(int adapter) const { return factors_[to_size(adapter)]; }
  /// A hash of all that an adapter adds.
  const base::Hash128& hash(int adapter) const { return hashes_[to_size(adapter)]; }

  /// Null where no adapter adds to the tensor.
  const AdapterStack* find(const std::string& tensor) const;
  /// The stacks' bytes, in their type. Throws Error kIo.
  std::vector<std::byte> a_bytes(const AdapterStack& stack) const;
  /// For rows [begin, begin + n) of the matrix; for experts all rows.
  std::vector<std::byte> b_bytes(const AdapterStack& stack, std::int64_t begin, std::int64_t n) const;

  /// Throws Error kUnsupported that names a matrix that is not among these.
  void check_all_used(const std::set<std::string>& matrices) const;

  /// Throws Error kIo where another process has written to a file since it was opened.
  void check_unchanged() const;

 private:
  void read(int adapter, const AdapterFile& from, const gguf::File& model);
  void add_pair(int adapter, const gguf::TensorInfo& a, const gguf::TensorInfo& b, const std::string& matrix,
                const gguf::File& model);
  /// Sets each stack's type, from the types and factors of its tensors.
  void settle_types();
  /// Row `row` of a tensor of an adapter, as floats.
  void unpack(int adapter, const gguf::TensorInfo& tensor, std::int64_t row, std::span<float> to) const;

  std::vector<gguf::File> files_;
  std::vector<AdapterInfo> infos_;
  std::vector<float> factors_;
  std::vector<base::Hash128> hashes_;
  std::map<std::string, AdapterStack> stacks_;  // By the matrix.
};

class ControlVectors {
 public:
  /// The sum of the vectors after layers `first` to `last` (-1: all). Throws Error like Adapters, and
  /// kInvalidArgument for layers that the model does not have.
  ControlVectors(std::span<const ControlVectorFile> files, int first, int last, const HParams& hparams);

  /// The vector added after a layer; empty: nothing.
  std::span<const float> behind(int layer) const { return vectors_[to_size(layer)]; }
  /// Throws Error kUnsupported that names a layer that is not among these.
  void check_all_used(const std::set<int>& layers) const;

 private:
  std::vector<std::vector<float>> vectors_;  // By layer.
};

/// Null where there are none.
struct Additions {
  std::shared_ptr<const Adapters> adapters = nullptr;
  std::shared_ptr<const ControlVectors> control = nullptr;
};

}  // namespace weft::model
