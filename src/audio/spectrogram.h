#pragma once
// Log-mel spectrograms as Whisper was trained on (arXiv 2212.04356; WhisperFeatureExtractor of transformers).
// The short Fourier transform is a graph: a convolution with windowed waves, whose squares meet the filters
// of mel bands.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/plan.h"

namespace weft::audio {

inline constexpr int kHop = 160;  ///< Samples from frame to frame: 10 ms.

/// Used by one thread at a time.
class Spectrogram {
 public:
  /// Always computes `n_frames` frames. Shares the devices with other plans.
  Spectrogram(int n_mels, int n_frames, const Devices& devices, PlanParams params);

  /// Returns {n_frames, n_mels}, row by row, of at most n_frames * kHop samples, padded with silence. Values
  /// are relative to the loudest one.
  std::vector<float> compute(std::span<const float> samples);
  /// Returns {n_frames, n_mels}, the decimal logarithms of the energies from sample `first` on. Frames at the
  /// edges see the samples around the part. Silence follows the end, and the begin is mirrored.
  std::vector<float> logarithms(std::span<const float> samples, std::int64_t first);
  /// Scales logarithms as the model expects them. `loudest`: the largest of the whole audio.
  static void scale(std::span<float> logarithms, float loudest);

 private:
  std::vector<float> run(std::span<const float> padded);

  const int n_frames_;
  std::vector<std::vector<float>> weights_;
  Plan plan_;
};

}  // namespace weft::audio
