#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model.h"
#include "search.h"
#include "spectrogram.h"
#include "vocabulary.h"

namespace whisper {

struct Segment {
  double start = 0.0, end = 0.0;  ///< Seconds from the first sample.
  std::string text;
  Tokens tokens;  ///< With timestamps.
  double mean_log_prob = 0.0;
  double no_speech = 0.0;  ///< The probability that the window is silent.
};

struct Transcript {
  std::string language;
  double language_probability = 1.0;
  std::vector<Segment> segments;
};

struct TranscriberParams {
  weft::DType matrices = weft::DType::kF16;
  int n_threads = 0;  ///< 0: the number of cores.
  int beam = 5;
  std::vector<weft::Pin> pins;  ///< Patterns begin with "encoder" or "decoder", which are separate plans.
};

/// Intermediate results of the first window, for comparison with other implementations.
struct Numbers {
  std::vector<float> mels;    ///< {frames, n_mels}, of all samples.
  std::vector<float> rows;    ///< {n_heard, width}: the encoder's.
  Tokens tokens;              ///< The prompt and the generated tokens.
  std::vector<float> logits;  ///< {tokens, n_vocab}: after each token.
};

/// A Whisper model from its folder: model.bin, tokenizer.json and config.json. Used by one thread at a time.
class Transcriber {
 public:
  /// Throws what reading the files and making plans throws.
  Transcriber(const std::filesystem::path& folder, const TranscriberParams& params);

  /// `language` is a code, or empty: then it is found out from the first 30 seconds. Throws weft::Error
  /// kInvalidArgument for a language or a task that the model does not know.
  Transcript transcribe(std::span<const float> samples, const std::string& language, bool to_english);
  /// Of the greedy transcript of a first window.
  Numbers numbers(std::span<const float> samples, const std::string& language);

 private:
  /// The tokens that start a window's sequence.
  Tokens make_prompt(const std::string& language, bool to_english) const;
  /// The most probable language of the window that the decoder hears.
  std::pair<std::string, double> find_language();
  /// Cuts a window's transcript into segments. Returns the number of frames until the next window.
  int split(const Found& found, int first_frame, int n_frames, double no_speech,
            std::vector<Segment>& segments) const;

  Ct2File file_;
  Sizes sizes_;
  Vocabulary vocabulary_;
  int beam_;
  weft::Devices devices_;
  std::shared_ptr<weft::Workspaces> workspaces_ = weft::make_workspaces();
  Spectrogram spectrogram_;
  Encoder encoder_;
  Decoder decoder_;
};

}  // namespace whisper
