#include "model/builder.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/to_size.h"
#include "model/factor_name.h"
#include "tensor/codec.h"
#include "weft/dtype.h"
#include "weft/error.h"
#include "weft/graph/extent.h"

namespace weft::model {
namespace {

constexpr std::string_view kLayerPrefix = "blk.";

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::int64_t pages_of(std::int64_t n_cells) { return (n_cells + kPageCells - 1) / kPageCells; }

/// Whether a tensor is a matrix with additional sizes of 1, as some converters write small ones. Those are
/// {1, n, 1, m} or {1, 1, n, m} and, where such a file was rewritten, {n, 1, m}.
bool is_padded_matrix(std::span<const std::int64_t> tensor, const Shape& shape) {
  if (tensor.size() == 3) return tensor[0] > 1 && tensor[1] == 1 && shape == Shape{tensor[0], tensor[2]};
  return tensor.size() == 4 && shape.rank() == 2 && tensor[0] == 1 &&
         ((tensor[2] == 1 && shape == Shape{tensor[1], tensor[3]}) ||
          (tensor[1] == 1 && shape == Shape{tensor[2], tensor[3]}));
}

constexpr std::string_view kFactor = ".scale";

/// Whether a tensor has this shape but for sizes of 1, of which either may have more.
bool is_but_for_ones(std::span<const std::int64_t> tensor, const Shape& shape) {
  std::vector<std::int64_t> found, expected;
  std::copy_if(tensor.begin(), tensor.end(), std::back_inserter(found),
               [](std::int64_t n) { return n != 1; });
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (const std::int64_t n = shape[axis].constant(); n != 1) expected.push_back(n);
  return found == expected;
}

/// The same of sizes of 1 before all others alone, which leave rows as they are.
bool is_but_for_ones_in_front(std::span<const std::int64_t> tensor, const Shape& shape) {
  while (tensor.size() > 1 && tensor.front() == 1) tensor = tensor.subspan(1);
  int axis = 0;
  while (axis + 1 < shape.rank() && shape[axis].constant() == 1) ++axis;
  if (tensor.size() != to_size(shape.rank() - axis)) return false;
  return std::all_of(tensor.begin(), tensor.end(),
                     [&](std::int64_t n) { return n == shape[axis++].constant(); });
}

/// The rest of a name after "blk.3."; empty for names outside of layers.
std::string_view rest_of_layer_name(std::string_view name) {
  if (!name.starts_with(kLayerPrefix)) return {};
  const std::size_t dot = name.find('.', kLayerPrefix.size());
  return dot == std::string_view::npos ? std::string_view{} : name.substr(dot + 1);
}

/// Whether a tensor outside of layers is in files but unused by models.
bool is_of_no_use(std::string_view name, const HParams& hparams) {
  // Scales of activations; a head in a file of an embedding model; image and audio encoders, which some files
  // have next to the language model.
  if (name.ends_with(".input_scale")) return true;
  if (hparams.encoder && (name.starts_with("cls.") || name.starts_with("output."))) return true;
  for (const std::string_view other : {"v.", "a.", "mm."})
    if (name.starts_with(other)) return true;
  return false;
}

/// Whether a tensor of a layer is in files but unused by models.
bool is_of_no_use(std::string_view rest, int layer, const HParams& hparams) {
  // Computed tables; scales of activations; unfolded keys and values next to the latent ones. Some files of
  // T5 have a bias of distances to the source, although there are none.
  if (hparams.source && rest == "cross_attn_rel_b.weight") return true;
  if (rest == "attn_rot_embd.weight" || rest == "rope_freqs.weight" || rest == "attn_kv_b.weight" ||
      rest.ends_with(".input_scale"))
    return true;
  const int n_with_kv = hparams.attention ? hparams.attention->n_layers_with_kv : 0;
  const bool sees_others = n_with_kv > 0 && layer >= n_with_kv;
  if (sees_others && (rest.starts_with("attn_k") || rest.starts_with("attn_v"))) return true;
  return layer == 0 && hparams.rwkv && hparams.rwkv->value_rank > 0 && rest.starts_with("time_mix_v") &&
         !rest.starts_with("time_mix_value");
}

}  // namespace

std::string layer_name(int layer, const char* name) { return "blk." + std::to_string(layer) + "." + name; }

Builder::Builder(const gguf::File& file, const HParams& hparams, const Additions& additions,
                 const GraphSizes& sizes)
    : file_(file), hparams_(hparams), additions_(additions), sizes_(sizes) {
  Graph& graph = model_.graph;
  model_.n_tokens = graph.add_symbol("n_tokens", 0, sizes.n_ubatch);
  const Shape per_token = {Dim(1, model_.n_tokens)};
  model_.tokens = graph.add_input("tokens", DType::kI32, per_token);
  model_.positions = graph.add_input("positions", DType::kI32, per_token);
  if (hparams.encoder) {
    add_text_inputs();
  } else {
    add_decoder_inputs();
    if (hparams.source) add_source_inputs();
  }
}

void Builder::add_text_inputs() {
  Graph& graph = model_.graph;
  const Shape per_token = {Dim(1, model_.n_tokens)};
  // For each token, where they are not pooled.
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
  model_.embeddings =
      graph.add_input("embeddings", DType::kF32, {Dim(1, model_.n_tokens), hparams_.n_embd_input()});
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

void Builder::add_source_inputs() {
  Graph& graph = model_.graph;
  SourceInputs& source = model_.source;
  source.n_rows = graph.add_symbol("n_source", 0, sizes_.n_source);
  const Shape per_row = {Dim(1, source.n_rows)}, per_token = {Dim(1, model_.n_tokens)};
  const auto input = [&](const char* name, const Shape& shape) {
    return graph.add_input(std::string("source_") + name, DType::kI32, shape);
  };
  source.tokens = input("tokens", per_row);
  source.positions = input("positions", per_row);
  source.cells = input("cells", per_row);
  source.extents = input("extents", {sizes_.n_sequences, pages_of(sizes_.n_source), kExtentWords});
  source.extent_counts = input("extent_counts", {sizes_.n_sequences});
  source.ends = input("ends", per_token);
  source.hidden_first = input("hidden_first", per_token);
  source.hidden = input("hidden", {1, kHiddenWords});
}

namespace {
constexpr std::array<const char*, 3> kAxisNames = {"time", "line", "column"};
}  // namespace

ValueId Builder::axis(std::size_t axis) {
  if (model_.axes[axis] == kNoValue)
    model_.axes[axis] = model_.graph.add_input(std::string("positions_of_") + kAxisNames[axis], DType::kI32,
                                               {Dim(1, model_.n_tokens)});
  return model_.axes[axis];
}

ValueId Builder::axis_factors(std::size_t axis) {
  // No pair turns by a frequency so low.
  constexpr float kStill = 1e30f;
  const std::string name = std::string("rope_factors_of_") + kAxisNames[axis];
  if (const ValueId known = model_.graph.find(name); known != kNoValue) return known;
  std::vector<float> factors(to_size(hparams_.rope.n_rot / 2));
  for (std::size_t pair = 0; pair < factors.size(); ++pair)
    factors[pair] = hparams_.axes->of_pair(static_cast<int>(pair)) == axis ? 1.0f : kStill;
  return add_made(name, DType::kF32, {static_cast<std::int64_t>(factors.size())}, [factors] {
    const auto bytes = std::as_bytes(std::span(factors));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
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
    constexpr int kMaxNamed = 8;
    if (++n_missing_ <= kMaxNamed) missing_ += (missing_.empty() ? "" : ", ") + name;
    if (n_missing_ == kMaxNamed + 1) missing_ += ", ...";
  } else {
    const bool fits = is_but_for_ones_in_front(tensor->shape, shape) ||
                      (whole && is_padded_matrix(tensor->shape, shape)) ||
                      (flat && is_but_for_ones(tensor->shape, shape));
    if (!fits)
      throw Error(ErrorCode::kInvalidFile, "tensor " + name + " has the shape " + shape_text(tensor->shape) +
                                               ", but the model's metadata implies " + to_string(shape, {}));
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

bool Builder::has_factor(const std::string& weight) const {
  const gguf::TensorInfo* const tensor = file_.find_tensor(factor_name(weight));
  return tensor != nullptr && tensor->n_elements() == 1;
}

float Builder::number_of(const gguf::TensorInfo& tensor) const {
  if (info(tensor.dtype).kind != DTypeKind::kFloat)
    throw Error(ErrorCode::kInvalidFile, "tensor " + tensor.name + " has the type " +
                                             std::string(info(tensor.dtype).name) +
                                             ", expected f32, f16 or bf16");
  if (tensor.data.empty()) return 1.0f;  // A file without its data.
  std::vector<std::byte> bytes(tensor.data.size());
  file_.read(tensor.data, bytes);
  float number = 0.0f;
  unpack_row(tensor.dtype, bytes.data(), {&number, 1});
  if (!std::isfinite(number))
    throw Error(ErrorCode::kInvalidFile, "tensor " + tensor.name + " is not a finite number");
  return number;
}

ValueId Builder::with_factor(ValueId y, const std::string& weight, ValueId ids) {
  const std::string factor = factor_name(weight);
  const gguf::TensorInfo* const tensor = file_.find_tensor(factor);
  const std::string name = model_.graph.value(y).name;
  if (has_factor(weight)) {
    factors_.insert(factor);
    return add(ops::Scale{number_of(*tensor)}, {y}, name + "_times_factor");
  }
  if (tensor == nullptr || ids == kNoValue) return y;
  factors_.insert(factor);
  const Shape of = model_.graph.value(ids).shape;
  const std::int64_t n_experts = hparams_.experts->n;
  const ValueId all =
      add(ops::BroadcastTo{{of[0], n_experts}}, {this->weight(factor, {n_experts})}, name + "_factors");
  const ValueId own = add(ops::TakeAlong{.axis = 1}, {all, ids}, name + "_own_factors");
  const ValueId apart = add(ops::Reshape{{of[0], of[1], 1}}, {own}, name + "_factors_apart");
  return add(ops::Mul{}, {y, apart}, name + "_times_factor");
}

ValueId Builder::constant(const std::string& name, const Shape& shape, std::vector<float> values) {
  if (const ValueId known = model_.graph.find(name); known != kNoValue) return known;
  return add_made(name, DType::kF32, shape, [values = std::move(values)] {
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
}

ValueId Builder::product(ValueId x, const std::string& weight, const std::string& bias, std::int64_t n_all,
                         std::int64_t begin, std::int64_t n_out, const std::string& name) {
  const std::int64_t n_in = model_.graph.value(x).shape.columns();
  // If other layers have the bias, this one must have it, too.
  bool biased = has(bias);
  if (const std::string rest(rest_of_layer_name(bias)); !biased && !rest.empty())
    for (int layer = 0; layer < hparams_.n_layers && !biased; ++layer)
      biased = has(layer_name(layer, rest.c_str()));
  const ValueId w = weight_rows(weight, {n_all, n_in}, begin, n_out);
  const ValueId b = biased ? weight_rows(bias, {n_all}, begin, n_out) : kNoValue;
  ValueId y = kNoValue;
  if (has_factor(weight)) {
    y = with_factor(add(ops::Matmul{}, {w, x}, name), weight);
    if (b != kNoValue) y = add(ops::Add{}, {y, b}, name + "_biased");
  } else {
    y = add(ops::Matmul{}, {w, x, b}, name);
  }
  // A product with the embeddings is the output head, which adapters know by its own name.
  return adapted(x, y, weight == "token_embd.weight" ? "output.weight" : weight, begin, n_out);
}

// --- Additions

ValueId Builder::add_made(const std::string& name, DType dtype, const Shape& shape,
                          std::function<std::vector<std::byte>()> make) {
  const ValueId value = model_.graph.add_weight(name, dtype, shape);
  model_.weights.push_back({value, nullptr, 0, shape[0].constant(), std::move(make)});
  return value;
}

ValueId Builder::pass_on(int layer, ValueId x) {
  const std::shared_ptr<const ControlVectors>& control = additions_.control;
  if (control == nullptr || control->behind(layer).empty()) return x;
  controlled_.insert(layer);
  const ValueId vector =
      add_made("direction." + std::to_string(layer), DType::kF32, {hparams_.n_embd}, [control, layer] {
        const auto bytes = std::as_bytes(control->behind(layer));
        return std::vector<std::byte>(bytes.begin(), bytes.end());
      });
  return add(ops::Add{}, {x, vector}, layer_name(layer, "controlled"));
}

ValueId Builder::cache(CacheRole role, int layer, const CellInputs& at, std::int64_t n_heads,
                       std::int64_t head_dim, const ops::Rope& rope, ValueId rope_factors) {
  const bool keys = role == CacheRole::kKeys;
  const std::string name = std::string("cache.") + (keys ? "k." : "v.") + std::to_string(layer);
  const ValueId state =
      model_.graph.add_state(name, keys ? sizes_.k_type : sizes_.v_type, {sizes_.n_cells, n_heads, head_dim});
  model_.states.push_back(state);
  return add(ops::MoveCells{role, rope, rotated_block(role, head_dim)},
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

int Builder::rotated_block(CacheRole role, std::int64_t head_dim) const {
  const DType type = role == CacheRole::kKeys ? sizes_.k_type : sizes_.v_type;
  if (!sizes_.rotate_cache || info(type).kind != DTypeKind::kQuantised) return 0;
  return static_cast<int>(std::min<std::int64_t>(head_dim & -head_dim, ops::Hadamard::kMaxBlock));
}

ValueId Builder::rotated(CacheRole role, ValueId x, std::int64_t head_dim, const std::string& name) {
  const int block = rotated_block(role, head_dim);
  return block < 2 ? x : add(ops::Hadamard{block}, {x}, name);
}

ValueId Builder::store(CacheRole role, int layer, const CellInputs& at, ValueId cache, ValueId rows) {
  const std::string name = layer_name(layer, role == CacheRole::kKeys ? "k" : "v");
  rows = rotated(role, rows, model_.graph.value(cache).shape[2].constant(), name + "_rotated");
  const ValueId stored = add(ops::StoreCache{role}, {cache, rows, at.cells}, name + "_stored");
  return add(ops::MoveCells{role, {.n_rot = 0}}, {.cache = stored, .from = at.fork_from, .to = at.fork_to},
             name + "_forked");
}

ValueId Builder::store_source(CacheRole role, int layer, ValueId rows, std::int64_t n_heads,
                              std::int64_t head_dim) {
  const bool keys = role == CacheRole::kKeys;
  const std::string name = std::string("source.") + (keys ? "k." : "v.") + std::to_string(layer);
  const std::int64_t n_cells = sizes_.n_sequences * pages_of(sizes_.n_source) * kPageCells;
  const ValueId state =
      model_.graph.add_state(name, keys ? sizes_.k_type : sizes_.v_type, {n_cells, n_heads, head_dim});
  model_.source_states.push_back(state);
  rows = rotated(role, rows, head_dim, name + ".rotated");
  return add(ops::StoreCache{role}, {state, rows, model_.source.cells}, name + ".stored");
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

void Builder::check_tensors() const {
  std::set<const gguf::TensorInfo*> used;
  for (const WeightUse& weight : model_.weights) used.insert(weight.tensor);
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    const bool applied = factors_.contains(tensor.name) || used.contains(&tensor);
    const auto refuse_factor = [&] {
      if (tensor.name.ends_with(kFactor) && !applied)
        throw Error(ErrorCode::kUnsupported,
                    "tensor " + tensor.name + " scales a weight for which weft supports no scale");
    };
    const bool of_encoder = tensor.name.starts_with("enc."), of_decoder = tensor.name.starts_with("dec.");
    const std::string_view name = std::string_view(tensor.name).substr(of_encoder || of_decoder ? 4 : 0);
    const auto refuse_unread = [&](bool of_no_use) {
      if (!of_no_use)
        throw Error(ErrorCode::kUnsupported, "tensor " + tensor.name + " is not one that weft uses for \"" +
                                                 hparams_.architecture +
                                                 "\" models; without it, the results would be wrong");
    };
    if (!name.starts_with(kLayerPrefix)) {
      if (applied) continue;
      refuse_factor();
      refuse_unread(is_of_no_use(tensor.name, hparams_));
      continue;
    }
    const int n_layers = of_encoder && hparams_.source ? hparams_.source->n_layers : hparams_.n_layers;
    int layer = -1;
    const char* const end = name.data() + name.size();
    const auto [rest, error] = std::from_chars(name.data() + kLayerPrefix.size(), end, layer);
    if (error != std::errc() || rest == end || *rest != '.' || layer < 0 ||
        layer >= n_layers + hparams_.n_layers_unused)
      throw Error(ErrorCode::kInvalidFile, "tensor " + tensor.name + " belongs to no layer: metadata key " +
                                               hparams_.architecture + ".block_count is " +
                                               std::to_string(n_layers));
    if (layer >= n_layers || applied) continue;
    refuse_factor();
    refuse_unread(is_of_no_use(rest_of_layer_name(name), layer, hparams_));
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
                                             " tensors are missing: " + missing_);
  }
  check_tensors();
  if (additions_.adapters != nullptr) additions_.adapters->check_all_used(adapted_);
  if (additions_.control != nullptr) additions_.control->check_all_used(controlled_);
  (hparams_.encoder ? model_.vectors : model_.logits) = result;
  model_.graph.add_output(result);
  for (const ValueId taken : {model_.row_embeddings, model_.best, model_.log_sums, model_.scores})
    if (taken != kNoValue) model_.graph.add_output(taken);
  return std::move(model_);
}

}  // namespace weft::model
