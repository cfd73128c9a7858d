#include "model.h"

#include <weft/error.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "spectrogram.h"

namespace whisper {
namespace {

using weft::DType;
using weft::Value;
using Sequence = std::vector<std::int32_t>;

constexpr std::int64_t kLargest = 1 << 24;  // Of all sizes.
constexpr int kGelu = 3;                    // As the file numbers activations: the one with erf.

int count_layers(const Ct2File& file, const std::string& stem) {
  int n = 0;
  while (file.has(stem + std::to_string(n) + "/ffn/linear_0/weight")) ++n;
  return n;
}

std::string layer_path(const char* stem, int layer) { return stem + std::to_string(layer); }
std::string keys_name(const std::string& prefix, int layer) {
  return prefix + "keys_" + std::to_string(layer);
}
std::string values_name(const std::string& prefix, int layer) {
  return prefix + "values_" + std::to_string(layer);
}

/// A plan of the graph, with its weights.
weft::Plan make_plan(weft::Graph graph, const WeightBytes& weights, const weft::Devices& devices,
                     weft::PlanParams params) {
  weft::Plan plan(std::move(graph), devices, std::move(params));
  for (const auto& [name, bytes] : weights) plan.set_weight(name, bytes);
  return plan;
}

/// Which rows of `positions` and of keys each row of a window sees: all.
struct WholeWindow {
  std::vector<std::int32_t> positions, begins, ends;
  explicit WholeWindow(int n) : positions(static_cast<std::size_t>(n)), begins(positions.size()) {
    std::iota(positions.begin(), positions.end(), 0);
    ends.assign(positions.size(), n);
  }
};

std::pair<weft::Graph, WeightBytes> encoder_graph(const Ct2File& file, const Sizes& sizes, DType matrices) {
  GraphBuilder builder(file, "encoder.", matrices);
  weft::Graph& g = builder.graph();
  const Value mels = g.input("mels", {kWindowFrames, sizes.n_mels});
  const Value positions = g.input("positions", {sizes.n_heard}, DType::kI32);
  const Value begins = g.input("begins", {sizes.n_heard}, DType::kI32);
  const Value ends = g.input("ends", {sizes.n_heard}, DType::kI32);
  Value x = weft::gelu(builder.conv(mels, "encoder/conv1", 1));
  x = weft::gelu(builder.conv(x, "encoder/conv2", 2));
  x = x + weft::take(builder.matrix("encoder/position_encodings/encodings"), positions);
  for (int i = 0; i < sizes.encoder_layers; ++i) {
    const std::string layer = layer_path("encoder/layer_", i), self = layer + "/self_attention";
    const Value h = builder.norm(x, self + "/layer_norm");
    const Value attended = weft::ragged_attention(
        builder.linear(h, self + "/linear_0", kQueries), builder.linear(h, self + "/linear_0", kKeys),
        builder.linear(h, self + "/linear_0", kValues), begins, ends, sizes.n_heads);
    x = x + builder.linear(attended, self + "/linear_1");
    x = builder.feed_forward(x, layer + "/ffn");
  }
  x = g.output("encoder.rows", builder.norm(x, "encoder/layer_norm"));
  // Keys and values of the decoder's layers depend on the window alone.
  for (int i = 0; i < sizes.decoder_layers; ++i) {
    const std::string path = layer_path("decoder/layer_", i) + "/attention/linear_1";
    g.output(keys_name("encoder.", i), builder.linear(x, path, kHeardKeys));
    g.output(values_name("encoder.", i), builder.linear(x, path, kHeardValues));
  }
  return builder.finish();
}

std::pair<weft::Graph, WeightBytes> decoder_graph(const Ct2File& file, const Sizes& sizes, DType matrices,
                                                  int n_slots) {
  GraphBuilder builder(file, "decoder.", matrices);
  weft::Graph& g = builder.graph();
  const std::int64_t n_rows = std::int64_t{n_slots} * sizes.n_positions;
  const weft::Dim n = g.symbol("n_tokens", 1, n_rows), m = g.symbol("n_wanted", 1, n_slots);
  const auto indices = [&](const char* name, const weft::Dim& count) {
    return g.input(name, {count}, DType::kI32);
  };
  const Value tokens = indices("tokens", n), positions = indices("positions", n);
  // The row that stores a token's keys and values, and the ranges that it attends to: its slot, up to itself,
  // and the whole window.
  const Value rows = indices("rows", n), begins = indices("begins", n), ends = indices("ends", n);
  const Value heard_begins = indices("heard_begins", n), heard_ends = indices("heard_ends", n);
  const Value wanted = indices("wanted", m);  // The tokens whose logits are wanted.

  const Value table = builder.matrix("decoder/embeddings/weight");
  Value x = weft::take(table, tokens) +
            weft::take(builder.matrix("decoder/position_encodings/encodings"), positions);
  for (int i = 0; i < sizes.decoder_layers; ++i) {
    const std::string layer = layer_path("decoder/layer_", i);
    const auto store = [&](const std::string& name, Value of_tokens) {
      return weft::store_rows(g.state(name, DType::kF32, {n_rows, 1, sizes.width}), of_tokens, rows);
    };
    const auto heard = [&](const std::string& name) { return g.input(name, {sizes.n_heard, sizes.width}); };

    const std::string self = layer + "/self_attention";
    Value h = builder.norm(x, self + "/layer_norm");
    const Value keys = store(keys_name("decoder.text_", i), builder.linear(h, self + "/linear_0", kKeys));
    const Value values =
        store(values_name("decoder.text_", i), builder.linear(h, self + "/linear_0", kValues));
    h = weft::ragged_attention(builder.linear(h, self + "/linear_0", kQueries), keys, values, begins, ends,
                               sizes.n_heads);
    x = x + builder.linear(h, self + "/linear_1");

    const std::string cross = layer + "/attention";
    h = builder.linear(builder.norm(x, cross + "/layer_norm"), cross + "/linear_0");
    h = weft::ragged_attention(h, heard(keys_name("decoder.heard_", i)),
                               heard(values_name("decoder.heard_", i)), heard_begins, heard_ends,
                               sizes.n_heads);
    x = x + builder.linear(h, cross + "/linear_2");
    x = builder.feed_forward(x, layer + "/ffn");
  }
  x = builder.norm(weft::take(x, wanted), "decoder/layer_norm");
  g.output("decoder.logits", weft::linear(x, table));
  return builder.finish();
}

std::size_t common_prefix(const Sequence& a, const Sequence& b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

Sizes::Sizes(const Ct2File& file) {
  const auto require = [](bool holds, const char* what) {
    if (!holds)
      throw weft::Error(weft::ErrorCode::kUnsupported,
                        std::string("the model is no Whisper as OpenAI published it: ") + what);
  };
  require(file.spec() == "WhisperSpec", "it has another kind");
  const auto size = [&](const char* name, std::size_t rank, std::size_t i) {
    const std::vector<std::int64_t>& shape = file.variable(name).shape;
    require(shape.size() == rank && shape[i] > 0 && shape[i] < kLargest, name);
    return static_cast<int>(shape[i]);
  };
  n_mels = size("encoder/conv1/weight", 3, 1);
  width = size("decoder/embeddings/weight", 2, 1);
  n_vocab = size("decoder/embeddings/weight", 2, 0);
  n_positions = size("decoder/position_encodings/encodings", 2, 0);
  n_heard = size("encoder/position_encodings/encodings", 2, 0);
  n_heads = file.number("decoder/num_heads");
  encoder_layers = count_layers(file, "encoder/layer_");
  decoder_layers = count_layers(file, "decoder/layer_");
  require(encoder_layers > 0 && decoder_layers > 0, "it has no layers");
  require(n_heads > 0 && width % n_heads == 0 && file.number("encoder/num_heads") == n_heads, "its heads");
  require(2 * n_heard == kWindowFrames, "its windows are not of 30 s");
  require(file.number("decoder/activation") == kGelu, "its activation is not gelu");
  require(file.number("decoder/pre_norm") == 1, "its norms stand behind its layers");
  require(file.number("decoder/scale_embeddings") == 0, "its embeddings are scaled");
  require(file.number("decoder/alibi") == 0, "it has ALiBi");
}

Encoder::Encoder(const Ct2File& file, const Sizes& sizes, DType matrices, const weft::Devices& devices,
                 weft::PlanParams params)
    : sizes_(sizes), plan_([&] {
        auto [graph, weights] = encoder_graph(file, sizes, matrices);
        weights_ = std::move(weights);
        return make_plan(std::move(graph), weights_, devices, std::move(params));
      }()) {}

Heard Encoder::encode(std::span<const float> mels) {
  std::vector<float> window(static_cast<std::size_t>(kWindowFrames) *
                            static_cast<std::size_t>(sizes_.n_mels));
  std::copy_n(mels.begin(), std::min(mels.size(), window.size()), window.begin());
  const WholeWindow whole(sizes_.n_heard);
  plan_.run(
      {}, {{"mels", window}, {"positions", whole.positions}, {"begins", whole.begins}, {"ends", whole.ends}});
  Heard heard;
  for (int i = 0; i < sizes_.decoder_layers; ++i) {
    heard.keys.push_back(plan_.read(keys_name("encoder.", i)));
    heard.values.push_back(plan_.read(values_name("encoder.", i)));
  }
  return heard;
}

Decoder::Decoder(const Ct2File& file, const Sizes& sizes, DType matrices, int n_slots,
                 const weft::Devices& devices, weft::PlanParams params)
    : sizes_(sizes), slots_(static_cast<std::size_t>(n_slots)), plan_([&] {
        auto [graph, weights] = decoder_graph(file, sizes, matrices, n_slots);
        weights_ = std::move(weights);
        return make_plan(std::move(graph), weights_, devices, std::move(params));
      }()) {
  for (int i = 0; i < sizes.decoder_layers; ++i) {
    heard_names_.push_back(keys_name("decoder.heard_", i));
    heard_names_.push_back(values_name("decoder.heard_", i));
  }
}

void Decoder::hear(Heard heard) {
  heard_ = std::move(heard);
  sequences_.clear();
  for (Sequence& slot : slots_) slot.clear();
}

std::vector<int> Decoder::choose_slots(std::span<const Sequence> sequences) const {
  struct Pair {
    std::size_t common;
    int sequence, slot;
  };
  std::vector<Pair> pairs;
  for (std::size_t t = 0; t < sequences.size(); ++t)
    for (std::size_t s = 0; s < slots_.size(); ++s)
      pairs.push_back({common_prefix(sequences[t], slots_[s]), static_cast<int>(t), static_cast<int>(s)});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& a, const Pair& b) { return a.common > b.common; });
  std::vector<int> chosen(sequences.size(), -1);
  for (const Pair& pair : pairs)
    if (int& slot = chosen[static_cast<std::size_t>(pair.sequence)];
        slot < 0 && std::find(chosen.begin(), chosen.end(), pair.slot) == chosen.end())
      slot = pair.slot;
  return chosen;
}

std::span<const float> Decoder::logits(std::span<const Sequence> sequences) {
  if (sequences.empty() || sequences.size() > slots_.size())
    throw weft::Error(weft::ErrorCode::kInvalidArgument,
                      "the decoder continues 1 to " + std::to_string(slots_.size()) + " sequences at once");
  for (const Sequence& sequence : sequences)
    if (sequence.empty() || sequence.size() > static_cast<std::size_t>(sizes_.n_positions))
      throw weft::Error(weft::ErrorCode::kInvalidArgument,
                        "a sequence must have 1 to " + std::to_string(sizes_.n_positions) + " tokens");
  if (std::equal(sequences.begin(), sequences.end(), sequences_.begin(), sequences_.end())) return logits_;
  sequences_.clear();
  const std::vector<int> chosen = choose_slots(sequences);
  std::vector<std::int32_t> tokens, positions, rows, begins, ends, wanted;
  for (std::size_t t = 0; t < sequences.size(); ++t) {
    const Sequence& sequence = sequences[t];
    const int slot = chosen[t];
    // The last token is computed again, even if the slot has it: its logits are wanted.
    const std::size_t known =
        std::min(common_prefix(sequence, slots_[static_cast<std::size_t>(slot)]), sequence.size() - 1);
    const std::int32_t begin = slot * sizes_.n_positions;
    for (std::size_t i = known; i < sequence.size(); ++i) {
      const auto position = static_cast<std::int32_t>(i);
      tokens.push_back(sequence[i]);
      positions.push_back(position);
      rows.push_back(begin + position);
      begins.push_back(begin);
      ends.push_back(begin + position + 1);
    }
    wanted.push_back(static_cast<std::int32_t>(tokens.size()) - 1);
  }
  const std::vector<std::int32_t> heard_begins(tokens.size()), heard_ends(tokens.size(), sizes_.n_heard);
  std::vector<weft::Plan::InputData> inputs = {
      {"tokens", tokens},         {"positions", positions}, {"rows", rows},
      {"begins", begins},         {"ends", ends},           {"heard_begins", heard_begins},
      {"heard_ends", heard_ends}, {"wanted", wanted}};
  // What was heard stays in the plan from step to step.
  for (std::size_t i = 0; i < heard_.keys.size(); ++i) {
    inputs.emplace_back(heard_names_[2 * i], heard_.keys[i]);
    inputs.emplace_back(heard_names_[2 * i + 1], heard_.values[i]);
  }
  const std::vector<weft::Plan::SymbolValue> symbols = {{"n_tokens", std::ssize(tokens)},
                                                        {"n_wanted", std::ssize(wanted)}};
  for (const int slot : chosen) slots_[static_cast<std::size_t>(slot)].clear();  // Until they are there.
  plan_.run(symbols, inputs);
  heard_ = {};
  for (std::size_t t = 0; t < sequences.size(); ++t)
    slots_[static_cast<std::size_t>(chosen[t])] = sequences[t];
  logits_.resize(sequences.size() * static_cast<std::size_t>(sizes_.n_vocab));
  plan_.read("decoder.logits", logits_);
  sequences_.assign(sequences.begin(), sequences.end());
  return logits_;
}

}  // namespace whisper
