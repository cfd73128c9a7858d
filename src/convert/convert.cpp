#include "weft/convert.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/json.h"
#include "base/to_size.h"
#include "convert/adapter.h"
#include "convert/check_weights.h"
#include "convert/config.h"
#include "convert/family.h"
#include "convert/folder_weights.h"
#include "convert/metadata.h"
#include "convert/modules.h"
#include "convert/tensors.h"
#include "convert/vision.h"
#include "convert/vocabulary.h"
#include "convert/whisper.h"
#include "weft/error.h"
#include "weft/gguf.h"

namespace weft {
namespace {

using namespace convert_impl;

struct Type {
  std::string_view name;
  DType dtype;
  std::uint32_t number;  ///< Of general.file_type.
};
constexpr std::array<Type, 4> kTypes = {{{"f32", DType::kF32, 0},
                                         {"f16", DType::kF16, 1},
                                         {"bf16", DType::kBF16, 32},
                                         {"q8_0", DType::kQ8_0, 7}}};

const Type& type_of(std::string name, const FolderWeights& weights) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Type& type : kTypes)
    if (type.name == name) return type;
  if (name != "auto")
    throw Error(ErrorCode::kInvalidArgument,
                "'" + name + "' is not a type to convert to; known are f32, f16, bf16, q8_0 and auto");
  std::array<std::size_t, kTypes.size()> bytes = {};
  for (const auto& [unused, source] : weights.all()) {
    // Quantised sources count as BF16, from which nearly all of them were made.
    const bool quantised = source.dtype == DType::kF32 && source.stored != "F32";
    for (std::size_t i = 0; i < kTypes.size(); ++i)
      if (kTypes[i].dtype == (quantised ? DType::kBF16 : source.dtype)) bytes[i] += source.bytes.size();
  }
  return kTypes[to_size(std::max_element(bytes.begin(), bytes.end()) - bytes.begin())];
}

/// Letters in lower case and digits.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

/// The class that is named after a model_type, as transformers names classes; empty: none is converted.
std::string class_of_type(const std::string& model_type) {
  for (const std::string_view ending : {"forcausallm", "lmheadmodel", "forconditionalgeneration", "model"})
    for (const Family& family : families())
      if (plain_name(family.name) == plain_name(model_type) + std::string(ending))
        return std::string(family.name);
  return {};
}

/// The class of the model: the first of "architectures" or, if there is none, the class of "model_type".
std::string class_of(const std::filesystem::path& folder, const Json& json) {
  const Json* const classes = find(json, "architectures");
  if (classes == nullptr || classes->is_null() || (classes->is_array() && classes->empty())) {
    const std::string by_type = class_of_type(find_text(json, "model_type").value_or(""));
    if (!by_type.empty()) return by_type;
  }
  if (classes == nullptr || !classes->is_array() || classes->empty() || !classes->front().is_string())
    throw Error(ErrorCode::kInvalidFile, (folder / "config.json").string() +
                                             " has no \"architectures\", expected the class of the model");
  return classes->front().get<std::string>();
}

const Family& family_of(const std::string& name, const Json& json) {
  // Mistral's multimodal class wraps language models of several classes.
  if (const Json* const text = find(json, "text_config");
      text != nullptr && find_text(*text, "model_type") == "mistral4")
    return *find_family("Mistral4ForCausalLM");
  if (const Family* const family = find_family(name)) return *family;
  for (const NotConverted& other : not_converted())
    if (other.name == name)
      throw Error(ErrorCode::kUnsupported,
                  "folders of the class " + name + " cannot be converted; weft only runs such models (" +
                      std::string(other.architecture) + ") from existing GGUF files");
  std::string known;
  for (const Family& family : families()) known += (known.empty() ? "" : ", ") + std::string(family.name);
  throw Error(ErrorCode::kUnsupported,
              "the architecture '" + name.substr(0, 80) + "' cannot be converted; known are " + known);
}

std::string architecture_of(const Family& family, bool has_experts) {
  const bool named_by_experts = (family.traits & kMoeByExperts) != 0;
  return std::string(family.architecture) + (named_by_experts && has_experts ? "_moe" : "");
}

/// The keys that every file has.
void add_general(const std::filesystem::path& folder, const std::string& architecture, const Type& type,
                 GgufWriter& file) {
  file.set("general.architecture", architecture);
  const std::filesystem::path whole = std::filesystem::absolute(folder).lexically_normal();
  file.set("general.name", (whole.has_filename() ? whole : whole.parent_path()).filename().string());
  file.set("general.file_type", type.number);
  if (type.dtype == DType::kQ8_0) file.set("general.quantization_version", std::uint32_t{2});
}

/// `check`: the result is a model that weft runs.
ConvertResult write(const std::vector<OutTensor>& tensors, const std::string& architecture, const Type& type,
                    const std::filesystem::path& to, const ConvertParams& params, GgufWriter& file,
                    bool check = false) {
  ConvertResult result{architecture, std::string(type.name), tensors.size(), 0};
  const auto bytes_of = [](const OutTensor& tensor) {
    return static_cast<std::uint64_t>(tensor.n_rows()) * row_bytes(tensor.type, tensor.n_columns());
  };
  for (const OutTensor& tensor : tensors) result.bytes += bytes_of(tensor);
  std::uint64_t done = 0;
  for (const OutTensor& tensor : tensors)
    file.add_tensor(tensor.name, tensor.type, tensor.shape, [&](std::span<std::byte> bytes) {
      fill_tensor(tensor, bytes);
      done += bytes.size();
      if (params.progress && !params.progress(static_cast<double>(done) / static_cast<double>(result.bytes)))
        throw Error(ErrorCode::kCancelled, "the conversion was cancelled");
    });
  if (check) check_weights(tensors, file);
  file.write(to);
  return result;
}

/// The weights of the base model's folder; nullopt if it has none or their storage format is not supported.
std::optional<FolderWeights> readable_weights(const std::filesystem::path& base, const Json& config) {
  try {
    return std::optional<FolderWeights>(std::in_place, base, config);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound && error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;
  }
}

/// A part of a model that has no tokenizer.
[[noreturn]] void refuse_pre(const std::filesystem::path& folder, const char* part) {
  throw Error(ErrorCode::kInvalidArgument, folder.string() + ": " + part +
                                               " has no tokenizer; leave --pre "
                                               "(ConvertParams::pre_tokenizer) out");
}

ConvertResult convert_adapter(const std::filesystem::path& folder, const std::filesystem::path& to,
                              const ConvertParams& params) {
  if (params.mmproj)
    throw Error(ErrorCode::kInvalidArgument, folder.string() +
                                                 " is an adapter, which has no image encoder; leave --mmproj "
                                                 "(ConvertParams::mmproj) out");
  if (!params.pre_tokenizer.empty()) refuse_pre(folder, "an adapter");
  const Json adapter = read_json(folder / "adapter_config.json");
  const std::filesystem::path base = params.base.empty() && is_model_folder(folder) ? folder : params.base;
  if (!is_model_folder(base))
    throw Error(ErrorCode::kInvalidArgument,
                folder.string() + " is an adapter of the model '" +
                    find_text(adapter, "base_model_name_or_path").value_or("unknown").substr(0, 120) +
                    "'; --base (ConvertParams::base) must name the folder with that model's config.json" +
                    (base.empty() ? "" : "; there is none in " + base.string()));
  const Json config_json = read_json(base / "config.json");
  const Family family = family_of(class_of(base, config_json), config_json);
  const Config config(config_json, family.defaults);
  const FolderWeights weights(adapter_file(folder));
  const Type& type = type_of(params.type, weights);
  const std::optional<FolderWeights> of_base = readable_weights(base, config_json);
  const AdapterBase matrices(of_base ? &*of_base : nullptr, config, family);
  AdapterPlan plan = plan_adapter(adapter, weights, config, family, matrices, type.dtype);
  const std::string architecture = architecture_of(family, config.get_int(kExperts).value_or(0) > 0);
  GgufWriter file;
  add_general(folder, architecture, type, file);
  file.set("general.type", std::string("adapter"));
  file.set("adapter.type", std::string("lora"));
  file.set("adapter.lora.alpha", plan.alpha);
  ConvertResult result = write(plan.tensors, architecture, type, to, params, file);
  result.notes = std::move(plan.notes);
  return result;
}

/// Adds fields that config.json lacks, with the defaults of transformers' classes.
void add_defaults(Json& json, const Family& family, std::vector<std::string>& notes) {
  constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
      {"LlamaForCausalLM", R"({"max_position_embeddings": 2048, "rms_norm_eps": 1e-6})"},
      {"MistralForCausalLM", R"({"max_position_embeddings": 131072, "rms_norm_eps": 1e-6})"},
      {"Qwen2ForCausalLM", R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6})"},
      {"Qwen3ForCausalLM", R"({"max_position_embeddings": 32768, "rms_norm_eps": 1e-6})"},
  };
  for (const auto& [name, defaults] : kDefaults) {
    if (family.name != name) continue;
    const Config given(json, family.defaults);
    const Json values = base::parse_json<Json>(defaults);
    for (const auto& [field, value] : values.items()) {
      if (given.find({field.c_str()}) != nullptr) continue;
      json[field] = value;
      notes.push_back("config.json has no " + field + "; weft uses " + value.dump() +
                      ", the default of transformers");
    }
  }
}

}  // namespace

bool is_adapter_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path / "adapter_config.json", ignored) && !has_model_weights(path);
}

bool is_model_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) &&
         std::filesystem::exists(path / "config.json", ignored);
}

std::vector<std::string_view> convertible_architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.name);
  names.push_back(kWhisperClass);
  return names;
}

ConvertResult convert(const std::filesystem::path& folder, const std::filesystem::path& to,
                      const ConvertParams& params) {
  std::error_code error;
  if (!std::filesystem::exists(folder, error) && error)
    throw Error(ErrorCode::kIo, folder.string() + ": " + error.message());
  if (is_adapter_folder(folder)) return convert_adapter(folder, to, params);
  if (!params.base.empty())
    throw Error(ErrorCode::kInvalidArgument, folder.string() +
                                                 " is not an adapter: it has no adapter_config.json, or it "
                                                 "has the weights of a model. Leave --base out");
  if (!is_model_folder(folder))
    throw Error(ErrorCode::kNotFound, folder.string() + " is not a folder with a config.json");
  Json json = read_json(folder / "config.json");
  const std::string name = class_of(folder, json);
  GgufWriter file;
  if (params.mmproj) {
    if (!params.pre_tokenizer.empty()) refuse_pre(folder, "an image encoder");
    const FolderWeights weights(folder, json);
    const Type& type = type_of(params.type, weights);
    add_general(folder, "clip", type, file);
    const Json pictures = read_json_if_there(folder / "preprocessor_config.json");
    return write(plan_vision(weights, json, pictures, name, type.dtype, file), "clip", type, to, params,
                 file);
  }

  if (name == kWhisperClass) {
    const FolderWeights weights(folder, json);
    const Config config(json, "{}");
    const Type& type = type_of(params.type, weights);
    add_general(folder, "whisper", type, file);
    const std::vector<OutTensor> tensors = plan_whisper(
        weights, config, read_json_if_there(folder / "generation_config.json"), type.dtype, file);
    std::vector<std::string> notes;
    add_vocabulary(folder, config, config.require_int({"vocab_size"}), params.pre_tokenizer, file, notes);
    ConvertResult result = write(tensors, "whisper", type, to, params, file);
    result.notes = std::move(notes);
    return result;
  }

  Family family = family_of(name, json);
  FolderWeights weights(folder, json);
  const Modules modules = read_modules(folder);
  if (!modules.dense.empty() && ((family.traits & kEncoder) == 0 || (family.traits & kBothSides) != 0))
    throw Error(ErrorCode::kUnsupported,
                "the embeddings pass through dense layers, which weft does not support for " + name);
  for (std::size_t i = 0; i < modules.dense.size(); ++i)  // They are numbered as their folders are.
    weights.add_file(modules.dense[i], "dense_" + std::to_string(i + 2) + ".");
  std::vector<std::string> notes;
  add_defaults(json, family, notes);
  const Config config(std::move(json), family.defaults);
  // Hunyuan's "dynamic" has a fixed base instead (metadata.cpp).
  if (config.rope_type() == "dynamic" && config.rope_float("alpha", 0.0) <= 0.0) {
    const auto trained = static_cast<double>(config.require_int({"max_position_embeddings"}));
    const double original = config.rope_float("original_max_position_embeddings", trained);
    notes.push_back("config.json: rope_scaling \"dynamic\" is not applied; output is worse beyond " +
                    std::to_string(static_cast<std::int64_t>(std::clamp(original, 0.0, trained))) +
                    " tokens");
  }
  const Type& type = type_of(params.type, weights);
  const std::vector<OutTensor> tensors = plan_tensors(weights, config, family, type.dtype, notes);

  const std::string architecture =
      architecture_of(family, std::any_of(tensors.begin(), tensors.end(), [](const OutTensor& tensor) {
                        return tensor.name.find("_exps.") != tensor.name.npos;
                      }));
  family.architecture = architecture;
  add_general(folder, architecture, type, file);
  add_metadata(modules, config, family, weights, tensors, file);
  add_vocabulary(folder, config, config.require_int({"vocab_size"}), params.pre_tokenizer, file, notes);
  if ((family.traits & kEncoder) != 0)
    file.set("tokenizer.ggml.token_type_count",
             static_cast<std::uint32_t>(config.get_int({"type_vocab_size"}).value_or(2)));
  ConvertResult result = write(tensors, architecture, type, to, params, file, true);
  result.notes = std::move(notes);
  return result;
}

}  // namespace weft
