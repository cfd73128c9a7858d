#include "engine/sampling/best.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft::engine {

void find_best(std::span<const float> logits, std::span<Best> best) {
  std::fill(best.begin(), best.end(), Best{std::numeric_limits<Token>::max(), kLowest});
  for (std::size_t begin = 0; begin < logits.size(); begin += kLogitBlock) {
    const std::span<const float> block = logits.subspan(begin, std::min(kLogitBlock, logits.size() - begin));
    const float least = best.back().logit;
    bool any = false;
    for (const float logit : block) any |= !(logit < least);
    if (!any) continue;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const Best entry = {static_cast<Token>(begin + i), std::isnan(block[i]) ? kLowest : block[i]};
      if (!goes_before(entry, best.back())) continue;
      best.back() = entry;
      for (std::size_t at = best.size() - 1; at > 0 && goes_before(best[at], best[at - 1]); --at)
        std::swap(best[at], best[at - 1]);
    }
  }
}

}  // namespace weft::engine
