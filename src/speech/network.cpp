#include "speech/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::speech {
namespace {

using encoders::TransformerBuilder;

encoders::TransformerSizes transformer(const Sizes& s, int heads, int layers) {
  return {.width = s.width,
          .n_heads = heads,
          .n_layers = layers,
          .eps = 1e-5f,
          .activation = encoders::Activation::kGelu};
}

constexpr encoders::LayerKind kKind = {.k_bias = false};

std::string block(const char* part, int layer) {
  return std::string(part) + ".blocks." + std::to_string(layer) + ".";
}
std::string keys_name(const char* part, int layer) {
  return std::string(part) + ".keys_" + std::to_string(layer);
}
std::string values_name(const char* part, int layer) {
  return std::string(part) + ".values_" + std::to_string(layer);
}
std::string queries_name(int layer) { return "decoder.queries_" + std::to_string(layer); }

Value feed_forward(TransformerBuilder& b, const ModelFile& file, Value x, const std::string& name) {
  const std::int64_t d = file.sizes.width;
  const WeightFile::Tensor* const up = file.weights.find(name + "mlp.0.weight");
  constexpr std::int64_t kMost = 1 << 18;
  if (up == nullptr || up->shape.size() != 2 || up->shape[0] > kMost)
    throw Error(ErrorCode::kInvalidFile,
                "tensor " + name + "mlp.0.weight is missing, or is not a matrix, or too large");
  const std::int64_t inner = up->shape[0];
  const Value hidden = gelu(b.linear(b.norm(x, name + "mlp_ln"), name + "mlp.0", inner, d, true));
  return x + b.linear(hidden, name + "mlp.2", d, inner, true);
}

struct Built {
  Graph graph;
  std::vector<TransformerBuilder::OwnWeight> own;
};

Built encoder_graph(const ModelFile& file) {
  const Sizes& s = file.sizes;
  const std::int64_t d = s.width;
  Built built;
  Graph& g = built.graph;
  const encoders::TransformerSizes sizes = transformer(s, s.encoder_heads, s.encoder_layers);
  TransformerBuilder b(g, file.weights, sizes, kKind);
  const auto convolved = [&](Value x, const std::string& name, std::int64_t columns, std::int64_t stride) {
    return gelu(conv1d_channels_last(x, b.kernel_weight(name + ".weight", d, columns, 3),
                                     b.column(name + ".bias", d), 3, stride, 1));
  };
  encoders::build_of_file([&] {
    Value x = g.input("mels", {s.n_frames(), s.n_mels});
    x = convolved(convolved(x, "encoder.conv1", s.n_mels, 1), "encoder.conv2", d, 2);
    x = x + b.weight("encoder.positional_embedding", {s.n_heard, d});
    const Value begins = g.input("begins", {s.n_heard}, DType::kI32),
                ends = g.input("ends", {s.n_heard}, DType::kI32);
    for (int i = 0; i < s.encoder_layers; ++i) {
      const std::string name = block("encoder", i);
      const Value h = b.norm(x, name + "attn_ln");
      const Value attended = ragged_attention(
          b.linear(h, name + "attn.query", d, d, true), b.linear(h, name + "attn.key", d, d, false),
          b.linear(h, name + "attn.value", d, d, true), begins, ends, s.encoder_heads);
      x = feed_forward(b, file, x + b.linear(attended, name + "attn.out", d, d, true), name);
    }
    x = g.output("encoder.rows", b.norm(x, "encoder.ln_post").named("encoder.rows"));
    // Keys and values of the decoder's layers depend on the window alone.
    for (int i = 0; i < s.decoder_layers; ++i) {
      const std::string name = block("decoder", i) + "cross_attn.";
      g.output(keys_name("encoder", i),
               b.linear(x, name + "key", d, d, false).named(keys_name("encoder", i)));
      g.output(values_name("encoder", i),
               b.linear(x, name + "value", d, d, true).named(values_name("encoder", i)));
    }
  });
  built.own = b.take_own_weights();
  return built;
}

Built decoder_graph(const ModelFile& file) {
  const Sizes& s = file.sizes;
  const std::int64_t d = s.width;
  Built built;
  Graph& g = built.graph;
  const encoders::TransformerSizes sizes = transformer(s, s.decoder_heads, s.decoder_layers);
  TransformerBuilder b(g, file.weights, sizes, kKind);
  encoders::build_of_file([&] {
    const Dim n = g.symbol("n_tokens", 1, s.n_positions), m = g.symbol("n_wanted", 1, 2);
    const auto indices = [&](const char* name, const Dim& count) {
      return g.input(name, {count}, DType::kI32);
    };
    const Value tokens = indices("tokens", n), positions = indices("positions", n);
    const Value begins = indices("begins", n), ends = indices("ends", n),
                heard_ends = indices("heard_ends", n);
    const Value wanted = indices("wanted", m);
    const Value table = b.weight("decoder.token_embedding.weight", {s.n_vocab, d});
    Value x =
        take(table, tokens) + take(b.weight("decoder.positional_embedding", {s.n_positions, d}), positions);
    for (int i = 0; i < s.decoder_layers; ++i) {
      const std::string name = block("decoder", i), self = name + "attn.", cross = name + "cross_attn.";
      const auto store = [&](const std::string& state, Value of_tokens) {
        return store_rows(g.state(state, DType::kF32, {s.n_positions, 1, d}), of_tokens, positions);
      };
      const auto heard = [&](const std::string& input) { return g.input(input, {s.n_heard, d}); };
      Value h = b.norm(x, name + "attn_ln");
      const Value keys = store(keys_name("decoder", i), b.linear(h, self + "key", d, d, false));
      const Value values = store(values_name("decoder", i), b.linear(h, self + "value", d, d, true));
      h = ragged_attention(b.linear(h, self + "query", d, d, true), keys, values, begins, ends,
                           s.decoder_heads);
      x = x + b.linear(h, self + "out", d, d, true);
      Value queries = b.linear(b.norm(x, name + "cross_attn_ln"), cross + "query", d, d, true);
      if (std::any_of(file.alignment_heads.begin(), file.alignment_heads.end(),
                      [&](const AlignmentHead& one) { return one.layer == i; }))
        queries = g.output(queries_name(i), queries.named(queries_name(i)));
      h = ragged_attention(queries, heard(keys_name("heard", i)), heard(values_name("heard", i)), begins,
                           heard_ends, s.decoder_heads);
      x = x + b.linear(h, cross + "out", d, d, true);
      x = feed_forward(b, file, x, name);
    }
    g.output("decoder.logits", linear(b.norm(take(x, wanted), "decoder.ln"), table).named("decoder.logits"));
  });
  built.own = b.take_own_weights();
  return built;
}

Plan make_plan(Built built, const ModelFile& file, std::vector<TransformerBuilder::OwnWeight>& own,
               const Devices& devices, PlanParams params) {
  own = std::move(built.own);
  Plan plan(std::move(built.graph), devices, std::move(params));
  plan.set_weights(file.weights);
  for (const auto& one : own) plan.set_weight(one.name, one.bytes);
  return plan;
}

}  // namespace

Encoder::Encoder(const ModelFile& file, const Devices& devices, PlanParams params)
    : sizes_(file.sizes), plan_(make_plan(encoder_graph(file), file, own_, devices, std::move(params))) {}

Heard Encoder::encode(std::span<const float> mels) {
  const std::vector<std::int32_t> begins(to_size(sizes_.n_heard), 0), ends(begins.size(), sizes_.n_heard);
  plan_.run({}, {{"mels", mels}, {"begins", begins}, {"ends", ends}});
  Heard heard;
  for (int i = 0; i < sizes_.decoder_layers; ++i) {
    heard.keys.push_back(plan_.read(keys_name("encoder", i)));
    heard.values.push_back(plan_.read(values_name("encoder", i)));
  }
  return heard;
}

Decoder::Decoder(const ModelFile& file, const Devices& devices, PlanParams params)
    : sizes_(file.sizes),
      heads_(file.alignment_heads),
      plan_(make_plan(decoder_graph(file), file, own_, devices, std::move(params))) {
  for (int i = 0; i < sizes_.decoder_layers; ++i) {
    heard_names_.push_back(keys_name("heard", i));
    heard_names_.push_back(values_name("heard", i));
  }
}

void Decoder::hear(Heard heard) {
  heard_ = std::move(heard);
  is_set_ = false;
  known_.clear();
}

void Decoder::step(std::span<const Token> tokens, std::size_t n_known, std::span<const std::int32_t> wanted) {
  std::vector<std::int32_t> fresh(tokens.begin() + static_cast<std::ptrdiff_t>(n_known), tokens.end());
  std::vector<std::int32_t> positions(fresh.size()), ends(fresh.size());
  const std::vector<std::int32_t> begins(fresh.size(), 0), heard_ends(fresh.size(), sizes_.n_heard);
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(n_known + i);
    ends[i] = positions[i] + 1;
  }
  std::vector<Plan::InputData> inputs = {{"tokens", fresh}, {"positions", positions},   {"begins", begins},
                                         {"ends", ends},    {"heard_ends", heard_ends}, {"wanted", wanted}};
  for (std::size_t i = 0; i < heard_.keys.size() && !is_set_;
       ++i) {  // The plan keeps them from step to step.
    inputs.emplace_back(heard_names_[2 * i], heard_.keys[i]);
    inputs.emplace_back(heard_names_[2 * i + 1], heard_.values[i]);
  }
  const std::vector<Plan::SymbolValue> symbols = {{"n_tokens", std::ssize(fresh)},
                                                  {"n_wanted", std::ssize(wanted)}};
  known_.clear();  // Until they are stored.
  plan_.run(symbols, inputs);
  is_set_ = true;
  // Only scores() still needs some of the keys.
  for (std::size_t i = 0; i < heard_.keys.size(); ++i) {
    heard_.values[i] = {};
    if (std::none_of(heads_.begin(), heads_.end(),
                     [&](const AlignmentHead& one) { return to_size(one.layer) == i; }))
      heard_.keys[i] = {};
  }
  known_.assign(tokens.begin(), tokens.end());
}

Decoder::Logits Decoder::logits(std::span<const Token> tokens, int also) {
  const auto common = to_size(
      std::mismatch(tokens.begin(), tokens.end(), known_.begin(), known_.end()).first - tokens.begin());
  // Tokens whose logits are wanted are computed again.
  std::size_t n_known = std::min(common, tokens.size() - 1);
  if (also >= 0) n_known = std::min(n_known, to_size(also));
  std::vector<std::int32_t> wanted;
  if (also >= 0) wanted.push_back(also - static_cast<std::int32_t>(n_known));
  wanted.push_back(static_cast<std::int32_t>(tokens.size() - n_known) - 1);
  step(tokens, n_known, wanted);
  logits_.resize(wanted.size() * to_size(sizes_.n_vocab));
  plan_.read("decoder.logits", logits_);
  const auto all = std::span<const float>(logits_);
  return {all.last(to_size(sizes_.n_vocab)),
          also >= 0 ? all.first(to_size(sizes_.n_vocab)) : std::span<const float>()};
}

void Decoder::scores(std::span<const Token> tokens, const std::function<void(std::span<float>)>& take) {
  const std::int32_t last[] = {static_cast<std::int32_t>(tokens.size()) - 1};
  step(tokens, 0, last);
  const auto n_heard = to_size(sizes_.n_heard), width = to_size(sizes_.width);
  const std::size_t head_width = width / to_size(sizes_.decoder_heads);
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_width));
  std::vector<float> queries, scores(tokens.size() * n_heard);
  int layer = -1;
  for (const AlignmentHead& head : heads_) {
    if (head.layer != layer) queries = plan_.read(queries_name(layer = head.layer));
    const std::size_t column = to_size(head.head) * head_width;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const float* const q = queries.data() + t * width + column;
      for (std::size_t row = 0; row < n_heard; ++row) {
        const float* const k = heard_.keys[to_size(head.layer)].data() + row * width + column;
        float sum = 0.0f;
        for (std::size_t i = 0; i < head_width; ++i) sum += q[i] * k[i];
        scores[t * n_heard + row] = sum * scale;
      }
    }
    take(scores);
  }
}

}  // namespace weft::speech
