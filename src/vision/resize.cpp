#include "vision/resize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/to_size.h"

namespace weft::vision {
namespace {

constexpr int kWeightBits = 22;

double reach(Filter filter) {
  switch (filter) {
    case Filter::kBilinear:
      return 1.0;
    case Filter::kBicubic:
      return 2.0;
    case Filter::kLanczos:
      return 3.0;
  }
  return 1.0;
}

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x); }

double weight(Filter filter, double x) {
  x = std::abs(x);
  if (x >= reach(filter)) return 0.0;
  switch (filter) {
    case Filter::kBilinear:
      return 1.0 - x;
    case Filter::kBicubic:  // Keys' with a = -1/2.
      return x < 1.0 ? (1.5 * x - 2.5) * x * x + 1.0 : ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0;
    case Filter::kLanczos:
      return sinc(x) * sinc(x / 3.0);
  }
  return 0.0;
}

/// The source pixels and weights of one result pixel.
struct Taps {
  int first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> make_taps(int n_from, int n_to, Filter filter) {
  std::vector<Taps> all(to_size(n_to));
  const double scale = static_cast<double>(n_from) / n_to;
  const double stretch = std::max(scale, 1.0);
  const double support = reach(filter) * stretch;
  std::vector<double> weights;
  for (int to = 0; to < n_to; ++to) {
    const double center = (to + 0.5) * scale;
    const int first = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), n_from);
    weights.clear();
    double sum = 0.0;
    for (int from = first; from < end; ++from) {
      weights.push_back(weight(filter, (from - center + 0.5) / stretch));
      sum += weights.back();
    }
    Taps& taps = all[to_size(to)];
    taps.first = first;
    for (const double w : weights)
      taps.weights.push_back(static_cast<std::int32_t>(std::round(w / sum * (1 << kWeightBits))));
  }
  return all;
}

std::uint8_t to_byte(std::int64_t sum) {
  return static_cast<std::uint8_t>(
      std::clamp<std::int64_t>((sum + (1 << (kWeightBits - 1))) >> kWeightBits, 0, 255));
}

/// Weighted sums of bytes with a stride of `stride`.
std::uint8_t take(const Taps& taps, const std::uint8_t* from, std::size_t stride) {
  std::int64_t sum = 0;
  from += to_size(taps.first) * stride;
  for (const std::int32_t w : taps.weights) {
    sum += std::int64_t{w} * *from;
    from += stride;
  }
  return to_byte(sum);
}

Image resize_rows(const Image& image, int width, Filter filter) {
  const std::vector<Taps> taps = make_taps(image.width, width, filter);
  Image result{width, image.height, std::vector<std::uint8_t>(3 * to_size(width) * to_size(image.height))};
  std::uint8_t* to = result.rgb.data();
  for (int y = 0; y < image.height; ++y) {
    const std::uint8_t* row = image.rgb.data() + 3 * to_size(y) * to_size(image.width);
    for (const Taps& one : taps)
      for (std::size_t c = 0; c < 3; ++c) *to++ = take(one, row + c, 3);
  }
  return result;
}

Image resize_columns(const Image& image, int height, Filter filter) {
  const std::vector<Taps> taps = make_taps(image.height, height, filter);
  const std::size_t stride = 3 * to_size(image.width);
  Image result{image.width, height, std::vector<std::uint8_t>(stride * to_size(height))};
  std::uint8_t* to = result.rgb.data();
  for (const Taps& one : taps)
    for (std::size_t x = 0; x < stride; ++x) *to++ = take(one, image.rgb.data() + x, stride);
  return result;
}

}  // namespace

Image resize(const Image& image, int width, int height, Filter filter) {
  Image result = width == image.width ? image : resize_rows(image, width, filter);
  if (height != result.height) result = resize_columns(result, height, filter);
  return result;
}

}  // namespace weft::vision
