#include "convert/adapter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/counted.h"
#include "base/to_size.h"
#include "convert/arrange.h"
#include "convert/place.h"
#include "convert/refuse.h"
#include "tensor/codec.h"
#include "text/pattern.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr const char* kMerge =
    "; merge the adapter into its model with PEFT (merge_and_unload), save that and convert it";

[[noreturn]] void refuse_adapter(const std::string& reason) {
  throw Error(ErrorCode::kUnsupported, "adapter_config.json: " + reason + kMerge);
}

/// Whether a key has a value other than null, false or an empty container.
bool says(const Json& adapter, const char* name) {
  const Json* const value = find(adapter, name);
  return value != nullptr && *value != false && !(value->is_structured() && value->empty());
}

void check_kind(const Json& adapter) {
  const auto kind = find_text(adapter, "peft_type");
  if (!kind && find(adapter, "fine_tune_type") != nullptr)
    throw Error(ErrorCode::kUnsupported,
                "MLX adapters are not supported; fuse the adapter into its model (mlx_lm.fuse) and convert "
                "the result");
  if (kind != "LORA")
    refuse_adapter("peft_type is " + kind.value_or("missing").substr(0, 40) + ", expected LORA");
  // Options that change how the pairs are applied.
  for (const char* name :
       {"use_dora", "use_qalora", "use_bdlora", "layer_replication", "alora_invocation_tokens",
        "trainable_token_indices", "target_parameters", "lora_bias", "arrow_config"})
    if (says(adapter, name)) refuse_adapter(std::string(name) + " is set, which weft does not support");
}

/// A pair for one matrix of the model, or for the matrix of one expert.
struct Pair {
  const Source* a = nullptr;
  const Source* b = nullptr;
  double scale = 0.0;  ///< The adapter adds scale times b a.
};

constexpr double kUsualAlpha = 8.0;  // PEFT's default of lora_alpha.

/// The scale of each module's pair of matrices.
class Scales {
 public:
  explicit Scales(const Json& adapter) : by_root_(says(adapter, "use_rslora")) {
    if (const Json* const alpha = find(adapter, "lora_alpha"); alpha != nullptr) {
      if (!alpha->is_number()) refuse_value("lora_alpha", "is not a number");
      alpha_ = alpha->get<double>();
    }
    if (const Json* const others = find(adapter, "alpha_pattern"); others != nullptr && others->is_object())
      for (const auto& [name, value] : others->items()) {
        if (!value.is_number()) refuse_value("alpha_pattern", "has a value that is not a number");
        others_.emplace_back(text::Pattern::of_expression("^(.*\\.)?(" + name + ")$"), value.get<double>());
      }
  }

  double of(std::string_view module, std::int64_t rank) const {
    double alpha = alpha_;
    for (const auto& [pattern, other] : others_)
      if (!pattern.find(module).empty()) {
        alpha = other;
        break;
      }
    const double scale =
        alpha / (by_root_ ? std::sqrt(static_cast<double>(rank)) : static_cast<double>(rank));
    if (!std::isfinite(scale)) refuse_value("lora_alpha", "gives a scale of " + std::to_string(scale));
    return scale;
  }

 private:
  [[noreturn]] static void refuse_value(const char* key, const std::string& reason) {
    throw Error(ErrorCode::kInvalidFile, "adapter_config.json: " + std::string(key) + " " + reason);
  }

  bool by_root_;
  double alpha_ = kUsualAlpha;
  std::vector<std::pair<text::Pattern, double>> others_;
};

/// "base_model.model.X.lora_A.weight" as X and whether it is A; some savers write an adapter's name before
/// the ending.
std::pair<std::string, bool> module_of(const std::string& full) {
  constexpr std::string_view kFront = "base_model.model.", kBase = ".base_layer";
  for (const bool is_a : {true, false}) {
    const std::string_view mark = is_a ? ".lora_A." : ".lora_B.";
    const auto at = full.find(mark);
    if (at == full.npos || !full.ends_with(".weight")) continue;
    std::string module = full.substr(0, at);
    if (module.starts_with(kFront)) module.erase(0, kFront.size());
    if (module.ends_with(kBase)) module.resize(module.size() - kBase.size());
    return {module, is_a};
  }
  const std::string name = "tensor '" + full.substr(0, 120) + "' ";
  if (full.find("lora_embedding_") != full.npos)
    throw Error(ErrorCode::kUnsupported, name + "adapts embeddings, which weft does not support" + kMerge);
  if (full.find("lora_magnitude_vector") != full.npos)
    throw Error(ErrorCode::kUnsupported,
                name + "belongs to a DoRA adapter, which weft does not support" + kMerge);
  throw Error(ErrorCode::kUnsupported,
              name +
                  "is not a LoRA matrix but a fully trained weight (modules_to_save, a bias or new tokens)" +
                  kMerge);
}

std::map<std::string, Pair> pairs_of(const FolderWeights& weights, const Scales& scales) {
  std::map<std::string, Pair> pairs;
  for (const auto& [full, source] : weights.all()) {
    const auto [module, is_a] = module_of(full);
    check_source(full, source, 2);
    if (source.shape.size() != 2) refuse_tensor(full, "is not a matrix");
    const Source*& place = is_a ? pairs[module].a : pairs[module].b;
    if (place != nullptr) refuse_tensor(full, "occurs twice; save only one adapter in the folder");
    place = &source;
  }
  if (pairs.empty()) throw Error(ErrorCode::kInvalidFile, "the adapter has no tensors");
  for (auto& [module, pair] : pairs) {
    if (pair.a == nullptr || pair.b == nullptr)
      refuse_tensor((pair.a == nullptr ? pair.b : pair.a)->name,
                    "lacks the other matrix of its pair (lora_A, lora_B)");
    if (pair.a->shape[0] != pair.b->shape[1])
      refuse_tensor(pair.b->name, "has " + base::counted(pair.b->shape[1], "column") +
                                      ", but the other matrix of its pair has " +
                                      base::counted(pair.a->shape[0], "row"));
    pair.scale = scales.of(module, pair.a->shape[0]);
  }
  return pairs;
}

/// The pairs of a tensor of GGUF: one, or one for each expert.
struct Matrix {
  std::string name;  ///< With its layer.
  std::vector<std::pair<std::int64_t, Pair>> parts;
};

/// GGUF reorders more than the rows of these matrices, which a pair cannot follow.
bool changes_columns(const std::string& name, const Family& family) {
  const auto has = [&](unsigned trait) { return (family.traits & trait) != 0; };
  return (has(kLatent) && name.starts_with("attn_kv_b.")) ||
         (has(kDeltaTiled) && name.starts_with("ssm_out.")) ||
         (has(kRowsOfExperts) && name.find("_exps.") != name.npos);
}

std::vector<Matrix> matrices_of(const std::map<std::string, Pair>& pairs, const Family& family,
                                const AdapterBase& base) {
  std::map<std::tuple<std::string, std::int64_t, std::string>, Matrix> found;
  for (const auto& [module, pair] : pairs) {
    const std::string full = module + ".weight";
    if (is_left_out(full, family))
      throw Error(ErrorCode::kUnsupported, "tensor '" + pair.a->name.substr(0, 120) +
                                               "' adapts a part of the model that is not converted" + kMerge);
    const Place place = place_of(full, family);
    if (place.name == "token_embd.weight")
      throw Error(ErrorCode::kUnsupported, "tensor '" + pair.a->name.substr(0, 120) +
                                               "' adapts embeddings, which weft does not support" + kMerge);
    if (place.joined || changes_columns(place.name, family))
      throw Error(ErrorCode::kUnsupported,
                  "tensor '" + pair.a->name.substr(0, 120) +
                      "' adapts a matrix whose columns GGUF stores in another order" + kMerge);
    base.check_pair(full, place, *pair.a, *pair.b);
    Matrix& matrix = found[{place.block, place.layer, place.name}];
    matrix.name = (place.layer < 0 ? "" : place.block + "." + std::to_string(place.layer) + ".") + place.name;
    matrix.parts.emplace_back(place.expert, pair);
  }
  std::vector<Matrix> result;
  for (auto& [key, matrix] : found) {
    std::sort(matrix.parts.begin(), matrix.parts.end(),
              [](const auto& x, const auto& y) { return x.first < y.first; });
    result.push_back(std::move(matrix));
  }
  return result;
}

/// All experts need a pair, with the same rank and scale.
void check_parts(const Matrix& matrix, const Config& config) {
  const bool of_experts = matrix.parts.front().first >= 0;
  const std::int64_t n_experts = of_experts ? config.get_int(kExperts).value_or(0) : 1;
  const auto& [unused, first] = matrix.parts.front();
  if (n_experts != static_cast<std::int64_t>(matrix.parts.size()))
    throw Error(ErrorCode::kUnsupported,
                "the adapter has LoRA matrices for " + std::to_string(matrix.parts.size()) + " of " +
                    std::to_string(n_experts) + " matrices of " + matrix.name + kMerge);
  for (const auto& [expert, pair] : matrix.parts)
    if (pair.a->shape != first.a->shape || pair.b->shape != first.b->shape || pair.scale != first.scale)
      throw Error(ErrorCode::kUnsupported, "tensor '" + pair.b->name.substr(0, 120) +
                                               "' differs from that of other experts in its shape or scale" +
                                               kMerge);
}

/// One tensor from a side of the pairs; experts are stacked.
OutTensor stacked(const Matrix& matrix, const Source* Pair::* which, DType type) {
  OutTensor tensor{.name = matrix.name, .type = type, .shape = (matrix.parts.front().second.*which)->shape};
  for (const auto& [expert, pair] : matrix.parts) tensor.views.emplace_back(*(pair.*which));
  if (matrix.parts.front().first >= 0)
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(matrix.parts.size()));
  return tensor;
}

/// Throws Error kInvalidFile where the tensor, as it is written, holds NaN or infinity.
void check_values(const OutTensor& tensor, const std::string& source) {
  const std::size_t n_bytes = row_bytes(tensor.type, tensor.n_columns());
  std::vector<std::byte> bytes(n_bytes * to_size(tensor.n_rows()));
  std::vector<float> row(to_size(tensor.n_columns()));
  fill_tensor(tensor, bytes);
  for (std::size_t at = 0; at < bytes.size(); at += n_bytes) {
    unpack_row(tensor.type, bytes.data() + at, row);
    for (const float value : row)
      if (!std::isfinite(value))
        refuse_tensor(source,
                      "has a value that is not finite (" + std::to_string(value) + ", as " +
                          std::string(info(tensor.type).name) +
                          "); the training failed, or the type has too small a range (use --type f32)");
  }
}

DType storable(DType type, const OutTensor& tensor) {
  return tensor.n_columns() % info(type).block_elements == 0 ? type : DType::kF16;
}

}  // namespace

std::filesystem::path adapter_file(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (const auto path = folder / "adapter_model.safetensors"; std::filesystem::exists(path, ignored))
    return path;
  if (std::filesystem::exists(folder / "adapter_model.bin", ignored))
    throw Error(ErrorCode::kUnsupported,
                folder.string() +
                    " has only pickled weights (adapter_model.bin), which may run any code when they "
                    "are read; save the adapter with save_pretrained(..., safe_serialization=True)");
  if (std::filesystem::exists(folder / "adapters.safetensors", ignored))
    return folder / "adapters.safetensors";
  throw Error(ErrorCode::kNotFound, folder.string() + " has no adapter_model.safetensors");
}

AdapterPlan plan_adapter(const Json& adapter, const FolderWeights& weights, const Config& config,
                         const Family& family, const AdapterBase& base, DType type) {
  check_kind(adapter);
  AdapterPlan plan;
  if (find(adapter, "lora_alpha") == nullptr)
    plan.notes.emplace_back("adapter_config.json has no lora_alpha; weft uses PEFT's default, 8");
  // GGUF has one alpha for all pairs: where they differ, B is multiplied. An alpha of 0 would count as none.
  std::optional<double> alpha;
  int n_matrices = 0, n_without = 0;
  Family by_rows = family;  // Pairs have outputs as rows in all classes.
  by_rows.traits &= ~static_cast<unsigned>(kInputsFirst | kExpertInputsFirst);
  for (const Matrix& matrix : matrices_of(pairs_of(weights, Scales(adapter)), family, base)) {
    check_parts(matrix, config);
    const Pair& first = matrix.parts.front().second;
    const double own = first.scale * static_cast<double>(first.a->shape[0]);
    ++n_matrices;
    if (own == 0.0) ++n_without;
    if (!alpha && own != 0.0) alpha = own;
    const auto factor = own == 0.0 ? 0.0f : static_cast<float>(own / *alpha);
    for (OutTensor& b : arrange(stacked(matrix, &Pair::b, type), config, by_rows)) {
      OutTensor a = stacked(matrix, &Pair::a, type);
      a.name = b.name + ".lora_a";
      b.name += ".lora_b";
      a.type = storable(type, a);
      b.type = storable(type, b);
      for (View& view : b.views) view = view.times(factor);
      check_values(a, first.a->name);
      check_values(b, first.b->name);
      plan.tensors.push_back(std::move(a));
      plan.tensors.push_back(std::move(b));
    }
  }
  plan.alpha = static_cast<float>(alpha.value_or(kUsualAlpha));
  if (n_without > 0)
    plan.notes.push_back(
        "lora_alpha or alpha_pattern is 0 for " +
        (n_without == n_matrices ? "all" : std::to_string(n_without) + " of " + std::to_string(n_matrices)) +
        " matrices; the adapter has no effect on them");
  const std::string start = find_text(adapter, "init_lora_weights").value_or("");
  for (const char* changing : {"pissa", "olora", "corda", "loftq", "lora_ga"})
    if (start.starts_with(changing))
      plan.notes.push_back(
          "init_lora_weights is " + start.substr(0, 40) +
          ": it changes the base model before training. The adapter fits the published model only if it was "
          "converted when it was saved (path_initial_model_for_weight_conversion)");
  return plan;
}

}  // namespace weft::convert_impl
