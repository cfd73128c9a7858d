#pragma once
// Whisper's audio encoder (arXiv 2212.04356) over a log-mel spectrogram of a fixed length, and the projectors
// of families that follow it, by their names.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encoders/transformer.h"
#include "gguf/gguf.h"
#include "weft/media.h"

namespace weft::audio {

/// The encoder's hyperparameters in a file: metadata under "clip.audio.".
struct HParams : encoders::TransformerSizes {
  std::string name;
  std::string projector;
  int n_mels = 0;
  int n_embd = 0;            ///< The language model's width.
  int n_positions = 0;       ///< Rows of the encoder, half the number of frames.
  int stacked = 1;           ///< Rows of the encoder that become one row of the result.
  int n_inner = 0;           ///< Width of the norm between a projector's products, if it has one.
  bool whole_stacks = true;  ///< An incomplete last stack is dropped; otherwise it is filled with zeros.

  int n_frames() const { return 2 * n_positions; }
  /// Rows of the result for the first `n_heard` rows of the encoder.
  int n_rows(int n_heard) const {
    return whole_stacks ? n_heard / stacked : (n_heard + stacked - 1) / stacked;
  }
  int n_rows() const { return n_rows(n_positions); }
};

struct Family;
/// Throws Error kInvalidFile that names the key.
HParams read_hparams(const gguf::File& file, const WeightFile& weights, const Family& family);

struct Family {
  std::string_view projector;
  /// The language models that it is for (general.architecture), as far as weft has them.
  std::span<const std::string_view> text_models;
  std::string_view before, behind;  ///< Prompt strings around the audio.
  /// A part always has its full length. Otherwise silence at the end is masked and gives no rows.
  bool sees_silence;
  int stacked;    ///< Rows that become one, if the file does not have it.
  bool averages;  ///< They are averaged before the last norm; otherwise `project` concatenates them.
  /// x {n_positions, width} -> {n_rows, n_embd}
  Value (*project)(encoders::TransformerBuilder& builder, const HParams& hparams, Value x);
};

std::span<const Family> families();
/// Throws Error kUnsupported with a list of the known projectors.
const Family& find_family(std::string_view projector);

/// Inputs: "mels" {n_frames, n_mels}; "begins" and "ends" {n_positions} I32. Without whole_stacks also
/// "heard" {n_positions, 1}: 1, and 0 after the end of the audio. Returns {n_rows, n_embd}.
Value encode(encoders::TransformerBuilder& builder, const HParams& hparams, const Family& family);

}  // namespace weft::audio
