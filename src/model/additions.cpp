#include "model/additions.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/to_size.h"
#include "model/largest_scale.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::model {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b", kDirection = "direction.";

/// The name by which adapters know the output head. Without this tensor the head is the embeddings' matrix.
constexpr std::string_view kHead = "output.weight", kEmbeddings = "token_embd.weight";

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw Error(ErrorCode::kInvalidFile, path.string() + ": " + reason);
}

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Checks the value of a key in an adapter's file.
void require(const gguf::File& file, const std::filesystem::path& path, const char* key,
             std::string_view expected, const char* otherwise) {
  const auto found = file.get_string(key);
  if (found == expected) return;
  refuse(path, std::string("metadata key ") + key +
                   (found ? " is \"" + std::string(found->substr(0, 64)) + "\"" : " is missing") +
                   ", expected \"" + std::string(expected) + "\"" + otherwise);
}

void require_floats(const std::filesystem::path& path, const gguf::TensorInfo& tensor) {
  const DTypeInfo& type = info(tensor.dtype);
  if (type.kind == DTypeKind::kInteger || tensor.dtype == DType::kF64)
    refuse(path, "tensor " + tensor.name + " has the type " + std::string(type.name) +
                     ", expected a float or quantised type");
}

/// A product with a NaN or an infinity is one: a single such value makes all logits invalid.
void require_numbers(const gguf::File& file, const std::filesystem::path& path) {
  std::vector<std::byte> bytes;
  std::vector<float> row;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const std::size_t n_bytes = row_bytes(tensor.dtype, tensor.shape.back());
    bytes.resize(tensor.data.size());
    row.resize(to_size(tensor.shape.back()));
    file.read(tensor.data, bytes);
    for (std::size_t at = 0; n_bytes > 0 && at + n_bytes <= bytes.size(); at += n_bytes) {
      unpack_row(tensor.dtype, bytes.data() + at, row);
      const auto bad = std::find_if(row.begin(), row.end(), [](float x) { return !std::isfinite(x); });
      if (bad != row.end())
        refuse(path, "tensor " + tensor.name + " has a value that is not finite (" + std::to_string(*bad) +
                         ", in row " + std::to_string(at / n_bytes) + "); the training failed");
    }
  }
}

/// A hash of all bytes of a file's tensors, with their names.
base::Hash128 hash_of(const gguf::File& file, float alpha) {
  base::Hasher hash;
  hash.add_value(alpha);
  std::vector<std::byte> buffer;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    hash.add_value(tensor.name.size());
    hash.add(std::as_bytes(std::span(tensor.name)));
    hash.add_value(static_cast<std::uint32_t>(tensor.dtype));
    hash.add(std::as_bytes(std::span(tensor.shape)));
    buffer.resize(tensor.data.size());
    file.read(tensor.data, buffer);
    hash.add(buffer);
  }
  return hash.result();
}

}  // namespace

Adapters::Adapters(std::span<const AdapterFile> files, const gguf::File& model) {
  for (const AdapterFile& file : files) read(size(), file, model);
  for (auto& [matrix, stack] : stacks_) stack.parts.resize(files.size());
  settle_types();
}

void Adapters::read(int adapter, const AdapterFile& from, const gguf::File& model) {
  const gguf::File& file = files_.emplace_back(gguf::File::open(from.path));
  require(file, from.path, "general.type", "adapter", "; give the file of an adapter");
  require(file, from.path, "adapter.type", "lora", "");
  const std::string architecture(model.get_string("general.architecture").value_or(""));
  require(file, from.path, "general.architecture", architecture, ", the model's");
  const double alpha = file.get_float("adapter.lora.alpha").value_or(0.0);
  if (!std::isfinite(alpha) || std::abs(alpha) > 1e6)
    refuse(from.path, "metadata key adapter.lora.alpha is missing, or not a finite number up to a million");
  AdapterInfo& info = infos_.emplace_back();
  info.path = from.path;
  info.alpha = static_cast<float>(alpha);
  info.name = !from.name.empty() ? from.name : std::string(file.get_label("general.name"));
  if (info.name.empty()) info.name = from.path.stem().string();
  for (int other = 0; other < adapter; ++other)
    if (infos_[to_size(other)].name == info.name)
      throw Error(ErrorCode::kInvalidArgument,
                  "two adapters have the name \"" + info.name + "\"; give them other names");

  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const bool is_a = tensor.name.ends_with(kA);
    if (!is_a && !tensor.name.ends_with(kB))
      refuse(from.path, "tensor " + tensor.name +
                            " does not belong to a LoRA adapter, whose names end in .lora_a or .lora_b");
    const std::string matrix = tensor.name.substr(0, tensor.name.size() - kA.size());
    const gguf::TensorInfo* const other = file.find_tensor(matrix + std::string(is_a ? kB : kA));
    if (other == nullptr)
      refuse(from.path,
             "tensor " + matrix + std::string(is_a ? kB : kA) + " is missing, " + tensor.name + " is there");
    if (is_a) add_pair(adapter, tensor, *other, matrix, model);
  }
  if (info.n_tensors == 0) refuse(from.path, "the adapter has no tensors");
  require_numbers(file, from.path);
  factors_.push_back(info.alpha == 0.0f ? 1.0f : info.alpha / static_cast<float>(info.rank));
  hashes_.push_back(hash_of(file, info.alpha));
}

void Adapters::add_pair(int adapter, const gguf::TensorInfo& a, const gguf::TensorInfo& b,
                        const std::string& matrix, const gguf::File& model) {
  AdapterInfo& info = infos_[to_size(adapter)];
  const gguf::TensorInfo* base = model.find_tensor(matrix);
  // A head that shares the embeddings' matrix is still a product of its own.
  if (base == nullptr && matrix == kHead) base = model.find_tensor(kEmbeddings);
  if (base == nullptr)
    refuse(info.path, "tensor " + a.name + " adds to " + matrix + ", which the model lacks");
  if (matrix == kEmbeddings)
    throw Error(ErrorCode::kUnsupported,
                info.path.string() + ": tensor " + a.name + " adds to " + std::string(kEmbeddings) +
                    "; weft does not support LoRA on embeddings; merge the adapter into its model with PEFT "
                    "(merge_and_unload) and convert the result");
  const bool of_experts = base->shape.size() == 3;
  if (base->shape.size() != 2 && !of_experts)
    throw Error(ErrorCode::kUnsupported, info.path.string() + ": tensor " + a.name + " adds to " + matrix +
                                             " of shape " + text_of(base->shape) +
                                             "; weft supports LoRA on matrices only");
  const std::int64_t rank = b.shape.back(), n_experts = of_experts ? base->shape[0] : 1;
  const std::int64_t n_out = base->shape.end()[-2], n_in = base->shape.back();
  const auto check_shape = [&](const gguf::TensorInfo& tensor, std::vector<std::int64_t> expected) {
    require_floats(info.path, tensor);
    if (tensor.shape != expected)
      refuse(info.path, "tensor " + tensor.name + " has the shape " + text_of(tensor.shape) + ", expected " +
                            text_of(expected) + " for " + matrix + " " + text_of(base->shape));
  };
  check_shape(b, of_experts ? std::vector{n_experts, n_out, rank} : std::vector{n_out, rank});
  check_shape(a, of_experts ? std::vector{n_experts, rank, n_in} : std::vector{rank, n_in});
  ++info.n_tensors;
  info.rank = std::max(info.rank, static_cast<int>(rank));
  AdapterStack& stack = stacks_[matrix];
  stack.matrix = matrix;
  stack.n_experts = n_experts;
  stack.n_in = n_in;
  stack.n_out = n_out;
  stack.rank = std::max(stack.rank, rank);
  stack.parts.resize(to_size(adapter) + 1);
  stack.parts.back().a = &a;
  stack.parts.back().b = &b;
}

void Adapters::settle_types() {
  for (auto& [matrix, stack] : stacks_) {
    std::set<DType> types;
    bool scaled = false;
    for (std::size_t i = 0; i < stack.parts.size(); ++i) {
      AdapterStack::Part& part = stack.parts[i];
      if (part.a == nullptr) continue;
      types.insert({part.a->dtype, part.b->dtype});
      if (infos_[i].alpha != 0.0f)
        part.factor = static_cast<float>(infos_[i].rank) / static_cast<float>(part.b->shape.back());
      scaled = scaled || part.factor != 1.0f;
    }
    const bool half = *types.begin() == DType::kF16 || *types.begin() == DType::kBF16;
    if (types.size() == 1 && half && !scaled) stack.dtype = *types.begin();
  }
}

const AdapterStack* Adapters::find(const std::string& tensor) const {
  const auto found = stacks_.find(tensor);
  return found != stacks_.end() ? &found->second : nullptr;
}

void Adapters::check_unchanged() const {
  for (const gguf::File& file : files_) file.check_unchanged();
}

void Adapters::unpack(int adapter, const gguf::TensorInfo& tensor, std::int64_t row,
                      std::span<float> to) const {
  const std::size_t bytes = row_bytes(tensor.dtype, tensor.shape.back());
  std::vector<std::byte> packed(bytes);
  files_[to_size(adapter)].read(tensor.data.subspan(to_size(row) * bytes, bytes), packed);
  unpack_row(tensor.dtype, packed.data(), to);
}

std::vector<std::byte> Adapters::a_bytes(const AdapterStack& stack) const {
  const std::size_t row = row_bytes(stack.dtype, stack.n_in);
  std::vector<std::byte> bytes(stack.parts.size() * to_size(stack.n_experts * stack.rank) * row);
  std::vector<float> values(to_size(stack.n_in));
  for (std::size_t i = 0; i < stack.parts.size(); ++i) {
    const AdapterStack::Part& part = stack.parts[i];
    if (part.a == nullptr) continue;
    const std::int64_t rank = part.b->shape.back();
    for (std::int64_t expert = 0; expert < stack.n_experts; ++expert) {
      const std::int64_t matrix = static_cast<std::int64_t>(i) * stack.n_experts + expert;
      for (std::int64_t r = 0; r < rank; ++r) {
        unpack(static_cast<int>(i), *part.a, expert * rank + r, values);
        pack_row(stack.dtype, values, bytes.data() + to_size(matrix * stack.rank + r) * row);
      }
    }
  }
  return bytes;
}

std::vector<std::byte> Adapters::b_bytes(const AdapterStack& stack, std::int64_t begin,
                                         std::int64_t n) const {
  // Experts' rows follow each other, in the file and here.
  if (stack.n_experts > 1) n *= stack.n_experts;
  const std::size_t row = row_bytes(stack.dtype, stack.rank), rows = to_size(n);
  std::vector<std::byte> bytes(stack.parts.size() * rows * row);
  std::vector<float> values(to_size(stack.rank));
  for (std::size_t i = 0; i < stack.parts.size(); ++i) {
    const AdapterStack::Part& part = stack.parts[i];
    if (part.b == nullptr) continue;
    std::fill(values.begin(), values.end(), 0.0f);
    const auto own = std::span(values).first(to_size(part.b->shape.back()));
    for (std::size_t r = 0; r < rows; ++r) {
      unpack(static_cast<int>(i), *part.b, begin + static_cast<std::int64_t>(r), own);
      if (part.factor != 1.0f)
        for (float& value : own) value *= part.factor;
      pack_row(stack.dtype, values, bytes.data() + (i * rows + r) * row);
    }
  }
  return bytes;
}

void Adapters::check_all_used(const std::set<std::string>& matrices) const {
  for (const auto& [matrix, stack] : stacks_) {
    if (matrices.contains(matrix)) continue;
    const auto part =
        std::find_if(stack.parts.begin(), stack.parts.end(), [](const auto& p) { return p.a != nullptr; });
    const AdapterInfo& info = infos_[to_size(part - stack.parts.begin())];
    throw Error(ErrorCode::kUnsupported, info.path.string() + ": tensor " + part->a->name + " adds to " +
                                             matrix +
                                             ", where weft does not apply LoRA for this architecture; merge "
                                             "the adapter into the model instead (weft lora-merge)");
  }
}

ControlVectors::ControlVectors(std::span<const ControlVectorFile> files, int first, int last,
                               const HParams& hparams)
    : vectors_(to_size(hparams.n_layers)) {
  if (first < -1 || last < -1 || first >= hparams.n_layers || (last >= 0 && last < first))
    throw Error(ErrorCode::kInvalidArgument, "control vectors are requested for layers " +
                                                 std::to_string(first) + " to " + std::to_string(last) +
                                                 ", but the model has layers 0 to " +
                                                 std::to_string(hparams.n_layers - 1));
  for (const ControlVectorFile& from : files) {
    if (!std::isfinite(from.scale) || std::abs(from.scale) > kLargestScale)
      throw Error(ErrorCode::kInvalidArgument, from.path.string() + ": the scale is " +
                                                   std::to_string(from.scale) +
                                                   ", expected a number of at most a million");
    const gguf::File file = gguf::File::open(from.path);
    if (file.tensors().empty()) refuse(from.path, "the file has no control vectors");
    for (const gguf::TensorInfo& tensor : file.tensors()) {
      int layer = 0;
      const char* const begin = tensor.name.data() + kDirection.size();
      const char* const end = tensor.name.data() + tensor.name.size();
      if (!tensor.name.starts_with(kDirection) || std::from_chars(begin, end, layer).ptr != end ||
          begin == end)
        refuse(from.path, "tensor " + tensor.name +
                              " does not belong in a control vector, whose tensors are named direction.N");
      if (layer < 1 || layer >= hparams.n_layers)
        refuse(from.path, "tensor " + tensor.name + " names a layer that is not from 1 to " +
                              std::to_string(hparams.n_layers - 1));
      require_floats(from.path, tensor);
      if (tensor.shape != std::vector<std::int64_t>{hparams.n_embd})
        refuse(from.path, "tensor " + tensor.name + " has the shape " + text_of(tensor.shape) +
                              ", but the model has the width " + std::to_string(hparams.n_embd));
      if (layer < first || (last >= 0 && layer > last)) continue;
      std::vector<std::byte> bytes(tensor.data.size());
      file.read(tensor.data, bytes);
      std::vector<float> values(to_size(hparams.n_embd));
      unpack_row(tensor.dtype, bytes.data(), values);
      const auto bad = std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
      if (bad != values.end())
        refuse(from.path,
               "tensor " + tensor.name + " has a value that is not finite (" + std::to_string(*bad) + ")");
      std::vector<float>& sum = vectors_[to_size(layer)];
      sum.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) sum[i] += from.scale * values[i];
    }
  }
}

void ControlVectors::check_all_used(const std::set<int>& layers) const {
  for (std::size_t layer = 0; layer < vectors_.size(); ++layer)
    if (!vectors_[layer].empty() && !layers.contains(static_cast<int>(layer)))
      throw Error(ErrorCode::kUnsupported,
                  "the control vector of layer " + std::to_string(layer) +
                      " cannot be applied: weft does not support it for this architecture");
}

}  // namespace weft::model
