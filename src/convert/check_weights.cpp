#include "convert/check_weights.h"

#include <set>
#include <string>
#include <string_view>

#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "model/builder.h"
#include "model/family.h"
#include "weft/error.h"

namespace weft::convert_impl {
namespace {

/// A name without its layer's number: "blk.3.attn_q.bias" as "attn_q.bias". Empty for tensors of no layer.
std::string_view name_in_layer(std::string_view name) {
  const auto block = name.find("blk.");
  if (block == name.npos) return {};
  const auto dot = name.find('.', block + 4);
  return dot == name.npos ? std::string_view() : name.substr(dot + 1);
}

/// Biases are optional for a graph, so it does not miss one. A layer lacks a bias where it has the weight and
/// another layer has both.
void check_biases(const std::vector<OutTensor>& tensors) {
  constexpr std::string_view kWeight = ".weight", kBias = ".bias";
  std::set<std::string> all;
  std::set<std::string, std::less<>> biases;  // By their names within a layer.
  for (const OutTensor& tensor : tensors) {
    all.insert(tensor.name);
    if (const auto name = name_in_layer(tensor.name); name.ends_with(kBias)) biases.emplace(name);
  }
  for (const OutTensor& tensor : tensors) {
    std::string_view name = name_in_layer(tensor.name);
    if (!name.ends_with(kWeight)) continue;
    name.remove_suffix(kWeight.size());
    const std::string bias = tensor.name.substr(0, tensor.name.size() - kWeight.size()) + std::string(kBias);
    if (biases.contains(std::string(name) + std::string(kBias)) && !all.contains(bias))
      throw Error(ErrorCode::kInvalidFile,
                  "the folder lacks a weight: " + bias +
                      " is missing, but other layers have it; download the folder again");
  }
}

}  // namespace

void check_weights(const std::vector<OutTensor>& tensors, const GgufWriter& file) {
  const gguf::File planned = gguf_plan(file);
  const model::ModelDescription description = model::describe(planned);
  try {
    model::build_graph(planned, description, {});  // Building is the check.
  } catch (const Error& error) {
    throw Error(error.code(),
                "the weights in the folder do not form a complete model: " + std::string(error.what()));
  }
  check_biases(tensors);
}

}  // namespace weft::convert_impl
