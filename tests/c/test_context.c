/* Batches, contexts, samplers, and the writing of one text. */
#define _POSIX_C_SOURCE 200809L /* fork */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { kPrompt = 6 };
static const weft_token prompt[kPrompt] = {1, 5, 9, 4, 7, 3};

static weft_context* make_context(const weft_model* model, int32_t n_ctx, int32_t n_sequences) {
  weft_context_params params;
  weft_context_params_init(&params, sizeof params);
  params.n_ctx = n_ctx;
  params.n_sequences = n_sequences;
  params.n_ubatch = 64;
  params.n_threads = 2;
  params.n_best = 8;
  weft_context* context = NULL;
  MADE(context, weft_context_create(model, &params, &error));
  return context;
}

static int32_t n_vocab_of(const weft_model* model) {
  weft_model_info info;
  info.struct_size = sizeof info;
  OK(weft_model_get_info(model, &info, &error));
  return info.n_vocab;
}

static weft_pos next_pos(const weft_context* context, weft_seq seq) {
  weft_pos pos = -7;
  OK(weft_context_next_pos(context, seq, &pos, &error));
  return pos;
}

static weft_token best_of(const float* logits, size_t n) {
  size_t best = 0;
  for (size_t i = 1; i < n; ++i)
    if (logits[i] > logits[best]) best = i;
  return (weft_token)best;
}

static void batches(void) {
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 0, true, &error));
  OK(weft_batch_add(batch, 3, 0, WEFT_NEXT_POS, true, &error));
  CHECK(weft_batch_size(batch) == kPrompt + 1);
  weft_batch_clear(batch);
  CHECK(weft_batch_size(batch) == 0);
  const weft_seq seqs[] = {0, 1};
  FAILS(weft_batch_add(NULL, 3, 0, 0, true, &error), WEFT_INVALID_ARGUMENT, "batch is NULL");
  FAILS(weft_batch_add_tokens(NULL, prompt, 1, 0, true, &error), WEFT_INVALID_ARGUMENT, "batch is NULL");
  FAILS(weft_batch_add_tokens(batch, NULL, 1, 0, true, &error), WEFT_INVALID_ARGUMENT, "tokens is NULL");
  FAILS(weft_batch_add_shared(batch, 3, NULL, 2, 0, true, &error), WEFT_INVALID_ARGUMENT, "seqs is NULL");
  FAILS(weft_batch_add_shared(batch, 3, seqs, 0, 0, true, &error), WEFT_INVALID_ARGUMENT, "sequence");
  FAILS(weft_batch_add_embedding(batch, NULL, 4, 0, 0, true, &error), WEFT_INVALID_ARGUMENT,
        "embedding is NULL");
  FAILS(weft_batch_set_n_best(batch, 0, 1, &error), WEFT_INVALID_ARGUMENT, "no item 0");
  FAILS(weft_batch_set_log_sum_exp(batch, -1, 0, &error), WEFT_INVALID_ARGUMENT, "no item -1");
  FAILS(weft_batch_set_embedding(batch, 9, &error), WEFT_INVALID_ARGUMENT, "no item 9");
  FAILS(weft_batch_set_attend_to(batch, 9, 3, &error), WEFT_INVALID_ARGUMENT, "no item 9");
  FAILS(weft_batch_hide(batch, 0, 1, &error), WEFT_INVALID_ARGUMENT, "items 0 and 1");
  CHECK(weft_batch_size(batch) == 0 && weft_batch_size(NULL) == 0);
  OK(weft_batch_add(batch, 3, 0, WEFT_NEXT_POS, true, &error));
  const weft_pos nowhere[3] = {-1, -1, -1};
  FAILS(weft_batch_set_axes(batch, 0, nowhere, &error), WEFT_INVALID_ARGUMENT, "position of an item is -1");
  weft_batch_clear(NULL);
  weft_batch_free(batch);
  weft_batch_free(NULL);
}

static void decoding(const weft_model* model) {
  const int32_t n_vocab = n_vocab_of(model);
  weft_context* const context = make_context(model, 256, 4);
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 0, true, &error));
  OK(weft_batch_set_log_sum_exp(batch, kPrompt - 1, 5, &error));
  OK(weft_batch_set_embedding(batch, kPrompt - 1, &error));
  OK(weft_context_decode(context, batch, &error));
  CHECK(next_pos(context, 0) == kPrompt);

  weft_error* error = NULL;
  size_t n = 0;
  const float* const row = weft_context_logits(context, kPrompt - 1, &n, &error);
  NEED(row != NULL && n == (size_t)n_vocab);
  float* const logits = malloc(n * sizeof *logits);
  memcpy(logits, row, n * sizeof *logits);
  double sum = 0.0;
  for (size_t i = 0; i < n; ++i) sum += exp((double)logits[i]);
  float told = 0.0f;
  OK(weft_context_log_sum_exp(context, kPrompt - 1, &told, &error));
  CHECK(fabs(log(sum) - (double)told) < 1e-3);
  OK(weft_context_logit(context, kPrompt - 1, &told, &error));
  CHECK(told == logits[5]);
  NEED(weft_context_embedding(context, kPrompt - 1, &n, &error) != NULL);
  CHECK(n > 0);

  /* The same text token by token, in another sequence, with what it shares with others: the same bits. */
  weft_batch_clear(batch);
  const weft_seq both[] = {1, 2};
  OK(weft_batch_add_shared(batch, prompt[0], both, 2, 0, false, &error));
  for (int i = 1; i < kPrompt; ++i) OK(weft_batch_add(batch, prompt[i], 1, i, i + 1 == kPrompt, &error));
  OK(weft_batch_set_n_best(batch, kPrompt - 1, 3, &error));
  OK(weft_context_decode(context, batch, &error));
  const weft_best* const best = weft_context_best(context, kPrompt - 1, &n, &error);
  NEED(best != NULL && n == 3);
  CHECK(best[0].token == best_of(logits, (size_t)n_vocab) && best[0].logit == logits[best[0].token]);
  CHECK(best[0].logit >= best[1].logit && best[1].logit >= best[2].logit);
  CHECK(next_pos(context, 2) == 1);

  /* Read both ways and with one token hidden, a text is another one. */
  OK(weft_context_clear(context, &error));
  weft_batch_clear(batch);
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 0, true, &error));
  OK(weft_batch_set_attend_to(batch, 0, kPrompt, &error));
  OK(weft_batch_hide(batch, kPrompt - 1, 1, &error));
  OK(weft_context_decode(context, batch, &error));
  CHECK(weft_context_logits(context, kPrompt - 1, NULL, &error)[5] != logits[5]);

  /* Rows in the places of tokens. */
  weft_model_info info;
  info.struct_size = sizeof info;
  OK(weft_model_get_info(model, &info, &error));
  float* const numbers = calloc((size_t)info.n_embd_input, sizeof *numbers);
  numbers[0] = 1.0f;
  weft_batch_clear(batch);
  OK(weft_batch_add_embedding(batch, numbers, (size_t)info.n_embd_input, 3, WEFT_NEXT_POS, true, &error));
  OK(weft_context_decode(context, batch, &error));
  CHECK(weft_context_logits(context, 0, NULL, &error) != NULL);
  free(numbers);

  /* What is wrong changes nothing. */
  const weft_token wrong[] = {-3, n_vocab, -1};
  for (int i = 0; i < 3; ++i) {
    weft_batch_clear(batch);
    OK(weft_batch_add(batch, wrong[i], 0, WEFT_NEXT_POS, true, &error));
    FAILS(weft_context_decode(context, batch, &error), WEFT_INVALID_ARGUMENT, "");
  }
  weft_batch_clear(batch);
  OK(weft_batch_add(batch, 3, 77, WEFT_NEXT_POS, true, &error));
  FAILS(weft_context_decode(context, batch, &error), WEFT_INVALID_ARGUMENT, "77");
  CHECK(next_pos(context, 0) == kPrompt);
  NO_POINTER(weft_context_logits(context, 5, NULL, &error), WEFT_INVALID_ARGUMENT, "item 5");
  NO_POINTER(weft_context_best(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "item 0");
  NO_POINTER(weft_context_embedding(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "item 0");
  FAILS(weft_context_logit(context, 0, &told, &error), WEFT_INVALID_ARGUMENT, "item 0");
  FAILS(weft_context_log_sum_exp(context, 0, &told, &error), WEFT_INVALID_ARGUMENT, "item 0");
  FAILS(weft_context_log_sum_exp(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "result is NULL");
  FAILS(weft_context_logit(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "result is NULL");
  FAILS(weft_context_logit(NULL, 0, &told, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  NO_POINTER(weft_context_logits(NULL, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  NO_POINTER(weft_context_best(NULL, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  NO_POINTER(weft_context_embedding(NULL, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_decode(context, NULL, &error), WEFT_INVALID_ARGUMENT, "batch is NULL");
  FAILS(weft_context_decode(NULL, batch, &error), WEFT_INVALID_ARGUMENT, "context is NULL");

  /* A cancel is not lost, and ends one batch. */
  weft_batch_clear(batch);
  OK(weft_batch_add(batch, 3, 0, WEFT_NEXT_POS, true, &error));
  weft_context_cancel(context);
  weft_context_cancel(NULL);
  FAILS(weft_context_decode(context, batch, &error), WEFT_CANCELLED, "cancelled");
  CHECK(next_pos(context, 0) == kPrompt);
  OK(weft_context_decode(context, batch, &error));
  CHECK(next_pos(context, 0) == kPrompt + 1);

  free(logits);
  weft_batch_free(batch);
  weft_context_free(context);
}

static void sequences(const weft_model* model, const char* scratch) {
  weft_context* const context = make_context(model, 128, 4);
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 0, false, &error));
  OK(weft_context_decode(context, batch, &error));

  OK(weft_context_copy(context, 0, 1, 0, -1, &error));
  CHECK(next_pos(context, 1) == kPrompt);
  OK(weft_context_remove(context, 1, 4, -1, &error));
  CHECK(next_pos(context, 1) == 4 && next_pos(context, 0) == kPrompt);
  OK(weft_context_remove(context, 1, 0, 2, &error));
  weft_pos pos = 0;
  OK(weft_context_min_pos(context, 1, &pos, &error));
  CHECK(pos == 2);
  OK(weft_context_shift(context, 1, 2, -1, 6, &error));
  OK(weft_context_min_pos(context, 1, &pos, &error));
  CHECK(pos == 8 && next_pos(context, 1) == 10);
  OK(weft_context_divide(context, 1, 8, -1, 4, &error));
  CHECK(next_pos(context, 1) == 3);
  bool yes = false;
  OK(weft_context_can_cut(context, 0, 3, &yes, &error));
  CHECK(yes);
  yes = false;
  OK(weft_context_intact(context, 0, &yes, &error));
  CHECK(yes);
  yes = false;
  OK(weft_context_intact(context, WEFT_ALL_SEQUENCES, &yes, &error));
  CHECK(yes);
  weft_context_info info;
  info.struct_size = sizeof info;
  OK(weft_context_get_info(context, &info, &error));
  CHECK(info.n_ctx == 128 && info.n_sequences == 4 && info.cells_used > 0 && info.cells_total >= 128 &&
        info.can_shift && info.batch_size > 0);
  OK(weft_context_keep(context, 0, &error));
  CHECK(next_pos(context, 1) == 0 && next_pos(context, 0) == kPrompt);

  /* States. */
  void* state = NULL;
  size_t n_bytes = 0;
  OK(weft_context_save(context, 0, &state, &n_bytes, &error));
  OK(weft_context_restore(context, 3, state, n_bytes, &error));
  CHECK(next_pos(context, 3) == kPrompt);
  FAILS(weft_context_restore(context, 2, state, n_bytes / 2, &error), WEFT_INVALID_FILE, "");
  FAILS(weft_context_restore(context, 2, NULL, 8, &error), WEFT_INVALID_ARGUMENT, "state is NULL");
  FAILS(weft_context_save(context, 0, NULL, &n_bytes, &error), WEFT_INVALID_ARGUMENT, "state is NULL");
  weft_free(state);
  OK(weft_context_save(context, WEFT_ALL_SEQUENCES, &state, &n_bytes, &error));
  OK(weft_context_clear(context, &error));
  CHECK(next_pos(context, 3) == 0);
  OK(weft_context_restore(context, WEFT_ALL_SEQUENCES, state, n_bytes, &error));
  CHECK(next_pos(context, 3) == kPrompt && next_pos(context, 0) == kPrompt);
  weft_free(state);
  const char* const file = path_in(scratch, "state");
  OK(weft_context_save_file(context, 0, file, &error));
  OK(weft_context_restore_file(context, 2, file, &error));
  CHECK(next_pos(context, 2) == kPrompt);
  OK(weft_context_save_file(context, WEFT_ALL_SEQUENCES, file, &error));
  OK(weft_context_clear(context, &error));
  OK(weft_context_restore_file(context, WEFT_ALL_SEQUENCES, file, &error));
  CHECK(next_pos(context, 2) == kPrompt);
  FAILS(weft_context_restore_file(context, 0, path_in(scratch, "none"), &error), WEFT_NOT_FOUND, "none");
  FAILS(weft_context_save_file(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  FAILS(weft_context_restore_file(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "path is NULL");

  /* A full cache says so, and stays as it was. */
  OK(weft_context_keep(context, 0, &error));
  weft_batch_clear(batch);
  for (int i = 0; i < 120; ++i) OK(weft_batch_add(batch, 5, 1, i, false, &error));
  OK(weft_context_decode(context, batch, &error));
  weft_batch_clear(batch);
  for (int i = 0; i < 100; ++i) OK(weft_batch_add(batch, 5, 2, i, false, &error));
  FAILS(weft_context_decode(context, batch, &error), WEFT_CACHE_FULL, "the batch has 100 tokens");
  CHECK(next_pos(context, 2) == 0 && next_pos(context, 1) == 120);

  FAILS(weft_context_remove(context, 9, 0, -1, &error), WEFT_INVALID_ARGUMENT, "9");
  FAILS(weft_context_copy(context, 0, 9, 0, -1, &error), WEFT_INVALID_ARGUMENT, "9");
  FAILS(weft_context_keep(context, -2, &error), WEFT_INVALID_ARGUMENT, "-2");
  FAILS(weft_context_divide(context, 0, 0, -1, 0, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_context_shift(context, 0, 2, 3, 100, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_context_next_pos(context, 9, &pos, &error), WEFT_INVALID_ARGUMENT, "9");
  FAILS(weft_context_next_pos(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "pos is NULL");
  FAILS(weft_context_min_pos(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "pos is NULL");
  FAILS(weft_context_can_cut(context, 0, 1, NULL, &error), WEFT_INVALID_ARGUMENT, "can is NULL");
  FAILS(weft_context_intact(context, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "intact is NULL");
  FAILS(weft_context_get_info(context, NULL, &error), WEFT_INVALID_ARGUMENT, "info is NULL");
  FAILS(weft_context_remove(NULL, 0, 0, -1, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_copy(NULL, 0, 1, 0, -1, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_keep(NULL, 0, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_shift(NULL, 0, 0, -1, 1, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_divide(NULL, 0, 0, -1, 2, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_clear(NULL, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  FAILS(weft_context_save(NULL, 0, &state, &n_bytes, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  weft_batch_free(batch);
  weft_context_free(context);
}

static void contexts(const weft_model* model) {
  weft_context_params params;
  weft_context_params_init(&params, sizeof params);
  CHECK(params.n_sequences == 1 && params.n_best == -1 && params.k_type == WEFT_CACHE_AUTO);
  params.k_type = 17;
  NO_POINTER(weft_context_create(model, &params, &error), WEFT_INVALID_ARGUMENT, "k_type is 17");
  params.k_type = WEFT_CACHE_F32;
  params.n_ctx = -5;
  NO_POINTER(weft_context_create(model, &params, &error), WEFT_INVALID_ARGUMENT, "-5");
  NO_POINTER(weft_context_create(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  weft_context_free(NULL);
}

/* The first logits of a prompt in a new context, which is freed unless `kept` is given. */
static void logits_of(const weft_model* model, const weft_context_params* params, weft_context** kept,
                      float logits[16]) {
  weft_context* context = NULL;
  MADE(context, weft_context_create(model, params, &error));
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 0, true, &error));
  OK(weft_context_decode(context, batch, &error));
  weft_error* error = NULL;
  const float* const row = weft_context_logits(context, kPrompt - 1, NULL, &error);
  NEED(row != NULL);
  memcpy(logits, row, 16 * sizeof *logits);
  weft_batch_free(batch);
  if (kept != NULL)
    *kept = context;
  else
    weft_context_free(context);
}

/* The rotation of quantised caches, and contexts that share the memory of steps. */
static void caches(const weft_model* model) {
  weft_context_params params;
  weft_context_params_init(&params, sizeof params);
  CHECK(params.rotate_cache && params.shares_with == NULL);
  params.n_ctx = 64;
  params.n_threads = 2;
  float plain[16], other[16];
  params.k_type = WEFT_CACHE_IQ4_NL;
  params.v_type = WEFT_CACHE_Q5_1;
  logits_of(model, &params, NULL, plain);
  params.rotate_cache = false;
  logits_of(model, &params, NULL, other);
  CHECK(memcmp(plain, other, sizeof plain) != 0);

  weft_context* first = NULL;
  logits_of(model, &params, &first, plain);
  params.shares_with = first;
  logits_of(model, &params, NULL, other);
  CHECK(memcmp(plain, other, sizeof plain) == 0);
  CHECK(next_pos(first, 0) == kPrompt);
  weft_context_free(first);
}

static void adapters(const char* data) {
  const weft_adapter_file files[] = {{path_in(data, "adapters/one.gguf"), "first"},
                                     {path_in(data, "adapters/two.gguf"), NULL}};
  weft_model_params params;
  weft_model_params_init(&params, sizeof params);
  params.adapters = files;
  params.n_adapters = 2;
  weft_model* model = NULL;
  MADE(model, weft_model_load(path_in(data, "golden/llama/model.gguf"), &params, &error));
  CHECK(weft_model_n_adapters(model) == 2 && strcmp(weft_model_adapter_name(model, 0), "first") == 0);
  CHECK(weft_model_adapter_name(model, 1) != NULL && weft_model_adapter_name(model, 2) == NULL);
  weft_context* const context = make_context(model, 64, 2);
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  const weft_adapter_use use = {0, 1.0f};
  OK(weft_context_set_adapters(context, 1, &use, 1, &error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 0, true, &error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 1, true, &error));
  OK(weft_context_decode(context, batch, &error));
  weft_error* error = NULL;
  const float* const plain = weft_context_logits(context, kPrompt - 1, NULL, &error);
  const float* const adapted = weft_context_logits(context, 2 * kPrompt - 1, NULL, &error);
  NEED(plain != NULL && adapted != NULL);
  CHECK(memcmp(plain, adapted, 16 * sizeof *plain) != 0);
  FAILS(weft_context_set_adapters(context, 1, &use, 1, &error), WEFT_INVALID_ARGUMENT, "");
  const weft_adapter_use none = {7, 1.0f};
  FAILS(weft_context_set_adapters(context, 0, &none, 1, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_context_set_adapters(context, 0, NULL, 1, &error), WEFT_INVALID_ARGUMENT, "adapters is NULL");
  FAILS(weft_context_set_adapters(NULL, 0, &use, 1, &error), WEFT_INVALID_ARGUMENT, "context is NULL");
  weft_batch_free(batch);
  weft_context_free(context);
  weft_model_free(model);
}

static void samplers(void) {
  enum { kVocab = 40 };
  float logits[kVocab];
  for (int i = 0; i < kVocab; ++i) logits[i] = (float)(i % 7);
  weft_sampler_params params;
  weft_sampler_params_init(&params, sizeof params);
  CHECK(params.seed == UINT64_MAX && params.top_k == 40);
  params.temperature = 0.0f;
  weft_sampler* sampler = NULL;
  MADE(sampler, weft_sampler_create(kVocab, &params, &error));
  weft_token token = -1;
  OK(weft_sampler_sample(sampler, logits, kVocab, NULL, &token, &error));
  CHECK(token == 6);
  const uint32_t allowed[2] = {1u << 5, 0};
  OK(weft_sampler_sample(sampler, logits, kVocab, allowed, &token, &error));
  CHECK(token == 5);
  const uint32_t nothing[2] = {0, 0};
  FAILS(weft_sampler_sample(sampler, logits, kVocab, nothing, &token, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_sampler_sample(sampler, logits, 3, NULL, &token, &error), WEFT_INVALID_ARGUMENT, "3 logits");
  FAILS(weft_sampler_sample(sampler, NULL, kVocab, NULL, &token, &error), WEFT_INVALID_ARGUMENT,
        "logits is NULL");
  FAILS(weft_sampler_sample(sampler, logits, kVocab, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
        "token is NULL");
  FAILS(weft_sampler_sample(NULL, logits, kVocab, NULL, &token, &error), WEFT_INVALID_ARGUMENT,
        "sampler is NULL");
  FAILS(weft_sampler_accept(NULL, 1, &error), WEFT_INVALID_ARGUMENT, "sampler is NULL");
  FAILS(weft_sampler_reset(NULL, &error), WEFT_INVALID_ARGUMENT, "sampler is NULL");
  weft_sampler_free(sampler);

  /* The same numbers after a reset. */
  params.temperature = 1.0f;
  params.seed = 7;
  const weft_logit_bias bias = {3, -INFINITY};
  params.logit_bias = &bias;
  params.n_logit_bias = 1;
  params.steps = "top_k;temperature";
  MADE(sampler, weft_sampler_create(kVocab, &params, &error));
  CHECK(weft_sampler_seed(sampler) == 7 && weft_sampler_seed(NULL) == 0);
  weft_token first[16];
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 16; ++i) {
      OK(weft_sampler_sample(sampler, logits, kVocab, NULL, &token, &error));
      OK(weft_sampler_accept(sampler, token, &error));
      CHECK(token != 3);
      if (round == 0)
        first[i] = token;
      else
        CHECK(first[i] == token);
    }
    OK(weft_sampler_reset(sampler, &error));
  }
  weft_sampler_free(sampler);
  weft_sampler_free(NULL);
  params.steps = "top_hat";
  NO_POINTER(weft_sampler_create(kVocab, &params, &error), WEFT_INVALID_ARGUMENT, "top_hat");
  params.steps = NULL;
  params.logit_bias = NULL;
  NO_POINTER(weft_sampler_create(kVocab, &params, &error), WEFT_INVALID_ARGUMENT, "logit_bias is NULL");
  params.n_logit_bias = 0;
  params.top_p = NAN;
  NO_POINTER(weft_sampler_create(kVocab, &params, &error), WEFT_INVALID_ARGUMENT, "top_p");
  NO_POINTER(weft_sampler_create(0, NULL, &error), WEFT_INVALID_ARGUMENT, "n_vocab is 0");
  NO_POINTER(weft_sampler_create_for(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "tokenizer is NULL");

  /* Without a tokenizer DRY has no breakers by default, and takes none. */
  static const char* const breakers[] = {"\n"};
  weft_sampler_params_init(&params, sizeof params);
  params.dry_multiplier = 1.0f;
  MADE(sampler, weft_sampler_create(kVocab, &params, &error));
  weft_sampler_free(sampler);
  params.dry_breakers = breakers;
  params.n_dry_breakers = 1;
  NO_POINTER(weft_sampler_create(kVocab, &params, &error), WEFT_INVALID_ARGUMENT, "tokenizer");
}

/* What callbacks are told, and when they stop. */
struct told {
  char text[512];
  int n_calls;
  int stop_after;
  weft_context* context;
};

static bool on_text(const char* text, size_t n_bytes, void* user_data) {
  struct told* const told = user_data;
  CHECK(strlen(text) == n_bytes);
  strncat(told->text, text, sizeof told->text - strlen(told->text) - 1);
  /* The context is at work: who asks for more from here gets an error, not a race. */
  FAILS(weft_context_clear(told->context, &error), WEFT_INVALID_ARGUMENT, "at work");
  return ++told->n_calls != told->stop_after;
}
static bool on_prefill(int32_t n_done, void* user_data) {
  (void)user_data;
  CHECK(n_done > 0 && n_done <= kPrompt);
  return true;
}

static void generation(const weft_model* model) {
  weft_context* const context = make_context(model, 128, 2);
  weft_sampler_params greedy;
  weft_sampler_params_init(&greedy, sizeof greedy);
  greedy.temperature = 0.0f;
  weft_sampler* sampler = NULL;
  MADE(sampler, weft_sampler_create(n_vocab_of(model), &greedy, &error));

  struct told told = {"", 0, 0, context};
  weft_generate_params params;
  weft_generate_params_init(&params, sizeof params);
  CHECK(params.n_predict == -1 && params.n_keep == 4);
  params.n_predict = 12;
  params.ignore_end = true;
  params.on_text = on_text;
  params.on_prefill = on_prefill;
  params.user_data = &told;
  char* text = NULL;
  weft_token* tokens = NULL;
  size_t n = 0;
  weft_generation how;
  how.struct_size = sizeof how;
  OK(weft_generate(context, sampler, prompt, kPrompt, 0, &params, &text, &tokens, &n, &how, &error));
  NEED(text != NULL);
  CHECK(strcmp(text, told.text) == 0 && n == 12 && how.n_generated == 12 && how.n_prompt == kPrompt);
  CHECK(how.stop == WEFT_STOP_LENGTH && how.n_decoded > 0 && how.prefill_ms > 0.0 && how.decode_ms > 0.0);
  CHECK(next_pos(context, 0) >= kPrompt + 11);

  /* The same step by step. */
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  OK(weft_batch_add_tokens(batch, prompt, kPrompt, 1, true, &error));
  for (size_t i = 0; i < n; ++i) {
    OK(weft_context_decode(context, batch, &error));
    weft_error* error = NULL;
    size_t n_logits = 0;
    const float* const logits = weft_context_logits(context, weft_batch_size(batch) - 1, &n_logits, &error);
    weft_token token = -1;
    OK(weft_sampler_sample(sampler, logits, n_logits, NULL, &token, &error));
    CHECK(token == tokens[i]);
    weft_batch_clear(batch);
    OK(weft_batch_add(batch, token, 1, WEFT_NEXT_POS, true, &error));
  }
  weft_batch_free(batch);
  weft_free(tokens);

  /* A callback that has enough, a cancel, a stop string. */
  if (told.n_calls > 1) {
    OK(weft_context_clear(context, &error));
    struct told little = {"", 0, 1, context};
    params.user_data = &little;
    OK(weft_generate(context, sampler, prompt, kPrompt, 0, &params, NULL, NULL, NULL, &how, &error));
    CHECK(how.stop == WEFT_STOP_CANCELLED && little.n_calls == 1);
  }
  params.on_text = NULL;
  OK(weft_context_clear(context, &error));
  weft_context_cancel(context);
  OK(weft_generate(context, sampler, prompt, kPrompt, 0, &params, NULL, NULL, NULL, &how, &error));
  CHECK(how.stop == WEFT_STOP_CANCELLED);
  OK(weft_context_clear(context, &error));
  char stop[8] = "";
  strncat(stop, text + strlen(text) / 2, 3);
  const char* const stops[] = {stop};
  params.stop = stops;
  params.n_stop = 1;
  char* shorter = NULL;
  OK(weft_generate(context, sampler, prompt, kPrompt, 0, &params, &shorter, NULL, NULL, &how, &error));
  CHECK(how.stop == WEFT_STOP_STRING && strlen(shorter) < strlen(text));
  weft_free(shorter);
  weft_free(text);

  params.stop = NULL;
  FAILS(weft_generate(context, sampler, prompt, kPrompt, 0, &params, NULL, NULL, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "stop is NULL");
  params.n_stop = 0;
  how.struct_size = 0;
  FAILS(weft_generate(context, sampler, prompt, kPrompt, 0, &params, NULL, NULL, NULL, &how, &error),
        WEFT_INVALID_ARGUMENT, "result->struct_size is 0");
  FAILS(weft_generate(context, sampler, prompt, kPrompt, 0, &params, NULL, &tokens, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "n_tokens is NULL");
  FAILS(weft_generate(context, sampler, NULL, kPrompt, 0, &params, NULL, NULL, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "prompt is NULL");
  FAILS(weft_generate(context, NULL, prompt, kPrompt, 0, &params, NULL, NULL, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "sampler is NULL");
  FAILS(weft_generate(NULL, sampler, prompt, kPrompt, 0, &params, NULL, NULL, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "context is NULL");
  weft_sampler_free(sampler);
  weft_context_free(context);
}

/* The child of a fork makes its own context of a model that the parent uses. */
static weft_token first_token(const weft_model* model) {
  weft_context* const context = make_context(model, 64, 1);
  weft_model_info info = {.struct_size = sizeof info};
  OK(weft_model_get_info(model, &info, &error));
  weft_sampler_params greedy;
  weft_sampler_params_init(&greedy, sizeof greedy);
  greedy.temperature = 0.0f;
  weft_sampler* sampler = NULL;
  MADE(sampler, weft_sampler_create(info.n_vocab, &greedy, &error));
  weft_generate_params how;
  weft_generate_params_init(&how, sizeof how);
  how.n_predict = 1;
  how.ignore_end = true;
  weft_token* tokens = NULL;
  size_t n = 0;
  OK(weft_generate(context, sampler, prompt, kPrompt, 0, &how, NULL, &tokens, &n, NULL, &error));
  NEED(n == 1);
  const weft_token token = tokens[0];
  weft_free(tokens);
  weft_sampler_free(sampler);
  weft_context_free(context);
  return token;
}
static void forks(const weft_model* model) {
  const weft_token expected = first_token(model);
  weft_context* const own = make_context(model, 64, 1); /* The parent's, which the child leaves alone. */
  const pid_t child = fork();
  if (child == 0) {
    alarm(60); /* What waits for threads that are not there ends, too. */
    exit(first_token(model) == expected ? 3 : 4);
  }
  int status = 0;
  NEED(child > 0 && waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  CHECK(first_token(model) == expected);
  weft_context_free(own);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  weft_model* const model = load_model(argv[1], "golden/llama/model.gguf");
  batches();
  decoding(model);
  sequences(model, argv[2]);
  contexts(model);
  caches(model);
  samplers();
  generation(model);
  forks(model);
  weft_context* const context = make_context(model, 64, 1);
  weft_model_free(model); /* The context goes on. */
  CHECK(next_pos(context, 0) == 0);
  weft_context_free(context);
  adapters(argv[1]);
  return n_failures == 0 ? 0 : 1;
}
