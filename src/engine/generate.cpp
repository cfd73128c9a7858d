#include "weft/generate.h"

#include <algorithm>
#include <chrono>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/drawn_token.h"
#include "engine/forget.h"
#include "engine/prompt_parts.h"
#include "engine/refuse.h"
#include "engine/text_writer.h"
#include "weft/batcher.h"
#include "weft/error.h"

namespace weft {

using engine::refuse;

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

class Generator {
 public:
  Generator(Context& context, Sampler& sampler, const GenerateParams& params, SeqId seq)
      : context_(context),
        sampler_(sampler),
        params_(params),
        seq_(seq),
        writer_(context.model().tokenizer(), params.special, params.stop) {}

  Generation run(std::span<const Token> prompt) {
    check(prompt);
    result_.n_prompt = static_cast<int>(prompt.size());
    const auto start = Clock::now();
    const bool ready = reads_source() ? begin_text(prompt) : prefill(prompt);
    result_.prefill_ms = ms_since(start);
    if (ready) {
      const auto decode_start = Clock::now();
      while (step()) {
      }
      result_.decode_ms = ms_since(decode_start);
    }
    if (result_.stop != StopReason::kStopString) {
      std::string rest;
      if (writer_.finish(rest)) stopped(StopReason::kStopString);
      append(rest);
    }
    context_.take_back_cancel();  // The cancel() was meant for this generation.
    return std::move(result_);
  }

 private:
  bool reads_source() const { return context_.model().info().reads_source; }

  void check(std::span<const Token> prompt) const {
    if (prompt.empty()) refuse("the prompt is empty");
    if (reads_source() && !params_.parts.empty())
      throw Error(ErrorCode::kUnsupported,
                  "an encoder input is text only; this model accepts no images or audio");
    if (!reads_source()) engine::check_prompt(prompt, params_.parts, context_);
    if (params_.n_chunk < 0)
      refuse("n_chunk is " + std::to_string(params_.n_chunk) + "; it must be 1 or more tokens, or 0");
    if (params_.n_skipped < 0 || params_.n_skipped > context_.cache().next_pos(seq_))
      refuse("n_skipped is " + std::to_string(params_.n_skipped) + "; the sequence has " +
             base::counted(context_.cache().next_pos(seq_), "position"));
    if (params_.n_keep < 0)
      refuse("n_keep is " + std::to_string(params_.n_keep) + "; it must not be negative");
    for (const std::string& stop : params_.stop)
      if (stop.empty()) refuse("a stop string is empty; leave it out");
    if (params_.context_shift) check_shift();
    if (reads_source()) return;
    const auto room = to_size(context_.cache().cells_total() - context_.cache().cells_used());
    if (prompt.size() > room)
      refuse("the prompt has " + base::counted(prompt.size(), "token") + ", but the context has room for " +
             std::to_string(room) + "; enlarge the context (n_ctx), or shorten the prompt");
  }

  void check_shift() const {
    engine::check_forgets(context_, params_.parts, params_.n_keep,
                          std::min<int>(context_.cache().cells_total(), context_.cache().max_positions()));
    if (params_.n_skipped > 0)
      throw Error(ErrorCode::kUnsupported,
                  "the context cannot be shifted: the sequence has images with 2D positions; leave "
                  "context_shift out");
  }

  bool stopped(StopReason reason) {
    result_.stop = reason;
    return false;
  }

  /// Whether a step was computed; otherwise the generation ends.
  bool computed(DecodeStatus status) {
    if (status == DecodeStatus::kCacheFull) return stopped(StopReason::kContextFull);
    return status == DecodeStatus::kOk || stopped(StopReason::kCancelled);
  }

  bool reported_prefill(std::size_t n) {
    return !params_.on_prefill || params_.on_prefill(static_cast<int>(n)) || stopped(StopReason::kCancelled);
  }

  /// The prompt is the encoder input of a sequence, which begins with the decoder's first token.
  bool begin_text(std::span<const Token> prompt) {
    if (!computed(context_.set_source(seq_, prompt)) || !reported_prefill(prompt.size())) return false;
    const Token first = context_.model().info().first_token;
    batch_.add(first, seq_, for_drawing());
    if (!computed(context_.decode(batch_))) return false;
    sampler_.accept(first);
    return true;
  }

  /// Decodes the prompt in chunks; logits at its end only.
  bool prefill(std::span<const Token> prompt) {
    const auto chunk = to_size(params_.n_chunk > 0 ? params_.n_chunk : context_.batch_size());
    const engine::PlacedPrompt placed(prompt, params_.parts, seq_, context_.cache().next_pos(seq_),
                                      params_.n_skipped);
    n_skipped_ = placed.n_skipped();
    for (std::size_t done = 0; done < prompt.size();) {
      const auto n = to_size(engine::whole_parts(params_.parts, static_cast<int>(done),
                                                 static_cast<int>(std::min(chunk, prompt.size() - done)), 0,
                                                 context_.params().n_ubatch));
      batch_.clear();
      for (std::size_t i = done; i < done + n; ++i)
        placed.add(static_cast<int>(i), batch_, i + 1 == prompt.size() ? for_drawing() : ItemOptions{});
      done += n;
      if (!computed(context_.decode(batch_)) || !reported_prefill(done)) return false;
    }
    for (const Token token : prompt)
      if (token >= 0) sampler_.accept(token);
    return true;
  }

  /// One token: draws it from the last logits, outputs it and decodes it. False at the end.
  bool step() {
    if (is_long_enough()) return stopped(StopReason::kLength);
    const Token token = draw();
    sampler_.accept(token);
    if (params_.constraint != nullptr) params_.constraint->accept(token);
    const bool is_end = context_.model().tokenizer().is_end(token);
    if (is_end && (!params_.ignore_end || params_.constraint != nullptr)) return stopped(StopReason::kEnd);
    result_.tokens.push_back(token);
    if (!write(token)) return false;
    if (is_long_enough()) return stopped(StopReason::kLength);
    if (context_.cache().next_pos(seq_) >= context_.cache().max_positions())
      return stopped(StopReason::kContextFull);
    batch_.clear();
    ItemOptions options = for_drawing();
    options.axes = engine::axes_of_token(context_.cache().next_pos(seq_), n_skipped_);
    batch_.add(token, seq_, options);
    DecodeStatus status = context_.decode(batch_);
    if (status == DecodeStatus::kCacheFull && params_.context_shift && make_room())
      status = context_.decode(batch_);
    if (!computed(status)) return false;
    ++result_.n_decoded;
    return true;
  }

  bool is_long_enough() const {
    return params_.n_predict >= 0 && static_cast<int>(result_.tokens.size()) >= params_.n_predict;
  }

  Token draw() {
    const int last = batch_.size() - 1;
    if (params_.constraint != nullptr) {
      allowed_.assign((to_size(context_.model().info().n_vocab) + 31) / 32, 0);
      params_.constraint->fill({}, allowed_);
    }
    return engine::draw_token(context_, last, batch_[last].options.n_best > 0, sampler_, allowed_);
  }

  /// If the best few tokens suffice, the step need not return logits. A constraint's mask is known too late
  /// for that.
  ItemOptions for_drawing() const {
    const int n = params_.constraint != nullptr ? 0 : sampler_.n_best();
    return {.logits = true, .n_best = n <= context_.params().n_best ? n : 0};
  }

  bool make_room() {
    const engine::Middle middle = engine::middle_of(context_, seq_, params_.n_keep);
    return middle.n > 0 && context_.cache().forget(seq_, middle.begin, middle.n);
  }

  bool write(Token token) {
    std::string free;
    const bool stop = writer_.push(token, free);
    if (!append(free)) return stopped(StopReason::kCancelled);
    return !stop || stopped(StopReason::kStopString);
  }

  bool append(std::string_view text) {
    result_.text += text;
    if (!text.empty() && wants_more_ && params_.on_text) wants_more_ = params_.on_text(text);
    return wants_more_;
  }

  Context& context_;
  Sampler& sampler_;
  const GenerateParams& params_;
  const SeqId seq_;
  engine::TextWriter writer_;
  bool wants_more_ = true;  // The last result of on_text.
  Batch batch_;
  std::vector<std::uint32_t> allowed_;  // A bit for each token.
  Pos n_skipped_ = 0;                   // In the generated sequence.
  Generation result_;
};

}  // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kEnd:
      return "end";
    case StopReason::kLength:
      return "length";
    case StopReason::kContextFull:
      return "context";
    case StopReason::kStopString:
      return "stop";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kTimeout:
      return "timeout";
    case StopReason::kError:
      return "error";
  }
  return "";
}

Generation generate(Context& context, Sampler& sampler, std::span<const Token> prompt,
                    const GenerateParams& params, SeqId seq) try {
  return Generator(context, sampler, params, seq).run(prompt);
} catch (...) {
  engine::rethrow_as_error();
}

}  // namespace weft
