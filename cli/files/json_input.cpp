#include "files/json_input.h"

#include "base/json.h"
#include "weft/error.h"

namespace weft::cli {

Json parse_json(std::string_view text) {
  try {
    return base::parse_json<Json>(text);
  } catch (const base::JsonError& error) {
    throw Error(ErrorCode::kInvalidFile, error.what());
  }
}

}  // namespace weft::cli
