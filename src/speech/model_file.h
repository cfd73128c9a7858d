#pragma once
// A Whisper model on disk: its weights under OpenAI's names, its sizes and its vocabulary. Two formats:
// whisper.cpp's container, and GGUF of the architecture "whisper".
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "speech/vocabulary.h"
#include "weft/weights.h"

namespace weft::speech {

struct Sizes {
  int n_mels = 0;
  int width = 0;
  int encoder_heads = 0, decoder_heads = 0;
  int encoder_layers = 0, decoder_layers = 0;
  int n_vocab = 0;
  int n_positions = 0;  ///< Tokens of a sequence, at most.
  int n_heard = 0;      ///< Rows of the encoder's output: half the frames of a window.
  int n_frames() const { return 2 * n_heard; }
};

/// A head of the decoder's attention to the audio.
struct AlignmentHead {
  int layer = 0, head = 0;
};

struct ModelFile {
  /// Throws Error as Transcriber::load does.
  explicit ModelFile(const std::filesystem::path& path);

  std::string name;
  WeightFile weights;
  Sizes sizes;
  Vocabulary vocabulary;
  /// Heads that follow the audio in time. Without any in the file: all of the last half of the layers.
  std::vector<AlignmentHead> alignment_heads;

 private:
  struct Header;
  ModelFile(const std::filesystem::path& path, Header header);
};

}  // namespace weft::speech
