#pragma once
// Transcribes speech with Whisper models (arXiv 2212.04356): files of whisper.cpp (ggml-*.bin), and GGUF
// files that `weft convert` makes of Hugging Face folders.
//
//   auto transcriber = weft::Transcriber::load("ggml-base.bin");
//   weft::Transcript transcript = transcriber->transcribe(weft::read_audio_file("talk.mp3"));
//   std::string subtitles = weft::to_srt(transcript);
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/audio.h"
#include "weft/device.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct TranscriberParams {
  /// Device names, as for open_devices(). Empty: the CPU and all GPUs.
  std::vector<std::string> devices = {};
  int n_threads = 0;                                   ///< Host threads. 0: the number of cores.
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: load_backends().
};

struct TranscriberInfo {
  std::string name = {};
  int n_mels = 0;
  int n_vocab = 0;
  int n_encoder_layers = 0, n_decoder_layers = 0;
  int width = 0;
  std::vector<std::string> languages = {};  ///< Codes such as "de". Empty: the model knows English only.
  double window_seconds = 0.0;              ///< Audio is transcribed in windows of this length.
};

struct TranscribedWord {
  double start = 0.0, end = 0.0;  ///< Seconds from the begin of the audio.
  std::string text = {};          ///< With its leading space and its punctuation.
  double probability = 0.0;       ///< The mean of its tokens'.
};

struct TranscribedSegment {
  int id = 0;                      ///< Segments count from 0.
  double start = 0.0, end = 0.0;   ///< Seconds from the begin of the audio, at most its duration.
  std::string text = {};           ///< Valid UTF-8.
  std::vector<Token> tokens = {};  ///< With the timestamps around them.
  float temperature = 0.0f;        ///< Of the sampling.
  double mean_log_prob = 0.0;      ///< Of the window's tokens.
  double compression_ratio = 0.0;  ///< zlib's, for the window's transcript. Repetitions have high ratios.
  double no_speech_prob = 0.0;     ///< The probability that the window has no speech.
  int seek = 0;                    ///< The window's begin, in frames of 10 ms.
  std::vector<TranscribedWord> words = {};  ///< With TranscribeParams::words.
};

struct Transcript {
  std::string language = {};  ///< Its code. Empty if it is unknown because the audio has no speech.
  double duration = 0.0;      ///< The audio's, in seconds.
  std::vector<TranscribedSegment> segments = {};
  std::string text() const;  ///< All segments' strings, without white space at the ends.
};

struct TranscribeParams {
  /// A code or an English name: "de", "german". Empty or "auto": detected in the first window.
  std::string language = {};
  bool translate = false;  ///< Into English.
  /// Text that may precede the audio: names and terms to recognise. If it is long, its last part counts.
  std::string prompt = {};
  bool words = false;  ///< Also computes the times of words.
  /// Sampling temperatures to try one after another, until a window's transcript passes the limits below. 0:
  /// greedy.
  std::vector<float> temperatures = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f};
  float max_compression_ratio = 2.4f;  ///< Transcripts above it are repetitions.
  float min_mean_log_prob = -1.0f;
  /// A window with a higher probability of no speech is skipped if its transcript is below min_mean_log_prob.
  float max_no_speech_prob = 0.6f;
  bool condition_on_previous = true;  ///< The transcripts of earlier windows are the prompt of the next one.
  int max_tokens = 0;                 ///< For each window. 0: half of the model's context, the maximum.
  std::uint64_t seed = 0;             ///< Of sampling with temperatures above 0.
  /// Called with each segment once it is final.
  std::function<void(const TranscribedSegment&)> on_segment = nullptr;
  /// Called often, with the part of the audio that is transcribed, from 0 to 1. Returning false cancels.
  std::function<bool(double)> goes_on = nullptr;
};

/// Immutable after loading. Threads may share it; transcribe() calls run one after another.
class Transcriber {
 public:
  /// Throws Error kInvalidFile with the name of the wrong key or tensor. Throws kUnsupported for other models
  /// than Whisper's, kNotFound, kIo, and errors of devices.
  static std::shared_ptr<const Transcriber> load(const std::filesystem::path& path,
                                                 const TranscriberParams& params = {});
  ~Transcriber();

  const TranscriberInfo& info() const;
  /// Throws Error kInvalidArgument for parameters out of range, and for a language that the model does not
  /// know.
  void check(const TranscribeParams& params) const;
  /// Transcribes audio of any length. Audio below 0.1 s and digital silence have no segments. The calling
  /// thread calls the functions of `params`. Throws as check() does, kInvalidArgument for samples that are
  /// not numbers, kCancelled, and errors of devices.
  Transcript transcribe(const Audio& sound, const TranscribeParams& params = {}) const;

  struct Impl;  ///< For weft's own tests.
  Impl& impl() const { return *impl_; }

 private:
  explicit Transcriber(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether a file has a Whisper model, by its header. False also for files that cannot be read.
bool is_transcriber_file(const std::filesystem::path& path);

/// The code of a language of Whisper: "de" of "german", "de" or "de-DE", in any case. Nullopt: unknown.
std::optional<std::string> language_code(std::string_view name);
/// The English name, in lower case: "german" of "de". The code itself if it is unknown.
std::string language_name(std::string_view code);

std::string to_srt(const Transcript& transcript);
std::string to_vtt(const Transcript& transcript);

}  // namespace weft

#pragma GCC visibility pop
