/* Batchers and services: many texts at once. */
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#include "check.h"

enum { kPrompt = 6, kWritten = 8 };
static const weft_token prompt[kPrompt] = {1, 5, 9, 4, 7, 3};

static weft_context* make_context(const weft_model* model) {
  weft_context_params params;
  weft_context_params_init(&params, sizeof params);
  params.n_ctx = 512;
  params.n_sequences = 4;
  params.n_ubatch = 64;
  params.n_threads = 2;
  weft_context* context = NULL;
  MADE(context, weft_context_create(model, &params, &error));
  return context;
}

static weft_sampler_params greedy(void) {
  weft_sampler_params params;
  weft_sampler_params_init(&params, sizeof params);
  params.temperature = 0.0f;
  return params;
}

/* What a request has told so far. */
struct heard {
  weft_token tokens[4][64];
  int n_tokens[4];
  char text[4][512];
  int n_done;
  int n_prompt_logprobs;
  weft_stop stop;
  int32_t stop_string;
  size_t n_embedding;
  weft_batcher* batcher;
  int quit_after; /* Tokens; 0: never. */
};

static void hear(struct heard* heard, const weft_output* output) {
  CHECK(output->struct_size == sizeof *output && output->completion >= 0 && output->completion < 4);
  CHECK(strlen(output->text) == output->n_bytes);
  const int c = output->completion;
  for (size_t i = 0; i < output->n_tokens; ++i) {
    heard->tokens[c][heard->n_tokens[c]++] = output->tokens[i].token;
    for (size_t t = 0; t < output->tokens[i].n_top; ++t)
      CHECK(output->tokens[i].top[0].logprob >= output->tokens[i].top[t].logprob);
  }
  heard->n_prompt_logprobs += (int)output->n_prompt;
  strcat(heard->text[c], output->text);
  CHECK((output->stats != NULL) == output->done);
  if (!output->done) return;
  ++heard->n_done;
  heard->stop = output->stop;
  heard->stop_string = output->stop_string;
  heard->n_embedding = output->n_embedding;
  CHECK(output->stats->n_prompt == kPrompt && output->stats->total_ms >= 0.0);
  CHECK(output->error[0] == 0);
}

static bool on_output(const weft_output* output, void* user_data) {
  struct heard* const heard = user_data;
  hear(heard, output);
  if (heard->batcher != NULL) {
    /* A step within a step is refused; most else is allowed. */
    FAILS(weft_batcher_step(heard->batcher, NULL, &error), WEFT_INVALID_ARGUMENT, "at work");
    OK(weft_batcher_cancel(heard->batcher, 123456, &error));
  }
  return heard->quit_after == 0 || heard->n_tokens[0] < heard->quit_after;
}

static weft_request_params request(const weft_sampler_params* sampler, struct heard* heard) {
  weft_request_params params;
  weft_request_params_init(&params, sizeof params);
  params.sampler = sampler;
  params.n_predict = kWritten;
  params.ignore_end = true;
  params.on_output = on_output;
  params.user_data = heard;
  return params;
}

static void batchers(const weft_model* model) {
  const weft_sampler_params sampler = greedy();
  weft_context* const context = make_context(model);
  weft_batcher_params how;
  weft_batcher_params_init(&how, sizeof how);
  CHECK(how.reuse_prefixes && how.max_step_ms > 0.0 && how.n_unread > 0);
  how.n_waiting = 2;
  how.n_running = 2;
  weft_batcher* batcher = NULL;
  MADE(batcher, weft_batcher_create(context, &how, &error));

  /* The context is the batcher's. */
  FAILS(weft_context_clear(context, &error), WEFT_INVALID_ARGUMENT, "belongs to a batcher");
  NO_POINTER(weft_batcher_create(context, &how, &error), WEFT_INVALID_ARGUMENT, "belongs to another batcher");
  NO_POINTER(weft_service_create(context, &how, &error), WEFT_INVALID_ARGUMENT, "belongs to another batcher");
  weft_context_cancel(context);

  struct heard one = {0}, two = {0};
  one.batcher = batcher;
  weft_request_params params = request(&sampler, &one);
  CHECK(params.n == 1 && params.n_logprobs == -1);
  params.n_logprobs = 2;
  params.prompt_logprobs = true;
  weft_request first = 0, second = 0;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, &first, &error));
  params = request(&sampler, &two);
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, &second, &error));
  CHECK(first != second);
  weft_error* error = NULL;
  CHECK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error) == WEFT_OVERLOADED);
  CHECK(weft_error_retry_after_ms(error) >= 0.0);
  weft_error_free(error);
  bool more = false;
  OK(weft_batcher_step(batcher, &more, &error));
  CHECK(more);
  OK(weft_batcher_run(batcher, &error));
  CHECK(one.n_done == 1 && two.n_done == 1 && one.stop == WEFT_STOP_LENGTH);
  CHECK(one.n_tokens[0] == kWritten && one.n_prompt_logprobs == kPrompt - 1);
  CHECK(memcmp(one.tokens[0], two.tokens[0], sizeof one.tokens[0]) == 0);
  CHECK(strcmp(one.text[0], two.text[0]) == 0);

  /* A pause, a cancel, a callback that has enough, a stop string, several completions, a deadline. */
  struct heard paused = {0};
  params = request(&sampler, &paused);
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, &first, &error));
  OK(weft_batcher_pause(batcher, first, 0, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(paused.n_done == 0);
  OK(weft_batcher_resume(batcher, first, 0, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(paused.n_done == 1 && paused.n_tokens[0] == kWritten);

  struct heard cancelled = {0};
  params = request(&sampler, &cancelled);
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, &first, &error));
  OK(weft_batcher_cancel(batcher, first, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(cancelled.n_done == 1 && cancelled.stop == WEFT_STOP_CANCELLED);

  struct heard enough = {0};
  enough.quit_after = 2;
  params = request(&sampler, &enough);
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(enough.n_tokens[0] >= 2 && enough.n_tokens[0] < kWritten);

  struct heard stopped = {0};
  params = request(&sampler, &stopped);
  char stop[8] = "";
  strncat(stop, one.text[0] + strlen(one.text[0]) / 2, 3);
  const char* const stops[] = {"nothing like this", stop};
  params.stop = stops;
  params.n_stop = 2;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(stopped.stop == WEFT_STOP_STRING && stopped.stop_string == 1);

  struct heard three = {0};
  params = request(&sampler, &three);
  params.n = 3;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(three.n_done == 3 && memcmp(three.tokens[0], three.tokens[2], sizeof three.tokens[0]) == 0);

  struct heard late = {0};
  params = request(&sampler, &late);
  params.timeout_ms = 1e-9;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(late.n_done == 1 && late.stop == WEFT_STOP_TIMEOUT);

  /* A vector instead of a text; a text that is held to a grammar, which may be freed. */
  struct heard pooled = {0};
  params = request(&sampler, &pooled);
  params.pooling = WEFT_POOLING_MEAN;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  weft_model_info info;
  info.struct_size = sizeof info;
  OK(weft_model_get_info(model, &info, &error));
  CHECK(pooled.n_done == 1 && pooled.n_embedding == (size_t)info.n_embd);

  struct heard held = {0};
  params = request(&sampler, &held);
  params.ignore_end = false;
  params.n_predict = 32;
  weft_grammar* grammar = NULL;
  MADE(grammar, weft_grammar_create(model, WEFT_GRAMMAR_REGEX, "[0-9]{3}", &error));
  params.grammar = grammar;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  weft_grammar_free(grammar);
  OK(weft_batcher_run(batcher, &error));
  CHECK(strlen(held.text[0]) == 3 && strspn(held.text[0], "0123456789") == 3 && held.stop == WEFT_STOP_END);

  weft_batcher_stats stats;
  stats.struct_size = sizeof stats;
  OK(weft_batcher_get_stats(batcher, &stats, &error));
  CHECK(stats.n_steps > 0 && stats.n_requests == 10 && stats.n_rejected == 1 && stats.n_timed_out == 1);
  CHECK(stats.n_running == 0 && stats.n_waiting == 0 && stats.cells_total > 0 &&
        stats.n_generated_tokens > 0);

  params = request(&sampler, &one);
  params.pooling = 12;
  FAILS(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error), WEFT_INVALID_ARGUMENT,
        "pooling is 12");
  params.pooling = WEFT_POOLING_NONE;
  params.n = 0;
  FAILS(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error), WEFT_INVALID_ARGUMENT, "");
  FAILS(weft_batcher_submit(batcher, NULL, kPrompt, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
        "prompt is NULL");
  FAILS(weft_batcher_submit(NULL, prompt, kPrompt, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
        "batcher is NULL");
  FAILS(weft_batcher_cancel(NULL, 1, &error), WEFT_INVALID_ARGUMENT, "batcher is NULL");
  FAILS(weft_batcher_pause(NULL, 1, 0, &error), WEFT_INVALID_ARGUMENT, "batcher is NULL");
  FAILS(weft_batcher_resume(NULL, 1, 0, &error), WEFT_INVALID_ARGUMENT, "batcher is NULL");
  FAILS(weft_batcher_step(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "batcher is NULL");
  FAILS(weft_batcher_run(NULL, &error), WEFT_INVALID_ARGUMENT, "batcher is NULL");
  FAILS(weft_batcher_get_stats(NULL, &stats, &error), WEFT_INVALID_ARGUMENT, "batcher is NULL");
  FAILS(weft_batcher_get_stats(batcher, NULL, &error), WEFT_INVALID_ARGUMENT, "stats is NULL");
  NO_POINTER(weft_batcher_create(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "context is NULL");

  /* Afterwards the context is its handle's again. */
  weft_batcher_free(batcher);
  weft_batcher_free(NULL);
  OK(weft_context_clear(context, &error));

  /* With a draft model, in the other order of frees. */
  weft_context* const draft = make_context(model);
  how.speculation = WEFT_SPECULATION_MODEL;
  how.draft = draft;
  MADE(batcher, weft_batcher_create(context, &how, &error));
  weft_context_free(context);
  weft_context_free(draft);
  struct heard drafted = {0};
  params = request(&sampler, &drafted);
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  CHECK(memcmp(one.tokens[0], drafted.tokens[0], sizeof one.tokens[0]) == 0);
  weft_batcher_free(batcher);
}

static void signal_pipe(void* user_data) {
  const char byte = 1;
  CHECK(write(*(int*)user_data, &byte, 1) == 1);
}

static void services(const weft_model* model) {
  const weft_sampler_params sampler = greedy();
  weft_context* const context = make_context(model);
  weft_service* service = NULL;
  MADE(service, weft_service_create(context, NULL, &error));
  FAILS(weft_context_clear(context, &error), WEFT_INVALID_ARGUMENT, "belongs to a batcher");

  weft_request_params params = request(&sampler, NULL);
  NO_POINTER(weft_service_submit(service, prompt, kPrompt, &params, &error), WEFT_INVALID_ARGUMENT,
             "on_output");
  params.on_output = NULL;
  weft_response* responses[3];
  for (int i = 0; i < 3; ++i)
    MADE(responses[i], weft_service_submit(service, prompt, kPrompt, &params, &error));

  /* Waiting for it. */
  struct heard waited = {0};
  const weft_output* output = NULL;
  weft_poll poll = WEFT_POLL_FAILED;
  while ((poll = weft_response_next(responses[0], -1, &output, NULL)) == WEFT_POLL_OUTPUT)
    hear(&waited, output);
  CHECK(poll == WEFT_POLL_END && waited.n_done == 1 && waited.n_tokens[0] == kWritten);

  /* By an event loop. */
  int ends[2];
  NEED(pipe(ends) == 0);
  OK(weft_response_on_ready(responses[1], signal_pipe, &ends[1], &error));
  struct heard looped = {0};
  for (poll = WEFT_POLL_NOTHING_YET; poll != WEFT_POLL_END;) {
    char byte = 0;
    if (poll == WEFT_POLL_NOTHING_YET) NEED(read(ends[0], &byte, 1) == 1);
    poll = weft_response_next(responses[1], 0, &output, NULL);
    NEED(poll != WEFT_POLL_FAILED);
    if (poll == WEFT_POLL_OUTPUT) hear(&looped, output);
  }
  OK(weft_response_on_ready(responses[1], NULL, NULL, &error));
  close(ends[0]);
  close(ends[1]);
  CHECK(memcmp(looped.tokens[0], waited.tokens[0], sizeof looped.tokens[0]) == 0);

  /* A cancel. */
  params.n_predict = 400;
  weft_response* cancelled = NULL;
  MADE(cancelled, weft_service_submit(service, prompt, kPrompt, &params, &error));
  weft_response_cancel(cancelled);
  weft_stop stop = -1;
  while (weft_response_next(cancelled, -1, &output, NULL) == WEFT_POLL_OUTPUT)
    if (output->done) stop = output->stop;
  CHECK(stop == WEFT_STOP_CANCELLED);
  weft_response_free(cancelled);

  weft_batcher_stats stats;
  stats.struct_size = sizeof stats;
  /* They are told behind each step; who is cancelled at once may not get as far as being counted. */
  do OK(weft_service_get_stats(service, &stats, &error));
  while (stats.n_requests < 3);
  CHECK(stats.n_requests <= 4);

  weft_error* error = NULL;
  CHECK(weft_response_next(NULL, 0, &output, &error) == WEFT_POLL_FAILED);
  CHECK(weft_error_status(error) == WEFT_INVALID_ARGUMENT);
  weft_error_free(error);
  CHECK(weft_response_next(responses[2], 0, NULL, NULL) == WEFT_POLL_FAILED);
  weft_response_cancel(NULL);
  FAILS(weft_response_on_ready(NULL, NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "response is NULL");
  NO_POINTER(weft_service_submit(NULL, prompt, kPrompt, NULL, &error), WEFT_INVALID_ARGUMENT,
             "service is NULL");
  NO_POINTER(weft_service_submit(service, NULL, kPrompt, NULL, &error), WEFT_INVALID_ARGUMENT,
             "prompt is NULL");
  FAILS(weft_service_get_stats(NULL, &stats, &error), WEFT_INVALID_ARGUMENT, "service is NULL");
  FAILS(weft_service_drain(NULL, 0, &error), WEFT_INVALID_ARGUMENT, "service is NULL");
  NO_POINTER(weft_service_create(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "context is NULL");

  OK(weft_service_drain(service, 60000, &error));
  NO_POINTER(weft_service_submit(service, prompt, kPrompt, NULL, &error), WEFT_UNAVAILABLE, "");
  weft_service_free(service);
  weft_service_free(NULL);
  /* What was written can still be taken. */
  struct heard rest = {0};
  while (weft_response_next(responses[2], 0, &output, NULL) == WEFT_POLL_OUTPUT) hear(&rest, output);
  CHECK(rest.n_done == 1 && rest.n_tokens[0] == kWritten);
  for (int i = 0; i < 3; ++i) weft_response_free(responses[i]);
  weft_response_free(NULL);
  FAILS(weft_context_clear(context, &error), WEFT_INVALID_ARGUMENT, "moved");
  weft_context_free(context);
}

/* Of a model that reads a source the prompt is that: alone, in a batcher and behind a service. */
static void sources(const weft_model* model) {
  const weft_sampler_params how = greedy();
  weft_context* context = make_context(model);
  weft_sampler* sampler = NULL;
  weft_model_info info = {.struct_size = sizeof info};
  OK(weft_model_get_info(model, &info, &error));
  CHECK(info.has_chat_template && !info.encoder);
  MADE(sampler, weft_sampler_create(info.n_vocab, &how, &error));
  weft_generate_params alone;
  weft_generate_params_init(&alone, sizeof alone);
  alone.n_predict = kWritten;
  alone.ignore_end = true;
  weft_token* tokens = NULL;
  size_t n = 0;
  OK(weft_generate(context, sampler, prompt, kPrompt, 0, &alone, NULL, &tokens, &n, NULL, &error));
  NEED(n == kWritten);
  OK(weft_context_clear(context, &error));

  weft_batcher_params served;
  weft_batcher_params_init(&served, sizeof served);
  weft_batcher* batcher = NULL;
  MADE(batcher, weft_batcher_create(context, &served, &error));
  struct heard one = {0}, two = {0};
  weft_request_params params = request(&how, &one);
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  params = request(&how, &two);
  params.n = 2;
  OK(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error));
  params.n_logprobs = 1;
  params.prompt_logprobs = true;
  FAILS(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error), WEFT_UNSUPPORTED,
        "encodes the prompt");
  OK(weft_batcher_run(batcher, &error));
  CHECK(one.n_done == 1 && two.n_done == 2);
  CHECK(memcmp(one.tokens[0], tokens, kWritten * sizeof *tokens) == 0);
  CHECK(memcmp(two.tokens[1], tokens, kWritten * sizeof *tokens) == 0);
  weft_batcher_free(batcher);
  weft_free(tokens);
  weft_sampler_free(sampler);
  weft_context_free(context);
}

/* The end of a request: tokens of the prompt that were cached, and why it ended. */
struct ending {
  int n_cached;
  int n_tokens;
  weft_token tokens[128];
  char text[1024];
  weft_stop stop;
  int n_discarded;
};

static bool on_ending(const weft_output* output, void* user_data) {
  struct ending* const ending = user_data;
  for (size_t i = 0; i < output->n_tokens; ++i) ending->tokens[ending->n_tokens++] = output->tokens[i].token;
  strncat(ending->text, output->text, sizeof ending->text - strlen(ending->text) - 1);
  CHECK(!output->not_numbers);
  if (!output->done) return true;
  ending->n_cached = output->stats->n_cached;
  ending->n_discarded = output->stats->n_discarded;
  ending->stop = output->stop;
  return true;
}

static struct ending ask(weft_batcher* batcher, const weft_token* tokens, size_t n,
                         const weft_request_params* how) {
  struct ending ending = {0};
  weft_request_params params = *how;
  params.on_output = on_ending;
  params.user_data = &ending;
  OK(weft_batcher_submit(batcher, tokens, n, &params, NULL, &error));
  OK(weft_batcher_run(batcher, &error));
  return ending;
}

static void fill(weft_token* tokens, int n, int step) {
  for (int i = 0; i < n; ++i) tokens[i] = 3 + (step + i * step) % 500;
}

static void take_note(const char* note, void* user_data) {
  CHECK(note[0] != 0);
  ++*(int*)user_data;
}

/* Overwrites the middle of all files in a folder, or removes them and the folder. */
static int change_files(const char* folder, bool remove_them) {
  int n = 0;
  DIR* const dir = opendir(folder);
  NEED(dir != NULL);
  for (struct dirent* one; (one = readdir(dir)) != NULL;) {
    if (one->d_name[0] == '.') continue;
    const char* const path = path_in(folder, one->d_name);
    ++n;
    if (remove_them) {
      CHECK(unlink(path) == 0);
      continue;
    }
    FILE* const file = fopen(path, "r+b");
    NEED(file != NULL && fseek(file, 0, SEEK_END) == 0);
    NEED(fseek(file, ftell(file) / 2, SEEK_SET) == 0);
    CHECK(fwrite("not what it was", 1, 15, file) == 15);
    fclose(file);
  }
  closedir(dir);
  if (remove_them) CHECK(rmdir(folder) == 0);
  return n;
}

/* Prompts whose prefixes were evicted from the cache. */
static void tiers(const weft_model* model, const char* scratch) {
  enum { kA = 400, kB = 500 };
  static weft_token a[kA], b[kB], c[kB];
  fill(a, kA, 7);
  fill(b, kB, 11);
  fill(c, kB, 13);
  char folder[4096];
  snprintf(folder, sizeof folder, "%s/prefixes-%ld", scratch, (long)getpid());
  const weft_sampler_params sampler = greedy();
  weft_request_params request;
  weft_request_params_init(&request, sizeof request);
  request.sampler = &sampler;
  request.n_predict = 8;
  request.ignore_end = true;
  weft_context_params size;
  weft_context_params_init(&size, sizeof size);
  size.n_ctx = 1024;
  size.n_sequences = 6;
  size.n_threads = 2;
  weft_batcher_params how;
  weft_batcher_params_init(&how, sizeof how);
  CHECK(how.cache_ram_bytes == 0 && how.cache_disk == NULL && how.cache_disk_bytes > 0);
  int n_notes = 0;
  how.on_note = take_note;
  how.note_data = &n_notes;
  weft_token first[8];
  for (int round = 0; round < 4; ++round) {
    how.cache_ram_bytes = round == 0 ? 1 << 30 : 0;
    how.cache_disk = round == 0 ? NULL : folder; /* Later rounds are restarts. */
    if (round == 3) CHECK(change_files(folder, false) > 0);
    weft_context* context = NULL;
    MADE(context, weft_context_create(model, &size, &error));
    weft_batcher* batcher = NULL;
    MADE(batcher, weft_batcher_create(context, &how, &error));
    weft_context_free(context);
    if (round == 0) {
      const struct ending one = ask(batcher, a, kA, &request);
      CHECK(one.n_cached == 0 && one.n_tokens == 8);
      memcpy(first, one.tokens, sizeof first);
      CHECK(ask(batcher, a, kA, &request).n_cached == kA - 1);
      CHECK(ask(batcher, b, kB, &request).n_cached == 0);
      CHECK(ask(batcher, c, kB, &request).n_cached == 0);
    }
    const struct ending last = ask(batcher, a, kA, &request);
    CHECK(last.n_cached == (round == 0 || round == 2 ? kA - 1 : 0));
    CHECK(memcmp(last.tokens, first, sizeof first) == 0);
    weft_batcher_stats stats = {.struct_size = sizeof stats};
    OK(weft_batcher_get_stats(batcher, &stats, &error));
    CHECK(stats.n_ram_tokens == (round == 0 ? kA - 1 : 0) &&
          stats.n_disk_tokens == (round == 2 ? kA - 1 : 0));
    CHECK(round != 0 ||
          (stats.n_stored_tokens > 0 && stats.cache_ram_limit == 1 << 30 && stats.n_evicted > 0));
    weft_batcher_free(batcher);
    CHECK((n_notes > 0) == (round == 3));
  }
  CHECK(change_files(folder, true) > 0);
}

/* A model with a recurrent state continues where a snapshot was left. */
static void snapshots(const weft_model* model) {
  enum { kLong = 100, kSame = 64 };
  weft_token one[kLong], other[kLong];
  fill(one, kLong, 7);
  fill(other, kLong, 11);
  memcpy(other, one, kSame * sizeof *one);
  const int32_t at[] = {kSame};
  weft_request_params request;
  weft_request_params_init(&request, sizeof request);
  request.n_predict = 2;
  request.snapshot_at = at;
  request.n_snapshot_at = 1;
  for (int n = 0; n < 2; ++n) {
    weft_context* const context = make_context(model);
    weft_batcher_params how;
    weft_batcher_params_init(&how, sizeof how);
    CHECK(how.n_snapshots > 0 && how.snapshot_bytes > 0);
    if (n == 0) how.n_snapshots = 0;
    weft_batcher* batcher = NULL;
    MADE(batcher, weft_batcher_create(context, &how, &error));
    ask(batcher, one, kLong, &request);
    CHECK(ask(batcher, other, kLong, &request).n_cached == (n == 0 ? 0 : kSame));
    weft_batcher_stats stats = {.struct_size = sizeof stats};
    OK(weft_batcher_get_stats(batcher, &stats, &error));
    CHECK((stats.snapshots_cached > 0) == (n > 0) && stats.sequences_total == 4);
    weft_batcher_free(batcher);
    weft_context_free(context);
  }
}

static bool has(const struct ending* ending, const weft_token* tokens, size_t n) {
  for (size_t i = 0; i + n <= (size_t)ending->n_tokens; ++i)
    if (memcmp(ending->tokens + i, tokens, n * sizeof *tokens) == 0) return true;
  return false;
}

/* Stop tokens, and strings, words and tokens that a completion may not contain. */
static void bans(const weft_model* model) {
  weft_context* const context = make_context(model);
  weft_batcher_params limits;
  weft_batcher_params_init(&limits, sizeof limits);
  limits.stop_bytes = 100;
  weft_batcher* batcher = NULL;
  MADE(batcher, weft_batcher_create(context, &limits, &error));
  weft_tokenizer* tokenizer = NULL;
  MADE(tokenizer, weft_model_tokenizer(model, &error));
  const weft_sampler_params sampler = greedy();
  weft_request_params params;
  weft_request_params_init(&params, sizeof params);
  params.sampler = &sampler;
  params.n_predict = 16;
  params.ignore_end = true;
  const struct ending plain = ask(batcher, prompt, kPrompt, &params);
  CHECK(plain.n_tokens == 16 && plain.n_discarded == 0);

  weft_request_params stopped = params;
  stopped.stop_tokens = plain.tokens + 5;
  stopped.n_stop_tokens = 1;
  const struct ending shorter = ask(batcher, prompt, kPrompt, &stopped);
  CHECK(shorter.stop == WEFT_STOP_END && shorter.n_tokens <= 6);

  char part[8] = "";
  strncat(part, plain.text + strlen(plain.text) / 2, 4);
  const char* const parts[] = {part};
  weft_request_params without = params;
  without.banned_strings = parts;
  without.n_banned_strings = 1;
  const struct ending other = ask(batcher, prompt, kPrompt, &without);
  CHECK(strstr(plain.text, part) != NULL && strstr(other.text, part) == NULL && other.n_discarded > 0);

  /* A word of several tokens, each of which may occur alone. */
  const weft_token pair[] = {301, 302};
  char* word = NULL;
  weft_token* ids = NULL;
  size_t n_ids = 0;
  OK(weft_tokenizer_decode(tokenizer, pair, 2, false, &word, NULL, &error));
  OK(weft_tokenizer_encode(tokenizer, word, strlen(word), 0, &ids, &n_ids, &error));
  NEED(n_ids > 1);
  weft_sampler_params any = sampler;
  any.seed = 1;
  any.temperature = 100.0f;
  any.top_k = 0;
  any.top_p = 1.0f;
  any.min_p = 0.0f;
  const char* const words[] = {word};
  weft_request_params drawn = params;
  drawn.sampler = &any;
  drawn.n_predict = 100;
  drawn.allowed_tokens = ids;
  drawn.n_allowed_tokens = n_ids;
  const struct ending with = ask(batcher, prompt, kPrompt, &drawn);
  for (int i = 0; i < with.n_tokens; ++i) {
    bool is_allowed = false;
    for (size_t k = 0; k < n_ids; ++k) is_allowed = is_allowed || with.tokens[i] == ids[k];
    CHECK(is_allowed);
  }
  drawn.bad_words = words;
  drawn.n_bad_words = 1;
  const struct ending banned = ask(batcher, prompt, kPrompt, &drawn);
  CHECK(has(&with, ids, n_ids) && !has(&banned, ids, n_ids) && banned.n_tokens == 100);
  const char* const no_words[] = {""};
  drawn.bad_words = no_words;
  FAILS(weft_batcher_submit(batcher, prompt, kPrompt, &drawn, NULL, &error), WEFT_INVALID_ARGUMENT,
        "bad_words: '': the word has no tokens");
  drawn.n_bad_words = 0;
  drawn.n_allowed_tokens = 0;
  FAILS(weft_batcher_submit(batcher, prompt, kPrompt, &drawn, NULL, &error), WEFT_INVALID_ARGUMENT,
        "n_allowed_tokens is 0");
  weft_free(word);
  weft_free(ids);

  char large[128];
  memset(large, 'a', sizeof large - 1);
  large[sizeof large - 1] = 0;
  const char* const larges[] = {large};
  params.stop = larges;
  params.n_stop = 1;
  FAILS(weft_batcher_submit(batcher, prompt, kPrompt, &params, NULL, &error), WEFT_INVALID_ARGUMENT,
        "of 127 bytes; the limit is 256 of 100");
  weft_tokenizer_free(tokenizer);
  weft_batcher_free(batcher);
  weft_context_free(context);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  weft_model* model = load_model(argv[1], "golden/llama/model.gguf");
  batchers(model);
  services(model);
  tiers(model, argv[2]);
  bans(model);
  weft_model_free(model);
  model = load_model(argv[1], "golden/mamba/model.gguf");
  snapshots(model);
  weft_model_free(model);
  model = load_model(argv[1], "golden_sources/flan-t5/model.gguf");
  sources(model);
  weft_model_free(model);
  return n_failures == 0 ? 0 : 1;
}
