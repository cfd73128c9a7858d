#include "quantize/layer_choice.h"

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <vector>

#include "base/to_size.h"
#include "weft/error.h"

namespace weft::quantize_impl {
namespace {

constexpr std::string_view kLayerPrefix = "blk.";

}  // namespace

LayerChoice::LayerChoice(const gguf::File& file, std::span<const int> left_out) : file_(file) {
  if (left_out.empty()) return;
  architecture_ = file.get_string("general.architecture").value_or("");
  n_layers_ = file.get_int(architecture_ + ".block_count").value_or(0);
  for (const int layer : left_out)
    if (layer < 0 || layer >= n_layers_)
      throw Error(ErrorCode::kInvalidArgument, "layer " + std::to_string(layer) +
                                                   " cannot be removed: the model has layers 0 to " +
                                                   std::to_string(n_layers_ - 1));
  // In a damaged file the number may have any value.
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    std::int64_t layer = -1;
    const std::string& name = tensor.name;
    if (!name.starts_with(kLayerPrefix)) continue;
    std::from_chars(name.data() + kLayerPrefix.size(), name.data() + name.size(), layer);
    if (layer >= 0 && layer < n_layers_ &&
        std::find(left_out.begin(), left_out.end(), layer) == left_out.end())
      kept_.emplace(layer, 0);
  }
  if (kept_.empty()) throw Error(ErrorCode::kInvalidArgument, "all layers would be removed");
  std::int64_t next = 0;
  for (auto& [layer, number] : kept_) number = next++;
}

std::optional<std::string> LayerChoice::name_of(const std::string& tensor) const {
  if (kept_.empty() || !tensor.starts_with(kLayerPrefix)) return tensor;
  std::int64_t layer = -1;
  const char* const end = tensor.data() + tensor.size();
  const auto [rest, error] = std::from_chars(tensor.data() + kLayerPrefix.size(), end, layer);
  if (error != std::errc{} || rest == end || *rest != '.') return tensor;
  const auto kept = kept_.find(layer);
  if (kept == kept_.end()) return std::nullopt;
  return std::string(kLayerPrefix) + std::to_string(kept->second) + std::string(rest, end);
}

void LayerChoice::write_metadata(gguf::Writer& writer) const {
  if (kept_.empty()) return;
  writer.set(architecture_ + ".block_count", static_cast<std::uint32_t>(kept_.size()));
  const auto of_kept = [&](const auto& all) {
    std::remove_cvref_t<decltype(all)> kept;
    for (const auto& [layer, number] : kept_) kept.push_back(all[to_size(layer)]);
    return kept;
  };
  for (const gguf::File::Entry& entry : file_.metadata()) {
    const auto* const array = std::get_if<gguf::Array>(&entry.value.data);
    if (array == nullptr || !entry.key.starts_with(architecture_ + ".") ||
        static_cast<std::int64_t>(array->size()) != n_layers_)
      continue;
    if (array->element_type == gguf::ValueType::kBool) {
      writer.set_array(entry.key, of_kept(*file_.get_bools(entry.key)));
    } else if (std::holds_alternative<gguf::Numbers<double>>(array->elements)) {
      const std::vector<double> numbers = of_kept(*file_.get_floats(entry.key));
      writer.set_array(entry.key, std::vector<float>(numbers.begin(), numbers.end()));
    } else if (!std::holds_alternative<std::vector<std::string>>(array->elements) &&
               !std::holds_alternative<std::vector<gguf::Value>>(array->elements)) {
      const std::vector<std::int64_t> numbers = of_kept(*file_.get_ints(entry.key));
      writer.set_array(entry.key, std::vector<std::int32_t>(numbers.begin(), numbers.end()));
    }
  }
}

}  // namespace weft::quantize_impl
