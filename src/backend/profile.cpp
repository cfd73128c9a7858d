#include "weft/profile.h"

namespace weft {

MultiplyAdds& MultiplyAdds::operator+=(const MultiplyAdds& other) {
  int8 += other.int8;
  f32 += other.f32;
  bf16 += other.bf16;
  return *this;
}

double Profile::bytes() const {
  double sum = 0.0;
  for (const Work& w : work) sum += w.bytes;
  return sum;
}

MultiplyAdds Profile::multiply_adds() const {
  MultiplyAdds sum;
  for (const Work& w : work) sum += w.multiply_adds;
  return sum;
}

}  // namespace weft
