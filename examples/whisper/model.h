#pragma once
#include <weft/plan.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ct2_file.h"
#include "graph_builder.h"

namespace whisper {

/// What a file says of its model. Throws weft::Error kUnsupported for what is no Whisper.
struct Sizes {
  int n_mels = 80;
  int width = 384;
  int n_heads = 6;
  int encoder_layers = 4;
  int decoder_layers = 4;
  int n_vocab = 51864;
  int n_texts = 448;   ///< Tokens of a text, at most.
  int n_heard = 1500;  ///< Rows that the encoder makes of a window.
  explicit Sizes(const Ct2File& file);
};

/// What the decoder reads of a window of sound: of each of its layers the keys and the values, {n_heard,
/// width}.
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

/// Goes on with texts that are written for one window. What it has computed of a text stays in a slot; a text
/// costs the tokens that no slot has.
class Decoder {
 public:
  /// For so many texts at once.
  Decoder(const Ct2File& file, const Sizes& sizes, weft::DType matrices, int n_slots,
          const weft::Devices& devices, weft::PlanParams params);

  /// Another window: all texts are forgotten.
  void hear(Heard heard);
  /// The logits of what follows each text, n_vocab after n_vocab. They are valid until the next call; the
  /// same call again costs nothing. Throws weft::Error kInvalidArgument for too many texts, too long or empty
  /// ones.
  std::span<const float> logits(std::span<const std::vector<std::int32_t>> texts);

 private:
  /// The slot for each text: as a rule the one that has most of it.
  std::vector<int> choose_slots(std::span<const std::vector<std::int32_t>> texts) const;

  Sizes sizes_;
  std::vector<std::string> heard_names_;
  Heard heard_;                                   ///< Until the plan has it.
  std::vector<std::vector<std::int32_t>> slots_;  ///< The tokens whose keys and values lie there.
  std::vector<std::vector<std::int32_t>> texts_;  ///< Of the call before, whose logits these are:
  std::vector<float> logits_;
  WeightBytes weights_;
  weft::Plan plan_;
};

}  // namespace whisper
