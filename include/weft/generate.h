#pragma once
// Generates one completion of a prompt on a sequence of a context. For many requests at once use a batcher
// (weft/batcher.h).
//
//   weft::Sampler sampler({.temperature = 0.7f}, model->tokenizer());
//   const auto prompt = model->tokenizer().encode("Once upon a time");
//   std::cout << weft::generate(context, sampler, prompt, {.n_predict = 100}).text;
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
  kError,    ///< Steps failed repeatedly (device or memory), or a constraint failed.
};
/// "end", "length", "context", "stop", "cancelled", "timeout", "error"
std::string_view to_string(StopReason reason);
[[deprecated("use to_string")]] inline std::string_view name(StopReason reason) { return to_string(reason); }

struct GenerateParams {
  /// Images and audio in the prompt, in order (weft/media.h). At their places the prompt has
  /// kMediaToken.
  std::vector<EmbeddedPart> parts = {};
  /// For models with M-RoPE: the sum of EmbeddedPart::n - EmbeddedPart::extent() over parts that the sequence
  /// already holds. It is the number of tokens minus the number of positions that they take.
  Pos n_skipped = 0;
  int n_predict = -1;       ///< The most tokens. Below 0: until an end token, or until the context is full.
  bool ignore_end = false;  ///< Continue after end tokens.
  /// Strings that end the generation; Generation::text excludes them. Empty strings are refused. A match may
  /// begin and end anywhere in a token. The stop string that is complete first ends the generation; if
  /// several are complete at the same byte, the longest. They may contain control tokens, even if `special`
  /// is false.
  std::vector<std::string> stop = {};
  /// When the context is full, drop the older half of the sequence after its first n_keep tokens
  /// (KvCache::forget), and continue. Error kUnsupported if the model cannot, and for parts with images in
  /// models with M-RoPE.
  bool context_shift = false;
  int n_keep = 4;  ///< At least 0. With context_shift, at least 2 less than the context has cells.
  /// Constrains all generated tokens, on the calling thread. With a constraint an end token ends the
  /// generation, even with ignore_end. If it throws, generate() throws. Null: no constraint.
  TokenConstraint* constraint = nullptr;
  /// Generation::text includes control tokens, as the vocabulary spells them, except end tokens.
  bool special = false;
  int n_chunk = 0;  ///< The prompt is computed in batches of this many tokens. 0: Context::batch_size().
  /// Called with new complete UTF-8 characters. Returning false ends the generation with kCancelled.
  std::function<bool(std::string_view)> on_text = {};
  /// Called after each batch of the prompt with the number of prompt tokens computed so far. Returning false
  /// ends the generation with kCancelled.
  std::function<bool(int)> on_prefill = {};
};

struct Generation {
  std::string text = {};
  std::vector<Token> tokens = {};  ///< Without the end token.
  int n_prompt = 0;
  StopReason stop = StopReason::kEnd;
  double prefill_ms = 0.0;
  double decode_ms = 0.0;  ///< Time of n_decoded steps.
  int n_decoded = 0;       ///< Steps after the prompt.
};

/// Appends `prompt` to sequence `seq` and generates. Afterwards the sequence holds the prompt and the
/// generated tokens, except a last one that was not computed. For an encoder-decoder model
/// (ModelInfo::reads_source) the prompt is the source: `seq` must be empty, and then holds only generated
/// tokens. Context::cancel() ends the generation with kCancelled.
///
/// Throws Error kInvalidArgument, and changes nothing, for wrong parameters and for a prompt that does not
/// fit the context; the message has both lengths. Throws NotNumbersError if the model computes NaN or
/// infinity, and errors of Context::decode.
Generation generate(Context& context, Sampler& sampler, std::span<const Token> prompt,
                    const GenerateParams& params = {}, SeqId seq = 0);
inline Generation generate(Context& context, Sampler& sampler, std::initializer_list<Token> prompt,
                           const GenerateParams& params = {}, SeqId seq = 0) {
  return generate(context, sampler, std::span(prompt.begin(), prompt.size()), params, seq);
}

}  // namespace weft

#pragma GCC visibility pop
