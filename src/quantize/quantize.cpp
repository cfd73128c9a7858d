#include "weft/quantize.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "base/pool.h"
#include "exec/search_pattern.h"
#include "gguf/file_types.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "quantize/importance.h"
#include "quantize/mixes.h"
#include "quantize/source_file.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft {
namespace {

using namespace quantize_impl;

/// Of packed blocks' layouts, since the first; writers say it and readers know no other.
constexpr std::uint32_t kQuantizationVersion = 2;

[[noreturn]] void refuse(const std::string& problem) { throw Error(ErrorCode::kInvalidArgument, problem); }

const QuantizeMix& mix_of(const std::string& name) {
  if (const QuantizeMix* mix = find_mix(name)) return *mix;
  std::string known;
  for (const QuantizeMix& mix : quantize_mixes())
    known += (known.empty() ? "" : ", ") + std::string(mix.name);
  refuse("there is no mix '" + name + "'; known are " + known);
}

ModelShape shape_of(const gguf::File& file) {
  const std::string architecture(file.get_string("general.architecture").value_or(""));
  // Some files have a number for each layer: the greatest is told.
  const auto greatest = [&](const std::string& key) -> std::int64_t {
    const gguf::Value* const value = file.find(architecture + key);
    if (value == nullptr) return 0;
    if (value->type != gguf::ValueType::kArray) return file.get_int(architecture + key).value_or(0);
    const auto numbers = file.get_ints(architecture + key);
    return numbers && !numbers->empty() ? *std::max_element(numbers->begin(), numbers->end()) : 0;
  };
  ModelShape shape;
  shape.n_layers = static_cast<int>(std::clamp<std::int64_t>(greatest(".block_count"), 0, 1 << 20));
  const std::int64_t n_heads = greatest(".attention.head_count");
  const std::int64_t n_kv_heads = greatest(".attention.head_count_kv");
  if (n_heads > 0 && n_kv_heads > 0 && n_heads < 1 << 20)
    shape.n_heads_of_kv_head = static_cast<int>(n_heads / n_kv_heads);
  shape.n_experts = static_cast<int>(std::clamp<std::int64_t>(greatest(".expert_count"), 0, 1 << 20));
  shape.tied = file.find_tensor("output.weight") == nullptr;
  return shape;
}

class Plan {
 public:
  Plan(const gguf::File& file, const QuantizeParams& params)
      : params_(params), mix_(mix_of(params.mix)), shape_(shape_of(file)) {
    for (const QuantizeRule& rule : params.rules) patterns_.emplace_back(rule.pattern);
    for (const QuantizeRule& rule : params.rules) check_type(rule.type);
    if (params.output_type) check_type(*params.output_type);
    if (params.embedding_type) check_type(*params.embedding_type);
    if (!params.importance.empty()) importance_.emplace(params.importance);
  }

  const std::optional<Importance>& importance() const { return importance_; }
  const QuantizeMix& mix() const { return mix_; }

  std::span<const float> columns_of(const gguf::TensorInfo& tensor) const {
    if (!importance_ || tensor.shape.size() < 2) return {};
    const std::int64_t n_matrices = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
    return importance_->of(tensor.name, n_matrices, tensor.shape.back());
  }

  QuantizedTensor of(const gguf::TensorInfo& tensor) const {
    QuantizedTensor result{.name = tensor.name, .shape = tensor.shape, .from = tensor.dtype};
    result.to = type_for(tensor);
    if (info(result.to).kind == DTypeKind::kQuantised && result.to != tensor.dtype) {
      const std::int64_t n_columns = tensor.shape.back();
      if (n_columns % info(result.to).block_elements != 0) result.wanted = result.to;
      while (n_columns % info(result.to).block_elements != 0) result.to = fallback(result.to);
      if (info(tensor.dtype).kind == DTypeKind::kQuantised && !params_.requantize)
        refuse(tensor.name + " is " + std::string(info(tensor.dtype).name) +
               " already, and packing it again loses more than packing the original would; take the F16, "
               "BF16 or F32 file, or allow it (requantize)");
    }
    const auto bytes = [&](DType type) {
      return static_cast<std::uint64_t>(tensor.n_elements() / info(type).block_elements) *
             static_cast<std::uint64_t>(info(type).block_bytes);
    };
    result.bytes_from = bytes(result.from);
    result.bytes_to = bytes(result.to);
    return result;
  }

 private:
  static void check_type(DType type) {
    if (info(type).kind == DTypeKind::kInteger || type == DType::kF64)
      refuse(std::string(info(type).name) + " is no type for weights");
  }

  DType type_for(const gguf::TensorInfo& tensor) const {
    if (!is_quantizable(tensor.name, tensor.shape.size())) return tensor.dtype;
    if (info(tensor.dtype).kind == DTypeKind::kInteger) return tensor.dtype;
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      if (patterns_[i].found_in(tensor.name)) return params_.rules[i].type;
    const bool output = is_output(tensor.name, shape_);
    if (params_.keep_output && output) return tensor.dtype;
    if (params_.output_type && output) return *params_.output_type;
    if (params_.embedding_type && is_embedding(tensor.name)) return *params_.embedding_type;
    if (params_.pure) return mix_.type;
    return type_of(mix_, shape_, tensor.name, !columns_of(tensor).empty());
  }

  const QuantizeParams& params_;
  const QuantizeMix& mix_;
  ModelShape shape_;
  std::deque<exec::SearchPattern> patterns_;  // They do not move.
  std::optional<Importance> importance_;
};

QuantizeResult result_of(const gguf::File& file, const Plan& plan) {
  QuantizeResult result{.mix = std::string(plan.mix().name)};
  std::uint64_t n_elements = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    const QuantizedTensor& added = result.tensors.emplace_back(plan.of(tensor));
    result.bytes_from += added.bytes_from;
    result.bytes_to += added.bytes_to;
    n_elements += static_cast<std::uint64_t>(tensor.n_elements());
  }
  if (n_elements > 0)
    result.bits_per_weight = 8.0 * static_cast<double>(result.bytes_to) / static_cast<double>(n_elements);
  return result;
}

/// Packs tensors, piece after piece: a piece is read by the caller, since reading may throw, and packed by
/// all threads.
class Packer {
 public:
  Packer(const gguf::File& file, const QuantizeParams& params, std::uint64_t n_bytes)
      : file_(file),
        progress_(params.progress),
        pool_(params.n_threads > 0 ? params.n_threads : base::default_threads(), 1),
        values_(static_cast<std::size_t>(pool_.n_threads())),
        n_bytes_(n_bytes) {}

  void pack(const gguf::TensorInfo& tensor, DType type, std::span<const float> importance,
            std::span<std::byte> out) {
    if (type == tensor.dtype) {
      file_.read(tensor.data, out);
      return advance(tensor.data.size());
    }
    const std::int64_t n_columns = tensor.shape.back();
    const std::int64_t n_rows = tensor.n_elements() / n_columns;
    const std::int64_t n_rows_of_matrix = tensor.shape.size() == 3 ? tensor.shape[1] : n_rows;
    const std::size_t from_row = row_bytes(tensor.dtype, n_columns), to_row = row_bytes(type, n_columns);
    const auto columns = static_cast<std::size_t>(n_columns);
    for (std::vector<float>& values : values_) values.resize(columns);  // Tasks must not throw.
    for (std::int64_t begin = 0; begin < n_rows;) {
      const std::int64_t end = std::min<std::int64_t>(n_rows, begin + rows_of_piece(from_row));
      piece_.resize(static_cast<std::size_t>(end - begin) * from_row);
      file_.read(tensor.data.subspan(static_cast<std::size_t>(begin) * from_row, piece_.size()), piece_);
      pool_.parallel_for(static_cast<std::int32_t>(end - begin), [&](std::int32_t i, int thread) {
        std::vector<float>& values = values_[static_cast<std::size_t>(thread)];
        unpack_row(tensor.dtype, piece_.data() + static_cast<std::size_t>(i) * from_row, values);
        const auto matrix = static_cast<std::size_t>((begin + i) / n_rows_of_matrix);
        pack_row(type, values, out.data() + static_cast<std::size_t>(begin + i) * to_row,
                 importance.empty() ? importance : importance.subspan(matrix * columns, columns));
      });
      advance(piece_.size());
      begin = end;
    }
  }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

  std::int64_t rows_of_piece(std::size_t row) const {
    return std::max<std::int64_t>(pool_.n_threads(), static_cast<std::int64_t>(kPieceBytes / row));
  }

  void advance(std::size_t bytes) {
    done_ += bytes;
    if (progress_ &&
        !progress_(static_cast<double>(done_) / static_cast<double>(std::max<std::uint64_t>(n_bytes_, 1))))
      throw Error(ErrorCode::kCancelled, "quantising was cancelled");
  }

  const gguf::File& file_;
  const std::function<bool(double)>& progress_;
  base::Pool pool_;
  std::vector<std::vector<float>> values_;  // By thread.
  std::vector<std::byte> piece_;
  std::uint64_t n_bytes_, done_ = 0;
};

void write_metadata(const gguf::File& file, const Plan& plan, gguf::Writer& writer) {
  copy_metadata(file, writer);
  for (const gguf::FileType& type : gguf::file_types())
    if (type.name == plan.mix().name || (type.name == "MXFP4_MOE" && plan.mix().type == DType::kMXFP4))
      writer.set(gguf::kFileTypeKey, type.number);
  writer.set("general.quantization_version", kQuantizationVersion);
  if (!plan.importance()) return;
  const Importance& importance = *plan.importance();
  writer.set("quantize.imatrix.file", importance.path().filename().string());
  if (!importance.dataset().empty()) writer.set("quantize.imatrix.dataset", importance.dataset());
  writer.set("quantize.imatrix.entries_count", static_cast<std::uint32_t>(importance.size()));
  if (importance.n_chunks() > 0)
    writer.set("quantize.imatrix.chunks_count", static_cast<std::uint32_t>(importance.n_chunks()));
}

void check(const QuantizeParams& params) {
  if (params.n_threads < 0 || params.n_threads > base::kMaxThreads)
    refuse("n_threads is " + std::to_string(params.n_threads) + ", expected 0 to " +
           std::to_string(base::kMaxThreads));
}

}  // namespace

QuantizeResult plan_quantize(const std::filesystem::path& from, const QuantizeParams& params) {
  check(params);
  const gguf::File file = gguf::File::open(from);
  return result_of(file, Plan(file, params));
}

QuantizeResult quantize(const std::filesystem::path& from, const std::filesystem::path& to,
                        const QuantizeParams& params) {
  check(params);
  const gguf::File file = gguf::File::open(from);
  refuse_overwriting(file, from, to);
  const Plan plan(file, params);
  QuantizeResult result = result_of(file, plan);
  Packer packer(file, params, result.bytes_from);
  gguf::Writer writer;
  write_metadata(file, plan, writer);
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    const gguf::TensorInfo& tensor = file.tensors()[i];
    writer.add_tensor(tensor.name, result.tensors[i].to, tensor.shape,
                      [&packer, &plan, &tensor, type = result.tensors[i].to](std::span<std::byte> out) {
                        packer.pack(tensor, type, plan.columns_of(tensor), out);
                      });
  }
  writer.write_file(to);
  return result;
}

}  // namespace weft
