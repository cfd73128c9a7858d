#pragma once
// Files of NVFP4 and of some converters have a factor next to a weight, for the weight's products: one
// number, or one for each expert.
#include <string>
#include <string_view>

namespace weft::model {

/// NAME.scale, the tensor that may hold the factor of NAME.weight.
inline std::string factor_name(const std::string& weight) {
  return weight.substr(0, weight.rfind('.')) + ".scale";
}

/// Whether a factor is of all that an expert makes: Gemma 4's router has one for each expert, whatever
/// adapters add to it. Elsewhere a factor is the matrix's own, and none of what adapters add to the matrix.
inline bool factor_is_of_outputs(std::string_view architecture, std::string_view weight) {
  return architecture == "gemma4" && weight.ends_with("ffn_down_exps.weight");
}

}  // namespace weft::model
