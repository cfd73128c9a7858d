#include "convert/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/foreign_file.h"
#include "base/json.h"
#include "base/read_file.h"
#include "convert/refuse.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

constexpr std::uint64_t kMaxJson = 256 << 20;  // The largest tokenizers have some 30 MB.
constexpr std::size_t kMaxOfConfig = 1 << 20;  // Only configurations are looked through.

// Names of fields in older classes.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"n_embd", "hidden_size"},
    {"d_model", "hidden_size"},
    {"n_layer", "num_hidden_layers"},
    {"n_layers", "num_hidden_layers"},
    {"num_layers", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"n_heads", "num_attention_heads"},
    {"num_heads", "num_attention_heads"},
    {"n_positions", "max_position_embeddings"},
    {"max_seq_len", "max_position_embeddings"},
    {"model_max_length", "max_position_embeddings"},
    {"seq_length", "max_position_embeddings"},
    {"d_ff", "intermediate_size"},
    {"kv_n_heads", "num_key_value_heads"},
    {"moe_renormalize", "norm_topk_prob"},
    {"num_expert_group", "n_group"},
};

/// Replaces numbers that Python writes and JSON lacks (NaN, Infinity) by null.
std::string without_infinities(std::string_view text) {
  std::string result;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t n = 1;
    if (text[i] == '\\' && quoted) n = std::min<std::size_t>(2, text.size() - i);
    if (text[i] == '"') quoted = !quoted;
    std::string_view kept = text.substr(i, n);
    for (const std::string_view number : {"-Infinity", "Infinity", "NaN"})
      if (!quoted && text.substr(i).starts_with(number)) {
        n = number.size();
        kept = "null";
      }
    result += kept;
    i += n;
  }
  return result;
}

}  // namespace

Json read_json(const std::filesystem::path& path, Shape shape) {
  const std::vector<std::byte> bytes = base::read_file(path, kMaxJson);
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (base::is_lfs_pointer(text)) refuse(path.string() + " is " + std::string(base::kLfsPointer));
  if (text.size() < kMaxOfConfig) text = without_infinities(text);
  try {
    Json json = base::parse_json<Json>(text);
    if (shape == Shape::kObject ? !json.is_object() : !json.is_array())
      refuse(path.string() + " is not a JSON " + (shape == Shape::kObject ? "object" : "list"));
    return json;
  } catch (const base::JsonError& error) {
    const std::string known = base::foreign_file_text(std::as_bytes(std::span(text)), base::FileKind::kJson);
    refuse(path.string() + (known.empty() ? std::string(": ") + error.what() : " is " + known));
  }
}

Json read_json_if_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? read_json(path) : Json::object();
}

const Json* find(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> find_text(const Json& json, const char* name) {
  const Json* const value = find(json, name);
  return value != nullptr && value->is_string() ? std::optional(value->get<std::string>()) : std::nullopt;
}

Config::Config(Json json, std::string_view defaults) : json_(base::parse_json<Json>(defaults)) {
  const Json text = convert_impl::find(json, "text_config") ? json["text_config"] : Json::object();
  for (const Json& layer : {std::move(json), text})
    if (layer.is_object())
      for (const auto& [key, value] : layer.items()) json_[key] = value;
  // Some classes nest fields that others have at the top level.
  for (const char* part : {"attn_config", "ffn_config"})
    if (const Json* const object = find({part}); object != nullptr && object->is_object()) {
      const Json copy = *object;
      for (const auto& [key, value] : copy.items())
        if (!json_.contains(key)) json_[key] = value;
    }
  // Kimi Linear's published files: sizes of the layers without attention, by names that others have.
  constexpr std::pair<const char*, const char*> kOfDeltaNets[] = {
      {"head_dim", "linear_head_dim"},
      {"num_heads", "linear_num_heads"},
      {"short_conv_kernel_size", "linear_conv_kernel_dim"},
  };
  if (const Json* const of = find({"linear_attn_config"})) {
    const Json copy = *of;
    for (const auto& [other, name] : kOfDeltaNets)
      if (const Json* const value = convert_impl::find(copy, other)) json_[name] = *value;
  }
  for (const auto& [other, name] : kOtherNames)
    if (!json_.contains(name) && json_.contains(other)) json_[name] = Json(json_[other]);
  for (const char* layers : {"layers_block_type", "hybrid_override_pattern"})
    if (const Json* const list = find({layers}); list != nullptr && !json_.contains("num_hidden_layers"))
      json_["num_hidden_layers"] = list->is_string() ? list->get<std::string>().size() : list->size();
  if (const Json* const rope = find({"rope_parameters", "rope_scaling"})) {
    if (!rope->is_object()) refuse("config.json: rope_parameters (or rope_scaling) is not an object");
    const Json* const full = convert_impl::find(*rope, "full_attention");
    rope_ = full != nullptr && full->is_object() ? *full : *rope;
  }
}

namespace {

/// The first of the names that the file has, for messages.
std::string name_of(const Json& json, const Names& names) {
  const auto there = [&](const char* name) { return convert_impl::find(json, name) != nullptr; };
  const auto found = std::find_if(names.begin(), names.end(), there);
  return found == names.end() ? names.front() : *found;
}

}  // namespace

const Json* Config::find(const Names& names) const {
  for (const char* name : names)
    if (const Json* const value = convert_impl::find(json_, name)) return value;
  return nullptr;
}

std::optional<std::int64_t> Config::get_int(const Names& names) const {
  const Json* const value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
    refuse("config.json: " + name_of(json_, names) + " is " + value->dump().substr(0, 40) +
           ", expected an integer of at most 31 bits");
  return value->get<std::int64_t>();
}

std::int64_t Config::require_int(const Names& names) const {
  const auto value = get_int(names);
  if (!value || *value == 0)
    refuse("config.json: " + std::string(names.front()) + " is missing or 0, expected an integer");
  return *value;
}

namespace {

/// Checks that the number fits 32-bit floats and may be converted to an integer.
double checked_number(const Json& value, const std::string& name) {
  constexpr double kMost = 1e15;
  if (!value.is_number() || !(std::abs(value.get<double>()) <= kMost))
    refuse("config.json: " + name + " is " + value.dump().substr(0, 40) +
           ", expected a number of at most 1e15");
  return value.get<double>();
}

}  // namespace

std::optional<double> Config::get_float(const Names& names) const {
  const Json* const value = find(names);
  return value != nullptr ? std::optional(checked_number(*value, name_of(json_, names))) : std::nullopt;
}

bool Config::get_bool(const char* name, bool otherwise) const {
  const Json* const value = find({name});
  if (value == nullptr) return otherwise;
  if (!value->is_boolean())
    refuse("config.json: " + std::string(name) + " is " + value->dump().substr(0, 40) +
           ", expected true or false");
  return value->get<bool>();
}

double Config::rope_float(const char* name, double otherwise) const {
  const Json* const value = convert_impl::find(rope_, name);
  if (value == nullptr) return otherwise;
  return checked_number(*value, "rope's " + std::string(name));
}

std::string Config::rope_type() const {
  const std::string type =
      find_text(rope_, "rope_type").value_or(find_text(rope_, "type").value_or("default"));
  return type == "mrope" ? "default" : type;  // The sections have the rest.
}

std::int64_t Config::rope_dim() const {
  double part = get_float({"partial_rotary_factor", "rotary_pct"}).value_or(1.0);
  part = rope_float("partial_rotary_factor", part);
  if (!(part > 0.0 && part <= 1.0)) refuse("config.json: partial_rotary_factor is not in the range (0, 1]");
  const bool newer = convert_impl::find(rope_, "partial_rotary_factor") != nullptr;
  return get_int(newer ? Names{"qk_rope_head_dim"} : Names{"rotary_dim", "qk_rope_head_dim"})
      .value_or(static_cast<std::int64_t>(part * static_cast<double>(head_dim())));
}

bool Config::turns() const {
  // Granite's hybrid models, whose usual value is null.
  const auto kind = json_.find("position_embedding_type");
  return kind == json_.end() || (!kind->is_null() && *kind != "nope");
}

std::int64_t Config::head_dim() const {
  constexpr std::int64_t kMost = 1 << 16;
  const auto said = get_int({"head_dim"});
  const std::int64_t dim =
      said && *said > 0 ? *said : require_int({"hidden_size"}) / require_int({"num_attention_heads"});
  if (dim < 1 || dim > kMost)
    refuse("config.json: heads would have " + std::to_string(dim) + " dimensions, expected 1 to " +
           std::to_string(kMost));
  return dim;
}

}  // namespace weft::convert_impl
