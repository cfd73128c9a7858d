#include "weft/merge_adapters.h"

#include <cmath>
#include <string>

#include "base/to_size.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "model/additions.h"
#include "model/factor_name.h"
#include "model/largest_scale.h"
#include "quantize/packer.h"
#include "quantize/source_file.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft {
namespace {

using namespace quantize_impl;

/// Rows of canonical bytes as floats.
std::vector<float> floats_of(DType type, std::span<const std::byte> bytes, std::int64_t n_columns) {
  const std::size_t row = row_bytes(type, n_columns), columns = to_size(n_columns);
  std::vector<float> values(bytes.size() / row * columns);
  for (std::size_t r = 0; r < bytes.size() / row; ++r)
    unpack_row(type, bytes.data() + r * row, std::span(values).subspan(r * columns, columns));
  return values;
}

/// The sum that adapters add to a matrix or to the stacked matrices of experts. It is {n_out, depth} times
/// {depth, n_in}, where depth is the sum of the adapters' ranks.
class Addition {
 public:
  /// `scales` has each adapter's scale, including alpha / rank. `factors` has the factor of the product with
  /// the matrix, or one factor per expert.
  Addition(const model::Adapters& adapters, const model::AdapterStack& stack, std::span<const float> scales,
           std::span<const float> factors)
      : n_in_(to_size(stack.n_in)), rank_(to_size(stack.rank)) {
    a_ = floats_of(stack.dtype, adapters.a_bytes(stack), stack.n_in);
    b_ = floats_of(stack.dtype, adapters.b_bytes(stack, 0, stack.n_out), stack.rank);
    n_out_ = to_size(stack.n_out);
    n_rows_ = to_size(stack.n_experts) * n_out_;
    for (std::size_t i = 0; i < b_.size(); ++i) {
      const std::size_t matrix = i / rank_ % n_rows_ / n_out_;
      b_[i] *= scales[i / (n_rows_ * rank_)] / factors[factors.size() == 1 ? 0 : matrix];
    }
  }

  void add_to(std::int64_t row, std::span<float> values) const {
    const std::size_t n_adapters = b_.size() / (n_rows_ * rank_), at = to_size(row);
    for (std::size_t adapter = 0; adapter < n_adapters; ++adapter)
      for (std::size_t r = 0; r < rank_; ++r) {
        const float b = b_[(adapter * n_rows_ + at) * rank_ + r];
        if (b == 0.0f) continue;
        const std::size_t matrix = (adapter * n_rows_ + at) / n_out_;
        const float* const a = a_.data() + (matrix * rank_ + r) * n_in_;
        for (std::size_t i = 0; i < n_in_; ++i) values[i] += b * a[i];
      }
  }

 private:
  std::size_t n_in_, n_out_ = 0, n_rows_ = 0, rank_;
  std::vector<float> a_, b_;
};

std::vector<float> scales_of(const MergeAdaptersParams& params, const model::Adapters& adapters) {
  std::vector<float> scales;
  for (const AdapterToMerge& adapter : params.adapters) {
    const float scale = adapter.scale * adapters.factor(static_cast<int>(scales.size()));
    if (!std::isfinite(scale) || std::abs(scale) > model::kLargestScale)
      refuse(adapter.path.string() + ": the scale, with that of the adapter, is " + std::to_string(scale) +
             ", expected a number of at most a million");
    scales.push_back(scale);
  }
  return scales;
}

/// The file's factor for products with a matrix, or one factor per expert.
std::vector<float> factors_of(const gguf::File& file, const model::AdapterStack& stack) {
  const gguf::TensorInfo* const tensor = file.find_tensor(model::factor_name(stack.matrix));
  const std::string_view architecture = file.get_string("general.architecture").value_or("");
  if (tensor == nullptr || model::factor_is_of_outputs(architecture, stack.matrix)) return {1.0f};
  const auto invalid = [&](const std::string& why) {
    throw Error(ErrorCode::kInvalidFile, "tensor " + tensor->name + " " + why);
  };
  if (info(tensor->dtype).kind != DTypeKind::kFloat) invalid("is not of a float type");
  if (tensor->n_elements() != 1 && tensor->n_elements() != stack.n_experts)
    invalid("has " + std::to_string(tensor->n_elements()) + " factors, expected one of " + stack.matrix +
            (stack.n_experts > 1 ? ", or of each expert" : ""));
  std::vector<std::byte> bytes(tensor->data.size());
  file.read(tensor->data, bytes);
  std::vector<float> factors(to_size(tensor->n_elements()));
  unpack_row(tensor->dtype, bytes.data(), factors);
  for (const float factor : factors)
    if (!std::isfinite(factor) || !std::isfinite(1.0f / factor))
      invalid("has the factor " + std::to_string(factor) + ", which cannot be merged");
  return factors;
}

constexpr const char* kHead = "output.weight";

/// The embeddings if adapters add to an output head that shares their matrix, else null. The result has the
/// head as a tensor of its own.
const gguf::TensorInfo* shared_head(const gguf::File& file, const model::Adapters& adapters) {
  if (adapters.find(kHead) == nullptr || file.find_tensor(kHead) != nullptr) return nullptr;
  // Files of T5 scale the inputs of shared heads only, and a factor of the embeddings is not of the head.
  if (file.get_string("general.architecture") == "t5" || file.find_tensor("token_embd.scale") != nullptr)
    throw Error(ErrorCode::kUnsupported,
                "the adapter adds to an output head that shares its matrix with the embeddings, which weft "
                "cannot merge for this model; apply the adapter with --lora instead");
  return file.find_tensor("token_embd.weight");
}

QuantizedTensor merged(const gguf::TensorInfo& tensor, const std::string& name, std::optional<DType> type) {
  QuantizedTensor result{.name = name, .shape = tensor.shape, .from = tensor.dtype};
  result.to = type.value_or(tensor.dtype);
  if (tensor.shape.back() % info(result.to).block_elements != 0)
    refuse(name + " has rows of " + std::to_string(tensor.shape.back()) + ", and " +
           std::string(info(result.to).name) + " takes multiples of " +
           std::to_string(info(result.to).block_elements));
  const auto bytes = [&](DType of) {
    return static_cast<std::uint64_t>(tensor.n_elements() / tensor.shape.back()) *
           row_bytes(of, tensor.shape.back());
  };
  result.bytes_from = bytes(result.from);
  result.bytes_to = bytes(result.to);
  return result;
}

}  // namespace

std::vector<QuantizedTensor> merge_adapters(const std::filesystem::path& from,
                                            const std::filesystem::path& to,
                                            const MergeAdaptersParams& params) {
  if (params.adapters.empty()) refuse("there is no adapter to merge");
  check_threads(params.n_threads);
  if (params.type) check_weight_type(*params.type);
  const gguf::File file = gguf::File::open(from);
  refuse_overwriting(file, from, to);
  std::vector<AdapterFile> files;
  for (const AdapterToMerge& adapter : params.adapters) {
    std::error_code ignored;
    if (std::filesystem::equivalent(adapter.path, to, ignored))
      refuse("the result would overwrite " + to.string() + ", an adapter; give it another name");
    // Adapters need different names here, and the same file may be merged twice.
    files.push_back({.path = adapter.path, .name = std::to_string(files.size())});
  }
  const model::Adapters adapters(files, file);
  const std::vector<float> scales = scales_of(params, adapters);
  std::uint64_t n_bytes = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) n_bytes += tensor.data.size();
  const gguf::TensorInfo* const head = shared_head(file, adapters);
  if (head != nullptr) n_bytes += head->data.size();
  Packer packer(file, params.n_threads, n_bytes, params.progress);
  gguf::Writer writer;
  copy_metadata(file, writer);
  std::vector<QuantizedTensor> changed;
  const auto add = [&](const gguf::TensorInfo& tensor, const std::string& name) {
    const model::AdapterStack* const stack = adapters.find(name);
    DType type = tensor.dtype;
    if (stack != nullptr) type = changed.emplace_back(merged(tensor, name, params.type)).to;
    writer.add_tensor(name, type, tensor.shape, [&, stack, type, source = &tensor](std::span<std::byte> out) {
      if (stack == nullptr) return packer.pack(*source, type, {}, out);
      const Addition addition(adapters, *stack, scales, factors_of(file, *stack));
      packer.pack(*source, type, {}, out,
                  [&](std::int64_t row, std::span<float> values) { addition.add_to(row, values); });
    });
  };
  for (const gguf::TensorInfo& tensor : file.tensors()) add(tensor, tensor.name);
  if (head != nullptr) add(*head, kHead);
  writer.write_file(to);
  return changed;
}

}  // namespace weft
