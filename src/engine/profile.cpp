#include "weft/profile.h"

#include <algorithm>

namespace weft {

double Profile::bytes() const {
  double sum = 0.0;
  for (const Work& w : work) sum += w.bytes;
  return sum;
}

double Profile::multiply_adds() const {
  double sum = 0.0;
  for (const Work& w : work) sum += w.multiply_adds;
  return sum;
}

double MachineLimits::least_seconds(double bytes, double multiply_adds) const {
  return std::max(bytes / read_bytes_per_second, multiply_adds / multiply_adds_per_second);
}

}  // namespace weft
