#version 460
#extension GL_GOOGLE_include_directive : require
// Sums, means, products, largest and smallest elements over axes. A workgroup makes kOutputs results, each with its share of the threads:
// one where elements of a result lie side by side, many where those of neighbouring results do. The order in which elements
// come together depends on nothing else. Tensors: x, out. Words: the walk over results, that over the elements of each, and how
// many those are.
#include "common.glsl"
#include "elementary.glsl"
#include "strided.glsl"
const uint kThreads = 128;
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint kKind = 0;  // As ReduceKind in graph/kinds.h.
layout(constant_id = 1) const uint kKeptAxes = 1;
layout(constant_id = 2) const uint kOverAxes = 1;
layout(constant_id = 3) const uint kOutputs = 1;
shared float values[kThreads];
shared uint places[kThreads];
const uint kLanes = kThreads / kOutputs;
const uint kSum = 0, kMean = 1, kMax = 2, kMin = 3, kArgmax = 4, kProd = 5;

float first_value() {
  if (kKind == kMin) return infinity();
  if (kKind == kProd) return 1.0;
  return kKind <= kMean ? 0.0 : -infinity();
}

// NaN precedes all numbers.
bool goes_before(float a, float b) {
  if (is_nan(a) || is_nan(b)) return is_nan(a) && !is_nan(b);
  return kKind == kMin ? a < b : a > b;
}

void join(inout float value, inout uint place, float other, uint other_place) {
  if (kKind <= kMean) {
    value += other;
  } else if (kKind == kProd) {
    value *= other;
  } else if (goes_before(other, value) || (other_place < place && !goes_before(value, other))) {
    value = other;
    place = other_place;
  }
}

// The rounding error of a sum goes into the next addition (Kahan), so the error of long sums is near zero.
void add_exactly(inout float sum, inout float lost, float x) {
  precise float y = x - lost;
  precise float next = sum + y;
  precise float more = (next - sum) - y;
  lost = is_nan(more) || is_infinite(more) ? 0.0 : more;  // After an infinity no error is kept.
  sum = next;
}

void main() {
  const uint over = walk_words(kKeptAxes, 1u), n_over = word(over + walk_words(kOverAxes, 1u));
  const uint t = gl_LocalInvocationID.x, lane = t / kOutputs;
  const uint n = n_rows();
  Floats x = floats(0);
  for (uint first = gl_WorkGroupID.x * kOutputs; first < n; first += n_groups().x * kOutputs) {
    const uint result = first + t % kOutputs;
    float value = first_value();
    uint place = 0xffffffffu;
    if (result < n) {
      const uint begin = place_of(0u, kKeptAxes, 0u, coordinates(0u, kKeptAxes, result));
      float lost = 0.0;
      for (uint i = lane; i < n_over; i += kLanes) {
        const float element = x.f[begin + place_of(over, kOverAxes, 0u, coordinates(over, kOverAxes, i))];
        if (kKind <= kMean) {
          add_exactly(value, lost, element);
        } else {
          join(value, place, element, i);
        }
      }
    }
    barrier();
    values[t] = value;
    places[t] = place;
    for (uint half_n = kLanes / 2u; half_n > 0u; half_n /= 2u) {
      barrier();
      if (lane < half_n) {
        join(value, place, values[t + half_n * kOutputs], places[t + half_n * kOutputs]);
        values[t] = value;
        places[t] = place;
      }
    }
    if (lane != 0u || result >= n) continue;
    if (kKind == kArgmax) {
      ints(1).i[result] = n_over == 0u ? 0 : int(place);
    } else {
      if (kKind == kMean) value = n_over == 0u ? no_number() : value / float(n_over);
      floats(1).f[result] = value;
    }
  }
}
