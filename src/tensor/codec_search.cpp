#include "tensor/codec_search.h"

#include "tensor/lanes.h"

namespace weft::codec {
namespace {

template <std::size_t kSize>
WEFT_INLINE int nearest(const float* values, std::size_t n_entries, const float* x, const float* weights) {
  Lanes least = Lanes{} + INFINITY;
  IntLanes best{}, entry{};
  for (std::size_t i = 0; i < kLanes; ++i) entry[i] = static_cast<std::int32_t>(i);
  for (std::size_t e = 0; e < n_entries; e += kLanes) {
    Lanes error{};
    for (std::size_t i = 0; i < kSize; ++i) {
      Lanes value;
      load(value, values + i * n_entries + e);
      const Lanes difference = value - x[i];
      error += weights[i] * difference * difference;
    }
    const IntLanes nearer = error < least;
    least = nearer ? error : least;
    best = nearer ? entry : best;
    entry += static_cast<std::int32_t>(kLanes);
  }
  std::size_t lane = 0;
  for (std::size_t i = 1; i < kLanes; ++i)
    if (least[i] < least[lane] || (least[i] == least[lane] && best[i] < best[lane])) lane = i;
  return best[lane];
}

}  // namespace

WEFT_CLONES int nearest_of_4(const float* values, std::size_t n_entries, const float* x,
                             const float* weights) {
  return nearest<4>(values, n_entries, x, weights);
}
WEFT_CLONES int nearest_of_8(const float* values, std::size_t n_entries, const float* x,
                             const float* weights) {
  return nearest<8>(values, n_entries, x, weights);
}

}  // namespace weft::codec
