#pragma once
// Generates one completion: prompt in, tokens out. The loop that `weft run`, `weft chat` and small programs
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
  kError,    ///< A device or memory failed repeatedly, or a constraint failed.
};
/// "end", "length", "context", "stop", "cancelled", "timeout", "error"
std::string_view name(StopReason reason);

struct GenerateParams {
  /// The embedded parts of the prompt, in their order. At their places the prompt has EmbeddedPart::token.
  std::vector<EmbeddedPart> parts = {};
  /// The sum of n - EmbeddedPart::extent over the parts that the sequence already holds.
  Pos n_skipped = 0;
  int n_predict = -1;       ///< < 0: until an end token or the context is full.
  bool ignore_end = false;  ///< Continue after end tokens.
  /// Strings that end the generation; the result excludes them. None is empty. They match wherever tokens cut
  /// them. The string that is complete first counts; if several end at one byte, the longest. A string may
  /// contain control tokens, even where the result excludes those.
  std::vector<std::string> stop = {};
  /// When the context is full, drop the older half of the sequence except its first n_keep tokens
  /// (Context::forget). Error kUnsupported where the model cannot, and where parts have skipped positions.
  bool context_shift = false;
  int n_keep = 4;  ///< From 0. With context_shift less than the cells of the context.
  /// Constrains the generation from its first token. It accepts each generated token, on the calling thread
  /// only. The generation ends where the constraint allows only end tokens, also with ignore_end. Null: no
  /// constraint. An exception of the constraint ends the generation.
  TokenConstraint* constraint = nullptr;
  /// The completion contains control tokens too, as the vocabulary writes them, but never end tokens.
  bool special = false;
  int n_chunk = 0;  ///< Chunk the prompt into this many tokens. 0: Context::batch_size.
  /// Called with new complete characters (UTF-8). Returning false stops (kCancelled).
  std::function<bool(std::string_view)> on_text = {};
  /// Called during prefill with the number of computed tokens. Returning false stops.
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

/// Appends `prompt` to sequence `seq` and generates. An encoder-decoder model (ModelInfo::reads_source)
/// encodes the prompt as its source. Its sequence must be empty, and gets only the generated tokens.
/// Context::cancel() ends the generation with StopReason::kCancelled. The sequence keeps the prompt and the
/// generated tokens, except a last token that was not computed. Throws Error kInvalidArgument and changes
/// nothing for wrong parameters, and where the prompt does not fit the context, with both numbers. Throws
/// NotNumbersError where the model computes NaN or infinity.
Generation generate(Context& context, Sampler& sampler, std::span<const Token> prompt,
                    const GenerateParams& params = {}, SeqId seq = 0);
inline Generation generate(Context& context, Sampler& sampler, std::initializer_list<Token> prompt,
                           const GenerateParams& params = {}, SeqId seq = 0) {
  return generate(context, sampler, std::span(prompt.begin(), prompt.size()), params, seq);
}

}  // namespace weft

#pragma GCC visibility pop
