#pragma once
#include <weft/plan.h>

#include <span>
#include <vector>

namespace whisper {

inline constexpr int kHop = 160;            ///< Samples from frame to frame: 10 ms.
inline constexpr int kWindowFrames = 3000;  ///< What the model hears at once: 30 s.
inline constexpr int kFramesPerSecond = 100;

/// Log-mel spectrograms as Whisper was trained on. The short Fourier transform is a graph, too: a convolution
/// with windowed waves, whose squares meet the filters of mel bands (Slaney's).
class Spectrogram {
 public:
  /// Shares the devices and the memory of temporaries with other plans.
  Spectrogram(int n_mels, const weft::Devices& devices, weft::PlanParams params);

  /// Rows of n_mels for each hop of samples that is begun. Values are relative to the loudest of all of them.
  std::vector<float> compute(std::span<const float> samples);
  int n_mels() const { return n_mels_; }

 private:
  int n_mels_;
  std::vector<std::vector<float>> weights_;
  weft::Plan plan_;
};

}  // namespace whisper
