#include "vision/family.h"

#include <string>

#include "weft/error.h"

namespace weft::vision {

std::span<const Family> families() {
  static const Family kFamilies[] = {kGemma3, kIdefics3, kPixtral, kQwen2Vl, kQwen25Vl, kQwen3Vl};
  return kFamilies;
}

const Family& find_family(std::string_view projector) {
  std::string known;
  for (const Family& family : families()) {
    if (family.projector == projector) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.projector);
  }
  throw Error(ErrorCode::kUnsupported,
              "clip.projector_type is \"" + std::string(projector.substr(0, 64)) + "\"; known are " + known);
}

}  // namespace weft::vision
