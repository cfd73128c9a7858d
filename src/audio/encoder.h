#pragma once
// Whisper's encoder of sound (arXiv 2212.04356) over a log-mel spectrogram of a fixed length, and what
// families put behind it, by the names of their projectors.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "encoders/transformer.h"
#include "gguf/gguf.h"
#include "weft/media.h"

namespace weft::audio {

/// What a file says of its encoder: metadata under "clip.audio.".
struct HParams : encoders::TransformerSizes {
  std::string name;
  std::string projector;
  int n_mels = 0;
  int n_embd = 0;            ///< Of the text model.
  int n_positions = 0;       ///< Rows of the encoder: half as many as frames.
  int stacked = 1;           ///< Rows of the encoder that become one of the result.
  int n_inner = 0;           ///< Between the products of a projector with a norm there.
  bool whole_stacks = true;  ///< Rows that are too few for one become none; else what lacks is 0.

  int n_frames() const { return 2 * n_positions; }
  /// Of the result, for so many rows of the encoder that are heard.
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
  /// The families of text models that it is for (general.architecture), as far as weft has them.
  std::span<const std::string_view> text_models;
  std::string_view before, behind;  ///< Texts around a sound.
  bool sees_silence;  ///< A part is of its full length, whatever it holds; else silence is neither seen nor
                      ///< told.
  int stacked;        ///< Rows that become one, where the file does not say it.
  bool averages;      ///< They are averaged, before the last norm; else `project` has them side by side.
  /// x {n_positions, width} -> {n_rows, n_embd}
  Value (*project)(encoders::TransformerBuilder& builder, const HParams& hparams, Value x);
};

std::span<const Family> families();
/// Throws Error kUnsupported that names those that weft knows.
const Family& find_family(std::string_view projector);

/// Inputs "mels" {n_frames, n_mels}, {n_positions} I32 "begins" and "ends", and, where stacks need not be
/// whole, "heard" {n_positions, 1}: 1, or 0 behind the sound -> {n_rows, n_embd}
Value encode(encoders::TransformerBuilder& builder, const HParams& hparams, const Family& family);

}  // namespace weft::audio
