#include "weft/profile.h"

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

}  // namespace weft
