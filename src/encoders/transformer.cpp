#include "encoders/transformer.h"

#include <algorithm>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::encoders {
namespace {

/// Far above any encoder of today, far below what could overflow.
constexpr std::int64_t kMaxFeedForward = 1 << 18;

std::string text_of(std::span<const std::int64_t> shape) {
  std::string text = "{";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "}";
}

}  // namespace

const WeightFile::Tensor& TransformerBuilder::find(const std::string& name,
                                                   std::initializer_list<std::int64_t> shape) const {
  const WeightFile::Tensor* const tensor = file_.find(name);
  const std::string expected = ", expected one of shape " + text_of(std::span(shape.begin(), shape.size()));
  if (tensor == nullptr) throw Error(ErrorCode::kInvalidFile, "tensor " + name + " is missing" + expected);
  if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end()))
    throw Error(ErrorCode::kInvalidFile,
                "tensor " + name + " has shape " + text_of(tensor->shape) + expected);
  used_.push_back(name);
  return *tensor;
}

Value TransformerBuilder::weight(const std::string& name, std::initializer_list<std::int64_t> shape) {
  const WeightFile::Tensor& tensor = find(name, shape);
  return graph_.weight(name, tensor.dtype, Shape(std::span(shape.begin(), shape.size())));
}

Value TransformerBuilder::flat_weight(const std::string& name, std::initializer_list<std::int64_t> shape) {
  const WeightFile::Tensor& tensor = find(name, shape);
  OwnWeight own{name + " (flat)", std::vector<std::byte>(tensor.bytes.size())};
  file_.read(tensor.bytes, own.bytes);
  const std::int64_t outputs = *shape.begin();
  std::int64_t inputs = 1;
  for (const std::int64_t size : std::span(shape.begin() + 1, shape.end())) inputs *= size;
  own_.push_back(std::move(own));
  return graph_.weight(own_.back().name, tensor.dtype, {outputs, inputs});
}

Value TransformerBuilder::reordered(const std::string& name, std::initializer_list<std::int64_t> shape,
                                    const char* how, std::int64_t rows, std::int64_t columns,
                                    const std::function<std::int64_t(std::int64_t, std::int64_t)>& from) {
  const WeightFile::Tensor& tensor = find(name, shape);
  const std::size_t n = to_size(rows) * to_size(columns);
  const std::size_t size = tensor.bytes.size() / n;
  if (size * n != tensor.bytes.size() || size < 2)
    throw Error(ErrorCode::kUnsupported, "tensor " + name + " has a quantized type; store it as F16 or F32");
  std::vector<std::byte> bytes(tensor.bytes.size());
  file_.read(tensor.bytes, bytes);
  OwnWeight own{name + " (" + how + ")", std::vector<std::byte>(bytes.size())};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      std::copy_n(bytes.begin() + from(r, c) * static_cast<std::int64_t>(size), size,
                  own.bytes.begin() + (r * columns + c) * static_cast<std::int64_t>(size));
  own_.push_back(std::move(own));
  return graph_.weight(own_.back().name, tensor.dtype, {rows, columns});
}

Value TransformerBuilder::turned_weight(const std::string& name, std::int64_t outputs, std::int64_t inputs) {
  return reordered(name, {inputs, outputs}, "turned", outputs, inputs,
                   [=](std::int64_t o, std::int64_t i) { return i * outputs + o; });
}

Value TransformerBuilder::kernel_weight(const std::string& name, std::int64_t o, std::int64_t c,
                                        std::int64_t kernel) {
  return reordered(
      name, {o, c, kernel}, "by times", o, kernel * c,
      [=](std::int64_t row, std::int64_t column) { return (row * c + column % c) * kernel + column / c; });
}

Value TransformerBuilder::column(const std::string& name, std::int64_t n) {
  const WeightFile::Tensor* const tensor = file_.find(name);
  if (tensor == nullptr || tensor->shape.size() != 2) return weight(name, {n});
  return reshape(weight(name, {n, 1}), {n});
}

Value TransformerBuilder::linear(Value x, const std::string& name, std::int64_t outputs, std::int64_t inputs,
                                 bool bias) {
  return weft::linear(x, weight(name + ".weight", {outputs, inputs}),
                      bias ? weight(name + ".bias", {outputs}) : Value());
}

Value TransformerBuilder::norm(Value x, const std::string& name, std::int64_t width, bool rms) {
  const Value scale = weight(name + ".weight", {width});
  return rms ? rms_norm(x, scale, sizes_.eps)
             : layer_norm(x, scale, weight(name + ".bias", {width}), sizes_.eps);
}

Value TransformerBuilder::activate(Value x) const {
  switch (sizes_.activation) {
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kSilu:
      return silu(x);
    case Activation::kGeluQuick:
      return gelu_quick(x);
  }
  return x;
}

Value TransformerBuilder::feed_forward(Value x, const std::string& name) {
  const std::int64_t d = sizes_.width;
  // The width comes from the tensors: in some files the metadata has another model's width.
  const WeightFile::Tensor* const up = file_.find(name + "ffn_up.weight");
  if (up == nullptr || up->shape.size() != 2)
    throw Error(ErrorCode::kInvalidFile, "tensor " + name + "ffn_up.weight is missing, or is not a matrix");
  // Older files call the two the other way round.
  const bool swapped = up->shape[0] == d && up->shape[1] != d;
  const std::int64_t f = swapped ? up->shape[1] : up->shape[0];
  if (f < 1 || f > kMaxFeedForward)
    throw Error(ErrorCode::kInvalidFile, "tensor " + name + "ffn_up.weight is too large");
  Value hidden = linear(x, name + (swapped ? "ffn_down" : "ffn_up"), f, d, kind_.biases);
  hidden =
      kind_.gated ? activate(linear(x, name + "ffn_gate", f, d, kind_.biases)) * hidden : activate(hidden);
  return linear(hidden, name + (swapped ? "ffn_up" : "ffn_down"), d, f, kind_.biases);
}

Value TransformerBuilder::layer(Value x, const std::string& name, const Ranges& sees,
                                const std::function<Value(Value)>& turn) {
  const std::int64_t d = sizes_.width;
  const Value normed = norm(x, name + "ln1");
  Value q, k, v;
  if (kind_.fused) {
    const Value all = linear(normed, name + "attn_qkv", 3 * d, d, kind_.biases);
    q = slice(all, 1, 0, d);
    k = slice(all, 1, d, 2 * d);
    v = slice(all, 1, 2 * d, 3 * d);
  } else {
    q = linear(normed, name + "attn_q", d, d, kind_.biases);
    k = linear(normed, name + "attn_k", d, d, kind_.biases && kind_.k_bias);
    v = linear(normed, name + "attn_v", d, d, kind_.biases);
  }
  if (turn) {
    q = turn(q);
    k = turn(k);
  }
  const Value attended = ragged_attention(q, k, v, sees.begins, sees.ends, sizes_.n_heads);
  x = x + linear(attended, name + "attn_out", d, d, kind_.biases);
  return x + feed_forward(norm(x, name + "ln2"), name);
}

void TransformerBuilder::check_all_used(std::initializer_list<std::string_view> prefixes,
                                        std::initializer_list<std::string_view> except) const {
  const auto begins = [](const std::string& name) {
    return [&name](std::string_view prefix) { return name.starts_with(prefix); };
  };
  for (const WeightFile::Tensor& tensor : file_.tensors()) {
    if (std::none_of(prefixes.begin(), prefixes.end(), begins(tensor.name)) ||
        std::any_of(except.begin(), except.end(), begins(tensor.name)))
      continue;
    if (std::find(used_.begin(), used_.end(), tensor.name) == used_.end())
      throw Error(ErrorCode::kUnsupported, "tensor " + tensor.name.substr(0, 64) +
                                               " has no place in an encoder of the kind that the file names");
  }
}

void build_of_file(const std::function<void()>& build) {
  try {
    build();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    throw Error(
        ErrorCode::kUnsupported,
        std::string("the encoder cannot be built of the file's tensors; their types are likely others "
                    "than converters write: ") +
            error.what());
  }
}

}  // namespace weft::encoders
