#pragma once
// Whisper's networks as plans: the encoder of a window of audio, and the decoder that attends to it.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "encoders/transformer.h"
#include "speech/model_file.h"
#include "weft/plan.h"
#include "weft/types.h"

namespace weft::speech {

/// Keys and values of each layer of the decoder for a window of audio: {n_heard, width} each.
struct Heard {
  std::vector<std::vector<float>> keys, values;
};

/// Used by one thread at a time, as the decoder.
class Encoder {
 public:
  Encoder(const ModelFile& file, const Devices& devices, PlanParams params);

  /// `mels`: {n_frames, n_mels}.
  Heard encode(std::span<const float> mels);
  /// The output of the last layer for the last window, {n_heard, width}.
  std::vector<float> rows() const { return plan_.read("encoder.rows"); }

 private:
  Sizes sizes_;
  std::vector<encoders::TransformerBuilder::OwnWeight> own_;
  Plan plan_;
};

/// Continues one sequence of tokens. It keeps the keys and values of the sequence, so a call computes only
/// what is new.
class Decoder {
 public:
  Decoder(const ModelFile& file, const Devices& devices, PlanParams params);

  /// Starts another window.
  void hear(Heard heard);
  /// The logits after the last token, and after the token at `also` (an index, if it is not negative):
  /// n_vocab each. The sequence has 1 to n_positions tokens. Valid until the next call.
  struct Logits {
    std::span<const float> last, also;
  };
  Logits logits(std::span<const Token> tokens, int also = -1);
  /// Calls `take` for each alignment head, with the products of queries and keys before the softmax: {tokens,
  /// n_heard}.
  void scores(std::span<const Token> tokens, const std::function<void(std::span<float>)>& take);

 private:
  void step(std::span<const Token> tokens, std::size_t n_known, std::span<const std::int32_t> wanted);

  Sizes sizes_;
  std::vector<AlignmentHead> heads_;
  std::vector<std::string> heard_names_;
  Heard heard_;
  bool is_set_ = false;  // The plan has the window's keys and values.
  std::vector<Token> known_;
  std::vector<float> logits_;
  std::vector<encoders::TransformerBuilder::OwnWeight> own_;
  Plan plan_;
};

}  // namespace weft::speech
