#include "vision/encoder_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "weft/error.h"

namespace weft::vision {
namespace {

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "{";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "}";
}

}  // namespace

const WeightFile::Tensor& EncoderBuilder::find(const std::string& name,
                                               std::initializer_list<std::int64_t> shape) const {
  const WeightFile::Tensor* const tensor = file_.find(name);
  const std::string expected = ", expected one of shape " + text_of(std::span(shape.begin(), shape.size()));
  if (tensor == nullptr) throw Error(ErrorCode::kInvalidFile, "tensor " + name + " is missing" + expected);
  if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end()))
    throw Error(ErrorCode::kInvalidFile,
                "tensor " + name + " has shape " + text_of(tensor->shape) + expected);
  return *tensor;
}

Value EncoderBuilder::weight(const std::string& name, std::initializer_list<std::int64_t> shape) {
  const WeightFile::Tensor& tensor = find(name, shape);
  return graph_.weight(name, tensor.dtype, Shape(std::span(shape.begin(), shape.size())));
}

Value EncoderBuilder::flat_weight(const std::string& name, std::initializer_list<std::int64_t> shape) {
  const WeightFile::Tensor& tensor = find(name, shape);
  OwnWeight own{name + " (flat)", std::vector<std::byte>(tensor.bytes.size())};
  file_.read(tensor.bytes, own.bytes);
  const std::int64_t outputs = *shape.begin();
  std::int64_t inputs = 1;
  for (const std::int64_t size : std::span(shape.begin() + 1, shape.end())) inputs *= size;
  own_.push_back(std::move(own));
  return graph_.weight(own_.back().name, tensor.dtype, {outputs, inputs});
}

Value EncoderBuilder::turned_weight(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
  const WeightFile::Tensor& tensor = find(name, {inputs, outputs});
  const std::size_t n = static_cast<std::size_t>(inputs) * static_cast<std::size_t>(outputs);
  const std::size_t size = tensor.bytes.size() / n;
  if (size * n != tensor.bytes.size() || size < 2)
    throw Error(ErrorCode::kUnsupported,
                "tensor " + name + " is of a type of blocks; store it as F16 or F32");
  std::vector<std::byte> from(tensor.bytes.size());
  file_.read(tensor.bytes, from);
  OwnWeight own{name + " (turned)", std::vector<std::byte>(from.size())};
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t i = 0; i < inputs; ++i)
      std::copy_n(from.begin() + (i * outputs + o) * static_cast<std::int64_t>(size), size,
                  own.bytes.begin() + (o * inputs + i) * static_cast<std::int64_t>(size));
  own_.push_back(std::move(own));
  return graph_.weight(own_.back().name, tensor.dtype, {outputs, inputs});
}

Value EncoderBuilder::linear(Value x, const std::string& name, std::int64_t outputs, std::int64_t inputs) {
  const std::string bias = name + ".bias";
  return weft::linear(x, weight(name + ".weight", {outputs, inputs}),
                      has(bias) ? weight(bias, {outputs}) : Value());
}

Value EncoderBuilder::norm(Value x, const std::string& name) {
  const Value scale = weight(name + ".weight", {hparams_.width});
  if (!has(name + ".bias")) return rms_norm(x, scale, hparams_.eps);
  return layer_norm(x, scale, weight(name + ".bias", {hparams_.width}), hparams_.eps);
}

Value EncoderBuilder::activate(Value x) const {
  switch (hparams_.activation) {
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kSilu:
      return silu(x);
    case Activation::kGeluQuick:
      return gelu_quick(x);
  }
  return x;
}

Value EncoderBuilder::feed_forward(Value x, const std::string& name) {
  const std::int64_t d = hparams_.width, f = hparams_.feed_forward;
  // Older files call the two the other way round.
  const WeightFile::Tensor* const tensor = file_.find(name + "ffn_up.weight");
  const bool swapped = d != f && tensor != nullptr && tensor->shape == std::vector<std::int64_t>{d, f};
  Value hidden = linear(x, name + (swapped ? "ffn_down" : "ffn_up"), f, d);
  hidden = has(name + "ffn_gate.weight") ? activate(linear(x, name + "ffn_gate", f, d)) * hidden
                                         : activate(hidden);
  return linear(hidden, name + (swapped ? "ffn_up" : "ffn_down"), d, f);
}

/// The first half of each head turns by the patch's row, the second by its column, with angles in between
/// those of the first (PixtralRotaryEmbedding of transformers; neighbours are pairs).
Value EncoderBuilder::turned(Value x, const Places& places) const {
  constexpr float kBase = 10000.0f;
  const std::int64_t heads = hparams_.n_heads, half = hparams_.width / heads / 2;
  const Dim n = x.size(0);
  const Value halves = reshape(x, {n, heads, 2, half});
  const auto turn = [&](int which, Value positions, float scale) {
    const Value part = reshape(slice(halves, 2, which, which + 1), {n, heads * half});
    const ops::Rope params{.head_dim = static_cast<int>(half),
                           .n_rot = static_cast<int>(half),
                           .freq_base = kBase,
                           .freq_scale = scale};
    return reshape(rope(part, positions, params), {n, heads, 1, half});
  };
  const float between = std::pow(kBase, -1.0f / static_cast<float>(half));
  return reshape(concat({turn(0, places.rows, 1.0f), turn(1, places.columns, between)}, 2),
                 {n, hparams_.width});
}

Value EncoderBuilder::layer(Value x, int i, const Places& places) {
  const std::int64_t d = hparams_.width;
  const std::string name = "v.blk." + std::to_string(i) + ".";
  const Value normed = norm(x, name + "ln1");
  Value q = linear(normed, name + "attn_q", d, d), k = linear(normed, name + "attn_k", d, d);
  if (places.rows) {
    q = turned(q, places);
    k = turned(k, places);
  }
  const Value v = linear(normed, name + "attn_v", d, d);
  const Value attended = ragged_attention(q, k, v, places.begins, places.ends, hparams_.n_heads);
  x = x + linear(attended, name + "attn_out", d, d);
  return x + feed_forward(norm(x, name + "ln2"), name);
}

Value EncoderBuilder::encode(bool turns) {
  const std::int64_t d = hparams_.width, p = hparams_.patch_size;
  const std::int64_t n_positions = std::int64_t{hparams_.grid()} * hparams_.grid();
  if (turns && hparams_.width / hparams_.n_heads % 4 != 0)
    throw Error(ErrorCode::kInvalidFile,
                "metadata key clip.vision.attention.head_count: heads of " +
                    std::to_string(hparams_.width / hparams_.n_heads) +
                    " elements cannot turn by rows and columns, expected a multiple of 4");
  n_rows_ = graph_.symbol("n_rows", 1, hparams_.max_rows());
  const Dim n = n_rows_ * Dim(std::int64_t{hparams_.merge} * hparams_.merge);
  const auto index = [&](const char* name) { return graph_.input(name, {n}, DType::kI32); };
  const Value patches = graph_.input("patches", {n, 3 * p * p});
  const Value pixels = flat_weight("v.patch_embd.weight", {d, 3, p, p});
  Value x =
      weft::linear(patches, pixels, has("v.patch_embd.bias") ? weight("v.patch_embd.bias", {d}) : Value());
  if (!turns) x = x + take(weight("v.position_embd.weight", {n_positions, d}), index("positions"));
  Places places{index("begins"), index("ends"), {}, {}};
  if (turns) {
    places.rows = index("rows");
    places.columns = index("columns");
  }
  if (has("v.pre_ln.weight")) x = norm(x, "v.pre_ln");
  for (int i = 0; i < hparams_.n_layers; ++i) x = layer(x, i, places);
  return has("v.post_ln.weight") ? norm(x, "v.post_ln") : x;
}

Patches cut_into_patches(const HParams& hparams, const Image& image) {
  const int p = hparams.patch_size, m = hparams.merge;
  const int across = image.width / p, down = image.height / p;
  const auto pixels = static_cast<std::size_t>(p) * static_cast<std::size_t>(p);
  Patches result;
  result.positions.reserve(static_cast<std::size_t>(across) * static_cast<std::size_t>(down));
  result.rows.resize(result.positions.capacity() * 3 * pixels);
  float* row = result.rows.data();
  const auto add = [&](int patch_x, int patch_y) {
    result.positions.push_back(patch_y * hparams.grid() + patch_x);
    result.row_of.push_back(patch_y);
    result.column_of.push_back(patch_x);
    for (int y = 0; y < p; ++y) {
      const auto at = static_cast<std::size_t>(patch_y * p + y) * static_cast<std::size_t>(image.width) +
                      static_cast<std::size_t>(patch_x * p);
      const std::uint8_t* from = image.rgb.data() + 3 * at;
      for (int x = 0; x < p; ++x)
        for (std::size_t c = 0; c < 3; ++c)
          row[c * pixels + static_cast<std::size_t>(y * p + x)] =
              (static_cast<float>(*from++) / 255.0f - hparams.mean[c]) / hparams.deviation[c];
    }
    row += 3 * pixels;
  };
  for (int y = 0; y < down; y += m)
    for (int x = 0; x < across; x += m)
      for (int dy = 0; dy < m; ++dy)
        for (int dx = 0; dx < m; ++dx) add(x + dx, y + dy);
  return result;
}

}  // namespace weft::vision
