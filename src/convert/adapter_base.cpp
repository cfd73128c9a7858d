#include "convert/adapter_base.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/counted.h"
#include "convert/refuse.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

// Matrices of layers that read rows of the model's width, and matrices that write them.
constexpr std::array<std::string_view, 6> kReadRows = {"attn_q.weight",   "attn_k.weight",   "attn_v.weight",
                                                       "attn_qkv.weight", "ffn_gate.weight", "ffn_up.weight"};
constexpr std::array<std::string_view, 2> kWriteRows = {"attn_output.weight", "ffn_down.weight"};

std::string text_of(std::int64_t rows, std::int64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

std::string text_of(const Source& tensor) { return text_of(tensor.shape[0], tensor.shape[1]); }

}  // namespace

AdapterBase::AdapterBase(const FolderWeights* weights, const Config& config, const Family& family) {
  n_layers_ = config.get_int({"num_hidden_layers"});
  width_ = config.get_int({"hidden_size"});
  if (weights == nullptr) return;
  for (const auto& [name, source] : weights->all()) {
    if (is_left_out(name, family)) continue;
    try {
      const Place place = place_of(name, family);
      const bool inputs_first = (family.traits & kInputsFirst) != 0 && place.layer >= 0;
      std::vector<std::int64_t> shape = source.shape;
      if (shape.size() != 2) shape.clear();
      if (inputs_first) std::reverse(shape.begin(), shape.end());
      shapes_[key_of(place)] = std::move(shape);
    } catch (const Error&) {  // Converting the base model names it.
    }
  }
  // A head that shares the embeddings' matrix has its shape.
  const auto embeddings = shapes_.find(key_of({.name = "token_embd.weight"}));
  if (embeddings != shapes_.end()) shapes_.try_emplace(key_of({.name = "output.weight"}), embeddings->second);
}

void AdapterBase::check_pair(const std::string& matrix, const Place& place, const Source& a,
                             const Source& b) const {
  const std::int64_t rank = a.shape[0];
  const auto check = [&](std::int64_t n_out, std::int64_t n_in) {
    for (const auto& [tensor, rows, columns] : {std::tuple(&a, rank, n_in < 0 ? a.shape[1] : n_in),
                                                std::tuple(&b, n_out < 0 ? b.shape[0] : n_out, rank)})
      if (tensor->shape[0] != rows || tensor->shape[1] != columns)
        refuse_tensor(tensor->name, "has the shape " + text_of(*tensor) + ", expected " +
                                        text_of(rows, columns) + " for " + matrix.substr(0, 120) +
                                        " of the base model" +
                                        (n_in >= 0 && n_out >= 0 ? ", " + text_of(n_out, n_in) : "") +
                                        "; the adapter was trained for another model");
  };
  if (place.block == "blk" && n_layers_ && place.layer >= *n_layers_)
    refuse_tensor(a.name, "adapts layer " + std::to_string(place.layer) + ", the base model has " +
                              base::counted(*n_layers_, "layer") +
                              "; the adapter was trained for another model");
  if (!shapes_.empty()) {
    const auto found = shapes_.find(key_of(place));
    if (found == shapes_.end() && place.expert < 0 && !place.joined)
      refuse_tensor(a.name, "adapts " + matrix.substr(0, 120) + ", which the base model does not have");
    if (found != shapes_.end() && !found->second.empty()) check(found->second[0], found->second[1]);
    return;
  }
  if (!width_ || place.layer < 0 || place.expert >= 0) return;
  if (std::ranges::find(kReadRows, place.name) != kReadRows.end()) check(-1, *width_);
  if (std::ranges::find(kWriteRows, place.name) != kWriteRows.end()) check(*width_, -1);
}

}  // namespace weft::convert_impl
