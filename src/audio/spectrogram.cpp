#include "audio/spectrogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numbers>
#include <utility>

#include "base/to_size.h"
#include "weft/audio.h"

namespace weft::audio {
namespace {

constexpr int kFrame = 400;            // Samples: 25 ms.
constexpr float kQuietest = 1e-10f;    // Energy.
constexpr int kBins = kFrame / 2 + 1;  // Frequencies from 0 to half the sample rate.
// Samples are in rows of kRow. A frame has 5 rows, and the next frame begins 2 rows later.
constexpr int kRow = 80, kRowsOfFrame = kFrame / kRow, kRowsOfHop = kHop / kRow;

Graph make_graph(int n_mels, int n_frames) {
  Graph graph;
  const Value samples = graph.input("samples", {kRowsOfHop * n_frames + (kRowsOfFrame - kRowsOfHop), kRow});
  const auto transform = [&](const char* waves) {
    return conv1d_channels_last(samples, graph.weight(waves, {kBins, kFrame}), {}, kRowsOfFrame, kRowsOfHop);
  };
  const Value real = transform("cosines"), imaginary = transform("sines");
  graph.output("mels", linear(real * real + imaginary * imaginary, graph.weight("filters", {n_mels, kBins})));
  return graph;
}

/// Waves of each frequency under a periodic Hann window.
std::vector<float> make_waves(double (*wave)(double)) {
  constexpr double kTurn = 2.0 * std::numbers::pi / kFrame;
  std::vector<float> waves;
  waves.reserve(std::size_t{kBins} * kFrame);
  for (int k = 0; k < kBins; ++k)
    for (int i = 0; i < kFrame; ++i)  // The product is reduced first, so that large angles cost no digits.
      waves.push_back(static_cast<float>((0.5 - 0.5 * std::cos(kTurn * i)) * wave(kTurn * (k * i % kFrame))));
  return waves;
}

/// Slaney's scale of pitch, linear up to 1000 Hz and logarithmic from there: Hz of a mel.
constexpr double kKnee = 15.0;  // The mel of 1000 Hz.
const double kStep = std::log(6.4) / 27.0;
double frequency(double mel) {
  return mel < kKnee ? mel * 1000.0 / kKnee : 1000.0 * std::exp(kStep * (mel - kKnee));
}

/// Triangles from one mel to the one after the next, each of the same area.
std::vector<float> make_filters(int n_mels) {
  constexpr double kHighest = Audio::kSampleRate / 2.0;
  const double highest_mel = kKnee + std::log(kHighest / 1000.0) / kStep;
  const auto edge = [&](int i) { return frequency(highest_mel * i / (n_mels + 1)); };
  std::vector<float> filters;
  filters.reserve(to_size(n_mels) * kBins);
  for (int m = 0; m < n_mels; ++m) {
    const double low = edge(m), peak = edge(m + 1), high = edge(m + 2);
    for (int k = 0; k < kBins; ++k) {
      const double hz = static_cast<double>(k) * Audio::kSampleRate / kFrame;
      const double height = std::min((hz - low) / (peak - low), (high - hz) / (high - peak));
      filters.push_back(static_cast<float>(std::max(0.0, height) * 2.0 / (high - low)));
    }
  }
  return filters;
}

double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

/// Pads with silence to n samples and mirrors half a frame at both ends.
std::vector<float> pad(std::span<const float> samples, std::int64_t n) {
  constexpr std::int64_t kMirrored = kFrame / 2;
  std::vector<float> padded;
  padded.reserve(to_size(n + 2 * kMirrored));
  for (std::int64_t i = -kMirrored; i < n + kMirrored; ++i) {
    const std::int64_t at = i < 0 ? -i : i < n ? i : 2 * (n - 1) - i;
    padded.push_back(at < std::ssize(samples) ? samples[to_size(at)] : 0.0f);
  }
  return padded;
}

}  // namespace

Spectrogram::Spectrogram(int n_mels, int n_frames, const Devices& devices, PlanParams params)
    : n_frames_(n_frames), plan_(make_graph(n_mels, n_frames), devices, std::move(params)) {
  // The plan may refer to the weights, so they must outlive it.
  weights_ = {make_waves(cosine), make_waves(sine), make_filters(n_mels)};
  plan_.set_weight("cosines", weights_[0]);
  plan_.set_weight("sines", weights_[1]);
  plan_.set_weight("filters", weights_[2]);
}

std::vector<float> Spectrogram::run(std::span<const float> padded) {
  // The frame after the last hop is ignored.
  plan_.run({}, {{"samples", padded.first(to_size((n_frames_ - 1) * kHop + kFrame))}});
  std::vector<float> mels = plan_.read("mels");
  for (float& x : mels) x = std::log10(std::max(x, kQuietest));
  return mels;
}

void Spectrogram::scale(std::span<float> logarithms, float loudest) {
  for (float& x : logarithms) x = (std::max(x, loudest - 8.0f) + 4.0f) / 4.0f;
}

std::vector<float> Spectrogram::compute(std::span<const float> samples) {
  std::vector<float> mels = run(pad(samples, std::int64_t{n_frames_} * kHop));
  scale(mels, *std::max_element(mels.begin(), mels.end()));
  return mels;
}

std::vector<float> Spectrogram::logarithms(std::span<const float> samples, std::int64_t first) {
  std::vector<float> padded;
  padded.reserve(to_size(n_frames_) * kHop + kFrame);
  const std::int64_t begin = first - kFrame / 2;
  for (std::int64_t i = begin; i < begin + std::int64_t{n_frames_} * kHop + kFrame; ++i) {
    const std::int64_t at = std::abs(i);
    padded.push_back(at < std::ssize(samples) ? samples[to_size(at)] : 0.0f);
  }
  return run(padded);
}

}  // namespace weft::audio
