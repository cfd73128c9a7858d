#include "convert/whisper.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <utility>

#include "convert/family.h"
#include "convert/refuse.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr Rename kWhisperLayer[] = {{"self_attn.q_proj", "attn.query"},
                                    {"self_attn.k_proj", "attn.key"},
                                    {"self_attn.v_proj", "attn.value"},
                                    {"self_attn.out_proj", "attn.out"},
                                    {"self_attn_layer_norm", "attn_ln"},
                                    {"encoder_attn.q_proj", "cross_attn.query"},
                                    {"encoder_attn.k_proj", "cross_attn.key"},
                                    {"encoder_attn.v_proj", "cross_attn.value"},
                                    {"encoder_attn.out_proj", "cross_attn.out"},
                                    {"encoder_attn_layer_norm", "cross_attn_ln"},
                                    {"fc1", "mlp.0"},
                                    {"fc2", "mlp.2"},
                                    {"final_layer_norm", "mlp_ln"}};
constexpr Rename kWhisperWhole[] = {{"encoder.conv1", "encoder.conv1"},
                                    {"encoder.conv2", "encoder.conv2"},
                                    {"encoder.layer_norm", "encoder.ln_post"},
                                    {"decoder.layer_norm", "decoder.ln"},
                                    {"decoder.embed_tokens", "decoder.token_embedding"}};

std::string_view renamed(std::span<const Rename> names, std::string_view from, const std::string& full) {
  for (const Rename& name : names)
    if (name.from == from) return name.to;
  refuse_tensor(full, "is unknown for the class " + std::string(kWhisperClass));
}

/// The name of a tensor in the result.
std::string new_name(const std::string& full) {
  std::string_view name = full;
  if (name.starts_with("model.")) name.remove_prefix(6);
  for (const std::string_view part : {"encoder", "decoder"})
    if (name == std::string(part) + ".embed_positions.weight")
      return std::string(part) + ".positional_embedding";
  const std::size_t dot = name.rfind('.');
  const std::string_view ending = dot == name.npos ? std::string_view() : name.substr(dot);
  if (ending != ".weight" && ending != ".bias") refuse_tensor(full, "is neither a weight nor a bias");
  name.remove_suffix(ending.size());
  constexpr std::string_view kLayers = "coder.layers.";
  const std::size_t at = name.find(kLayers);
  if (at == name.npos) return std::string(renamed(kWhisperWhole, name, full)) + std::string(ending);
  const std::string_view part = name.substr(0, at + 5), rest = name.substr(at + kLayers.size());
  const std::size_t end = rest.find('.');
  int layer = -1;
  if (end != rest.npos) std::from_chars(rest.data(), rest.data() + end, layer);
  if (layer < 0 || std::to_string(layer) != rest.substr(0, end)) refuse_tensor(full, "has no layer's number");
  return std::string(part) + ".blocks." + std::to_string(layer) + "." +
         std::string(renamed(kWhisperLayer, rest.substr(end + 1), full)) + std::string(ending);
}

/// A list of ids, or of pairs of numbers, in generation_config.json; it may also be in config.json.
void set_numbers(GgufWriter& file, const char* name, const Json* list) {
  if (list == nullptr) return;
  constexpr std::size_t kMost = 1 << 16;
  std::vector<std::int32_t> numbers;
  const auto fail = [&] {
    throw Error(ErrorCode::kInvalidFile,
                std::string("generation_config.json: ") + name + " is not a list of numbers");
  };
  const auto add = [&](const Json& number) {
    if (!number.is_number_integer() || number < 0 || number > (1 << 24)) fail();
    numbers.push_back(number.get<std::int32_t>());
  };
  if (!list->is_array() || list->size() > kMost) fail();
  for (const Json& one : *list) {
    if (one.is_array() && one.size() == 2) {
      add(one[0]);
      add(one[1]);
    } else {
      add(one);
    }
  }
  file.set(std::string("whisper.") + name, numbers);
}

}  // namespace

std::vector<OutTensor> plan_whisper(const FolderWeights& weights, const Config& config,
                                    const Json& generation, DType type, GgufWriter& file) {
  constexpr std::pair<const char*, const char*> kSizes[] = {
      {"encoder.context_length", "max_source_positions"},          {"encoder.embedding_length", "d_model"},
      {"encoder.feed_forward_length", "encoder_ffn_dim"},          {"encoder.block_count", "encoder_layers"},
      {"encoder.attention.head_count", "encoder_attention_heads"}, {"encoder.mels_count", "num_mel_bins"},
      {"decoder.context_length", "max_target_positions"},          {"decoder.embedding_length", "d_model"},
      {"decoder.feed_forward_length", "decoder_ffn_dim"},          {"decoder.block_count", "decoder_layers"},
      {"decoder.attention.head_count", "decoder_attention_heads"}, {"vocab_size", "vocab_size"}};
  for (const auto& [key, field] : kSizes)
    file.set(std::string("whisper.") + key, static_cast<std::uint32_t>(config.require_int({field})));
  if (const Json* const activation = config.find({"activation_function"});
      activation != nullptr && *activation != "gelu")
    throw Error(ErrorCode::kUnsupported,
                "config.json: weft supports Whisper models with the activation gelu only");
  if (config.get_bool("scale_embedding", false) || !config.get_bool("tie_word_embeddings", true))
    throw Error(ErrorCode::kUnsupported,
                "config.json: weft supports no Whisper models with scale_embedding, or with an output matrix "
                "of their own");
  if (const Json* const multilingual = find(generation, "is_multilingual");
      multilingual != nullptr && multilingual->is_boolean())
    file.set("whisper.multilingual", multilingual->get<bool>());
  for (const char* name : {"suppress_tokens", "begin_suppress_tokens"}) {
    const Json* const list = find(generation, name);
    set_numbers(file, name, list != nullptr ? list : config.find({name}));
  }
  set_numbers(file, "alignment_heads", find(generation, "alignment_heads"));

  std::vector<OutTensor> tensors;
  std::set<std::string> names;
  for (const auto& [full, source] : weights.all()) {
    if (full == "proj_out.weight") continue;  // The embeddings again.
    check_source(full, source, 3);
    if (source.shape.empty()) refuse_tensor(full, "has no dimensions");
    OutTensor tensor{.name = new_name(full), .shape = source.shape, .views = {View(source)}};
    if (!names.insert(tensor.name).second) refuse_tensor(full, "occurs under several names");
    check_blocks(tensor);
    if (tensor.shape.size() == 3) {
      tensor.type = type == DType::kF32 ? DType::kF32 : DType::kF16;  // Filters are not quantized.
    } else if (tensor.shape.size() == 2 && !tensor.name.ends_with("positional_embedding")) {
      tensor.type = tensor.shape.back() % info(type).block_elements == 0 ? type : DType::kF16;
    }
    tensors.push_back(std::move(tensor));
  }
  if (!names.contains("decoder.token_embedding.weight"))
    throw Error(ErrorCode::kInvalidFile, "the folder has no tensor model.decoder.embed_tokens.weight");
  return tensors;
}

}  // namespace weft::convert_impl
