// Elements that operands walk with strides. The words after a launch's dispatch (struct Launch) depend on the step's sizes. First
// come the sizes of a shape, outermost first. Then come the place of the first element and the strides of each operand. Axes
// are merged before, so most walks have one or two.
uint word(uint i) { return Words(push.step).w[4u + i]; }

uint walk_words(uint axes, uint operands) { return axes + operands * (1u + axes); }

// Element i of the shape whose words begin at `walk`: its index along each axis. The compiler knows `axes`.
uvec4 coordinates(uint walk, uint axes, uint i) {
  uvec4 at = uvec4(0u);
  if (axes > 3u) {
    const uint size = word(walk + 3u);
    at.w = i % size;
    i /= size;
  }
  if (axes > 2u) {
    const uint size = word(walk + 2u);
    at.z = i % size;
    i /= size;
  }
  if (axes > 1u) {
    const uint size = word(walk + 1u);
    at.y = i % size;
    i /= size;
  }
  at.x = i;
  return at;
}

// The place of that element in an operand.
uint place_of(uint walk, uint axes, uint operand, uvec4 at) {
  const uint first = walk + axes + operand * (1u + axes);
  uint place = word(first);
  if (axes > 0u) place += at.x * word(first + 1u);
  if (axes > 1u) place += at.y * word(first + 2u);
  if (axes > 2u) place += at.z * word(first + 3u);
  if (axes > 3u) place += at.w * word(first + 4u);
  return place;
}
