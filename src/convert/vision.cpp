#include "convert/vision.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/to_size.h"
#include "convert/family.h"
#include "convert/refuse.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr Rename kSiglipLayer[] = {{"layer_norm1", "ln1"},         {"layer_norm2", "ln2"},
                                   {"self_attn.q_proj", "attn_q"}, {"self_attn.k_proj", "attn_k"},
                                   {"self_attn.v_proj", "attn_v"}, {"self_attn.out_proj", "attn_out"},
                                   {"mlp.fc1", "ffn_up"},          {"mlp.fc2", "ffn_down"}};
constexpr Rename kSiglipWhole[] = {{"embeddings.patch_embedding", "v.patch_embd"},
                                   {"embeddings.position_embedding", "v.position_embd"},
                                   {"post_layernorm", "v.post_ln"},
                                   {"mm_input_projection_weight", "mm.input_projection.weight"},
                                   {"mm_soft_emb_norm", "mm.soft_emb_norm"},
                                   {"modality_projection.proj", "mm.model.fc"}};
constexpr Rename kPixtralLayer[] = {{"attention_norm", "ln1"},
                                    {"ffn_norm", "ln2"},
                                    {"attention.q_proj", "attn_q"},
                                    {"attention.k_proj", "attn_k"},
                                    {"attention.v_proj", "attn_v"},
                                    {"attention.o_proj", "attn_out"},
                                    {"feed_forward.gate_proj", "ffn_gate"},
                                    {"feed_forward.up_proj", "ffn_up"},
                                    {"feed_forward.down_proj", "ffn_down"}};
constexpr Rename kPixtralWhole[] = {
    {"patch_conv", "v.patch_embd"}, {"ln_pre", "v.pre_ln"},
    {"norm", "mm.input_norm"},      {"linear_1", "mm.1"},
    {"linear_2", "mm.2"},           {"patch_merger.merging_layer", "mm.patch_merger"}};
constexpr Rename kQwenLayer[] = {{"norm1", "ln1"},
                                 {"norm2", "ln2"},
                                 {"attn.qkv", "attn_qkv"},
                                 {"attn.proj", "attn_out"},
                                 {"mlp.fc1", "ffn_up"},
                                 {"mlp.fc2", "ffn_down"},
                                 {"mlp.linear_fc1", "ffn_up"},
                                 {"mlp.linear_fc2", "ffn_down"},
                                 {"mlp.gate_proj", "ffn_gate"},
                                 {"mlp.up_proj", "ffn_up"},
                                 {"mlp.down_proj", "ffn_down"}};
constexpr Rename kQwenWhole[] = {
    {"patch_embed.proj", "v.patch_embd"}, {"pos_embed", "v.position_embd"}, {"merger.ln_q", "v.post_ln"},
    {"merger.norm", "v.post_ln"},         {"merger.mlp.0", "mm.0"},         {"merger.mlp.2", "mm.2"},
    {"merger.linear_fc1", "mm.0"},        {"merger.linear_fc2", "mm.2"}};

enum class VisionKind { kGemma3, kIdefics3, kPixtral, kQwen2, kQwen25, kQwen3 };

struct VisionFamily {
  VisionKind kind;
  std::string_view name, projector;  ///< The class in config.json; the projector in GGUF.
  std::string_view layers;           ///< Before a layer's number.
  std::span<const Rename> layer, whole;
  std::string_view defaults;  ///< Values of "vision_config" that published files leave out.
  double eps;                 ///< Epsilon of norms, where files leave it out.
};

constexpr std::string_view kSiglipDefaults =
    R"({"hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27, "num_attention_heads": 16,
        "image_size": 896, "patch_size": 14})";
constexpr std::string_view kIdeficsDefaults =
    R"({"hidden_size": 1152, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 16,
        "image_size": 224, "patch_size": 32})";
constexpr std::string_view kPixtralDefaults =
    R"({"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16,
        "image_size": 1024, "patch_size": 16})";
constexpr std::string_view kQwen2Defaults =
    R"({"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "num_heads": 16,
        "patch_size": 14, "spatial_merge_size": 2})";
constexpr std::string_view kQwen25Defaults =
    R"({"depth": 32, "hidden_size": 3584, "intermediate_size": 3420, "num_heads": 16, "patch_size": 14,
        "spatial_merge_size": 2, "window_size": 112, "out_hidden_size": 3584,
        "fullatt_block_indexes": [7, 15, 23, 31]})";
constexpr std::string_view kQwen3Defaults =
    R"({"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16, "patch_size": 16,
        "spatial_merge_size": 2, "out_hidden_size": 3584, "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24]})";

constexpr VisionFamily kVisionFamilies[] = {
    {VisionKind::kGemma3, "Gemma3ForConditionalGeneration", "gemma3", "encoder.layers.", kSiglipLayer,
     kSiglipWhole, kSiglipDefaults, 1e-6},
    {VisionKind::kIdefics3, "Idefics3ForConditionalGeneration", "idefics3", "encoder.layers.", kSiglipLayer,
     kSiglipWhole, kIdeficsDefaults, 1e-6},
    {VisionKind::kIdefics3, "SmolVLMForConditionalGeneration", "idefics3", "encoder.layers.", kSiglipLayer,
     kSiglipWhole, kIdeficsDefaults, 1e-6},
    {VisionKind::kPixtral, "Mistral3ForConditionalGeneration", "pixtral", "transformer.layers.",
     kPixtralLayer, kPixtralWhole, kPixtralDefaults, 1e-5},
    {VisionKind::kPixtral, "LlavaForConditionalGeneration", "pixtral", "transformer.layers.", kPixtralLayer,
     kPixtralWhole, kPixtralDefaults, 1e-5},
    {VisionKind::kQwen2, "Qwen2VLForConditionalGeneration", "qwen2vl_merger", "blocks.", kQwenLayer,
     kQwenWhole, kQwen2Defaults, 1e-6},
    {VisionKind::kQwen25, "Qwen2_5_VLForConditionalGeneration", "qwen2.5vl_merger", "blocks.", kQwenLayer,
     kQwenWhole, kQwen25Defaults, 1e-6},
    {VisionKind::kQwen3, "Qwen3VLForConditionalGeneration", "qwen3vl_merger", "blocks.", kQwenLayer,
     kQwenWhole, kQwen3Defaults, 1e-6},
    {VisionKind::kQwen3, "Qwen3VLMoeForConditionalGeneration", "qwen3vl_merger", "blocks.", kQwenLayer,
     kQwenWhole, kQwen3Defaults, 1e-6},
};

const VisionFamily& find_vision(std::string_view name) {
  std::string known;
  for (const VisionFamily& family : kVisionFamilies) {
    if (family.name == name) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.name);
  }
  throw Error(ErrorCode::kUnsupported, "models of the class " + std::string(name.substr(0, 80)) +
                                           " have no image encoder that weft can convert; known are " +
                                           known);
}

std::uint32_t as_u32(std::int64_t number) { return static_cast<std::uint32_t>(number); }

class VisionPlanner {
 public:
  VisionPlanner(const VisionFamily& family, const Json& json, const Json& pictures, DType type,
                GgufWriter& file)
      : family_(family),
        vision_(vision_of(json), family.defaults),
        whole_(json, "{}"),
        images_(pictures),
        type_(type),
        file_(file) {
    taps_ = numbers("deepstack_visual_indexes");
  }

  void add_keys() {
    file_.set("general.type", std::string("mmproj"));
    file_.set("clip.has_vision_encoder", true);
    file_.set("clip.projector_type", std::string(family_.projector));
    const std::int64_t patch = vision_.require_int({"patch_size"});
    set("patch_size", as_u32(patch));
    set("embedding_length", as_u32(width()));
    set("block_count", as_u32(n_layers()));
    set("attention.head_count", as_u32(n_heads()));
    set("feed_forward_length", as_u32(ff_width()));
    set("attention.layer_norm_epsilon",
        static_cast<float>(vision_.get_float({"layer_norm_eps", "rms_norm_eps"}).value_or(family_.eps)));
    for (const char* colours : {"image_mean", "image_std"}) set(colours, of_colours(colours));
    add_activation();
    add_sizes(patch);
  }

  void add(const std::string& full, const Source& source) {
    const std::optional<std::string> of_encoder = inner_name(full);
    if (!of_encoder) return;
    check_source(full, source, 5);
    if (source.shape.empty()) refuse_tensor(full, "has too many dimensions, or none");
    arrange(full, gguf_name(full, *of_encoder), source);
  }

  std::vector<OutTensor> finish() {
    for (std::int64_t layer = 0; layer < n_layers(); ++layer)
      if (!layers_.contains(layer))
        throw Error(ErrorCode::kInvalidFile, "layer " + std::to_string(layer) + " of the " +
                                                 std::to_string(n_layers()) +
                                                 " of the image encoder has no tensors");
    if (!names_.contains("v.patch_embd.weight"))
      throw Error(ErrorCode::kInvalidFile, "the image encoder in the folder has no patch embedding");
    return std::move(tensors_);
  }

 private:
  static Json vision_of(const Json& json) {
    const Json* const vision = find(json, "vision_config");
    if (vision == nullptr || !vision->is_object()) refuse_config("has no object vision_config");
    return *vision;
  }

  bool is(VisionKind kind) const { return family_.kind == kind; }
  bool is_qwen() const { return is(VisionKind::kQwen2) || is(VisionKind::kQwen25) || is(VisionKind::kQwen3); }
  std::int64_t width() const {
    return is(VisionKind::kQwen2) ? vision_.require_int({"embed_dim"}) : vision_.require_int({"hidden_size"});
  }
  std::int64_t n_layers() const { return vision_.require_int({"num_hidden_layers", "depth"}); }
  std::int64_t n_heads() const { return vision_.require_int({"num_attention_heads", "num_heads"}); }
  std::int64_t ff_width() const {
    if (!is(VisionKind::kQwen2)) return vision_.require_int({"intermediate_size"});
    const double ratio = vision_.get_float({"mlp_ratio"}).value_or(4.0);
    if (!(ratio > 0.0 && ratio <= 64.0)) refuse_config("mlp_ratio is not in the range (0, 64]");
    return static_cast<std::int64_t>(ratio * static_cast<double>(width()));
  }

  void set(const std::string& key, const GgufValue& value) { file_.set("clip.vision." + key, value); }

  std::vector<std::int64_t> numbers(const char* name) const {
    const Json* const list = vision_.find({name});
    std::vector<std::int64_t> result;
    if (list == nullptr) return result;
    constexpr std::size_t kMost = 512;
    if (!list->is_array() || list->size() > kMost) refuse_config(std::string(name) + " is not a list");
    for (const Json& number : *list) {
      if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= kMost)
        refuse_config(std::string(name) + " is not a list of layer indices");
      result.push_back(number.get<std::int64_t>());
    }
    return result;
  }

  std::vector<float> of_colours(const char* name) const {
    const Json* const list = find(images_, name);
    if (list == nullptr) {  // OpenAI CLIP's for Pixtral and Qwen before 3, otherwise SigLIP's.
      if (!is_qwen() && !is(VisionKind::kPixtral)) return {0.5f, 0.5f, 0.5f};
      if (is(VisionKind::kQwen3)) return {0.5f, 0.5f, 0.5f};
      return std::string_view(name) == "image_mean"
                 ? std::vector<float>{0.48145466f, 0.4578275f, 0.40821073f}
                 : std::vector<float>{0.26862954f, 0.26130258f, 0.27577711f};
    }
    std::vector<float> result;
    if (list->is_array())
      for (const Json& number : *list)
        if (number.is_number()) result.push_back(number.get<float>());
    if (result.size() != 3 || list->size() != 3)
      throw Error(ErrorCode::kInvalidFile, "preprocessor_config.json: " + std::string(name) +
                                               " is not a list of three numbers, for red, green and blue");
    return result;
  }

  void add_activation() {
    const Json* const said = vision_.find({"hidden_act"});
    std::string name = said != nullptr && said->is_string() ? said->get<std::string>() : "";
    if (name.empty())
      name = is(VisionKind::kQwen2) ? "quick_gelu" : is(VisionKind::kQwen25) ? "silu" : "gelu";
    // Files of Pixtral's first classes have "gelu", but the model has Llama's SiLU gate.
    if (is(VisionKind::kPixtral)) name = "silu";
    if (name == "silu")
      file_.set("clip.use_silu", true);
    else if (name.starts_with("gelu"))
      file_.set("clip.use_gelu", true);
    else if (name != "quick_gelu")
      throw Error(ErrorCode::kUnsupported, "the image encoder has the activation '" + name.substr(0, 40) +
                                               "'; known are gelu, quick_gelu and silu");
  }

  void add_sizes(std::int64_t patch) {
    const Names merge = {"spatial_merge_size"};
    std::int64_t side = 0;
    if (is_qwen()) {
      constexpr std::int64_t kUsualGrid = 40;  // Pictures keep their shape: what the trained size was.
      side = kUsualGrid * patch;
      set("projection_dim", as_u32(is(VisionKind::kQwen2) ? vision_.require_int({"hidden_size"})
                                                          : vision_.require_int({"out_hidden_size"})));
      set("spatial_merge_size", as_u32(vision_.require_int(merge)));
    } else {
      side = vision_.require_int({"image_size"});
      set("projection_dim", as_u32(whole_.require_int({"hidden_size"})));
    }
    if (is(VisionKind::kGemma3)) {
      const std::int64_t rows = whole_.get_int({"mm_tokens_per_image"}).value_or(256);
      const auto across = static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(rows))));
      if (across <= 0 || across * across != rows || side / patch % across != 0)
        refuse_config(
            "mm_tokens_per_image is not a square number that divides the image into equal squares of "
            "patches");
      set("projector.scale_factor", as_u32(side / patch / across));
    } else if (is(VisionKind::kIdefics3)) {
      set("projector.scale_factor", as_u32(whole_.get_int({"scale_factor"}).value_or(2)));
      if (const Json* const size = find(images_, "size"))
        if (const Json* const longest = find(*size, "longest_edge");
            longest != nullptr && longest->is_number_unsigned() && *longest <= 1 << 16)
          set("preproc_image_size", as_u32(longest->get<std::int64_t>()));
    } else if (is(VisionKind::kPixtral)) {
      set("spatial_merge_size", as_u32(whole_.get_int(merge).value_or(1)));
    } else if (is(VisionKind::kQwen25)) {
      add_windows();
    } else if (is(VisionKind::kQwen3)) {
      const auto n = static_cast<double>(vision_.require_int({"num_position_embeddings"}));
      side = std::llround(std::sqrt(n)) * patch;
      std::vector<bool> tapped(to_size(n_layers()), false);
      for (const std::int64_t layer : taps_) {
        if (layer >= n_layers()) refuse_config("deepstack_visual_indexes names a layer that does not exist");
        tapped[to_size(layer)] = true;
      }
      set("is_deepstack_layers", tapped);
    }
    set("image_size", as_u32(side));
  }

  /// All layers but the last of every few see windows.
  void add_windows() {
    const std::vector<std::int64_t> full = numbers("fullatt_block_indexes");
    const std::int64_t every = full.empty() ? 0 : full.front() + 1;
    bool even = !full.empty() && n_layers() % every == 0;
    for (std::size_t i = 0; i < full.size(); ++i)
      even &= full[i] == static_cast<std::int64_t>(i + 1) * every - 1;
    if (!even || static_cast<std::int64_t>(full.size()) != n_layers() / every)
      throw Error(ErrorCode::kUnsupported,
                  "config.json: fullatt_block_indexes does not name every N-th layer, and GGUF cannot "
                  "express other patterns");
    set("n_wa_pattern", as_u32(every));
    set("window_size", as_u32(vision_.require_int({"window_size"})));
  }

  /// The name without the prefix of the encoder or projector; nullopt for tensors of the language model.
  static std::optional<std::string> inner_name(std::string_view name) {
    if (name.starts_with("model.")) name.remove_prefix(6);
    for (const std::string_view prefix :
         {"vision_tower.", "vision_model.", "visual.", "multi_modal_projector.", "connector."}) {
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      if (prefix == "vision_tower." && name.starts_with("vision_model.")) name.remove_prefix(13);
      // Computed tensors, and SigLIP's pooling, which the encoder does not need.
      if (name.find("position_ids") != name.npos || name.find("inv_freq") != name.npos ||
          name.starts_with("head."))
        return std::nullopt;
      return std::string(name);
    }
    return std::nullopt;
  }

  static std::optional<std::string> renamed(std::span<const Rename> names, std::string_view text) {
    for (const Rename& rename : names) {
      if (!text.starts_with(rename.from)) continue;
      const std::string_view ending = text.substr(rename.from.size());
      if (ending.empty() || ending == ".weight" || ending == ".bias")
        return std::string(rename.to) + std::string(ending);
    }
    return std::nullopt;
  }

  static std::optional<std::int64_t> take_number(std::string_view& text) {
    std::int64_t number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    text.remove_prefix(to_size(end - text.data()));
    if (!text.starts_with('.')) return std::nullopt;
    text.remove_prefix(1);
    return number;
  }

  std::string gguf_name(const std::string& full, std::string_view name) {
    constexpr std::string_view kTap = "deepstack_merger_list.";
    if (name.starts_with(family_.layers)) {
      name.remove_prefix(family_.layers.size());
      const auto layer = take_number(name);
      if (const auto to = layer ? renamed(family_.layer, name) : std::nullopt) {
        if (*layer >= n_layers())
          refuse_tensor(full,
                        "is of a layer beyond the " + std::to_string(n_layers()) + " that config.json names");
        layers_.insert(*layer);
        return "v.blk." + std::to_string(*layer) + "." + *to;
      }
    } else if (name.starts_with(kTap)) {
      name.remove_prefix(kTap.size());
      const auto tap = take_number(name);
      constexpr Rename kParts[] = {{"norm", "norm"}, {"linear_fc1", "fc1"}, {"linear_fc2", "fc2"}};
      if (const auto to = tap ? renamed(kParts, name) : std::nullopt; to && to_size(*tap) < taps_.size())
        return "v.deepstack." + std::to_string(taps_[to_size(*tap)]) + "." + *to;
    } else if (const auto to = renamed(family_.whole, name)) {
      return *to;
    }
    refuse_tensor(full, "is not part of any known image encoder of the class " + std::string(family_.name));
  }

  void arrange(const std::string& full, const std::string& name, const Source& source) {
    const View view(source);
    std::vector<std::int64_t> shape = source.shape;
    const bool qkv = name.find("attn_qkv.") != name.npos;
    if (qkv && !is(VisionKind::kQwen3)) {  // Files have them apart.
      if (shape.front() % 3 != 0) refuse_tensor(full, "does not consist of three matrices");
      shape.front() /= 3;
      for (int part = 0; part < 3; ++part) {
        std::string to = name;
        to.replace(to.find("attn_qkv"), 8, std::string("attn_") + "qkv"[part]);
        put(full, to, shape, view.take(0, part * shape.front(), shape.front()));
      }
    } else if (name == "v.patch_embd.weight" && shape.size() == 5) {  // A filter for each of two frames.
      constexpr std::int64_t kFrames = 2;
      if (shape[2] != kFrames) refuse_tensor(full, "has " + std::to_string(shape[2]) + " frames, expected 2");
      shape.erase(shape.begin() + 2);
      put(full, name, shape, view.take(2, 0, 1));
      put(full, name + ".1", shape, view.take(2, 1, 1));
    } else if (is(VisionKind::kPixtral) &&
               (name.find("attn_q.") != name.npos || name.find("attn_k.") != name.npos)) {
      put(full, name, shape, view.split(0, {n_heads(), 2, -1}).swap(1, 2));  // Neighbours turn, in files.
    } else {
      put(full, name, shape, view);
    }
  }

  void put(const std::string& full, const std::string& name, std::vector<std::int64_t> shape, View view) {
    if (!names_.insert(name).second) refuse_tensor(full, "occurs under several names");
    if (shape.size() > 4) refuse_tensor(full, "has too many dimensions, or none");
    OutTensor tensor{.name = name, .shape = std::move(shape), .views = {std::move(view)}};
    check_blocks(tensor);
    if (name == "mm.soft_emb_norm.weight") tensor.add = 1.0f;  // Stored without its 1.
    const bool table = name.find("position_embd") != name.npos;
    if (tensor.shape.size() == 2 && !table) tensor.type = type_;
    // Convolution filters are not quantised, and not all readers support BF16.
    if (tensor.shape.size() == 4 && type_ == DType::kF16) tensor.type = DType::kF16;
    if (info(tensor.type).block_elements > 1 && tensor.shape.back() % info(tensor.type).block_elements != 0)
      tensor.type = DType::kF16;
    tensors_.push_back(std::move(tensor));
  }

  const VisionFamily& family_;
  const Config vision_, whole_;
  const Json& images_;
  const DType type_;
  GgufWriter& file_;
  std::vector<std::int64_t> taps_;  ///< Layers whose rows the language model gets, too.
  std::set<std::int64_t> layers_;
  std::set<std::string> names_;
  std::vector<OutTensor> tensors_;
};

}  // namespace

std::vector<OutTensor> plan_vision(const FolderWeights& weights, const Json& json, const Json& pictures,
                                   std::string_view class_name, DType type, GgufWriter& file) {
  VisionPlanner planner(find_vision(class_name), json, pictures, type, file);
  planner.add_keys();
  for (const auto& [name, source] : weights.all()) planner.add(name, source);
  return planner.finish();
}

}  // namespace weft::convert_impl
