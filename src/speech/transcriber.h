#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "audio/spectrogram.h"
#include "speech/decoding.h"
#include "weft/transcriber.h"

namespace weft {

struct Transcriber::Impl {
  Impl(const std::filesystem::path& path, const Devices& devices, int n_threads);

  Transcript transcribe(std::span<const float> samples, const TranscribeParams& params);
  /// The spectrogram of a window, {n_frames, n_mels}: what follows the end of the audio is 0.
  std::vector<float> mels(std::span<const float> samples, int first_frame, float loudest);
  float loudest(std::span<const float> samples);

  const speech::ModelFile file;
  TranscriberInfo info;
  std::mutex mutex;  // Of all below.
  audio::Spectrogram spectrogram;
  speech::Encoder encoder;
  speech::Decoder decoder;
};

}  // namespace weft
