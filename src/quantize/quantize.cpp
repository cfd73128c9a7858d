#include "weft/quantize.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "exec/search_pattern.h"
#include "gguf/file_types.h"
#include "gguf/gguf.h"
#include "gguf/limits.h"
#include "gguf/split.h"
#include "gguf/writer.h"
#include "quantize/importance.h"
#include "quantize/layer_choice.h"
#include "quantize/mixes.h"
#include "quantize/packer.h"
#include "quantize/source_file.h"
#include "weft/error.h"

namespace weft {
namespace {

using namespace quantize_impl;

/// The version of the block layouts. Writers state it, and readers know no other.
constexpr std::uint32_t kQuantizationVersion = 2;

constexpr std::string_view kKeptTypes = "COPY";  // In place of a mix's name.

const QuantizeMix& mix_of(const std::string& name) {
  if (const QuantizeMix* mix = find_quantize_mix(name)) return *mix;
  std::string known;
  for (const QuantizeMix& mix : quantize_mixes())
    known += (known.empty() ? "" : ", ") + std::string(mix.name);
  refuse("unknown quantization mix '" + name + "'; known are " + known);
}

ModelShape shape_of(const gguf::File& file) {
  const std::string architecture(file.get_string("general.architecture").value_or(""));
  // Some files have a number for each layer: the greatest is returned.
  const auto greatest = [&](const std::string& key) -> std::int64_t {
    const gguf::Value* const value = file.find(architecture + key);
    if (value == nullptr) return 0;
    if (value->type != gguf::ValueType::kArray) return file.get_int(architecture + key).value_or(0);
    const auto numbers = file.get_ints(architecture + key);
    return numbers && !numbers->empty() ? *std::max_element(numbers->begin(), numbers->end()) : 0;
  };
  ModelShape shape;
  shape.n_layers = static_cast<int>(std::clamp<std::int64_t>(greatest(".block_count"), 0, 1 << 20));
  const std::int64_t n_heads = greatest(".attention.head_count");
  const std::int64_t n_kv_heads = greatest(".attention.head_count_kv");
  if (n_heads > 0 && n_kv_heads > 0 && n_heads < 1 << 20)
    shape.n_heads_of_kv_head = static_cast<int>(n_heads / n_kv_heads);
  shape.n_experts = static_cast<int>(std::clamp<std::int64_t>(greatest(".expert_count"), 0, 1 << 20));
  shape.tied = file.find_tensor("output.weight") == nullptr;
  return shape;
}

/// A tensor that is kept.
struct Kept {
  const gguf::TensorInfo* tensor;
  QuantizedTensor to;
  std::size_t part = 0;  ///< Of the result.
};

class Plan {
 public:
  Plan(const gguf::File& file, const std::filesystem::path& from, const QuantizeParams& params)
      : params_(params),
        mix_(mix_of(params.mix)),
        shape_(shape_of(file)),
        layers_(file, params.left_out_layers) {
    shape_.n_layers -=
        static_cast<int>(std::set<int>(params.left_out_layers.begin(), params.left_out_layers.end()).size());
    for (const QuantizeRule& rule : params.rules) patterns_.emplace_back(rule.pattern);
    for (const QuantizeRule& rule : params.rules) check_weight_type(rule.type);
    if (params.output_type) check_weight_type(*params.output_type);
    if (params.embedding_type) check_weight_type(*params.embedding_type);
    if (!params.importance.empty()) importance_.emplace(params.importance);
    if (!params.important.empty() && !params.unimportant.empty())
      refuse("give either tensors to use the importance matrix for, or tensors not to use it for");
    choose(file, from);
  }

  const std::optional<ColumnImportance>& importance() const { return importance_; }
  const QuantizeMix& mix() const { return mix_; }
  const LayerChoice& layers() const { return layers_; }
  std::span<const Kept> kept() const { return kept_; }
  std::size_t n_parts() const { return n_parts_; }

  std::span<const float> columns_of(const gguf::TensorInfo& tensor) const {
    if (!importance_ || tensor.shape.size() < 2 || !uses_importance(tensor.name)) return {};
    const std::int64_t n_matrices = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
    return importance_->of(tensor.name, n_matrices, tensor.shape.back());
  }

  /// Notes about options without effect.
  std::vector<std::string> notes(const gguf::File& file) const {
    std::vector<std::string> notes;
    add_notes_of_rules(notes);
    if (importance_) {
      add_notes_of_words(params_.important, file, notes);
      add_notes_of_words(params_.unimportant, file, notes);
      add_notes_of_importance(file, notes);
    }
    return notes;
  }

 private:
  void add_notes_of_rules(std::vector<std::string>& notes) const {
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      bool fits = false, decides = false;
      for (const Kept& kept : kept_) {
        if (!takes_rules(*kept.tensor, kept.to.name)) continue;
        const std::optional<std::size_t> rule = rule_of(kept.to.name);
        decides = decides || rule == i;
        fits = fits || patterns_[i].found_in(kept.to.name);
      }
      if (!decides)
        notes.push_back(
            "the rule '" + params_.rules[i].pattern + "' " +
            (fits ? "has no effect: earlier rules match the same matrices" : "matches no matrix"));
    }
  }

  static void add_notes_of_words(const std::vector<std::string>& words, const gguf::File& file,
                                 std::vector<std::string>& notes) {
    for (const std::string& word : words)
      if (std::none_of(file.tensors().begin(), file.tensors().end(), [&](const gguf::TensorInfo& tensor) {
            return tensor.name.find(word) != std::string::npos;
          }))
        notes.push_back("no tensor's name contains '" + word +
                        "', which selects tensors for the importance matrix");
  }

  void add_notes_of_importance(const gguf::File& file, std::vector<std::string>& notes) const {
    std::vector<std::string> unknown;
    for (const std::string& name : importance_->tensors())
      if (file.find_tensor(name) == nullptr) unknown.push_back(name);
    if (!unknown.empty())
      notes.push_back("the importance matrix has " + list_of(unknown) + ", which this model lacks");
    std::vector<std::string> missing;
    for (const Kept& kept : kept_) {
      const bool is_packed = info(kept.to.to).kind == DTypeKind::kQuantised && kept.to.to != kept.to.from;
      // Importance matrix files have the head and the embeddings only on request.
      const bool expected = is_packed && kept.tensor->shape.size() >= 2 &&
                            uses_importance(kept.tensor->name) && !is_output(kept.to.name, shape_) &&
                            !is_embedding(kept.to.name);
      if (expected && columns_of(*kept.tensor).empty()) missing.push_back(kept.tensor->name);
    }
    if (!missing.empty())
      notes.push_back("the importance matrix lacks " + list_of(missing) +
                      ", where all columns get the same weight");
  }

  static std::string list_of(const std::vector<std::string>& names) {
    constexpr std::size_t kShown = 3;
    std::string text = std::to_string(names.size()) + (names.size() == 1 ? " tensor (" : " tensors (");
    for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
    return text + (names.size() > kShown ? ", ...)" : ")");
  }

  /// Chooses the tensors to keep, their names and their parts.
  void choose(const gguf::File& file, const std::filesystem::path& from) {
    std::vector<std::size_t> ends;  // The index after the last tensor of each part.
    if (params_.keep_split && file.n_parts() > 1)
      for (const gguf::Part& part : gguf::open_split_set(from).parts)
        ends.push_back((ends.empty() ? 0 : ends.back()) + part.tensors.size());
    std::size_t source_part = 0, last_part = 0;
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      while (source_part < ends.size() && i >= ends[source_part]) ++source_part;
      const gguf::TensorInfo& tensor = file.tensors()[i];
      const std::optional<std::string> name = layers_.name_of(tensor.name);
      if (!name) continue;
      // Parts without tensors are dropped.
      if (kept_.empty() || source_part != last_part) ++n_parts_;
      last_part = source_part;
      kept_.push_back({&tensor, of(tensor, *name), n_parts_ - 1});
    }
    n_parts_ = std::max<std::size_t>(n_parts_, 1);
  }

  bool uses_importance(const std::string& name) const {
    const auto has = [&](const std::string& part) { return name.find(part) != std::string::npos; };
    if (!params_.important.empty())
      return std::any_of(params_.important.begin(), params_.important.end(), has);
    return std::none_of(params_.unimportant.begin(), params_.unimportant.end(), has);
  }

  QuantizedTensor of(const gguf::TensorInfo& tensor, const std::string& name) const {
    QuantizedTensor result{.name = name, .shape = tensor.shape, .from = tensor.dtype};
    result.to = type_for(tensor, name);
    if (info(result.to).kind == DTypeKind::kQuantised && result.to != tensor.dtype) {
      const std::int64_t n_columns = tensor.shape.back();
      if (n_columns % info(result.to).block_elements != 0) result.wanted = result.to;
      while (n_columns % info(result.to).block_elements != 0) result.to = fallback(result.to);
      if (info(tensor.dtype).kind == DTypeKind::kQuantised && !params_.requantize)
        refuse(tensor.name + " is " + std::string(info(tensor.dtype).name) +
               " already, and quantizing it again loses more accuracy; use the F16, BF16 or F32 file, or "
               "allow it (--allow-requantize, or QuantizeParams::requantize in C++)");
    }
    const auto bytes = [&](DType type) {
      return static_cast<std::uint64_t>(tensor.n_elements() / info(type).block_elements) *
             static_cast<std::uint64_t>(info(type).block_bytes);
    };
    result.bytes_from = bytes(result.from);
    result.bytes_to = bytes(result.to);
    return result;
  }

  static bool takes_rules(const gguf::TensorInfo& tensor, const std::string& name) {
    return is_quantizable(name, tensor.shape.size()) && info(tensor.dtype).kind != DTypeKind::kInteger;
  }

  /// The first that fits.
  std::optional<std::size_t> rule_of(const std::string& name) const {
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      if (patterns_[i].found_in(name)) return i;
    return std::nullopt;
  }

  DType type_for(const gguf::TensorInfo& tensor, const std::string& name) const {
    if (!takes_rules(tensor, name)) return tensor.dtype;
    if (const std::optional<std::size_t> rule = rule_of(name)) return params_.rules[*rule].type;
    const bool output = is_output(name, shape_);
    if (params_.keep_output && output) return tensor.dtype;
    if (params_.output_type && output) return *params_.output_type;
    if (params_.embedding_type && is_embedding(name)) return *params_.embedding_type;
    if (params_.keep_types) return tensor.dtype;
    if (params_.pure) return mix_.type;
    return type_of(mix_, shape_, name, !columns_of(tensor).empty());
  }

  const QuantizeParams& params_;
  const QuantizeMix& mix_;
  ModelShape shape_;
  std::deque<exec::SearchPattern> patterns_;  // They do not move.
  std::optional<ColumnImportance> importance_;
  LayerChoice layers_;
  std::vector<Kept> kept_;
  std::size_t n_parts_ = 0;
};

std::vector<std::filesystem::path> files_of(const Plan& plan, const QuantizeParams& params,
                                            const std::filesystem::path& to) {
  if (!params.keep_split || plan.n_parts() == 1) return {to};
  std::string prefix = to.string();
  if (prefix.ends_with(".gguf")) prefix.resize(prefix.size() - std::string_view(".gguf").size());
  std::vector<std::filesystem::path> files;
  for (std::size_t i = 0; i < plan.n_parts(); ++i)
    files.emplace_back(gguf::split_file_name(prefix, static_cast<std::int64_t>(i),
                                             static_cast<std::int64_t>(plan.n_parts())));
  return files;
}

QuantizeResult result_of(const Plan& plan, const gguf::File& file, const QuantizeParams& params,
                         const std::filesystem::path& to) {
  QuantizeResult result{.mix = std::string(params.keep_types ? kKeptTypes : plan.mix().name)};
  std::uint64_t n_elements = 0;
  for (const Kept& kept : plan.kept()) {
    result.tensors.push_back(kept.to);
    result.bytes_from += kept.to.bytes_from;
    result.bytes_to += kept.to.bytes_to;
    n_elements += static_cast<std::uint64_t>(kept.tensor->n_elements());
  }
  if (n_elements > 0)
    result.bits_per_weight = 8.0 * static_cast<double>(result.bytes_to) / static_cast<double>(n_elements);
  if (!to.empty()) result.files = files_of(plan, params, to);
  result.notes = plan.notes(file);
  return result;
}

void write_change(const gguf::File& file, const MetadataChange& change, gguf::Writer& writer) {
  const auto& [key, value] = change;
  if (const auto* text = std::get_if<std::string>(&value)) return writer.set(key, *text);
  if (const auto* flag = std::get_if<bool>(&value)) return writer.set(key, *flag);
  if (const auto* number = std::get_if<double>(&value)) return writer.set(key, static_cast<float>(*number));
  const std::int64_t number = std::get<std::int64_t>(value);
  const gguf::Value* const old = file.find(key);
  if (old != nullptr && old->type == gguf::ValueType::kI32 && std::in_range<std::int32_t>(number))
    writer.set(key, static_cast<std::int32_t>(number));
  else if (std::in_range<std::uint32_t>(number))
    writer.set(key, static_cast<std::uint32_t>(number));
  else
    writer.set(key, number);
}

void write_metadata(const gguf::File& file, const Plan& plan, const QuantizeParams& params,
                    gguf::Writer& writer) {
  copy_metadata(file, writer);
  plan.layers().write_metadata(writer);
  for (const MetadataChange& change : params.metadata) write_change(file, change, writer);
  if (params.keep_types && params.rules.empty()) return;
  for (const gguf::FileType& type : gguf::file_types())
    if (type.name == plan.mix().name || (type.name == "MXFP4_MOE" && plan.mix().type == DType::kMXFP4))
      writer.set(gguf::kFileTypeKey, type.number);
  writer.set("general.quantization_version", kQuantizationVersion);
  if (!plan.importance()) return;
  const ColumnImportance& importance = *plan.importance();
  writer.set("quantize.imatrix.file", importance.path().filename().string());
  if (!importance.dataset().empty()) writer.set("quantize.imatrix.dataset", importance.dataset());
  writer.set("quantize.imatrix.entries_count", static_cast<std::uint32_t>(importance.size()));
  if (importance.n_chunks() > 0)
    writer.set("quantize.imatrix.chunks_count", static_cast<std::uint32_t>(importance.n_chunks()));
}

/// The writer of one part of the result.
gguf::Writer writer_of(const gguf::File& file, const Plan& plan, const QuantizeParams& params,
                       std::size_t part, Packer& packer) {
  gguf::Writer writer;
  if (part == 0)
    write_metadata(file, plan, params, writer);
  else
    copy_alignment(file, writer);
  if (plan.n_parts() > 1) {
    writer.set(gguf::kSplitNumberKey, static_cast<std::uint16_t>(part));
    writer.set(gguf::kSplitCountKey, static_cast<std::uint16_t>(plan.n_parts()));
    writer.set(gguf::kSplitTensorsKey, static_cast<std::int32_t>(plan.kept().size()));
  }
  for (const Kept& kept : plan.kept()) {
    if (kept.part != part) continue;
    writer.add_tensor(kept.to.name, kept.to.to, kept.to.shape,
                      [&packer, &plan, &kept](std::span<std::byte> out) {
                        packer.pack(*kept.tensor, kept.to.to, plan.columns_of(*kept.tensor), out);
                      });
  }
  return writer;
}

}  // namespace

QuantizeResult plan_quantize(const std::filesystem::path& from, const QuantizeParams& params,
                             const std::filesystem::path& to) {
  check_threads(params.n_threads);
  const gguf::File file = gguf::File::open(from);
  return result_of(Plan(file, from, params), file, params, to);
}

QuantizeResult quantize(const std::filesystem::path& from, const std::filesystem::path& to,
                        const QuantizeParams& params) {
  check_threads(params.n_threads);
  if (to.empty()) refuse("the result's file has no name");
  const gguf::File file = gguf::File::open(from);
  const Plan plan(file, from, params);
  QuantizeResult result = result_of(plan, file, params, to);
  for (const std::filesystem::path& path : result.files) {
    refuse_overwriting(file, from, path);
    std::error_code ignored;
    if (std::filesystem::equivalent(params.importance, path, ignored))
      refuse("the result would overwrite " + path.string() + ", the importance matrix; give it another name");
  }
  Packer packer(file, params.n_threads, result.bytes_from, params.progress);
  Written written;
  for (std::size_t part = 0; part < result.files.size(); ++part) {
    if (result.files.size() > 1 && std::filesystem::exists(result.files[part]))
      refuse(result.files[part].string() + " exists already; remove it, or choose another name");
    writer_of(file, plan, params, part, packer).write_file(result.files[part]);
    written.paths.push_back(result.files[part]);
  }
  written.all = true;
  return result;
}

}  // namespace weft
