#pragma once
// What devices check before they read or write cells of a state (Device::read_cells, write_cells): a leader
// of another process names them, too.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "weft/error.h"

namespace weft {

inline void check_cells(std::span<const std::int32_t> cells, std::int64_t n_cells) {
  const auto bad = std::find_if(cells.begin(), cells.end(),
                                [&](std::int32_t cell) { return cell < 0 || cell >= n_cells; });
  if (bad != cells.end())
    throw Error(ErrorCode::kInvalidArgument, "cell " + std::to_string(*bad) +
                                                 " is asked for, the state has " + std::to_string(n_cells) +
                                                 " cells");
}

}  // namespace weft
