// Sine and cosine of angles, given as fractions of a turn in 64 bits: whole turns overflow and vanish. (GPUs' own sin is
// good to 2^-11.)

// Cosine and sine of an angle in radians, at most an eighth of a turn.
vec2 cos_sin_near_zero(float a) {
  const float a2 = a * a;
  const float s = a * (1.0 + a2 * (-1.0 / 6.0 + a2 * (1.0 / 120.0 + a2 * (-1.0 / 5040.0 + a2 / 362880.0))));
  const float c = 1.0 + a2 * (-0.5 + a2 * (1.0 / 24.0 + a2 * (-1.0 / 720.0 + a2 * (1.0 / 40320.0))));
  return vec2(c, s);
}

vec2 cos_sin_of_turns(uint64_t turns) {
  // The nearest quarter turn, and the remainder in [-1/8, 1/8) of a turn.
  const uint high = uint(turns >> 32) + 0x20000000u;
  const uint quarter = high >> 30;
  const int rest = int(high & 0x3fffffffu) - 0x20000000;
  const vec2 near = cos_sin_near_zero(float(rest) * (6.283185307179586 / 4294967296.0));
  if (quarter == 0u) return near;
  if (quarter == 1u) return vec2(-near.y, near.x);
  if (quarter == 2u) return -near;
  return vec2(near.y, -near.x);
}

// For the angle position * frequency: the product is exact at any position.
vec2 cos_sin(uint64_t frequency, int position) { return cos_sin_of_turns(frequency * uint64_t(int64_t(position))); }

vec2 turned(vec2 x, vec2 turn) { return vec2(x.x * turn.x - x.y * turn.y, x.y * turn.x + x.x * turn.y); }

// The places in a head of the four elements of unit u: two pairs that turn, or elements that do not turn.
uvec2 two_pairs(uint u, uint half_rot, bool neox) {
  const bool apart = neox && u < half_rot / 2u;
  return apart ? uvec2(2u * u, 2u * u + half_rot) : uvec2(4u * u, 4u * u + 2u);
}
void turn_two_pairs(bool neox, vec2 first, vec2 second, inout vec2 a, inout vec2 b) {
  if (neox) {
    const vec2 p = turned(vec2(a.x, b.x), first), q = turned(vec2(a.y, b.y), second);
    a = vec2(p.x, q.x);
    b = vec2(p.y, q.y);
  } else {
    a = turned(a, first);
    b = turned(b, second);
  }
}
