#include "model.h"

#include <weft/error.h>

#include <algorithm>
#include <utility>

#include "json_file.h"
#include "weights.h"

namespace gpt2 {
namespace {

using weft::DType;
using weft::Value;

constexpr int kLargest = 1 << 24;  // Of all sizes.

weft::Graph make_graph(const Config& config, const DecoderParams& params,
                       const std::filesystem::path& weight_file, WeightBytes& bytes) {
  weft::Graph g;
  WeightReader weights(g, weight_file, params.matrices);
  const weft::Dim n = g.symbol("n_tokens", 1, params.max_rows);
  const weft::Dim m = g.symbol("n_wanted", 1, params.max_wanted);
  const auto indices = [&](const char* name, const weft::Dim& count) {
    return g.input(name, {count}, DType::kI32);
  };
  const Value tokens = indices("tokens", n), positions = indices("positions", n);
  // The row that stores a token's keys and values, and the range that it attends to: its sequence, up to
  // itself.
  const Value rows = indices("rows", n), begins = indices("begins", n), ends = indices("ends", n);
  const Value wanted = indices("wanted", m);
  const std::int64_t width = config.width, n_rows = std::int64_t{params.n_sequences} * params.n_cells;

  const Value table = weights.matrix("wte.weight", config.n_vocab, width);
  Value x = weft::take(table, tokens) +
            weft::take(weights.matrix("wpe.weight", config.n_positions, width), positions);
  for (int i = 0; i < config.n_layers; ++i) {
    const std::string layer = "h." + std::to_string(i) + ".", attention = layer + "attn.c_attn";
    Value h = weights.norm(x, layer + "ln_1", config.eps);
    const auto store = [&](const char* name, int part) {
      const Value state = g.state(layer + name, DType::kF32, {n_rows, 1, width});
      return weft::store_rows(state, weights.linear(h, attention, width, part, 3), rows);
    };
    const Value queries = weights.linear(h, attention, width, 0, 3);
    const Value keys = store("keys", 1), values = store("values", 2);
    h = weft::ragged_attention(queries, keys, values, begins, ends, config.n_heads);
    x = x + weights.linear(h, layer + "attn.c_proj", width);
    h = weights.norm(x, layer + "ln_2", config.eps);
    h = weft::gelu_tanh(weights.linear(h, layer + "mlp.c_fc", config.n_inner));
    x = (x + weights.linear(h, layer + "mlp.c_proj", width)).named(layer + "out");
  }
  x = weights.norm(weft::take(x, wanted), "ln_f", config.eps);
  const Value head =
      weights.has("lm_head.weight") ? weights.matrix("lm_head.weight", config.n_vocab, width) : table;
  g.output("logits", weft::linear(x, head));
  bytes = weights.take();
  return g;
}

}  // namespace

Config::Config(const std::filesystem::path& file) {
  const nlohmann::json json = read_json(file);
  const auto size = [&](const char* name) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_integer() || *found < 1 || *found > kLargest)
      refuse(file, std::string(name) + " is no size of a model");
    return found->get<int>();
  };
  try {
    n_layers = size("n_layer"), n_heads = size("n_head"), width = size("n_embd");
    n_positions = size("n_positions"), n_vocab = size("vocab_size");
    const bool has_inner = json.contains("n_inner") && !json["n_inner"].is_null();
    n_inner = has_inner ? size("n_inner") : 4 * width;
    eps = json.value("layer_norm_epsilon", 1e-5f);
    if (width % n_heads != 0) refuse(file, "n_embd is no multiple of n_head");
    if (json.value("activation_function", "gelu_new") != "gelu_new")
      refuse(file, "activation_function is not gelu_new");
    if (!json.value("scale_attn_weights", true) || json.value("scale_attn_by_inverse_layer_idx", false))
      refuse(file, "attention is scaled in another way than GPT-2's");
    const auto found = json.find("eos_token_id");
    if (found != json.end() && found->is_number_integer()) end = found->get<Token>();
  } catch (const nlohmann::json::exception& error) {
    refuse(file, error.what());
  }
}

Decoder::Decoder(const std::filesystem::path& folder, const DecoderParams& params)
    : config_(folder / "config.json"),
      params_(params),
      plan_([&] {
        params_.n_cells = std::min(params.n_cells, config_.n_positions);
        if (std::int64_t{params.n_sequences} * params_.n_cells > kLargest)
          throw weft::Error(weft::ErrorCode::kInvalidArgument,
                            "all sequences together may have " + std::to_string(kLargest) +
                                " tokens: use fewer sequences, or limit their length (-c)");
        weft::Plan plan(make_graph(config_, params_, folder / "model.safetensors", weights_),
                        weft::open_devices(params_.devices),
                        {.pins = params_.pins, .n_threads = params_.n_threads});
        for (const auto& [name, bytes] : weights_) plan.set_weight(name, bytes);
        return plan;
      }()),
      lengths_(static_cast<std::size_t>(params.n_sequences)) {}

void Decoder::check(std::span<const Row> rows) const {
  const auto require = [](bool holds, const std::string& reason) {
    if (!holds) throw weft::Error(weft::ErrorCode::kInvalidArgument, reason);
  };
  require(!rows.empty() && std::ssize(rows) <= params_.max_rows,
          "a step must have 1 to " + std::to_string(params_.max_rows) + " tokens");
  const auto n_wanted = std::ranges::count(rows, true, &Row::wanted);
  require(n_wanted > 0 && n_wanted <= params_.max_wanted,
          "logits of 1 to " + std::to_string(params_.max_wanted) + " tokens can be wanted");
  std::vector<std::int32_t> lengths = lengths_;
  for (const Row& row : rows) {
    require(row.token >= 0 && row.token < config_.n_vocab,
            "the model has no token " + std::to_string(row.token));
    require(row.sequence >= 0 && row.sequence < params_.n_sequences,
            "there is no sequence " + std::to_string(row.sequence));
    require(lengths[static_cast<std::size_t>(row.sequence)]++ < params_.n_cells,
            "a sequence must have no more than " + std::to_string(params_.n_cells) + " tokens");
  }
}

std::span<const float> Decoder::step(std::span<const Row> rows) {
  check(rows);
  std::vector<std::int32_t> lengths = lengths_, tokens, positions, places, begins, ends, wanted;
  for (const Row& row : rows) {
    const std::int32_t begin = row.sequence * params_.n_cells;
    const std::int32_t position = lengths[static_cast<std::size_t>(row.sequence)]++;
    if (row.wanted) wanted.push_back(static_cast<std::int32_t>(tokens.size()));
    tokens.push_back(row.token);
    positions.push_back(position);
    places.push_back(begin + position);
    begins.push_back(begin);
    ends.push_back(begin + position + 1);
  }
  plan_.run({{"n_tokens", std::ssize(tokens)}, {"n_wanted", std::ssize(wanted)}}, {{"tokens", tokens},
                                                                                   {"positions", positions},
                                                                                   {"rows", places},
                                                                                   {"begins", begins},
                                                                                   {"ends", ends},
                                                                                   {"wanted", wanted}});
  lengths_ = std::move(lengths);
  logits_.resize(wanted.size() * static_cast<std::size_t>(config_.n_vocab));
  plan_.read("logits", logits_);
  return logits_;
}

}  // namespace gpt2
