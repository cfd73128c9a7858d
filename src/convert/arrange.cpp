#include "convert/arrange.h"

#include <string>
#include <string_view>
#include <utility>

#include "weft/error.h"

namespace weft::convert_impl {
namespace {

/// Arranges one tensor. name_ is its name without the layer.
class Arrangement {
 public:
  Arrangement(OutTensor tensor, const Config& config, const Family& family)
      : tensor_(std::move(tensor)), config_(config), family_(family) {
    const std::string_view full = tensor_.name;
    const auto layer = full.find("blk.");
    name_ = layer == full.npos ? full : full.substr(full.find('.', layer + 4) + 1);
  }

  std::vector<OutTensor> result() {
    turn();
    if (has(kRowsOfExperts) && name_.ends_with("_exps.weight")) stack();
    // Files of Gemma 4 have both in one matrix.
    const bool joined = has(kTwoHeadSizes);
    if ((name_.starts_with("ffn_gate_up_exps") && !joined) || name_.starts_with("ffn_gate_up_shexp"))
      return gate_and_up();
    drop_shared(tensor_.name);
    if (has(kLatent) && name_.starts_with("attn_kv_b.")) return keys_and_values();
    if (has(kMultipliers)) multiply();
    if (name_.starts_with("ssm_") || name_.starts_with("shortconv.conv.")) scan();
    if (has(kDeltaByGroups) && name_.starts_with("attn_qkvz.")) return delta_groups();
    if (has(kDeltaTiled)) tile();
    if (name_.starts_with("attn_")) order_heads();
    if (has(kOffsetPositions) && name_ == "position_embd.weight") {
      const std::int64_t first = config_.get_int({"pad_token_id"}).value_or(1) + 1;
      tensor_.views = {view().take(0, first, view().sizes.front() - first)};
      tensor_.shape.front() -= first;
    }
    if (name_ == "exp_probs_b.bias") tensor_.shape = {view().n_elements()};
    return {std::move(tensor_)};
  }

 private:
  bool has(unsigned trait) const { return (family_.traits & trait) != 0; }
  std::int64_t number(const char* name) const { return config_.require_int({name}); }
  const View& view() const { return tensor_.views.front(); }

  template <class F>
  void each(F change) {
    for (View& view : tensor_.views) view = change(view);
  }

  OutTensor part(const char* from, const std::string& to, std::vector<View> views,
                 std::vector<std::int64_t> shape) const {
    OutTensor result = tensor_;
    result.name.replace(result.name.find(from), std::string_view(from).size(), to);
    result.views = std::move(views);
    result.shape = std::move(shape);
    return result;
  }

  /// Matrices whose outputs are columns.
  void turn() {
    // Blocks run along the inputs, so the folder has the inputs last already.
    if (info(*view().source->dtype).block_elements > 1) return;
    const bool expert = name_.ends_with("_exps.weight");
    const bool turned =
        expert ? has(kExpertInputsFirst)
               : has(kInputsFirst) && name_.size() < tensor_.name.size() && tensor_.shape.size() == 2;
    if (!turned || (expert && lies_as_in_gguf())) return;
    each([](const View& view) { return view.swap(-1, -2); });
    const std::size_t n = tensor_.shape.size();
    if (n >= 2) std::swap(tensor_.shape[n - 1], tensor_.shape[n - 2]);
  }

  /// Newer files of some classes have outputs first, published ones have inputs first. The sizes decide.
  bool lies_as_in_gguf() const {
    const auto n_ff = config_.get_int({"moe_intermediate_size"});
    if (!n_ff || tensor_.shape.size() < 2) return false;
    const std::int64_t width = number("hidden_size");
    const bool down = name_.starts_with("ffn_down");
    const std::int64_t n_in = down ? *n_ff : width, n_out = down ? width : 2 * *n_ff;
    return n_in != n_out && tensor_.shape.back() == n_in && tensor_.shape[tensor_.shape.size() - 2] == n_out;
  }

  void stack() {
    const std::int64_t n = number("moe_num_experts"), columns = tensor_.shape.back();
    View experts = view().split(0, {n, -1});
    const std::int64_t rows = experts.sizes[1];
    const bool down = name_.starts_with("ffn_down");
    tensor_.shape = down ? std::vector{n, columns, rows} : std::vector{n, rows, columns};
    tensor_.views = {down ? experts.swap(1, 2) : experts};
  }

  /// Two parts of a matrix, or of each expert's.
  std::vector<OutTensor> gate_and_up() {
    const bool bias = name_.ends_with(".bias");
    const int axis = bias ? -1 : -2;
    std::vector<OutTensor> parts;
    for (const int which : {0, 1}) {
      std::vector<View> views;
      for (const View& view : tensor_.views) {
        const bool alternate = has(kAlternating);
        const View cut = alternate ? view.split(axis, {-1, 2}) : view.split(axis, {2, -1});
        // Behind the split, the axis of two is the last but one, or one further in front.
        const int two = alternate ? axis : axis - 1;
        views.push_back(cut.take(two, which, 1));
      }
      std::vector<std::int64_t> shape = tensor_.shape;
      shape[shape.size() - (bias ? 1 : 2)] /= 2;
      parts.push_back(part("gate_up", which == 0 ? "gate" : "up", std::move(views), std::move(shape)));
      drop_shared(parts.back().name);
    }
    return parts;
  }

  /// Without other experts the one that all rows go through is the feed-forward part.
  void drop_shared(std::string& name) const {
    const auto at = name.find("_shexp");
    if (at != name.npos && family_.architecture == "granitehybrid" &&
        config_.get_int({"num_local_experts"}).value_or(0) == 0)
      name.erase(at, 6);
  }

  std::vector<OutTensor> keys_and_values() {
    const std::int64_t heads = number("num_attention_heads"), k = number("qk_nope_head_dim"),
                       v = number("v_head_dim"), rank = tensor_.shape.back();
    const View parts = view().split(0, {heads, k + v});
    return {part("kv_b", "k_b", {parts.take(1, 0, k).swap(1, 2)}, {heads, rank, k}),
            part("kv_b", "v_b", {parts.take(1, k, v)}, {heads, v, rank})};
  }

  void multiply() {
    const std::string stem = name_.substr(0, name_.find('.'));
    const auto factor = [&](const char* name) {
      return static_cast<float>(config_.get_float({name}).value_or(1.0));
    };
    const auto of_list = [&](const char* name, std::size_t i) {
      const Json* const list = config_.find({name});
      if (list == nullptr) return 1.0f;
      if (!list->is_array() || i >= list->size() || !(*list)[i].is_number())
        throw Error(ErrorCode::kInvalidFile, "config.json: " + std::string(name) + " has too few numbers");
      return (*list)[i].get<float>();
    };
    const bool bias = name_.ends_with(".bias");  // Factors of inputs are none of biases.
    float scale = 1.0f;
    if (!bias && (stem == "attn_q" || stem == "attn_k" || stem == "attn_v"))
      scale = factor("attention_in_multiplier");
    if (stem == "attn_k") scale *= factor("key_multiplier");
    if (stem == "attn_output") scale = factor("attention_out_multiplier");
    if (stem == "ssm_out") scale = factor("ssm_out_multiplier");
    if (stem == "ffn_gate") scale = of_list("mlp_multipliers", 0);
    if (stem == "ffn_down") scale = of_list("mlp_multipliers", 1);
    if (stem == "token_embd") scale = factor("embedding_multiplier");
    if (stem == "output") scale = factor("lm_head_multiplier");
    each([&](const View& view) { return view.times(scale); });
    if (stem != "ssm_in") return;
    const std::int64_t inner = number("mamba_d_ssm"),
                       state = number("mamba_n_groups") * number("mamba_d_state");
    const View whole = view().times(bias ? 1.0f : factor("ssm_in_multiplier"));
    tensor_.views.clear();
    std::int64_t at = 0;
    std::size_t i = 0;
    for (const std::int64_t n : {inner, inner, state, state, number("mamba_n_heads")}) {
      tensor_.views.push_back(whole.take(0, at, n).times(of_list("ssm_multipliers", i++)));
      at += n;
    }
  }

  /// Of recurrent layers.
  void scan() {
    std::vector<std::int64_t>& shape = tensor_.shape;
    if (name_.find("conv") != name_.npos && shape.size() == 3 && shape[1] == 1) {
      if (name_.starts_with("ssm_conv1d_"))  // Kimi Linear's files have all axes, and one more.
        shape.insert(shape.begin(), 1);
      else
        shape.erase(shape.begin() + 1);
    }
    if (name_ == "ssm_a") tensor_.decay = true;
    if (!has(kMamba2)) return;
    if (name_ == "ssm_a" || name_ == "ssm_d") shape = {view().n_elements(), 1};
    if (name_.starts_with("ssm_norm.")) {
      const std::int64_t groups = config_.require_int({"mamba_n_groups", "n_groups"});
      shape = {groups, view().n_elements() / groups};
    }
  }

  /// In the folder, Q, K, V and the gate of each group of a delta net are adjacent.
  std::vector<OutTensor> delta_groups() {
    const std::int64_t groups = number("linear_num_key_heads"), k = number("linear_key_head_dim");
    const std::int64_t v = number("linear_num_value_heads") / groups * number("linear_value_head_dim");
    const View of = view().split(0, {groups, 2 * (k + v)});
    const std::int64_t n = tensor_.shape.back();
    return {part("qkvz", "qkv", {of.take(1, 0, k), of.take(1, k, k), of.take(1, 2 * k, v)},
                 {groups * (2 * k + v), n}),
            part("qkvz", "gate", {of.take(1, 2 * k + v, v)}, {groups * v, n})};
  }

  /// In GGUF, value heads that share a key head are not adjacent: the first ones of all groups, then the
  /// second ones.
  void tile() {
    const std::int64_t groups = number("linear_num_key_heads");
    const std::int64_t heads = number("linear_num_value_heads"), dim = number("linear_value_head_dim");
    const auto tiled = [&](const View& view, int axis) {
      return view.split(axis, {groups, heads / groups, -1}).swap(axis, axis + 1);
    };
    const std::string stem = name_.substr(0, name_.find('.'));
    if (stem == "attn_qkv" || stem == "ssm_conv1d") {
      const std::int64_t n_keys = tensor_.shape[0] - heads * dim;
      const View whole = view();
      tensor_.views = {whole.take(0, 0, n_keys), tiled(whole.take(0, n_keys, heads * dim), 0)};
    } else if (stem == "ssm_out") {
      tensor_.views = {tiled(view(), 1)};
    } else if (stem == "attn_gate" || stem == "ssm_beta" || stem == "ssm_alpha" || stem == "ssm_dt" ||
               stem == "ssm_a") {
      tensor_.views = {tiled(view(), 0)};
    }
  }

  void order_heads() {
    const std::int64_t n_heads = config_.get_int({"num_attention_heads"}).value_or(0);
    const bool q = name_.starts_with("attn_q."), k = name_.starts_with("attn_k.");
    if (has(kNeighbours) && (q || k) && config_.turns()) {
      const std::int64_t heads = k ? config_.get_int({"num_key_value_heads"}).value_or(n_heads) : n_heads;
      each([&](const View& view) { return view.split(0, {heads, 2, -1}).swap(1, 2); });
    }
    // Weights of heads' own norms turn with the rows that they multiply.
    if (has(kNeighbours) && name_.find("_norm.") != name_.npos && tensor_.shape.size() == 2)
      each([](const View& view) { return view.split(1, {2, -1}).swap(1, 2); });
    if (!name_.starts_with("attn_qkv.")) return;
    std::int64_t groups = 0;  // Each with `shared` heads of Q and one of K and of V.
    if (has(kQkvByHeads) || (has(kOfOneKey) && !config_.get_bool("multi_query", true))) groups = n_heads;
    if (has(kQkvByGroups)) {
      const bool newer = config_.get_bool("new_decoder_architecture", false);
      // With one K and V for all heads, the order is already GGUF's.
      if (!newer && config_.get_bool("multi_query", true)) return;
      groups = newer ? config_.require_int({"num_kv_heads"}) : n_heads;
    }
    if (groups == 0) return;
    const std::int64_t shared = n_heads / groups;
    const View parts = view().split(0, {groups, shared + 2, -1});
    tensor_.views = {parts.take(1, 0, shared), parts.take(1, shared, 1), parts.take(1, shared + 1, 1)};
  }

  OutTensor tensor_;
  const Config& config_;
  const Family& family_;
  std::string name_;
};

}  // namespace

std::vector<OutTensor> arrange(OutTensor tensor, const Config& config, const Family& family) {
  const std::string name = tensor.name;
  std::vector<OutTensor> parts = Arrangement(std::move(tensor), config, family).result();
  for (const OutTensor& part : parts) {
    std::int64_t n = 0, expected = 1;
    for (const View& view : part.views) n += view.n_elements();
    for (const std::int64_t size : part.shape) expected *= size;
    if (n != expected)
      throw Error(ErrorCode::kInvalidFile,
                  "tensor '" + name + "' has another shape than config.json implies");
    check_blocks(part);
  }
  return parts;
}

}  // namespace weft::convert_impl
