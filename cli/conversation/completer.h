#pragma once
// The decode loop of weft run and weft chat: a batcher that computes one request at a time. Later requests
// reuse the prefixes of earlier ones.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/batcher.h"
#include "weft/context.h"

namespace weft::cli {

struct Completion {
  std::string text = {};
  std::vector<Token> tokens = {};  ///< Without the end token.
  StopReason stop = StopReason::kEnd;
  CompletionStats stats = {};

  double prefill_per_second() const;
  double decode_per_second() const;
};

/// Callbacks during a completion; each may be null.
struct CompletionWatch {
  std::function<void(std::string_view)> on_text = {};  ///< New complete UTF-8 characters.
  /// After each step of the prompt: its tokens that are in the cache.
  std::function<void(int)> on_prefill = {};
  /// Asked after each step. False ends the completion with kCancelled.
  std::function<bool()> goes_on = {};
};

class Completer {
 public:
  /// The context must outlive it and is reserved for it (Batcher).
  explicit Completer(Context& context, const BatcherParams& params = {});

  /// Sets RequestParams::on_output itself. Throws like Batcher::submit. Throws Error kDevice if steps keep
  /// failing or a constraint fails, NotNumbersError if the model computes NaN or infinity, and what a
  /// callback throws. Later requests are possible after that.
  Completion complete(std::span<const Token> prompt, RequestParams params, const CompletionWatch& watch);

  const Context& context() const { return context_; }
  const Model& model() const { return context_.model(); }
  Batcher& batcher() { return batcher_; }

 private:
  Context& context_;
  Batcher batcher_;
};

}  // namespace weft::cli
