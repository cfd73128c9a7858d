#pragma once
// Generation of one text: prompt in, tokens out. The loop that `weft run`, `weft chat` and small programs
// share.
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/context.h"
#include "weft/embedded_part.h"
#include "weft/sampler.h"

#pragma GCC visibility push(default)

namespace weft {

class TokenConstraint;  // weft/batcher.h

enum class StopReason : std::uint8_t {
  kEnd,  ///< An end token.
  kLength,
  kContextFull,
  kStopString,
  kCancelled,
  kTimeout,  ///< A deadline of the request (RequestParams).
  kError,    ///< A device or memory failed again and again, or a constraint did.
};
/// "end", "length", "context", "stop", "cancelled", "timeout", "error"
std::string_view name(StopReason reason);

struct GenerateParams {
  /// Of the prompt, in their order; in their places it has their tokens (EmbeddedPart::token).
  std::vector<EmbeddedPart> parts = {};
  /// Of the parts that the sequence holds already, n less EmbeddedPart::extent, together.
  Pos n_skipped = 0;
  int n_predict = -1;       ///< < 0: until an end token or the context is full.
  bool ignore_end = false;  ///< Go on past end tokens.
  /// Strings that end the generation; the result excludes them. None is empty. They match wherever tokens cut
  /// them. The string that is complete first counts; if several end at one byte, the longest. A string may
  /// contain control tokens, even where the result excludes those.
  std::vector<std::string> stop = {};
  /// When the context is full, drop the older half of the sequence except its first n_keep tokens
  /// (Context::forget). Error kUnsupported where the model cannot, and where parts have skipped positions.
  bool context_shift = false;
  int n_keep = 4;  ///< From 0. With context_shift less than the cells of the context.
  /// What the text is held to, from its beginning; told of each token that is written, and used by the
  /// calling thread alone. The text ends where the constraint allows nothing but its end, also with
  /// ignore_end. Null: nothing. What it throws ends the generation.
  TokenConstraint* constraint = nullptr;
  /// Control tokens stand in the text too, as the vocabulary writes them; end tokens never do.
  bool special = false;
  int n_chunk = 0;  ///< Cut the prompt into pieces of this many tokens. 0: as the context likes.
  /// Called with valid UTF-8 as it is complete; returning false stops (kCancelled).
  std::function<bool(std::string_view)> on_text = {};
  /// Called while the prompt is computed, with the tokens done so far; returning false stops.
  std::function<bool(int)> on_prefill = {};
};

struct Generation {
  std::string text = {};
  std::vector<Token> tokens = {};  ///< Without the end token.
  int n_prompt = 0;
  StopReason stop = StopReason::kEnd;
  double prefill_ms = 0.0;
  double decode_ms = 0.0;  ///< Of n_decoded tokens.
  int n_decoded = 0;       ///< Steps after the prompt.
};

/// Appends `prompt` to sequence `seq` and generates. Of a model that reads a source (ModelInfo::reads_source)
/// the prompt is that, and the sequence must be empty: it gets the text alone. Context::cancel() ends it with
/// StopReason::kCancelled. The sequence keeps the prompt and what was generated, except a last token that was
/// not computed. Throws Error kInvalidArgument for wrong parameters, and where the prompt does not fit the
/// context, with both numbers; nothing has changed then. Throws NotNumbersError where the model computes NaN or
/// infinity.
Generation generate(Context& context, Sampler& sampler, std::span<const Token> prompt,
                    const GenerateParams& params = {}, SeqId seq = 0);
inline Generation generate(Context& context, Sampler& sampler, std::initializer_list<Token> prompt,
                           const GenerateParams& params = {}, SeqId seq = 0) {
  return generate(context, sampler, std::span(prompt.begin(), prompt.size()), params, seq);
}

}  // namespace weft

#pragma GCC visibility pop
