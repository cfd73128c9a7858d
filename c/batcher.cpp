// Batchers, services and their outputs.
#include "weft/batcher.h"

#include <chrono>

#include "chat.h"
#include "context.h"
#include "media.h"
#include "weft/service.h"
#include "weft/token_bans.h"

using namespace weft;
using namespace weft::c;

static_assert(WEFT_SPECULATION_MODEL == static_cast<int>(Speculation::kModel));
static_assert(WEFT_CACHE_RAM_AUTO == CacheTiers::kAutomatic);
static_assert(WEFT_POOLING_LAST == static_cast<int>(Pooling::kLast));

namespace weft::c {

template <>
weft_batcher_params defaults() {
  const ServiceParams d;
  weft_batcher_params p = {};
  p.n_running = d.batcher.n_running;
  p.n_step_tokens = d.batcher.n_step_tokens;
  p.max_step_ms = d.batcher.max_step_ms;
  p.max_pause_ms = d.batcher.max_pause_ms;
  p.n_waiting = d.batcher.limits.n_waiting;
  p.n_draft = d.batcher.n_draft;
  p.n_unread = d.n_unread;
  p.reuse_prefixes = d.batcher.reuse_prefixes;
  p.cache_ram_bytes = d.batcher.tiers.ram_bytes;
  p.cache_disk_bytes = d.batcher.tiers.disk_bytes;
  p.snapshot_bytes = d.batcher.snapshot_bytes;
  p.n_snapshots = d.batcher.n_snapshots;
  p.n_draft_branches = d.batcher.n_draft_branches;
  p.n_waiting_tokens = d.batcher.limits.n_waiting_tokens;
  p.n_request_tokens = d.batcher.limits.n_request_tokens;
  p.stop_bytes = d.batcher.limits.stop_bytes;
  p.n_stops = d.batcher.limits.n_stops;
  p.n_completions = d.batcher.limits.n_completions;
  p.adapt_drafts = d.batcher.adapt_drafts;
  return p;
}

template <>
weft_request_params defaults() {
  const RequestParams d;
  weft_request_params p = {};
  p.n = d.n;
  p.n_predict = d.n_predict;
  p.n_logprobs = d.n_logprobs;
  p.n_keep = d.n_keep;
  p.speculate = d.speculate;
  p.reuse_prefix = d.reuse_prefix;
  return p;
}

namespace {

using Box = std::shared_ptr<ContextBox>;

/// Holds a batcher's context and, if there is one, its draft model's context, for the lifetime of this
/// object.
class Taken {
 public:
  Taken(Box context, Box draft) : context_(std::move(context)), draft_(std::move(draft)) {
    context_->take();
    try {
      if (draft_ != nullptr) draft_->take();
    } catch (...) {
      context_->give_back();
      throw;
    }
  }
  ~Taken() {
    context_->give_back();
    if (draft_ != nullptr) draft_->give_back();
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  Context& context() { return context_->context; }
  const Tokenizer& tokenizer() const { return context_->loaded->model->tokenizer(); }
  std::shared_ptr<Context> draft() const {
    return draft_ == nullptr ? nullptr : std::shared_ptr<Context>(draft_, &draft_->context);
  }

 private:
  Box context_, draft_;
};

Box draft_of(const weft_batcher_params& p) { return p.draft == nullptr ? nullptr : p.draft->box; }

ServiceParams service_params(const weft_batcher_params& p, std::shared_ptr<Context> draft) {
  ServiceParams params;
  if (p.n_unread < 1) refuse("n_unread is " + std::to_string(p.n_unread) + "; it must be 1 token or more");
  params.n_unread = p.n_unread;
  params.batcher.n_running = p.n_running;
  params.batcher.n_step_tokens = p.n_step_tokens;
  params.batcher.max_step_ms = p.max_step_ms;
  params.batcher.max_pause_ms = p.max_pause_ms;
  params.batcher.limits = {.n_waiting = p.n_waiting,
                           .n_waiting_tokens = p.n_waiting_tokens,
                           .n_completions = p.n_completions,
                           .n_request_tokens = p.n_request_tokens,
                           .n_stops = p.n_stops,
                           .stop_bytes = p.stop_bytes};
  params.batcher.reuse_prefixes = p.reuse_prefixes;
  params.batcher.n_snapshots = p.n_snapshots;
  params.batcher.snapshot_bytes = p.snapshot_bytes;
  params.batcher.tiers.ram_bytes = p.cache_ram_bytes;
  params.batcher.tiers.disk = text_or_nothing(p.cache_disk);
  params.batcher.tiers.disk_bytes = p.cache_disk_bytes;
  if (p.on_note != nullptr)
    params.batcher.tiers.on_note = [call = p.on_note, data = p.note_data](const std::string& note) {
      call(note.c_str(), data);
    };
  params.batcher.speculation = choice(p.speculation, Speculation::kModel, "speculation");
  params.batcher.n_draft = p.n_draft;
  params.batcher.n_draft_branches = p.n_draft_branches;
  params.batcher.adapt_drafts = p.adapt_drafts;
  params.batcher.draft = std::move(draft);
  return params;
}

/// An output as C reads it. It refers to the C++ output that it was made from.
class Told {
 public:
  template <typename From>
  const weft_output& tell(RequestId request, const From& from) {
    text_ = from.text;
    error_ = from.error;
    out_ = {};
    out_.struct_size = sizeof out_;
    out_.request = request;
    out_.completion = from.completion;
    out_.done = from.done;
    out_.stop = static_cast<weft_stop>(from.stop);
    out_.stop_string = from.stop_string;
    out_.text = text_.c_str();
    out_.n_bytes = text_.size();
    out_.tokens = list(from.tokens, tokens_, tops_);
    out_.n_tokens = from.tokens.size();
    out_.prompt = list(from.prompt, prompt_, prompt_tops_);
    out_.n_prompt = from.prompt.size();
    out_.embedding = from.embedding.data();
    out_.n_embedding = from.embedding.size();
    out_.error = error_.c_str();
    out_.not_numbers = from.not_numbers;
    if (from.done) out_.stats = &tell_stats(from.stats);
    return out_;
  }

 private:
  static const weft_output_token* list(std::span<const OutputToken> from, std::vector<weft_output_token>& to,
                                       std::vector<weft_logprob>& tops) {
    to.clear();
    tops.clear();
    for (const OutputToken& token : from)
      for (const Logprob& one : token.top) tops.push_back({.token = one.id, .logprob = one.logprob});
    std::size_t place = 0;
    for (const OutputToken& token : from) {
      to.push_back({.token = token.id,
                    .logprob = token.logprob,
                    .top = tops.data() + place,
                    .n_top = token.top.size()});
      place += token.top.size();
    }
    return to.data();
  }
  const weft_completion_stats& tell_stats(const CompletionStats& from) {
    stats_ = {};
    stats_.struct_size = sizeof stats_;
    stats_.n_prompt = from.n_prompt;
    stats_.n_cached = from.n_cached;
    stats_.n_generated = from.n_generated;
    stats_.n_preempted = from.n_preempted;
    stats_.n_recomputed = from.n_recomputed;
    stats_.n_drafted = from.n_drafted;
    stats_.n_accepted = from.n_accepted;
    stats_.queue_ms = from.queue_ms;
    stats_.first_token_ms = from.first_token_ms;
    stats_.total_ms = from.total_ms;
    stats_.n_discarded = from.n_discarded;
    return stats_;
  }

  std::string text_, error_;
  std::vector<weft_output_token> tokens_, prompt_;
  std::vector<weft_logprob> tops_, prompt_tops_;
  weft_completion_stats stats_ = {};
  weft_output out_ = {};
};

RequestParams request_params(const weft_request_params& p, const Tokenizer& tokenizer) {
  RequestParams params;
  params.sampler = sampler_params(p.sampler);
  params.n = p.n;
  params.n_predict = p.n_predict;
  params.ignore_end = p.ignore_end;
  params.n_min = p.n_min;
  params.special = p.special;
  params.stop = texts(p.stop, p.n_stop, "stop");
  params.n_shown_stops = p.n_shown_stops;
  const std::span<const Token> stop_tokens = list(p.stop_tokens, p.n_stop_tokens, "stop_tokens");
  params.stop_tokens.assign(stop_tokens.begin(), stop_tokens.end());
  params.banned_strings = texts(p.banned_strings, p.n_banned_strings, "banned_strings");
  params.reuse_prefix = p.reuse_prefix;
  const std::span<const int> snapshot_at = list(p.snapshot_at, p.n_snapshot_at, "snapshot_at");
  params.snapshot_at.assign(snapshot_at.begin(), snapshot_at.end());
  params.pooling = choice(p.pooling, Pooling::kLast, "pooling");
  params.n_logprobs = p.n_logprobs;
  params.prompt_logprobs = p.prompt_logprobs;
  params.priority = p.priority;
  params.queue_timeout_ms = p.queue_timeout_ms;
  params.first_token_timeout_ms = p.first_token_timeout_ms;
  params.timeout_ms = p.timeout_ms;
  params.context_shift = p.context_shift;
  params.n_keep = p.n_keep;
  params.n_ctx = p.n_ctx;
  params.speculate = p.speculate;
  if (p.media != nullptr) params.parts = p.media->prompt.parts;
  if (p.adapters != nullptr) params.adapters = adapter_uses(p.adapters, p.n_adapters);
  if (p.grammar != nullptr)
    params.constraint = [loaded = p.grammar->loaded, compiled = p.grammar->compiled](int) {
      return compiled->constraint();
    };
  if (p.chat != nullptr) add_chat(params, *p.chat);
  TokenBans bans;
  for (const std::string& word : texts(p.bad_words, p.n_bad_words, "bad_words")) {
    try {
      bans.add_word(word, tokenizer);
    } catch (const Error& error) {
      refuse("bad_words: '" + word + "': " + error.what());
    }
  }
  if (p.allowed_tokens != nullptr && p.n_allowed_tokens == 0)
    refuse("n_allowed_tokens is 0: no token could be generated; give NULL to allow all");
  const std::span<const Token> allowed = list(p.allowed_tokens, p.n_allowed_tokens, "allowed_tokens");
  bans.allowed.assign(allowed.begin(), allowed.end());
  ban_tokens(params, std::move(bans), tokenizer);
  return params;
}

weft_batcher_stats stats_of(const BatcherStats& from) {
  weft_batcher_stats told = {};
  told.n_steps = from.n_steps;
  told.n_failed_steps = from.n_failed_steps;
  told.n_requests = from.n_requests;
  told.n_rejected = from.n_rejected;
  told.n_completed = from.n_completed;
  told.n_cancelled = from.n_cancelled;
  told.n_timed_out = from.n_timed_out;
  told.n_errors = from.n_errors;
  told.n_prompt_tokens = from.n_prompt_tokens;
  told.n_cached_tokens = from.n_cached_tokens;
  told.n_generated_tokens = from.n_generated_tokens;
  told.n_drafted_tokens = from.n_drafted_tokens;
  told.n_accepted_tokens = from.n_accepted_tokens;
  told.n_preempted = from.n_preempted;
  told.n_waiting = from.n_waiting;
  told.n_running = from.n_running;
  told.n_paused = from.n_paused;
  told.cells_total = from.cells_total;
  told.cells_used = from.cells_used;
  told.cells_cached = from.cells_cached;
  told.cells_peak = from.cells_peak;
  told.n_prefilling = from.n_prefilling;
  told.sequences_total = from.sequences_total;
  told.sequences_cached = from.sequences_cached;
  told.snapshots_cached = from.snapshots_cached;
  told.sequences_free = from.sequences_free;
  told.n_rebuilt = from.n_rebuilt;
  told.n_recomputed_tokens = from.n_recomputed_tokens;
  told.n_branches = from.n_branches;
  told.n_evicted = from.n_evicted;
  told.n_snapshots = from.n_snapshots;
  told.n_waiting_tokens = from.n_waiting_tokens;
  told.longest_wait_ms = from.longest_wait_ms;
  told.ms_per_admission = from.ms_per_admission;
  told.host_seconds = from.host_seconds;
  told.decode_seconds = from.decode_seconds;
  told.n_stored_tokens = from.tiers.n_stored_tokens;
  told.n_ram_tokens = from.tiers.n_ram_tokens;
  told.n_disk_tokens = from.tiers.n_disk_tokens;
  told.n_tier_failures = from.tiers.n_failures;
  told.cache_ram_bytes = from.tiers.ram_bytes;
  told.cache_ram_limit = from.tiers.ram_limit;
  told.cache_disk_bytes = from.tiers.disk_bytes;
  return told;
}

}  // namespace

}  // namespace weft::c

struct weft_batcher {
  Taken contexts;
  Batcher batcher;
  OneUser user = {};

  weft_batcher(Box context, const weft_batcher_params& p)
      : contexts(std::move(context), draft_of(p)),
        batcher(contexts.context(), service_params(p, contexts.draft()).batcher) {}
};

namespace {
/// Runs a function on a batcher. Callbacks of a step may call all functions but steps.
template <typename F>
weft_status run_with(const weft_batcher* batcher, weft_error** error, F&& use, bool nested = true) {
  return run(error, [&] {
    weft_batcher& self = const_cast<weft_batcher&>(need(batcher, "batcher"));
    const OneUser::Hold hold(self.user, "the batcher", nested);
    use(self.batcher);
  });
}
}  // namespace

void weft_batcher_params_init(weft_batcher_params* params, size_t struct_size) { init(params, struct_size); }
void weft_request_params_init(weft_request_params* params, size_t struct_size) { init(params, struct_size); }
weft_batcher* weft_batcher_create(weft_context* context, const weft_batcher_params* params,
                                  weft_error** error) {
  return make(error, [&] {
    const Box& box = need(context, "context").box;
    return std::make_unique<weft_batcher>(box, read(params, "params"));
  });
}
void weft_batcher_free(weft_batcher* batcher) { delete batcher; }
weft_status weft_batcher_submit(weft_batcher* batcher, const weft_token* prompt, size_t n_prompt,
                                const weft_request_params* params, weft_request* request,
                                weft_error** error) {
  return run_with(batcher, error, [&](Batcher& self) {
    const weft_request_params given = read(params, "params");
    RequestParams all = request_params(given, batcher->contexts.tokenizer());
    if (given.on_output != nullptr)
      all.on_output = [call = given.on_output, data = given.user_data, told = std::make_shared<Told>()](
                          const Output& output) { return call(&told->tell(output.request, output), data); };
    const RequestId id = self.submit(list(prompt, n_prompt, "prompt"), std::move(all));
    if (request != nullptr) *request = id;
  });
}
weft_status weft_batcher_cancel(weft_batcher* batcher, weft_request request, weft_error** error) {
  return run_with(batcher, error, [&](Batcher& self) { self.cancel(request); });
}
weft_status weft_batcher_pause(weft_batcher* batcher, weft_request request, int32_t completion,
                               weft_error** error) {
  return run_with(batcher, error, [&](Batcher& self) { self.pause(request, completion); });
}
weft_status weft_batcher_resume(weft_batcher* batcher, weft_request request, int32_t completion,
                                weft_error** error) {
  return run_with(batcher, error, [&](Batcher& self) { self.resume(request, completion); });
}
weft_status weft_batcher_step(weft_batcher* batcher, bool* more, weft_error** error) {
  return run_with(
      batcher, error,
      [&](Batcher& self) {
        const bool any = self.step();
        if (more != nullptr) *more = any;
      },
      false);
}
weft_status weft_batcher_run(weft_batcher* batcher, weft_error** error) {
  return run_with(batcher, error, [](Batcher& self) { self.run(); }, false);
}
weft_status weft_batcher_get_stats(const weft_batcher* batcher, weft_batcher_stats* stats,
                                   weft_error** error) {
  return run_with(batcher, error,
                  [&](const Batcher& self) { write(stats, stats_of(self.stats()), "stats"); });
}

struct weft_service {
  std::unique_ptr<Taken> contexts;  // Until the service has ended.
  Service service;
};

struct weft_response {
  Response response;
  RequestId id = response.id();
  Output output = {};
  Told told = {};
  OneUser user = {};
};

weft_service* weft_service_create(weft_context* context, const weft_batcher_params* params,
                                  weft_error** error) {
  return make(error, [&] {
    const Box& box = need(context, "context").box;
    const weft_batcher_params given = read(params, "params");
    auto contexts = std::make_unique<Taken>(box, draft_of(given));
    const ServiceParams all = service_params(given, contexts->draft());
    return std::unique_ptr<weft_service>(
        new weft_service{.contexts = std::move(contexts), .service = Service(std::move(box->context), all)});
  });
}
void weft_service_free(weft_service* service) { delete service; }
weft_response* weft_service_submit(weft_service* service, const weft_token* prompt, size_t n_prompt,
                                   const weft_request_params* params, weft_error** error) {
  return make(error, [&] {
    weft_service& self = need(service, "service");
    const weft_request_params given = read(params, "params");
    if (given.on_output != nullptr) refuse("a service tells by weft_response_next; on_output must be NULL");
    const std::span<const Token> tokens = list(prompt, n_prompt, "prompt");
    return std::unique_ptr<weft_response>(new weft_response{
        .response = self.service.submit({tokens.begin(), tokens.end()},
                                        request_params(given, self.service.model().tokenizer()))});
  });
}
weft_status weft_service_drain(weft_service* service, int64_t at_most_ms, weft_error** error) {
  return run(error, [&] { need(service, "service").service.drain(std::chrono::milliseconds(at_most_ms)); });
}
weft_status weft_service_get_stats(const weft_service* service, weft_batcher_stats* stats,
                                   weft_error** error) {
  return run(error, [&] { write(stats, stats_of(need(service, "service").service.stats()), "stats"); });
}

weft_poll weft_response_next(weft_response* response, int64_t at_most_ms, const weft_output** output,
                             weft_error** error) {
  weft_poll found = WEFT_POLL_FAILED;
  run(error, [&] {
    weft_response& self = need(response, "response");
    need(output, "output");
    const OneUser::Hold hold(self.user, "the response");
    self.output = {};
    Response::Poll poll = Response::Poll::kOutput;
    if (at_most_ms < 0)
      poll = self.response.next(self.output) ? Response::Poll::kOutput : Response::Poll::kEnd;
    else
      poll = self.response.poll(self.output, std::chrono::milliseconds(at_most_ms));
    if (poll == Response::Poll::kOutput) *output = &self.told.tell(self.id, self.output);
    found = poll == Response::Poll::kOutput       ? WEFT_POLL_OUTPUT
            : poll == Response::Poll::kNothingYet ? WEFT_POLL_NOTHING_YET
                                                  : WEFT_POLL_END;
  });
  return found;
}
void weft_response_cancel(weft_response* response) {
  run(nullptr, [&] { need(response, "response").response.cancel(); });
}
weft_status weft_response_on_ready(weft_response* response, weft_ready_callback ready, void* user_data,
                                   weft_error** error) {
  return run(error, [&] {
    weft_response& self = need(response, "response");
    const OneUser::Hold hold(self.user, "the response");
    if (ready == nullptr)
      self.response.on_ready(nullptr);
    else
      self.response.on_ready([ready, user_data] { ready(user_data); });
  });
}
void weft_response_free(weft_response* response) { delete response; }
