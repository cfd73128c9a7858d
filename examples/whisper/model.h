#pragma once
#include <weft/plan.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ct2_file.h"
#include "graph_builder.h"

namespace whisper {

/// A model's sizes from its file. Throws weft::Error kUnsupported if the file is not a Whisper.
struct Sizes {
  int n_mels = 80;
  int width = 384;
  int n_heads = 6;
  int encoder_layers = 4;
  int decoder_layers = 4;
  int n_vocab = 51864;
  int n_positions = 448;  ///< Tokens of a sequence, at most.
  int n_heard = 1500;     ///< Rows of the encoder's output for a window.
  explicit Sizes(const Ct2File& file);
};

/// The decoder's view of a window of audio: the keys and values of each of its layers, {n_heard, width}.
struct Heard {
  std::vector<std::vector<float>> keys, values;
};

class Encoder {
 public:
  Encoder(const Ct2File& file, const Sizes& sizes, weft::DType matrices, const weft::Devices& devices,
          weft::PlanParams params);

  /// `mels` are the rows of a window, n_mels each; what lacks at the end is silence.
  Heard encode(std::span<const float> mels);
  /// The last layer's rows of the window before, {n_heard, width}.
  std::vector<float> rows() const { return plan_.read("encoder.rows"); }

 private:
  Sizes sizes_;
  WeightBytes weights_;
  weft::Plan plan_;
};

/// Continues sequences of one window. A slot keeps the keys and values of a sequence, so a call computes only
/// the tokens that no slot has.
class Decoder {
 public:
  /// For at most n_slots sequences at once.
  Decoder(const Ct2File& file, const Sizes& sizes, weft::DType matrices, int n_slots,
          const weft::Devices& devices, weft::PlanParams params);

  /// Starts another window: drops all sequences.
  void hear(Heard heard);
  /// The logits after each sequence, n_vocab each. They are valid until the next call; the same call again
  /// costs nothing. Throws weft::Error kInvalidArgument for too many sequences, and for too long or empty
  /// ones.
  std::span<const float> logits(std::span<const std::vector<std::int32_t>> sequences);

 private:
  /// The slot for each sequence: usually the one with the longest common prefix.
  std::vector<int> choose_slots(std::span<const std::vector<std::int32_t>> sequences) const;

  Sizes sizes_;
  std::vector<std::string> heard_names_;
  Heard heard_;                                       ///< Until it is copied into the plan.
  std::vector<std::vector<std::int32_t>> slots_;      ///< The tokens whose keys and values a slot has.
  std::vector<std::vector<std::int32_t>> sequences_;  ///< The last call's, which returned `logits_`.
  std::vector<float> logits_;
  WeightBytes weights_;
  weft::Plan plan_;
};

}  // namespace whisper
