#include "spectrogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>

#include "wav.h"

namespace whisper {
namespace {

using weft::Value;

constexpr int kTransform = 400;            // Samples of a frame: 25 ms.
constexpr int kBins = kTransform / 2 + 1;  // Frequencies from 0 to half the sample rate.
// Samples come in rows, of which a frame has 5 and the next frame begins 2 later.
constexpr int kRow = 80, kRowsOfFrame = kTransform / kRow, kRowsOfHop = kHop / kRow;

weft::Graph make_graph(int n_mels) {
  weft::Graph g;
  const weft::Dim n = g.symbol("n_frames", 1, kWindowFrames);
  const Value samples = g.input("samples", {kRowsOfHop * n + (kRowsOfFrame - kRowsOfHop), kRow});
  const auto transform = [&](const char* name) {
    return weft::conv1d_channels_last(samples, g.weight(name, {kBins, kTransform}), {}, kRowsOfFrame,
                                      kRowsOfHop);
  };
  const Value real = transform("spectrogram.cosines"), imaginary = transform("spectrogram.sines");
  const Value power = real * real + imaginary * imaginary;
  g.output("spectrogram.mels", weft::linear(power, g.weight("spectrogram.filters", {n_mels, kBins})));
  return g;
}

/// Waves of each frequency under a periodic Hann window.
std::vector<float> make_waves(double (*wave)(double)) {
  std::vector<float> waves(std::size_t{kBins} * kTransform);
  for (int k = 0; k < kBins; ++k) {
    for (int i = 0; i < kTransform; ++i) {
      const double turn = 2.0 * std::numbers::pi / kTransform;
      const double window = 0.5 - 0.5 * std::cos(turn * i);
      // The product is reduced first, so that large angles cost no digits.
      const double value = window * wave(turn * (k * i % kTransform));
      waves[static_cast<std::size_t>(k * kTransform + i)] = static_cast<float>(value);
    }
  }
  return waves;
}

/// Slaney's scale of pitch: linear up to 1000 Hz, logarithmic from there. In Hz.
double mel_frequency(double mel) {
  constexpr double kStep = 200.0 / 3.0, kKnee = 1000.0 / kStep;
  return mel < kKnee ? kStep * mel : 1000.0 * std::exp(std::log(6.4) / 27.0 * (mel - kKnee));
}

/// Triangles from one mel to the one after the next, each of the same area.
std::vector<float> make_filters(int n_mels) {
  constexpr double kHighest = 45.245640471924965;  // The mel of 8000 Hz.
  const auto edge = [&](int i) { return mel_frequency(kHighest * i / (n_mels + 1)); };
  std::vector<float> filters;
  filters.reserve(static_cast<std::size_t>(n_mels) * kBins);
  for (int m = 0; m < n_mels; ++m) {
    const double low = edge(m), peak = edge(m + 1), high = edge(m + 2);
    for (int k = 0; k < kBins; ++k) {
      const double hz = static_cast<double>(k) * kSampleRate / kTransform;
      const double height = std::min((hz - low) / (peak - low), (high - hz) / (high - peak));
      filters.push_back(static_cast<float>(std::max(0.0, height) * 2.0 / (high - low)));
    }
  }
  return filters;
}

double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

/// The samples followed by a hop of silence, mirrored at both ends by half a frame.
std::vector<float> pad(std::span<const float> samples) {
  constexpr std::int64_t kMirrored = kTransform / 2;
  const std::int64_t n_samples = std::ssize(samples), n = n_samples + kHop;
  std::vector<float> padded;
  padded.reserve(static_cast<std::size_t>(n + 2 * kMirrored));
  for (std::int64_t i = -kMirrored; i < n + kMirrored; ++i) {
    const std::int64_t at = i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
    padded.push_back(at >= 0 && at < n_samples ? samples[static_cast<std::size_t>(at)] : 0.0f);
  }
  return padded;
}

}  // namespace

Spectrogram::Spectrogram(int n_mels, const weft::Devices& devices, weft::PlanParams params)
    : n_mels_(n_mels), plan_(make_graph(n_mels), devices, std::move(params)) {
  // A plan may read weights where they lie, as long as it lives.
  weights_ = {make_waves(cosine), make_waves(sine), make_filters(n_mels)};
  plan_.set_weight("spectrogram.cosines", weights_[0]);
  plan_.set_weight("spectrogram.sines", weights_[1]);
  plan_.set_weight("spectrogram.filters", weights_[2]);
}

std::vector<float> Spectrogram::compute(std::span<const float> samples) {
  const std::vector<float> padded = pad(samples);
  const std::size_t n_frames = (samples.size() + kHop) / kHop;
  std::vector<float> mels;
  mels.reserve(n_frames * static_cast<std::size_t>(n_mels_));
  for (std::size_t frame = 0; frame < n_frames; frame += kWindowFrames) {
    const std::size_t n = std::min<std::size_t>(kWindowFrames, n_frames - frame);
    const auto part = std::span(padded).subspan(frame * kHop, (n - 1) * kHop + kTransform);
    plan_.run({{"n_frames", static_cast<std::int64_t>(n)}}, {{"samples", part}});
    const std::vector<float> some = plan_.read("spectrogram.mels");
    mels.insert(mels.end(), some.begin(), some.end());
  }
  float loudest = -10.0f;
  for (float& x : mels) {
    x = std::log10(std::max(x, 1e-10f));
    loudest = std::max(loudest, x);
  }
  for (float& x : mels) x = (std::max(x, loudest - 8.0f) + 4.0f) / 4.0f;
  return mels;
}

}  // namespace whisper
