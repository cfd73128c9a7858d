// Batches, contexts, samplers and the generation of one sequence.
#include "context.h"

#include <algorithm>
#include <cstdint>

#include "media.h"
#include "weft/generate.h"

using namespace weft;
using namespace weft::c;

struct weft_batch {
  Batch batch;
};

struct weft_sampler {
  std::shared_ptr<const Tokenizer> tokenizer;  // Null if it was made from n_vocab alone.
  Sampler sampler;
  OneUser user = {};
};

static_assert(WEFT_CACHE_IQ4_NL == static_cast<int>(CacheType::kIQ4_NL));

namespace weft::c {

template <>
weft_context_params defaults() {
  const ContextParams d;
  weft_context_params p = {};
  p.n_ctx = d.n_ctx;
  p.n_sequences = d.n_sequences;
  p.n_ubatch = d.n_ubatch;
  p.n_outputs = d.n_outputs;
  p.n_threads = d.n_threads;
  p.n_best = d.n_best;
  p.rotate_cache = d.rotate_cache;
  p.window_rewind = d.window_rewind;
  p.state_rewind = d.state_rewind;
  return p;
}

template <>
weft_generate_params defaults() {
  const GenerateParams d;
  weft_generate_params p = {};
  p.n_predict = d.n_predict;
  p.n_keep = d.n_keep;
  return p;
}

namespace {

/// The numbers of a sampler, each once, for both directions.
template <typename Theirs, typename Ours, typename F>
void each_number(Theirs& p, Ours& s, F&& move) {
  move(p.seed, s.seed);
  move(p.temperature, s.temperature);
  move(p.top_k, s.top_k);
  move(p.top_p, s.top_p);
  move(p.min_p, s.min_p);
  move(p.typical_p, s.typical_p);
  move(p.top_n_sigma, s.top_n_sigma);
  move(p.xtc_probability, s.xtc_probability);
  move(p.xtc_threshold, s.xtc_threshold);
  move(p.dynamic_temperature_range, s.dynamic_temperature_range);
  move(p.dynamic_temperature_exponent, s.dynamic_temperature_exponent);
  move(p.mirostat, s.mirostat);
  move(p.mirostat_tau, s.mirostat_tau);
  move(p.mirostat_eta, s.mirostat_eta);
  move(p.penalty_last_n, s.penalty_last_n);
  move(p.repetition_penalty, s.repetition_penalty);
  move(p.frequency_penalty, s.frequency_penalty);
  move(p.presence_penalty, s.presence_penalty);
  move(p.dry_multiplier, s.dry_multiplier);
  move(p.dry_base, s.dry_base);
  move(p.dry_allowed_length, s.dry_allowed_length);
  move(p.dry_penalty_last_n, s.dry_penalty_last_n);
}

}  // namespace

template <>
weft_sampler_params defaults() {
  const SamplerParams d;
  weft_sampler_params p = {};
  each_number(p, d, [](auto& theirs, const auto& ours) { theirs = ours; });
  return p;
}

SamplerParams sampler_params(const weft_sampler_params* given) {
  const weft_sampler_params p = read(given, "sampler params");
  SamplerParams params;
  each_number(p, params, [](const auto& theirs, auto& ours) { ours = theirs; });
  for (const weft_logit_bias& one : list(p.logit_bias, p.n_logit_bias, "logit_bias"))
    params.logit_bias.emplace_back(one.token, one.bias);
  if (p.steps != nullptr) params.steps = parse_sampler_steps(p.steps);
  if (p.dry_breakers != nullptr)
    params.dry_breakers = texts(p.dry_breakers, p.n_dry_breakers, "dry_breakers");
  return params;
}

void ContextBox::take() {
  const OneUser::Hold hold(user, "the context");
  if (taken.exchange(true)) refuse("the context belongs to another batcher");
}

namespace {

/// Runs a function on a context.
template <typename F>
auto with(const weft_context* context, F&& use) {
  ContextBox& box = *need(context, "context").box;
  const OneUser::Hold hold(box.user, "the context");
  if (box.taken) refuse("the context belongs to a batcher");
  return use(box);
}
/// The same, as the body of a function that returns a status.
template <typename F>
weft_status run_with(const weft_context* context, weft_error** error, F&& use) {
  return run(error, [&] { with(context, [&](ContextBox& box) { use(box.context); }); });
}
void need_room(const Context& context, bool had_room) {
  if (!had_room) cache_full(context.cache().why_full());
}
/// Returns a row that the context owns.
template <typename F>
const float* row(const weft_context* context, size_t* n, weft_error** error, F&& find) {
  return make(error, [&] {
    const std::span<const float> numbers =
        with(context, [&](const ContextBox& box) { return find(box.context); });
    tell(n, numbers.size());
    return numbers.data();
  });
}

template <typename F>
weft_status change(weft_batch* batch, weft_error** error, F&& body) {
  return run(error, [&] { body(need(batch, "batch").batch); });
}
/// Changes the options of an item.
template <typename F>
weft_status change_item(weft_batch* batch, int32_t item, weft_error** error, F&& body) {
  return change(batch, error, [&](Batch& all) {
    ItemOptions options = all.options(item);
    body(options);
    all.set_options(item, options);
  });
}

}  // namespace

}  // namespace weft::c

void weft_context_params_init(weft_context_params* params, size_t struct_size) { init(params, struct_size); }
weft_context* weft_context_create(const weft_model* model, const weft_context_params* params,
                                  weft_error** error) {
  return make(error, [&] {
    const std::shared_ptr<LoadedModel>& loaded = need(model, "model").loaded;
    const weft_context_params p = read(params, "params");
    const ContextParams all = {
        .n_ctx = p.n_ctx,
        .n_sequences = p.n_sequences,
        .n_ubatch = p.n_ubatch,
        .n_source = p.n_source,
        .n_outputs = p.n_outputs,
        .n_threads = p.n_threads,
        .n_best = p.n_best,
        .k_type = cache_type(p.k_type, "k_type"),
        .v_type = cache_type(p.v_type, "v_type"),
        .rotate_cache = p.rotate_cache,
        .window_rewind = p.window_rewind,
        .state_rewind = static_cast<int>(std::clamp<std::int64_t>(p.state_rewind, -1, INT32_MAX)),
        .adapters = adapter_uses(p.adapters, p.n_adapters)};
    if (p.shares_with == nullptr)
      return std::make_unique<weft_context>(std::make_shared<ContextBox>(loaded, all));
    ContextBox& other = *p.shares_with->box;
    const OneUser::Hold hold(other.user, "the context of shares_with");
    return std::make_unique<weft_context>(std::make_shared<ContextBox>(loaded, all, other.context));
  });
}
void weft_context_free(weft_context* context) { delete context; }

weft_batch* weft_batch_create(weft_error** error) {
  return make(error, [] { return std::make_unique<weft_batch>(); });
}
void weft_batch_free(weft_batch* batch) { delete batch; }
void weft_batch_clear(weft_batch* batch) {
  if (batch != nullptr) batch->batch.clear();
}
int32_t weft_batch_size(const weft_batch* batch) { return batch == nullptr ? 0 : batch->batch.size(); }
weft_status weft_batch_add(weft_batch* batch, weft_token token, weft_seq seq, weft_pos pos, bool logits,
                           weft_error** error) {
  return change(batch, error, [&](Batch& all) { all.add(token, seq, {.logits = logits, .pos = pos}); });
}
weft_status weft_batch_add_tokens(weft_batch* batch, const weft_token* tokens, size_t n_tokens, weft_seq seq,
                                  bool logits_at_end, weft_error** error) {
  return change(batch, error, [&](Batch& all) {
    all.add(list(tokens, n_tokens, "tokens"), seq, {.logits = logits_at_end});
  });
}
weft_status weft_batch_add_shared(weft_batch* batch, weft_token token, const weft_seq* seqs, size_t n_seqs,
                                  weft_pos pos, bool logits, weft_error** error) {
  return change(batch, error, [&](Batch& all) {
    all.add(token, list(seqs, n_seqs, "seqs"), {.logits = logits, .pos = pos});
  });
}
weft_status weft_batch_add_embedding(weft_batch* batch, const float* embedding, size_t n, weft_seq seq,
                                     weft_pos pos, bool logits, weft_error** error) {
  return change(batch, error, [&](Batch& all) {
    all.add(list(embedding, n, "embedding"), seq, {.logits = logits, .pos = pos});
  });
}
weft_status weft_batch_set_n_best(weft_batch* batch, int32_t item, int32_t n, weft_error** error) {
  return change_item(batch, item, error, [&](ItemOptions& options) {
    if (n < 1) refuse("the number of best tokens is " + std::to_string(n) + ", expected at least 1");
    options.n_best = n;
  });
}
weft_status weft_batch_set_log_sum_exp(weft_batch* batch, int32_t item, weft_token token,
                                       weft_error** error) {
  return change_item(batch, item, error, [&](ItemOptions& options) {
    options.log_sum_exp = true;
    options.logit_of = token;
  });
}
weft_status weft_batch_set_embedding(weft_batch* batch, int32_t item, weft_error** error) {
  return change_item(batch, item, error, [&](ItemOptions& options) { options.embedding = true; });
}
weft_status weft_batch_set_attend_to(weft_batch* batch, int32_t item, weft_pos end, weft_error** error) {
  return change_item(batch, item, error, [&](ItemOptions& options) { options.attend_to = end; });
}
weft_status weft_batch_set_axes(weft_batch* batch, int32_t item, const weft_pos positions[3],
                                weft_error** error) {
  return change_item(batch, item, error, [&](ItemOptions& options) {
    const std::span<const weft_pos> at = list(positions, 3, "positions");
    for (const weft_pos pos : at)
      if (pos < 0) refuse("the position of an item is " + std::to_string(pos) + ", expected at least 0");
    options.axes = {at[0], at[1], at[2]};
  });
}
weft_status weft_batch_hide(weft_batch* batch, int32_t item, int32_t other, weft_error** error) {
  return change(batch, error, [&](Batch& all) { all.hide(item, other); });
}

weft_status weft_context_decode(weft_context* context, const weft_batch* batch, weft_error** error) {
  return run_with(context, error, [&](Context& all) {
    const Batch& items = need(batch, "batch").batch;
    switch (all.decode(items)) {
      case DecodeStatus::kOk:
        return;
      case DecodeStatus::kCacheFull:
        cache_full(all.cache().why_full(items.size()));
      case DecodeStatus::kCancelled:
        throw Error(ErrorCode::kCancelled, "the batch was cancelled");
    }
  });
}
void weft_context_cancel(weft_context* context) {
  if (context != nullptr && !context->box->taken) context->box->context.cancel();
}

const float* weft_context_logits(const weft_context* context, int32_t item, size_t* n, weft_error** error) {
  return row(context, n, error, [item](const Context& all) { return all.logits(item); });
}
const weft_best* weft_context_best(weft_context* context, int32_t item, size_t* n, weft_error** error) {
  return make(error, [&] {
    return with(context, [&](ContextBox& box) -> const weft_best* {
      box.best.clear();
      for (const Best& one : box.context.best(item))
        box.best.push_back({.token = one.id, .logit = one.logit});
      tell(n, box.best.size());
      return box.best.data();
    });
  });
}
weft_status weft_context_log_sum_exp(const weft_context* context, int32_t item, float* result,
                                     weft_error** error) {
  return run_with(context, error, [&](const Context& all) {
    float& to = need(result, "result");
    to = all.log_sum_exp(item);
  });
}
weft_status weft_context_logit(const weft_context* context, int32_t item, float* result, weft_error** error) {
  return run_with(context, error, [&](const Context& all) {
    float& to = need(result, "result");
    to = all.logit(item);
  });
}
const float* weft_context_embedding(const weft_context* context, int32_t item, size_t* n,
                                    weft_error** error) {
  return row(context, n, error, [item](const Context& all) { return all.embedding(item); });
}

weft_status weft_context_remove(weft_context* context, weft_seq seq, weft_pos begin, weft_pos end,
                                weft_error** error) {
  return run_with(context, error, [&](Context& all) { all.cache().remove(seq, begin, end); });
}
weft_status weft_context_copy(weft_context* context, weft_seq from, weft_seq to, weft_pos begin, weft_pos end,
                              weft_error** error) {
  return run_with(context, error,
                  [&](Context& all) { need_room(all, all.cache().copy(from, to, begin, end)); });
}
weft_status weft_context_keep(weft_context* context, weft_seq seq, weft_error** error) {
  return run_with(context, error, [&](Context& all) { all.cache().keep(seq); });
}
weft_status weft_context_shift(weft_context* context, weft_seq seq, weft_pos begin, weft_pos end,
                               weft_pos delta, weft_error** error) {
  return run_with(context, error,
                  [&](Context& all) { need_room(all, all.cache().shift(seq, begin, end, delta)); });
}
weft_status weft_context_divide(weft_context* context, weft_seq seq, weft_pos begin, weft_pos end,
                                int32_t divisor, weft_error** error) {
  return run_with(context, error,
                  [&](Context& all) { need_room(all, all.cache().divide(seq, begin, end, divisor)); });
}
weft_status weft_context_clear(weft_context* context, weft_error** error) {
  return run_with(context, error, [](Context& all) { all.cache().clear(); });
}
weft_status weft_context_set_adapters(weft_context* context, weft_seq seq, const weft_adapter_use* adapters,
                                      size_t n_adapters, weft_error** error) {
  return run_with(context, error,
                  [&](Context& all) { all.set_adapters(seq, adapter_uses(adapters, n_adapters)); });
}
weft_status weft_context_next_pos(const weft_context* context, weft_seq seq, weft_pos* pos,
                                  weft_error** error) {
  return run_with(context, error, [&](const Context& all) { need(pos, "pos") = all.cache().next_pos(seq); });
}
weft_status weft_context_min_pos(const weft_context* context, weft_seq seq, weft_pos* pos,
                                 weft_error** error) {
  return run_with(context, error, [&](const Context& all) { need(pos, "pos") = all.cache().min_pos(seq); });
}
weft_status weft_context_can_cut(const weft_context* context, weft_seq seq, weft_pos pos, bool* can,
                                 weft_error** error) {
  return run_with(context, error,
                  [&](const Context& all) { need(can, "can") = all.cache().can_cut(seq, pos); });
}
weft_status weft_context_intact(const weft_context* context, weft_seq seq, bool* intact, weft_error** error) {
  return run_with(context, error, [&](const Context& all) {
    need(intact, "intact") = seq == WEFT_ALL_SEQUENCES ? all.cache().intact() : all.cache().intact(seq);
  });
}
weft_status weft_context_get_info(const weft_context* context, weft_context_info* info, weft_error** error) {
  return run_with(context, error, [&](const Context& all) {
    weft_context_info told = {};
    told.n_ctx = all.params().n_ctx;
    told.n_sequences = all.params().n_sequences;
    told.n_ubatch = all.params().n_ubatch;
    told.batch_size = all.batch_size();
    told.cells_used = all.cache().cells_used();
    told.cells_total = all.cache().cells_total();
    told.cache_bytes = all.cache().bytes();
    told.can_shift = all.cache().can_shift();
    write(info, told, "info");
  });
}

weft_status weft_context_save(const weft_context* context, weft_seq seq, void** state, size_t* n_bytes,
                              weft_error** error) {
  return run_with(context, error, [&](const Context& all) {
    need(state, "state");
    need(n_bytes, "n_bytes");
    const std::vector<std::byte> bytes = seq == WEFT_ALL_SEQUENCES ? all.save() : all.save(seq);
    *state = copy_of(std::span(bytes)).release();
    *n_bytes = bytes.size();
  });
}
weft_status weft_context_restore(weft_context* context, weft_seq seq, const void* state, size_t n_bytes,
                                 weft_error** error) {
  return run_with(context, error, [&](Context& all) {
    const auto bytes = list(static_cast<const std::byte*>(state), n_bytes, "state");
    need_room(all, seq == WEFT_ALL_SEQUENCES ? all.restore(bytes) : all.restore(bytes, seq));
  });
}
weft_status weft_context_save_file(const weft_context* context, weft_seq seq, const char* path,
                                   weft_error** error) {
  return run_with(context, error, [&](const Context& all) {
    const char* const to = need_text(path, "path");
    seq == WEFT_ALL_SEQUENCES ? all.save_file(to) : all.save_file(to, seq);
  });
}
weft_status weft_context_restore_file(weft_context* context, weft_seq seq, const char* path,
                                      weft_error** error) {
  return run_with(context, error, [&](Context& all) {
    const char* const from = need_text(path, "path");
    need_room(all, seq == WEFT_ALL_SEQUENCES ? all.restore_file(from) : all.restore_file(from, seq));
  });
}

void weft_sampler_params_init(weft_sampler_params* params, size_t struct_size) { init(params, struct_size); }
weft_sampler* weft_sampler_create(int32_t n_vocab, const weft_sampler_params* params, weft_error** error) {
  return make(error, [&] {
    if (n_vocab < 1) refuse("n_vocab is " + std::to_string(n_vocab) + "; a vocabulary has tokens");
    return std::unique_ptr<weft_sampler>(
        new weft_sampler{.tokenizer = nullptr, .sampler = Sampler(sampler_params(params), n_vocab)});
  });
}
weft_sampler* weft_sampler_create_for(const weft_tokenizer* tokenizer, const weft_sampler_params* params,
                                      weft_error** error) {
  return make(error, [&] {
    const std::shared_ptr<const Tokenizer>& texts_of = need(tokenizer, "tokenizer").tokenizer;
    return std::unique_ptr<weft_sampler>(
        new weft_sampler{.tokenizer = texts_of, .sampler = Sampler(sampler_params(params), *texts_of)});
  });
}
void weft_sampler_free(weft_sampler* sampler) { delete sampler; }

namespace {
template <typename F>
weft_status run_with(weft_sampler* sampler, weft_error** error, F&& use) {
  return run(error, [&] {
    weft_sampler& self = need(sampler, "sampler");
    const OneUser::Hold hold(self.user, "the sampler");
    use(self.sampler);
  });
}
}  // namespace

weft_status weft_sampler_sample(weft_sampler* sampler, const float* logits, size_t n_logits,
                                const uint32_t* allowed, weft_token* token, weft_error** error) {
  return run_with(sampler, error, [&](Sampler& self) {
    const std::span<const float> row(&need(logits, "logits"), n_logits);
    need(token, "token");
    *token = allowed == nullptr ? self.sample(row) : self.sample(row, {allowed, (n_logits + 31) / 32});
  });
}
weft_status weft_sampler_accept(weft_sampler* sampler, weft_token token, weft_error** error) {
  return run_with(sampler, error, [&](Sampler& self) { self.accept(token); });
}
weft_status weft_sampler_reset(weft_sampler* sampler, weft_error** error) {
  return run_with(sampler, error, [](Sampler& self) { self.reset(); });
}
uint64_t weft_sampler_seed(const weft_sampler* sampler) {
  return sampler == nullptr ? 0 : sampler->sampler.seed();
}

void weft_generate_params_init(weft_generate_params* params, size_t struct_size) {
  init(params, struct_size);
}
weft_status weft_generate(weft_context* context, weft_sampler* sampler, const weft_token* prompt,
                          size_t n_prompt, weft_seq seq, const weft_generate_params* params, char** text,
                          weft_token** tokens, size_t* n_tokens, weft_generation* result,
                          weft_error** error) {
  return run_with(context, error, [&](Context& all) {
    weft_sampler& draw = need(sampler, "sampler");
    const OneUser::Hold hold(draw.user, "the sampler");
    if (tokens != nullptr) need(n_tokens, "n_tokens");
    if (result != nullptr) check_size(result->struct_size, "result", "set it to the struct's sizeof");
    const weft_generate_params p = read(params, "params");
    GenerateParams how = {.n_skipped = p.n_skipped,
                          .n_predict = p.n_predict,
                          .ignore_end = p.ignore_end,
                          .stop = texts(p.stop, p.n_stop, "stop"),
                          .context_shift = p.context_shift,
                          .n_keep = p.n_keep,
                          .special = p.special,
                          .n_chunk = p.n_chunk};
    const std::unique_ptr<TokenConstraint> constraint =
        p.grammar == nullptr ? nullptr : p.grammar->compiled->constraint();
    how.constraint = constraint.get();
    if (p.media != nullptr) how.parts = p.media->prompt.parts;
    if (p.on_text != nullptr)
      how.on_text = [&p](std::string_view piece) {
        return p.on_text(std::string(piece).c_str(), piece.size(), p.user_data);
      };
    if (p.on_prefill != nullptr)
      how.on_prefill = [&p](int n_done) { return p.on_prefill(n_done, p.user_data); };
    const Generation made = generate(all, draw.sampler, list(prompt, n_prompt, "prompt"), how, seq);
    Given<char> made_text = text == nullptr ? nullptr : copy_of(made.text);
    if (tokens != nullptr) {
      *tokens = copy_of(std::span(made.tokens)).release();
      *n_tokens = made.tokens.size();
    }
    if (text != nullptr) *text = made_text.release();
    if (result == nullptr) return;
    weft_generation told = {};
    told.stop = static_cast<weft_stop>(made.stop);
    told.n_prompt = made.n_prompt;
    told.n_generated = static_cast<int32_t>(made.tokens.size());
    told.n_decoded = made.n_decoded;
    told.prefill_ms = made.prefill_ms;
    told.decode_ms = made.decode_ms;
    write(result, told, "result");
  });
}
