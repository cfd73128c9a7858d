#pragma once
// Files of NVFP4 and of some converters have a number beside a weight that its products are multiplied by, or
// one for each expert.
#include <string>

namespace weft::model {

/// NAME.scale, the tensor that may hold the factor of NAME.weight.
inline std::string factor_name(const std::string& weight) {
  return weight.substr(0, weight.rfind('.')) + ".scale";
}

}  // namespace weft::model
