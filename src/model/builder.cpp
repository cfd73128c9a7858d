#include "model/builder.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/check.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/graph/extent.h"

namespace weft::model {
namespace {

/// Matrices are cut at multiples of this, which suits the panels of every device.
constexpr std::int64_t kRowsOfShard = 64;

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// Whether two shapes differ in sizes of 1 alone, as a vector and a matrix of one row do.
bool equal_but_ones(std::span<const std::int64_t> a, const Shape& b) {
  std::vector<std::int64_t> left(a.begin(), a.end()), right = b.dims({});
  std::erase(left, 1);
  std::erase(right, 1);
  return left == right;
}

}  // namespace

std::string layer_name(int layer, const char* name) { return "blk." + std::to_string(layer) + "." + name; }

Builder::Builder(const gguf::File& file, const HParams& hparams, const GraphSizes& sizes)
    : file_(file), hparams_(hparams), sizes_(sizes) {
  Graph& graph = model_.graph;
  model_.n_tokens = graph.add_symbol("n_tokens", 0, sizes.n_ubatch);
  const Shape per_token = {Dim(1, model_.n_tokens)};
  model_.tokens = graph.add_input("tokens", DType::kI32, per_token);
  model_.positions = graph.add_input("positions", DType::kI32, per_token);
  if (hparams.encoder) {
    add_text_inputs();
  } else {
    add_decoder_inputs();
  }
}

void Builder::add_text_inputs() {
  Graph& graph = model_.graph;
  const Shape per_token = {Dim(1, model_.n_tokens)};
  // Of each token, where they are not pooled.
  model_.n_vectors = graph.add_symbol("n_vectors", 0, sizes_.n_ubatch);
  const Shape per_vector = {Dim(1, model_.n_vectors)};
  model_.texts = {.types = graph.add_input("types", DType::kI32, per_token),
                  .begins = graph.add_input("begins", DType::kI32, per_token),
                  .ends = graph.add_input("ends", DType::kI32, per_token),
                  .pool_begins = graph.add_input("pool_begins", DType::kI32, per_vector),
                  .pool_ends = graph.add_input("pool_ends", DType::kI32, per_vector)};
}

const TextInputs& Builder::texts(int window) {
  if (window > 0 && model_.window == 0) {
    const Shape per_token = {Dim(1, model_.n_tokens)};
    model_.texts.window_begins = model_.graph.add_input("window_begins", DType::kI32, per_token);
    model_.texts.window_ends = model_.graph.add_input("window_ends", DType::kI32, per_token);
  }
  model_.window = std::max(model_.window, window);
  return model_.texts;
}

void Builder::add_decoder_inputs() {
  Graph& graph = model_.graph;
  model_.n_wanted = graph.add_symbol("n_wanted", 0, sizes_.n_ubatch);
  model_.n_outputs = graph.add_symbol("n_outputs", 0, sizes_.n_outputs);
  model_.n_embeddings = graph.add_symbol("n_embeddings", 0, sizes_.n_ubatch);
  model_.n_moves = graph.add_symbol("n_moves", 0, sizes_.n_moves);
  const Shape per_token = {Dim(1, model_.n_tokens)};
  model_.embeddings = graph.add_input("embeddings", DType::kF32, {Dim(1, model_.n_tokens), hparams_.n_embd});
  model_.use_embeddings = graph.add_input("use_embeddings", DType::kI32, per_token);
  model_.sequences = graph.add_input("sequences", DType::kI32, per_token);
  model_.ends = graph.add_input("ends", DType::kI32, per_token);
  model_.hidden_first = graph.add_input("hidden_first", DType::kI32, per_token);
  model_.wanted_rows = graph.add_input("wanted_rows", DType::kI32, {Dim(1, model_.n_wanted)});
  model_.output_rows = graph.add_input("output_rows", DType::kI32, {Dim(1, model_.n_outputs)});
  model_.embedding_rows = graph.add_input("embedding_rows", DType::kI32, {Dim(1, model_.n_embeddings)});
  model_.n_forks = graph.add_symbol("n_forks", 0, sizes_.n_moves);
  model_.n_hidden = graph.add_symbol("n_hidden", 0, sizes_.n_hidden);
  if (sizes_.n_best > 0) {
    model_.n_logits = graph.add_symbol("n_logits", 0, sizes_.n_outputs);
    model_.logit_rows = graph.add_input("logit_rows", DType::kI32, {Dim(1, model_.n_logits)});
    model_.log_sum_ids = graph.add_input("log_sum_ids", DType::kI32, {Dim(1, model_.n_outputs)});
    model_.best_counts = graph.add_input("best_counts", DType::kI32, {Dim(1, model_.n_outputs)});
  }
  model_.full = add_cells("");
}

CellInputs Builder::add_cells(const std::string& prefix) {
  Graph& graph = model_.graph;
  const auto input = [&](const char* name, const Shape& shape) {
    return graph.add_input(prefix + name, DType::kI32, shape);
  };
  const Shape per_move = {Dim(1, model_.n_moves)}, per_fork = {Dim(1, model_.n_forks)};
  return {.cells = input("cells", {Dim(1, model_.n_tokens)}),
          .extents = input("extents", {sizes_.n_sequences, sizes_.n_extents, kExtentWords}),
          .extent_counts = input("extent_counts", {sizes_.n_sequences}),
          .hidden = input("hidden", {Dim(1, model_.n_hidden), kHiddenWords}),
          .move_from = input("move_from", per_move),
          .move_to = input("move_to", per_move),
          .move_deltas = input("move_deltas", per_move),
          .fork_from = input("fork_from", per_fork),
          .fork_to = input("fork_to", per_fork)};
}

const CellInputs& Builder::cells(int window) {
  if (window == 0 || sizes_.window_rewind < 0 || window + sizes_.window_rewind >= sizes_.max_positions)
    return model_.full;
  if (model_.window == 0) model_.windowed = add_cells("window_");
  model_.window = std::max(model_.window, window);
  return model_.windowed;
}

ValueId Builder::use(const std::string& name, const Shape& shape, std::int64_t begin, std::int64_t n,
                     bool optional, Form form) {
  const gguf::TensorInfo* tensor = file_.find_tensor(name);
  if (tensor == nullptr && optional) return kNoValue;
  const bool flat = form == Form::kFlat || shape.rank() == 1;
  const bool whole = form == Form::kFlat || shape.rank() == 3 || (begin == 0 && n == shape[0].constant());
  const std::string value_name =
      whole ? name : name + "[" + std::to_string(begin) + ":" + std::to_string(begin + n) + "]";
  if (const ValueId known = model_.graph.find(value_name); known != kNoValue) return known;

  DType dtype = DType::kF32;
  if (tensor == nullptr) {
    if (n_missing_++ == 0) first_missing_ = name;
  } else {
    if (!equal_but_ones(tensor->shape, shape))
      throw Error(ErrorCode::kInvalidFile, "tensor " + name + " has the shape " + shape_text(tensor->shape) +
                                               ", the model's metadata says " + to_string(shape, {}));
    dtype = tensor->dtype;
    const DTypeInfo& type = info(dtype);
    if (type.kind == DTypeKind::kInteger || dtype == DType::kF64 || (flat && type.kind != DTypeKind::kFloat))
      throw Error(ErrorCode::kInvalidFile, "tensor " + name + " has the type " + std::string(type.name) +
                                               ", expected " +
                                               (flat ? "f32, f16 or bf16" : "a float or quantised type"));
    // Vectors are unpacked when they are loaded.
    if (flat) dtype = DType::kF32;
  }
  Shape part = shape;
  if (form == Form::kFlat) part = {shape.elements({})};
  if (!whole) part = shape.rank() == 2 ? Shape{n, shape[1]} : Shape{n};
  const ValueId value = model_.graph.add_weight(value_name, dtype, part);
  model_.weights.push_back({value, tensor, whole ? 0 : begin, part[0].constant()});
  return value;
}

ValueId Builder::weight(const std::string& name, const Shape& shape) {
  return use(name, shape, 0, shape[0].constant(), false);
}
ValueId Builder::optional_weight(const std::string& name, const Shape& shape) {
  return use(name, shape, 0, shape[0].constant(), true);
}
ValueId Builder::flat_weight(const std::string& name, const Shape& shape) {
  return use(name, shape, 0, shape[0].constant(), false, Form::kFlat);
}
ValueId Builder::weight_rows(const std::string& name, const Shape& shape, std::int64_t begin,
                             std::int64_t n) {
  return use(name, shape, begin, n, false);
}

ValueId Builder::product(ValueId x, const std::string& weight, const std::string& bias, std::int64_t n_all,
                         std::int64_t begin, std::int64_t n_out, const std::string& name) {
  const std::int64_t n_in = model_.graph.value(x).shape.columns();
  const auto rows = [&](std::int64_t first, std::int64_t n, const std::string& rows_name, int shard) {
    const ValueId w = weight_rows(weight, {n_all, n_in}, begin + first, n);
    const ValueId b = has(bias) ? weight_rows(bias, {n_all}, begin + first, n) : kNoValue;
    NodeTag tag = tag_;
    tag.shard = shard;
    return model_.graph.add(ops::Matmul{}, {w, x, b}, rows_name, tag);
  };
  const std::vector<double>& shares = sizes_.row_shares;
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (shares.size() < 2 || sum <= 0.0 || n_out < kRowsOfShard * static_cast<std::int64_t>(shares.size()))
    return rows(0, n_out, name, NodeTag::kNone);
  std::vector<ValueId> shards;
  std::int64_t first = 0;
  double so_far = 0.0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    so_far += shares[i];
    const auto units =
        static_cast<std::int64_t>(so_far / sum * static_cast<double>(n_out / kRowsOfShard) + 0.5);
    const std::int64_t end = i + 1 == shares.size() ? n_out : std::min(units * kRowsOfShard, n_out);
    if (end > first)
      shards.push_back(rows(first, end - first, name + "#" + std::to_string(i), static_cast<int>(i)));
    first = std::max(first, end);
  }
  return model_.graph.add(ops::Concat{}, shards, name, tag_);
}

ValueId Builder::cache(CacheRole role, int layer, const CellInputs& at, std::int64_t n_heads,
                       std::int64_t head_dim, const ops::Rope& rope, ValueId rope_factors) {
  const bool keys = role == CacheRole::kKeys;
  const std::string name = std::string("cache.") + (keys ? "k." : "v.") + std::to_string(layer);
  const ValueId state =
      model_.graph.add_state(name, keys ? sizes_.k_type : sizes_.v_type, {sizes_.n_cells, n_heads, head_dim});
  model_.states.push_back(state);
  return add(ops::MoveCells{role, rope},
             {.cache = state,
              .from = at.move_from,
              .to = at.move_to,
              .deltas = at.move_deltas,
              .factors = rope.n_rot > 0 ? rope_factors : kNoValue},
             name + ".moved");
}

ValueId Builder::stored(CacheRole role, int layer) const {
  const ValueId value =
      model_.graph.find(layer_name(layer, role == CacheRole::kKeys ? "k" : "v") + "_forked");
  WEFT_CHECK(value != kNoValue);
  return value;
}

ValueId Builder::store(CacheRole role, int layer, const CellInputs& at, ValueId cache, ValueId rows) {
  const std::string name = layer_name(layer, role == CacheRole::kKeys ? "k" : "v");
  const ValueId stored = add(ops::StoreCache{role}, {cache, rows, at.cells}, name + "_stored");
  return add(ops::MoveCells{role, {.n_rot = 0}}, {.cache = stored, .from = at.fork_from, .to = at.fork_to},
             name + "_forked");
}

ValueId Builder::running_state(const std::string& name, int layer, std::int64_t rows, std::int64_t columns) {
  if (model_.state_from == kNoValue) {
    const Shape per_token = {Dim(1, model_.n_tokens)};
    model_.state_from = model_.graph.add_input("state_from", DType::kI32, per_token);
    model_.state_to = model_.graph.add_input("state_to", DType::kI32, per_token);
  }
  const ValueId state = model_.graph.add_state("state." + name + "." + std::to_string(layer), DType::kF32,
                                               {sizes_.n_slots, rows, columns});
  model_.running_states.push_back(state);
  return state;
}

void Builder::check_layers() const {
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    constexpr std::string_view kPrefix = "blk.";
    if (!tensor.name.starts_with(kPrefix)) continue;
    int layer = -1;
    const char* const end = tensor.name.data() + tensor.name.size();
    const auto [rest, error] = std::from_chars(tensor.name.data() + kPrefix.size(), end, layer);
    if (error != std::errc() || rest == end || *rest != '.' || layer < 0 ||
        layer >= hparams_.n_layers + hparams_.n_layers_unused)
      throw Error(ErrorCode::kInvalidFile, "tensor " + tensor.name + " is of no layer: metadata key " +
                                               hparams_.architecture + ".block_count is " +
                                               std::to_string(hparams_.n_layers));
  }
}

void Builder::take_best(ValueId logits) {
  model_.best = add(ops::Best{sizes_.n_best}, {logits, model_.best_counts}, "best");
  model_.log_sums = add(ops::LogSumExp{}, {logits, model_.log_sum_ids}, "log_sums");
}

ModelGraph Builder::finish(ValueId result) {
  if (n_missing_ > 0) {
    throw Error(ErrorCode::kInvalidFile, std::to_string(n_missing_) + " of " +
                                             std::to_string(model_.weights.size()) +
                                             " tensors are missing, first " + first_missing_);
  }
  check_layers();
  (hparams_.encoder ? model_.vectors : model_.logits) = result;
  model_.graph.add_output(result);
  for (const ValueId taken : {model_.row_embeddings, model_.best, model_.log_sums, model_.scores})
    if (taken != kNoValue) model_.graph.add_output(taken);
  return std::move(model_);
}

}  // namespace weft::model
