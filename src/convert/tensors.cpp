#include "convert/tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numbers>
#include <set>
#include <tuple>
#include <utility>

#include "base/counted.h"
#include "base/to_size.h"
#include "convert/arrange.h"
#include "convert/place.h"
#include "convert/refuse.h"
#include "tensor/codec.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

using Shape = std::vector<std::int64_t>;

class Planner {
 public:
  Planner(const Config& config, const Family& family, DType type)
      : config_(config), family_(family), type_(type) {}

  void add(const std::string& full, const Source& source) {
    if (is_left_out(full, family_)) return;
    const Place place = place_of(full, family_);
    check_source(full, source, 4);
    std::vector<Part>& parts = found_[{place.block, place.layer, place.name}];
    parts.push_back({place.expert, place.joined, full, &source});
  }

  std::vector<OutTensor> finish(std::vector<std::string>& notes) {
    const std::int64_t n_layers = config_.require_int({"num_hidden_layers"});
    const bool has_head =
        found_.contains({"blk", -1, "output.weight"}) || found_.contains({"enc.blk", -1, "output.weight"});
    // T5's classes tie the weights if a file has only one of them. The field scale_decoder_outputs says
    // whether they were tied.
    const bool said = config_.get_bool("tie_word_embeddings", false);
    const bool both_sides = (family_.traits & kBothSides) != 0;
    bool tied = has_head && (both_sides ? config_.get_bool("scale_decoder_outputs", said) : said);
    if (tied && !both_sides && head_differs()) {
      tied = false;
      notes.emplace_back(
          "config.json: tie_word_embeddings is true, but lm_head.weight differs from the embeddings; weft "
          "uses "
          "lm_head.weight, as llama.cpp and transformers 5 do. transformers 4 and vLLM use the embeddings: "
          "remove lm_head.weight for that");
    }
    // With a nested configuration, the classes use the outer field, which config_ may not have.
    const bool lacks_head = !has_head && !both_sides && (family_.traits & kEncoder) == 0;
    if (lacks_head && !config_.get_bool("tie_word_embeddings", true) &&
        config_.find({"text_config"}) == nullptr)
      notes.emplace_back(
          "config.json: tie_word_embeddings is false, but the folder has no output head (lm_head.weight); "
          "the matrix of the embeddings is the head, as with true");
    std::map<std::pair<std::string, std::int64_t>, int> n_of_layer;
    const auto last_of = [&](const std::string& block) {
      return block == "dec.blk" ? config_.get_int({"num_decoder_layers"}).value_or(n_layers) : n_layers;
    };
    std::set<std::int64_t> left_out;
    for (auto& [key, parts] : found_) {
      const auto& [block, layer, name] = key;
      if (layer >= last_of(block)) {  // Layers that only predict further tokens.
        left_out.insert(layer);
        continue;
      }
      ++n_of_layer[{block, layer}];
      if (tied && name == "output.weight") continue;
      add_tensor((layer < 0 ? "" : block + "." + std::to_string(layer) + ".") + name, name, parts);
    }
    std::vector<std::string> blocks = {"blk"};
    if ((family_.traits & kBothSides) != 0) blocks = {"enc.blk"};
    if (family_.architecture == "t5") blocks.emplace_back("dec.blk");
    for (const std::string& block : blocks)
      for (std::int64_t layer = 0; layer < last_of(block); ++layer)
        if (n_of_layer[{block, layer}] == 0)
          throw Error(ErrorCode::kInvalidFile, "layer " + std::to_string(layer) + " of " +
                                                   std::to_string(last_of(block)) + " has no tensors");
    check_embeddings();
    add_rope_factors();
    if (const auto n = static_cast<std::int64_t>(left_out.size());
        n > config_.get_int({"num_nextn_predict_layers"}).value_or(0))
      notes.push_back("left out " + base::counted(n, "layer") + ": config.json's num_hidden_layers is " +
                      std::to_string(n_layers));
    return std::move(tensors_);
  }

 private:
  /// Whether the output head has the shape of the embeddings and other values.
  bool head_differs() const {
    const auto source_of = [&](const char* name) {
      const auto found = found_.find({"blk", -1, name});
      return found == found_.end() ? nullptr : found->second.front().source;
    };
    const Source* const sources[] = {source_of("output.weight"), source_of("token_embd.weight")};
    if (sources[0] == nullptr || sources[1] == nullptr || sources[0]->shape != sources[1]->shape ||
        sources[0]->shape.empty())
      return false;
    const std::int64_t n_columns = sources[0]->shape.back();
    if (n_columns == 0) return false;
    std::vector<float> rows[2];
    std::vector<std::byte> bytes;
    for (std::int64_t row = 0; row < sources[0]->n_elements() / n_columns; ++row) {
      for (std::size_t i = 0; i < 2; ++i) {
        const DType type = *sources[i]->dtype;
        rows[i].resize(to_size(n_columns));
        bytes.resize(row_bytes(type, n_columns));
        sources[i]->read(row * (n_columns / info(type).block_elements), bytes);
        unpack_row(type, bytes.data(), rows[i]);
      }
      if (rows[0] != rows[1]) return true;
    }
    return false;
  }

  struct Part {
    std::int64_t expert;
    bool joined;
    std::string full;
    const Source* source;
  };

  void add_tensor(const std::string& full, const std::string& name, std::vector<Part>& parts) {
    std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.expert < b.expert; });
    OutTensor tensor{.name = full, .shape = parts.front().source->shape};
    if (tensor.shape.empty()) tensor.shape = {1};
    const Part& first = parts.front();
    const bool stacked = first.expert >= 0 && !first.joined;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Source& source = *parts[i].source;
      // T5's table has two names.
      if (name == "token_embd.weight" && i > 0) break;
      if (parts[i].expert != (first.expert >= 0 ? static_cast<std::int64_t>(i) : -1) ||
          (first.expert < 0 && i > 0))
        refuse_tensor(parts[i].full,
                      first.expert >= 0 ? "has no expert before it" : "occurs under several names");
      Shape shape = source.shape;
      if (first.joined && i > 0 && !shape.empty() && !first.source->shape.empty()) {
        tensor.shape.front() += shape.front();
        shape.front() = first.source->shape.front();
      }
      if (shape != first.source->shape || source.dtype != first.source->dtype)
        refuse_tensor(parts[i].full, "has another shape or type than that of the first expert");
      tensor.views.emplace_back(source);
    }
    if (stacked) {
      if (const auto n = config_.get_int(kExperts);
          n && name.find("_exps.") != name.npos && to_size(*n) != parts.size())
        refuse_tensor(parts.back().full, "is the last of " + std::to_string(parts.size()) +
                                             " experts, but config.json says " + std::to_string(*n));
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(parts.size()));
    }
    const bool norm = name.find("norm") != name.npos;
    if ((family_.traits & kNormsPlusOne) != 0 && norm && name.ends_with(".weight") &&
        !name.starts_with("ssm_norm"))
      tensor.add = 1.0f;
    bool vector = norm || name.ends_with(".bias");
    for (const std::string_view part : {"ffn_gate_inp", "position_embd", "token_types", "ssm_conv1d",
                                        "shortconv.conv", "ssm_a", "ssm_d.", "altup_", "attn_rel_b"})
      vector |= name.starts_with(part) && name != "ssm_alpha.weight";
    for (OutTensor& out : arrange(std::move(tensor), config_, family_)) {
      if (!vector && out.shape.size() > 1 && name != "ssm_d") out.type = type_;
      // Data that is quantised in one of GGUF's types stays as it is.
      const DType stored = out.views.empty() ? DType::kF32 : *out.views.front().source->dtype;
      if (info(stored).kind == DTypeKind::kQuantised) out.type = stored;
      if (info(out.type).block_elements > 1 && out.shape.back() % info(out.type).block_elements != 0)
        out.type = DType::kF16;
      tensors_.push_back(std::move(out));
    }
  }

  void check_embeddings() const {
    for (const OutTensor& tensor : tensors_) {
      if (tensor.name != "token_embd.weight") continue;
      const Shape expected = {config_.require_int({"vocab_size"}), config_.require_int({"hidden_size"})};
      if (tensor.shape != expected)
        refuse_tensor(tensor.views.front().source->name,
                      "has another shape than config.json's vocab_size " + std::to_string(expected[0]) +
                          " and hidden_size " + std::to_string(expected[1]) + " say");
      return;
    }
    throw Error(ErrorCode::kInvalidFile, "the folder has no token embeddings");
  }

  /// Llama 3's scaling and LongRope's are factors of frequencies.
  void add_rope_factors() {
    const std::string kind = config_.rope_type();
    if (kind == "llama3") add_llama3_factors();
    if (kind == "proportional") add_still_pairs();
    if (kind != "longrope" && kind != "su") return;
    for (const char* length : {"long", "short"}) {
      const std::string key = std::string(length) + "_factor";
      const Json* const list = find(config_.rope(), key.c_str());
      if (list == nullptr || !list->is_array() || list->empty())
        throw Error(ErrorCode::kInvalidFile, "config.json: rope's " + key + " is not a list");
      OutTensor factors{.name = "rope_factors_" + std::string(length) + ".weight", .shape = {}};
      for (const Json& factor : *list) {
        if (!factor.is_number())
          throw Error(ErrorCode::kInvalidFile, "config.json: " + key + " is not a list of numbers");
        factors.values.push_back(factor.get<float>());
      }
      factors.shape = {static_cast<std::int64_t>(factors.values.size())};
      tensors_.push_back(std::move(factors));
    }
  }

  /// Partial rotation with the angles of whole heads: a factor of kStill practically stops the other pairs.
  void add_still_pairs() {
    constexpr float kStill = 1e30f;
    const auto of_head = [&](const OutTensor& tensor) {
      return tensor.name.ends_with(".attn_q_norm.weight") ? tensor.n_rows() : 0;
    };
    std::int64_t dim = 0;
    for (const OutTensor& tensor : tensors_) dim = std::max(dim, of_head(tensor));
    const double part = config_.rope_float("partial_rotary_factor", 1.0);
    const double factor = config_.rope_float("factor", 1.0);
    if (dim < 2 || !(part >= 0.0 && part <= 1.0) || !(factor > 0.0))
      refuse_config("rope's partial_rotary_factor or factor is out of range");
    OutTensor factors{.name = "rope_freqs.weight", .shape = {dim / 2}};
    factors.values.assign(to_size(dim / 2), kStill);
    const auto n = static_cast<std::int64_t>(part * static_cast<double>(dim) / 2.0);
    std::fill_n(factors.values.begin(), n, static_cast<float>(factor));
    tensors_.push_back(std::move(factors));
  }

  void add_llama3_factors() {
    const double base = config_.rope_float("rope_theta", config_.get_float({"rope_theta"}).value_or(10000.0));
    const double factor = config_.rope_float("factor", 8.0);
    const double low = config_.rope_float("low_freq_factor", 1.0);
    const double high = config_.rope_float("high_freq_factor", 4.0);
    const double n_original = config_.rope_float("original_max_position_embeddings", 8192.0);
    const std::int64_t dim = config_.rope_dim();
    OutTensor factors{.name = "rope_freqs.weight", .shape = {dim / 2}};
    for (std::int64_t i = 0; i < dim / 2; ++i) {
      const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const double turns = n_original * frequency / (2.0 * std::numbers::pi);
      const double smooth = (turns - low) / (high - low);
      const double value = turns > high  ? 1.0
                           : turns < low ? factor
                                         : 1.0 / ((1.0 - smooth) / factor + smooth);
      factors.values.push_back(static_cast<float>(value));
    }
    tensors_.push_back(std::move(factors));
  }

  const Config& config_;
  const Family& family_;
  const DType type_;
  std::map<std::tuple<std::string, std::int64_t, std::string>, std::vector<Part>> found_;
  std::vector<OutTensor> tensors_;
};

}  // namespace

std::int64_t OutTensor::n_rows() const {
  std::int64_t n = shape.front();
  for (std::size_t i = 1; i + 1 < shape.size(); ++i) n *= shape[i];
  return n;
}

std::vector<OutTensor> plan_tensors(const FolderWeights& weights, const Config& config, const Family& family,
                                    DType type, std::vector<std::string>& notes) {
  Planner planner(config, family, type);
  for (const auto& [name, source] : weights.all()) planner.add(name, source);
  return planner.finish(notes);
}

void check_blocks(const OutTensor& tensor) {
  for (const View& view : tensor.views) {
    const DTypeInfo& type = info(*view.source->dtype);
    const std::int64_t n = type.block_elements;
    if (n > 1 &&
        (tensor.shape.size() < 2 || view.sizes.back() * n != tensor.shape.back() || view.strides.back() != 1))
      refuse_tensor(view.source->name, "is stored in quantized blocks (" + std::string(type.name) +
                                           "), which weft does not support for this tensor");
  }
}

void fill_tensor(const OutTensor& tensor, std::span<std::byte> bytes) {
  if (tensor.views.empty()) {
    std::memcpy(bytes.data(), tensor.values.data(), bytes.size());
    return;
  }
  const DType stored = *tensor.views.front().source->dtype;
  const auto n_columns = to_size(tensor.n_columns());
  const std::size_t row_in = row_bytes(stored, tensor.n_columns());
  const std::size_t row_out = row_bytes(tensor.type, tensor.n_columns());
  std::vector<float> values(n_columns);
  std::vector<std::byte> row;  // The beginning of one whose rest is yet to come.
  std::byte* out = bytes.data();
  for (const View& view : tensor.views) {
    const bool as_it_is = stored == tensor.type && tensor.add == 0.0f && view.scale == 1.0f && !tensor.decay;
    view.read([&](std::span<const std::byte> part) {
      while (!part.empty()) {
        const std::byte* from = part.data();
        std::size_t taken = row_in;
        if (!row.empty() || part.size() < row_in) {
          taken = std::min(row_in - row.size(), part.size());
          row.insert(row.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(taken));
          from = row.data();
        }
        part = part.subspan(taken);
        if (from == row.data() && row.size() < row_in) return;
        if (as_it_is) {
          std::memcpy(out, from, row_out);
        } else {
          unpack_row(stored, from, values);
          for (float& value : values) {
            value = value * view.scale + tensor.add;
            if (tensor.decay) value = -std::exp(value);
          }
          pack_row(tensor.type, values, out);
        }
        out += row_out;
        row.clear();
      }
    });
  }
}

}  // namespace weft::convert_impl
