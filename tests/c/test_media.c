/* Pictures and sounds: rows and logits behind them against transformers', and texts about them in all ways.
 */
#include "check.h"
#include "weft_media.h"

/* Numbers of a file, n of them; the caller frees them. */
static float* read_floats(const char* path, size_t* n) {
  FILE* const file = fopen(path, "rb");
  NEED(file != NULL);
  fseek(file, 0, SEEK_END);
  *n = (size_t)ftell(file) / sizeof(float);
  rewind(file);
  float* const numbers = malloc(*n * sizeof(float));
  NEED(numbers != NULL && fread(numbers, sizeof(float), *n, file) == *n);
  fclose(file);
  return numbers;
}

/* Whether the mean square error is below 1e-6 of the mean square. */
static bool close_to(const float* numbers, const float* expected, size_t n) {
  double off = 0.0, all = 0.0;
  for (size_t i = 0; i < n; ++i) {
    off += ((double)numbers[i] - expected[i]) * ((double)numbers[i] - expected[i]);
    all += (double)expected[i] * expected[i];
  }
  return off <= 1e-6 * all;
}

static weft_vision_model* load_vision(const char* path) {
  const char* const cpu[] = {"cpu"};
  weft_media_params params;
  weft_media_params_init(&params, sizeof params);
  CHECK(params.cache_bytes < 0);
  params.devices = cpu;
  params.n_devices = 1;
  weft_vision_model* vision = NULL;
  MADE(vision, weft_vision_model_load(path, &params, &error));
  return vision;
}

/* The picture of which the tiny models' rows are known. */
static weft_media* tiny_image(const weft_vision_model* vision, const char* data, const char* family,
                              int32_t width) {
  char name[64];
  snprintf(name, sizeof name, "vision/%s/pixels.rgb", family);
  size_t n = 0;
  float* const bytes = read_floats(path_in(data, name), &n);
  const weft_image image = {
      .width = width, .height = 48, .rgb = (uint8_t*)bytes, .n_bytes = n * sizeof(float)};
  weft_media* media = NULL;
  MADE(media, weft_vision_model_encode(vision, &image, NULL, NULL, &error));
  free(bytes);
  return media;
}

static weft_prompt* make_prompt(const weft_model* model, const weft_media* media) {
  static const char text[] = "hello (*) and (*) world";
  const weft_media* const twice[] = {media, media};
  weft_prompt* prompt = NULL;
  MADE(prompt, weft_prompt_create(model, text, strlen(text), 0, twice, 2, "(*)", &error));
  return prompt;
}

static weft_context* make_context(const weft_model* model) {
  weft_context_params params;
  weft_context_params_init(&params, sizeof params);
  params.n_ctx = 256;
  params.n_sequences = 2;
  params.n_outputs = 256;  // All of a prompt in one step.
  params.k_type = WEFT_CACHE_F32;
  params.v_type = WEFT_CACHE_F32;
  weft_context* context = NULL;
  MADE(context, weft_context_create(model, &params, &error));
  return context;
}

/* Tokens with parts in the places of those below 0, as a batch with all logits. */
static weft_batch* make_batch(const weft_token* tokens, int32_t n, const weft_prompt* prompt) {
  weft_batch* batch = NULL;
  MADE(batch, weft_batch_create(&error));
  weft_part part = {.struct_size = sizeof part};
  size_t place = 0;
  weft_pos behind = 0;
  for (int32_t i = 0; i < n; ++i) {
    weft_pos at[3] = {behind, behind, behind};
    if (tokens[i] >= 0) {
      OK(weft_batch_add(batch, tokens[i], 0, WEFT_NEXT_POS, true, &error));
      OK(weft_batch_set_axes(batch, i, at, &error));
      ++behind;
      continue;
    }
    OK(weft_prompt_get_part(prompt, place++ % weft_prompt_n_parts(prompt), &part, &error));
    const int32_t first = i;
    for (int32_t row = 0; row < part.n; ++row, ++i) {
      OK(weft_batch_add_embedding(batch, part.rows + (size_t)row * (size_t)part.n_embd, (size_t)part.n_embd,
                                  0, WEFT_NEXT_POS, true, &error));
      if (part.both_ways) OK(weft_batch_set_attend_to(batch, i, first + part.n, &error));
      const int32_t wide = part.grid_width;
      at[0] = wide > 0 ? behind : behind + row;
      at[1] = wide > 0 ? behind + row / wide : at[0];
      at[2] = wide > 0 ? behind + row % wide : at[0];
      OK(weft_batch_set_axes(batch, i, at, &error));
    }
    behind += part.extent;
    --i;
  }
  return batch;
}

/* Ids with -1 in the places of a picture, as in tests/data/vision. */
static int32_t read_ids(const char* path, weft_token* ids, int32_t most) {
  FILE* const file = fopen(path, "r");
  NEED(file != NULL);
  int32_t n = 0;
  while (n < most && fscanf(file, "%*[^0-9-]") != EOF && fscanf(file, "%d", &ids[n]) == 1) ++n;
  fclose(file);
  return n;
}

/* Rows, and logits of a prompt with two pictures, are those of transformers. */
static void truth(const char* data, const char* family, int32_t width) {
  char name[64];
  size_t n = 0;
  snprintf(name, sizeof name, "vision/%s/mmproj.gguf", family);
  weft_vision_model* const vision = load_vision(path_in(data, name));
  snprintf(name, sizeof name, "golden/%s/model.gguf", family);
  weft_model* const model = load_model(data, name);
  OK(weft_vision_model_check_fits(vision, model, &error));
  weft_media* const media = tiny_image(vision, data, family, width);
  weft_prompt* const prompt = make_prompt(model, media);
  weft_media_free(media);
  weft_vision_model_free(vision);  // A prompt needs neither.

  snprintf(name, sizeof name, "vision/%s/rows.f32", family);
  float* expected = read_floats(path_in(data, name), &n);
  weft_part part = {.struct_size = sizeof part};
  OK(weft_prompt_get_part(prompt, 1, &part, &error));
  CHECK((size_t)(part.n * part.n_embd) == n && close_to(part.rows, expected, n));
  CHECK(part.extent == (part.grid_width > 0 ? 3 : part.n) || part.grid_width > 3);
  free(expected);

  weft_token ids[128];
  snprintf(name, sizeof name, "vision/%s/prompt.json", family);
  const int32_t n_ids = read_ids(path_in(data, name), ids, 128);
  NEED(n_ids > 20);
  weft_context* const context = make_context(model);
  weft_batch* const batch = make_batch(ids, n_ids, prompt);
  CHECK(weft_batch_size(batch) == n_ids);
  OK(weft_context_decode(context, batch, &error));
  snprintf(name, sizeof name, "vision/%s/logits.f32", family);
  expected = read_floats(path_in(data, name), &n);
  for (int32_t i = 0; i < n_ids; ++i) {
    size_t n_vocab = 0;
    const float* const logits = weft_context_logits(context, i, &n_vocab, NULL);
    NEED(logits != NULL && n_vocab * (size_t)n_ids == n);
    CHECK(close_to(logits, expected + (size_t)i * n_vocab, n_vocab));
  }
  free(expected);
  weft_batch_free(batch);
  weft_context_free(context);
  weft_prompt_free(prompt);
  weft_model_free(model);
}

enum { kWritten = 8 };
struct heard {
  weft_token tokens[kWritten];
  size_t n;
};
static void hear(struct heard* heard, const weft_output* output) {
  for (size_t i = 0; i < output->n_tokens && heard->n < kWritten; ++i)
    heard->tokens[heard->n++] = output->tokens[i].token;
}
static bool on_output(const weft_output* output, void* user_data) {
  hear(user_data, output);
  return true;
}

/* Alone, in a batcher and behind a service: the same text, which begins as the batch of one's own says. */
static void texts(const char* data, const char* family, int32_t width) {
  char name[64];
  snprintf(name, sizeof name, "vision/%s/mmproj.gguf", family);
  weft_vision_model* const vision = load_vision(path_in(data, name));
  snprintf(name, sizeof name, "golden/%s/model.gguf", family);
  weft_model* const model = load_model(data, name);
  weft_media* const media = tiny_image(vision, data, family, width);
  weft_prompt* const prompt = make_prompt(model, media);
  size_t n = 0;
  const weft_token* tokens = NULL;
  MADE(tokens, weft_prompt_tokens(prompt, &n, &error));

  weft_context* context = make_context(model);
  weft_batch* const batch = make_batch(tokens, (int32_t)n, prompt);
  OK(weft_context_decode(context, batch, &error));
  size_t n_vocab = 0;
  const float* const logits = weft_context_logits(context, (int32_t)n - 1, &n_vocab, NULL);
  NEED(logits != NULL);
  weft_token best = 0;
  for (size_t i = 1; i < n_vocab; ++i)
    if (logits[i] > logits[best]) best = (weft_token)i;
  weft_batch_free(batch);
  OK(weft_context_clear(context, &error));

  weft_sampler_params greedy;
  weft_sampler_params_init(&greedy, sizeof greedy);
  greedy.temperature = 0.0f;
  weft_sampler* sampler = NULL;
  MADE(sampler, weft_sampler_create((int32_t)n_vocab, &greedy, &error));
  weft_generate_params how;
  weft_generate_params_init(&how, sizeof how);
  how.n_predict = kWritten;
  how.ignore_end = true;
  // Without the prompt the tokens are not valid.
  FAILS(weft_generate(context, sampler, tokens, n, 0, &how, NULL, NULL, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "no image or audio");
  how.media = prompt;
  weft_token* written = NULL;
  size_t n_written = 0;
  OK(weft_generate(context, sampler, tokens, n, 0, &how, NULL, &written, &n_written, NULL, &error));
  NEED(n_written == kWritten);
  CHECK(written[0] == best);
  weft_sampler_free(sampler);
  OK(weft_context_clear(context, &error));

  weft_request_params request;
  weft_request_params_init(&request, sizeof request);
  request.sampler = &greedy;
  request.n_predict = kWritten;
  request.ignore_end = true;
  request.media = prompt;
  request.on_output = on_output;
  struct heard heard[2] = {{.n = 0}};
  weft_batcher* batcher = NULL;
  MADE(batcher, weft_batcher_create(context, NULL, &error));
  for (int i = 0; i < 2; ++i) {
    request.user_data = &heard[i];
    OK(weft_batcher_submit(batcher, tokens, n, &request, NULL, &error));
  }
  request.media = NULL;
  FAILS(weft_batcher_submit(batcher, tokens, n, &request, NULL, &error), WEFT_INVALID_ARGUMENT,
        "no image or audio");
  OK(weft_batcher_run(batcher, &error));
  for (int i = 0; i < 2; ++i)
    CHECK(heard[i].n == kWritten && memcmp(heard[i].tokens, written, sizeof heard[i].tokens) == 0);
  weft_batcher_free(batcher);

  weft_service* service = NULL;
  MADE(service, weft_service_create(context, NULL, &error));
  request.media = prompt;
  request.on_output = NULL;
  request.user_data = NULL;
  weft_response* response = NULL;
  MADE(response, weft_service_submit(service, tokens, n, &request, &error));
  weft_prompt_free(prompt);  // The running generation keeps the data that it needs.
  weft_media_free(media);
  weft_vision_model_free(vision);
  struct heard served = {.n = 0};
  const weft_output* output = NULL;
  while (weft_response_next(response, -1, &output, NULL) == WEFT_POLL_OUTPUT) hear(&served, output);
  CHECK(served.n == kWritten && memcmp(served.tokens, written, sizeof served.tokens) == 0);
  weft_response_free(response);
  weft_service_free(service);
  weft_context_free(context);
  weft_free(written);
  weft_model_free(model);
}

static bool never(void* user_data) {
  ++*(int*)user_data;
  return false;
}

static void pictures(const char* data, const char* scratch) {
  weft_image image = {0};
  OK(weft_image_read_file(path_in(data, "vision/pictures/photo.png"), &image, &error));
  size_t n = 0;
  float* const pixels = read_floats(path_in(data, "vision/pictures/photo.rgb"), &n);
  CHECK(image.n_bytes == n * sizeof(float) && memcmp(image.rgb, pixels, image.n_bytes) == 0);
  CHECK(image.n_bytes == 3 * (size_t)image.width * (size_t)image.height);
  free(pixels);
  const uint8_t* const before = image.rgb;
  FAILS(weft_image_read("no picture", 10, &image, &error), WEFT_UNSUPPORTED, "PNG");
  FAILS(weft_image_read(NULL, 10, &image, &error), WEFT_INVALID_ARGUMENT, "bytes is NULL");
  FAILS(weft_image_read_file(path_in(data, "none.png"), &image, &error), WEFT_NOT_FOUND, "none.png");
  FAILS(weft_image_read_file(NULL, &image, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  FAILS(weft_image_read_file(path_in(data, "vision/pictures/photo.png"), NULL, &error), WEFT_INVALID_ARGUMENT,
        "image is NULL");
  CHECK(image.rgb == before);

  bool has_images = false, has_audio = true;
  OK(weft_media_kinds(path_in(data, "vision/gemma3/mmproj.gguf"), &has_images, &has_audio, &error));
  CHECK(has_images && !has_audio);
  OK(weft_media_kinds(path_in(data, "vision/gemma3/mmproj.gguf"), NULL, NULL, &error));
  FAILS(weft_media_kinds(path_in(data, "golden/llama/model.gguf"), NULL, NULL, &error), WEFT_UNSUPPORTED,
        "mmproj");

  weft_vision_model* const vision = load_vision(path_in(data, "vision/gemma3/mmproj.gguf"));
  weft_vision_info info = {.struct_size = sizeof info};
  OK(weft_vision_model_get_info(vision, &info, &error));
  CHECK(strcmp(info.projector, "gemma3") == 0 && info.n_embd == 96 && info.both_ways && info.max_rows == 9);
  FAILS(weft_vision_model_get_info(NULL, &info, &error), WEFT_INVALID_ARGUMENT, "vision is NULL");
  weft_model* const llama = load_model(data, "golden/llama/model.gguf");
  FAILS(weft_vision_model_check_fits(vision, llama, &error), WEFT_INVALID_ARGUMENT, "gemma3");
  FAILS(weft_vision_model_check_fits(vision, NULL, &error), WEFT_INVALID_ARGUMENT, "model is NULL");

  int n_asked = 0;
  NO_POINTER(weft_vision_model_encode(vision, &image, never, &n_asked, &error), WEFT_CANCELLED,
             "image encoding");
  CHECK(n_asked == 1);
  NO_POINTER(weft_vision_model_encode(vision, NULL, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
             "image is NULL");
  weft_image wrong = image;
  wrong.n_bytes -= 1;
  NO_POINTER(weft_vision_model_encode(vision, &wrong, NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "bytes");
  wrong.rgb = NULL;
  NO_POINTER(weft_vision_model_encode(vision, &wrong, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
             "image->rgb is NULL");
  weft_media* media = NULL;
  MADE(media, weft_vision_model_encode(vision, &image, NULL, NULL, &error));
  weft_free(image.rgb);

  weft_prompt* prompt = NULL;
  const weft_media* const one[] = {media, NULL};
  NO_POINTER(weft_prompt_create(llama, "hello", 5, 0, one, 1, "(*)", &error), WEFT_INVALID_ARGUMENT,
             "has 0 markers");
  NO_POINTER(weft_prompt_create(llama, "(*)(*)", 6, 0, one, 2, "(*)", &error), WEFT_INVALID_ARGUMENT,
             "one of media is NULL");
  NO_POINTER(weft_prompt_create(llama, "(*)", 3, 0, NULL, 1, "(*)", &error), WEFT_INVALID_ARGUMENT,
             "media is NULL");
  NO_POINTER(weft_prompt_create(llama, "(*)", 3, 0, one, 1, "", &error), WEFT_INVALID_ARGUMENT, "mark");
  NO_POINTER(weft_prompt_create(llama, "(*)", 3, 0, one, 1, NULL, &error), WEFT_INVALID_ARGUMENT, "mark");
  NO_POINTER(weft_prompt_create(llama, "(*)", 3, 8, one, 1, "(*)", &error), WEFT_INVALID_ARGUMENT, "flags");
  NO_POINTER(weft_prompt_create_chat(llama, NULL, 0, NULL, one, 1, "(*)", &error), WEFT_UNSUPPORTED,
             "template");
  // A conversation is written by the template, and special tokens of messages are none.
  char* mark = NULL;
  OK(weft_media_marker(&mark, &error));
  NEED(mark != NULL);
  char content[256];
  snprintf(content, sizeof content, "look: %s", mark);
  const weft_chat_message messages[] = {{"user", content}};
  weft_model* const chat = load_model(scratch, "chat.gguf");
  MADE(prompt, weft_prompt_create_chat(chat, messages, 1, NULL, one, 1, mark, &error));
  size_t n_tokens = 0, n_written = 0;
  const weft_token* tokens = NULL;
  MADE(tokens, weft_prompt_tokens(prompt, &n_tokens, &error));
  CHECK(weft_prompt_n_parts(prompt) == 1);
  weft_part part = {.struct_size = sizeof part};
  OK(weft_prompt_get_part(prompt, 0, &part, &error));
  CHECK(part.n == 9 && tokens[part.first] < WEFT_NO_TOKEN && tokens[part.first + 8] == tokens[part.first]);
  const weft_chat_message begins[] = {{"user", "look: "}};
  weft_token* written = NULL;
  OK(weft_model_apply_chat_template(chat, begins, 1, NULL, NULL, &written, &n_written, &error));
  CHECK(n_written > 2 && memcmp(written, tokens, 2 * sizeof *tokens) == 0);
  weft_free(written);
  FAILS(weft_prompt_get_part(prompt, 1, &part, &error), WEFT_INVALID_ARGUMENT, "no part 1 of 1");
  FAILS(weft_prompt_get_part(prompt, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "part is NULL");
  NO_POINTER(weft_prompt_tokens(NULL, &n_tokens, &error), WEFT_INVALID_ARGUMENT, "prompt is NULL");
  CHECK(weft_prompt_n_parts(NULL) == 0);
  weft_free(mark);
  weft_prompt_free(prompt);
  weft_media_free(media);
  weft_vision_model_free(vision);
  weft_model_free(llama);
  weft_model_free(chat);
  weft_prompt_free(NULL);
  weft_media_free(NULL);
  weft_vision_model_free(NULL);
  weft_audio_model_free(NULL);
}

static void audio_files(const char* data) {
  weft_audio sound = {0};
  OK(weft_audio_read_file(path_in(data, "audio/sound.wav"), &sound, &error));
  FAILS(weft_audio_read("no sound", 8, &sound, &error), WEFT_UNSUPPORTED, "WAV");
  FAILS(weft_audio_read_file(NULL, &sound, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  weft_audio_model* audio = NULL;
  NO_POINTER(weft_audio_model_load(path_in(data, "vision/gemma3/mmproj.gguf"), NULL, &error),
             WEFT_UNSUPPORTED, "audio");
  MADE(audio, weft_audio_model_load(path_in(data, "audio/voxtral/mmproj.gguf"), NULL, &error));
  weft_audio_info info = {.struct_size = sizeof info};
  OK(weft_audio_model_get_info(audio, &info, &error));
  CHECK(strcmp(info.projector, "voxtral") == 0 && info.n_mels == 32 && info.part_seconds > 0.0);
  int n_asked = 0;
  NO_POINTER(weft_audio_model_encode(audio, &sound, never, &n_asked, &error), WEFT_CANCELLED,
             "audio encoding");
  weft_media* media = NULL;
  MADE(media, weft_audio_model_encode(audio, &sound, NULL, NULL, &error));
  weft_free(sound.samples);
  weft_model* const model = load_model(data, "golden/llama/model.gguf");
  FAILS(weft_audio_model_check_fits(NULL, model, &error), WEFT_INVALID_ARGUMENT, "audio is NULL");
  weft_prompt* prompt = NULL;
  const weft_media* const one[] = {media};
  MADE(prompt, weft_prompt_create(model, "(*)", 3, WEFT_PARSE_SPECIAL, one, 1, "(*)", &error));
  size_t n = 0, at = 0;
  float* const expected = read_floats(path_in(data, "audio/voxtral/rows.f32"), &n);
  for (size_t i = 0; i < weft_prompt_n_parts(prompt); ++i) {
    weft_part part = {.struct_size = sizeof part};
    OK(weft_prompt_get_part(prompt, i, &part, &error));
    const size_t n_part = (size_t)part.n * (size_t)part.n_embd;
    NEED(at + n_part <= n);
    CHECK(close_to(part.rows, expected + at, n_part));
    at += n_part;
  }
  CHECK(at == n);
  free(expected);
  weft_prompt_free(prompt);
  weft_media_free(media);
  weft_audio_model_free(audio);
  weft_model_free(model);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  truth(argv[1], "gemma3", 48);
  truth(argv[1], "qwen2vl", 40);
  texts(argv[1], "gemma3", 48);
  texts(argv[1], "qwen2vl", 40);
  pictures(argv[1], argv[2]);
  audio_files(argv[1]);
  return n_failures == 0 ? 0 : 1;
}
