#pragma once
// A request as the batcher keeps it: checked parameters, the prompt, and limits that follow from both.
#include <chrono>
#include <vector>

#include "engine/batching/text_origin.h"
#include "weft/batcher.h"

namespace weft::engine {

using Clock = std::chrono::steady_clock;

inline double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// Shared by its streams, which do not change it.
struct Request {
  RequestId id = 0;
  RequestParams params;
  TextOrigin origin;
  std::vector<Token> prompt;  ///< The prompt; for encoder-decoder models, the decoder's first token.
  int max_text = 0;           ///< Maximum tokens of prompt and completion together.
  Pos n_skipped = 0;          ///< Positions that the prompt's parts skip.
  Clock::time_point submitted;
};

}  // namespace weft::engine
