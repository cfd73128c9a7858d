#pragma once
#include <string>

#include "weft/error.h"

namespace weft::engine {

[[noreturn]] inline void refuse(const std::string& reason) {
  throw Error(ErrorCode::kInvalidArgument, reason);
}

}  // namespace weft::engine
