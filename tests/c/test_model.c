/* Errors, structs of other versions, devices, models, files, tokenizers, conversations, grammars. */
#include "check.h"

static void errors(void) {
  CHECK(weft_abi_version() == WEFT_ABI_VERSION);
  CHECK(strchr(weft_version(), '.') != NULL);
  CHECK(weft_error_status(NULL) == WEFT_OK);
  CHECK(strcmp(weft_error_message(NULL), "") == 0);
  CHECK(weft_error_retry_after_ms(NULL) == 0.0);
  CHECK(strcmp(weft_status_name(WEFT_OK), "ok") == 0);
  CHECK(strcmp(weft_status_name(WEFT_CACHE_FULL), "cache_full") == 0);
  CHECK(strcmp(weft_status_name(WEFT_INTERNAL), "internal") == 0);
  CHECK(strcmp(weft_status_name(-1), "unknown") == 0);
  CHECK(strcmp(weft_status_name(99), "unknown") == 0);
  CHECK(strcmp(weft_stop_name(WEFT_STOP_CONTEXT_FULL), "context") == 0);
  CHECK(strcmp(weft_stop_name(WEFT_STOP_ERROR), "error") == 0);
  CHECK(strcmp(weft_stop_name(7), "unknown") == 0);
  weft_error_free(NULL);
  weft_free(NULL);
  /* An error need not be asked for; where it is, a success sets it to NULL. */
  CHECK(weft_model_load(NULL, NULL, NULL) == NULL);
  weft_error* error = (weft_error*)&n_failures;
  weft_batch_free(weft_batch_create(&error));
  CHECK(error == NULL);
}

static void structs(const char* data) {
  const char* const path = path_in(data, "golden/llama/model.gguf");
  /* What a later version's program has behind what this library knows: zeros are nothing, else it is refused.
   */
  struct {
    weft_model_params params;
    uint64_t later;
  } longer;
  memset(&longer, 1, sizeof longer);
  weft_model_params_init(&longer.params, sizeof longer);
  CHECK(longer.params.struct_size == sizeof longer && longer.later == 0);
  CHECK(longer.params.n_gpu_layers == -1 && longer.params.repack && longer.params.fit);
  weft_model* model = NULL;
  MADE(model, weft_model_load(path, &longer.params, &error));
  weft_model_free(model);
  longer.later = 1;
  NO_POINTER(weft_model_load(path, &longer.params, &error), WEFT_UNSUPPORTED, "later version");

  /* What an earlier version's program has not: bytes behind its size are neither written nor read. */
  weft_model_params shorter;
  memset(&shorter, 1, sizeof shorter);
  weft_model_params_init(&shorter, offsetof(weft_model_params, n_cpu_moe));
  CHECK(shorter.n_gpu_layers == -1 && shorter.n_pins == 0);
  CHECK(shorter.n_cpu_moe == 0x01010101);
  MADE(model, weft_model_load(path, &shorter, &error));

  weft_model_info info;
  memset(&info, 1, sizeof info);
  info.struct_size = offsetof(weft_model_info, n_embd);
  OK(weft_model_get_info(model, &info, &error));
  CHECK(info.n_vocab > 0 && info.n_embd == 0x01010101 &&
        info.struct_size == offsetof(weft_model_info, n_embd));

  /* A size that is none: most of all that of a struct that nobody has filled in. */
  weft_model_params none;
  memset(&none, 0, sizeof none);
  NO_POINTER(weft_model_load(path, &none, &error), WEFT_INVALID_ARGUMENT, "struct_size is 0");
  none.struct_size = 1 << 20;
  NO_POINTER(weft_model_load(path, &none, &error), WEFT_INVALID_ARGUMENT, "struct_size");
  info.struct_size = 0;
  FAILS(weft_model_get_info(model, &info, &error), WEFT_INVALID_ARGUMENT, "struct_size is 0");
  weft_model_params_init(NULL, sizeof none);
  weft_model_params_init(&none, 0);
  CHECK(none.struct_size == 1 << 20);
  weft_model_free(model);
}

static void devices(void) {
  weft_device_list* list = NULL;
  MADE(list, weft_device_list_create(&error));
  CHECK(weft_device_list_size(list) >= 1);
  weft_device_info info;
  info.struct_size = sizeof info;
  OK(weft_device_list_get(list, 0, &info, &error));
  CHECK(strcmp(info.name, "cpu") == 0 && info.memory_total > 0 && info.description[0] != 0);
  CHECK(info.n_threads > 0 && info.on_host_cpu);
  FAILS(weft_device_list_get(list, 1000, &info, &error), WEFT_INVALID_ARGUMENT, "no device 1000");
  FAILS(weft_device_list_get(NULL, 0, &info, &error), WEFT_INVALID_ARGUMENT, "devices is NULL");
  FAILS(weft_device_list_get(list, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "info is NULL");
  CHECK(weft_device_list_size(NULL) == 0);
  weft_device_list_free(list);
  weft_device_list_free(NULL);
}

static bool count_up(float done, void* user_data) {
  float* const last = user_data;
  CHECK(done >= *last && done <= 1.0f);
  *last = done;
  return true;
}
static bool stop_it(float done, void* user_data) {
  (void)done;
  (void)user_data;
  return false;
}

static void models(const char* data) {
  const char* const path = path_in(data, "golden/llama/model.gguf");
  NO_POINTER(weft_model_load(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  NO_POINTER(weft_model_load(path_in(data, "none.gguf"), NULL, &error), WEFT_NOT_FOUND, "none.gguf");

  weft_model_params params;
  weft_model_params_init(&params, sizeof params);
  float done = 0.0f;
  params.progress = count_up;
  params.progress_data = &done;
  params.n_threads = 1;
  params.n_gpu_layers = 0;
  const char* const devices[] = {"cpu"};
  params.devices = devices;
  params.n_devices = 1;
  weft_model* model = NULL;
  MADE(model, weft_model_load(path, &params, &error));
  CHECK(done == 1.0f);
  weft_model_info info;
  info.struct_size = sizeof info;
  OK(weft_model_get_info(model, &info, &error));
  CHECK(strcmp(info.architecture, "llama") == 0 && info.n_vocab > 0 && info.n_layers > 0 && info.n_embd > 0);
  CHECK(!info.encoder && !info.recurrent && !info.reads_source && !info.axes);
  CHECK(info.n_ctx_fit == 0 && info.pooling == WEFT_POOLING_MEAN && info.first_token == WEFT_NO_TOKEN);
  weft_placement placement = {.struct_size = sizeof placement};
  OK(weft_model_get_placement(model, &placement, &error));
  CHECK(placement.n_devices == 1 && placement.n_layers_all == info.n_layers + 1);
  CHECK(placement.n_ctx > 0 && placement.n_ctx == placement.n_ctx_full);
  weft_placed_device device = {.struct_size = sizeof device};
  OK(weft_model_get_placed_device(model, 0, &device, &error));
  CHECK(strcmp(device.name, "cpu") == 0 && device.weights > 0 && device.cache > 0 && device.free > 0);
  FAILS(weft_model_get_placed_device(model, 1, &device, &error), WEFT_INVALID_ARGUMENT, "no device 1 of 1");
  FAILS(weft_model_get_placed_device(model, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "device is NULL");
  FAILS(weft_model_get_placed_device(NULL, 0, &device, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  FAILS(weft_model_get_placement(NULL, &placement, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  CHECK(info.has_chat_template == (weft_model_chat_template(model) != NULL));
  CHECK(weft_model_n_adapters(model) == 0 && weft_model_adapter_name(model, 0) == NULL);
  FAILS(weft_model_get_info(NULL, &info, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  FAILS(weft_model_get_info(model, NULL, &error), WEFT_INVALID_ARGUMENT, "info is NULL");
  CHECK(weft_model_n_adapters(NULL) == 0 && weft_model_chat_template(NULL) == NULL);
  weft_model_free(model);
  weft_model_free(NULL);

  params.progress = stop_it;
  NO_POINTER(weft_model_load(path, &params, &error), WEFT_CANCELLED, "");
  params.progress = NULL;
  const char* const unknown[] = {"abacus0"};
  params.devices = unknown;
  NO_POINTER(weft_model_load(path, &params, &error), WEFT_NOT_FOUND, "abacus0");
  params.devices = NULL;
  NO_POINTER(weft_model_load(path, &params, &error), WEFT_INVALID_ARGUMENT, "devices is NULL");
  params.n_devices = 0;
  const weft_pin pin = {NULL, "cpu"};
  params.pins = &pin;
  params.n_pins = 1;
  NO_POINTER(weft_model_load(path, &params, &error), WEFT_INVALID_ARGUMENT, "a pin's pattern is NULL");
  params.n_pins = 0;
  const weft_adapter_file adapter = {path_in(data, "none.gguf"), NULL};
  params.adapters = &adapter;
  params.n_adapters = 1;
  NO_POINTER(weft_model_load(path, &params, &error), WEFT_NOT_FOUND, "none.gguf");
  params.n_adapters = 0;
  const weft_control_vector vector = {path_in(data, "none.gguf"), 1.0};
  params.control_vectors = &vector;
  params.n_control_vectors = 1;
  NO_POINTER(weft_model_load(path, &params, &error), WEFT_NOT_FOUND, "none.gguf");
}

static void files(const char* data) {
  weft_file* file = NULL;
  MADE(file, weft_file_open(path_in(data, "golden/llama/model.gguf"), &error));
  CHECK(weft_file_n_keys(file) > 5);
  CHECK(strcmp(weft_file_value(file, "general.architecture"), "llama") == 0);
  CHECK(atoi(weft_file_value(file, "llama.block_count")) > 0);
  CHECK(weft_file_value(file, "tokenizer.ggml.tokens")[0] == '[');
  for (size_t i = 0; i < weft_file_n_keys(file); ++i)
    CHECK(weft_file_value(file, weft_file_key(file, i)) != NULL);
  CHECK(weft_file_key(file, weft_file_n_keys(file)) == NULL);
  CHECK(weft_file_value(file, "none") == NULL && weft_file_value(file, NULL) == NULL);
  bool found = false;
  for (size_t i = 0; i < weft_file_n_tensors(file); ++i) {
    weft_file_tensor tensor;
    tensor.struct_size = sizeof tensor;
    OK(weft_file_get_tensor(file, i, &tensor, &error));
    if (strcmp(tensor.name, "token_embd.weight") != 0) continue;
    found = true;
    CHECK(tensor.rank == 2 && tensor.shape[0] > 0 && tensor.bytes > 0 && tensor.type[0] != 0);
  }
  CHECK(found);
  weft_file_tensor tensor = {0};
  tensor.struct_size = sizeof tensor;
  FAILS(weft_file_get_tensor(file, 100000, &tensor, &error), WEFT_INVALID_ARGUMENT, "no tensor 100000");
  FAILS(weft_file_get_tensor(NULL, 0, &tensor, &error), WEFT_INVALID_ARGUMENT, "file is NULL");
  FAILS(weft_file_get_tensor(file, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "tensor is NULL");
  CHECK(weft_file_n_keys(NULL) == 0 && weft_file_key(NULL, 0) == NULL && weft_file_value(NULL, "a") == NULL);
  CHECK(weft_file_n_tensors(NULL) == 0);
  weft_file_free(file);
  weft_file_free(NULL);
  NO_POINTER(weft_file_open(NULL, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  NO_POINTER(weft_file_open(path_in(data, "none.gguf"), &error), WEFT_NOT_FOUND, "none.gguf");
}

static void tokenizers(const char* data) {
  weft_model* const model = load_model(data, "golden/llama/model.gguf");
  weft_tokenizer* tokenizer = NULL;
  MADE(tokenizer, weft_model_tokenizer(model, &error));
  weft_model_free(model); /* The tokenizer goes on. */
  weft_tokenizer* alone = NULL;
  MADE(alone, weft_tokenizer_load(path_in(data, "golden/llama/model.gguf"), &error));
  CHECK(weft_tokenizer_n_vocab(alone) == weft_tokenizer_n_vocab(tokenizer) &&
        weft_tokenizer_n_vocab(alone) > 0);
  weft_tokenizer_free(alone);

  const char text[] = "Hello, world! \xC3\xA4";
  weft_token* tokens = NULL;
  size_t n = 0;
  OK(weft_tokenizer_encode(tokenizer, text, strlen(text), 0, &tokens, &n, &error));
  NEED(n > 0);
  char* back = NULL;
  size_t n_bytes = 0;
  OK(weft_tokenizer_decode(tokenizer, tokens, n, false, &back, &n_bytes, &error));
  CHECK(n_bytes == strlen(text) && strcmp(back, text) == 0);
  weft_free(back);

  /* Token by token it is the same text, whole characters only. */
  weft_detokenizer* stream = NULL;
  MADE(stream, weft_detokenizer_create(tokenizer, false, &error));
  for (int round = 0; round < 2; ++round) {
    char written[64] = "";
    for (size_t i = 0; i < n; ++i) {
      weft_error* error = NULL;
      const char* const piece = weft_detokenizer_push(stream, tokens[i], &n_bytes, &error);
      NEED(piece != NULL && strlen(piece) == n_bytes);
      strcat(written, piece);
    }
    weft_error* error = NULL;
    strcat(written, weft_detokenizer_finish(stream, NULL, &error));
    CHECK(strstr(written, text) != NULL);
  }
  NO_POINTER(weft_detokenizer_push(stream, 1 << 30, NULL, &error), WEFT_INVALID_ARGUMENT, "");
  NO_POINTER(weft_detokenizer_push(NULL, 0, NULL, &error), WEFT_INVALID_ARGUMENT, "detokenizer is NULL");
  NO_POINTER(weft_detokenizer_finish(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "detokenizer is NULL");
  NO_POINTER(weft_detokenizer_create(NULL, false, &error), WEFT_INVALID_ARGUMENT, "tokenizer is NULL");

  char* piece = NULL;
  OK(weft_tokenizer_piece(tokenizer, tokens[n / 2], false, &piece, &n_bytes, &error));
  CHECK(strlen(piece) == n_bytes && n_bytes > 0);
  weft_free(piece);
  weft_free(tokens);

  OK(weft_tokenizer_encode(tokenizer, NULL, 0, WEFT_ADD_SPECIAL, &tokens, &n, &error));
  CHECK(n == 1 && tokens[0] == weft_tokenizer_bos(tokenizer));
  weft_free(tokens);
  const weft_token eos = weft_tokenizer_eos(tokenizer);
  CHECK(eos != WEFT_NO_TOKEN && weft_tokenizer_is_end(tokenizer, eos) &&
        !weft_tokenizer_is_end(tokenizer, -5));
  OK(weft_tokenizer_decode(tokenizer, &eos, 1, true, &back, NULL, &error));
  CHECK(weft_tokenizer_find(tokenizer, back) == eos);
  OK(weft_tokenizer_encode(tokenizer, back, strlen(back), WEFT_PARSE_SPECIAL, &tokens, &n, &error));
  CHECK(n == 1 && tokens[0] == eos);
  weft_free(tokens);
  weft_free(back);
  CHECK(weft_tokenizer_find(tokenizer, "no such token") == WEFT_NO_TOKEN);

  tokens = NULL;
  FAILS(weft_tokenizer_encode(NULL, text, 1, 0, &tokens, &n, &error), WEFT_INVALID_ARGUMENT,
        "tokenizer is NULL");
  FAILS(weft_tokenizer_encode(tokenizer, NULL, 1, 0, &tokens, &n, &error), WEFT_INVALID_ARGUMENT,
        "text is NULL");
  FAILS(weft_tokenizer_encode(tokenizer, text, 1, 8, &tokens, &n, &error), WEFT_INVALID_ARGUMENT,
        "flags are 8");
  FAILS(weft_tokenizer_encode(tokenizer, text, 1, 0, NULL, &n, &error), WEFT_INVALID_ARGUMENT,
        "tokens is NULL");
  FAILS(weft_tokenizer_encode(tokenizer, text, 1, 0, &tokens, NULL, &error), WEFT_INVALID_ARGUMENT,
        "n_tokens is NULL");
  CHECK(tokens == NULL);
  const weft_token wrong = -7;
  FAILS(weft_tokenizer_decode(tokenizer, &wrong, 1, false, &back, NULL, &error), WEFT_INVALID_ARGUMENT, "-7");
  FAILS(weft_tokenizer_decode(tokenizer, NULL, 1, false, &back, NULL, &error), WEFT_INVALID_ARGUMENT,
        "tokens is NULL");
  FAILS(weft_tokenizer_decode(tokenizer, &eos, 1, false, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
        "text is NULL");
  FAILS(weft_tokenizer_decode(NULL, &eos, 1, false, &back, NULL, &error), WEFT_INVALID_ARGUMENT,
        "tokenizer is NULL");
  FAILS(weft_tokenizer_piece(tokenizer, wrong, false, &back, NULL, &error), WEFT_INVALID_ARGUMENT, "-7");
  FAILS(weft_tokenizer_piece(tokenizer, eos, false, NULL, NULL, &error), WEFT_INVALID_ARGUMENT,
        "bytes is NULL");
  FAILS(weft_tokenizer_piece(NULL, eos, false, &back, NULL, &error), WEFT_INVALID_ARGUMENT,
        "tokenizer is NULL");
  NO_POINTER(weft_model_tokenizer(NULL, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  NO_POINTER(weft_tokenizer_load(NULL, &error), WEFT_INVALID_ARGUMENT, "path is NULL");
  CHECK(weft_tokenizer_n_vocab(NULL) == 0 && weft_tokenizer_bos(NULL) == WEFT_NO_TOKEN);
  CHECK(weft_tokenizer_eos(NULL) == WEFT_NO_TOKEN && !weft_tokenizer_is_end(NULL, 0));
  CHECK(weft_tokenizer_find(NULL, "a") == WEFT_NO_TOKEN &&
        weft_tokenizer_find(tokenizer, NULL) == WEFT_NO_TOKEN);
  weft_tokenizer_free(tokenizer); /* Before what was made of it. */
  NO_POINTER(weft_detokenizer_push(stream, 1 << 30, NULL, &error), WEFT_INVALID_ARGUMENT, "");
  weft_detokenizer_free(stream);
  weft_detokenizer_free(NULL);
  weft_tokenizer_free(NULL);
}

/* A copy of a model's file with a chat template, as the first of its metadata. */
static void write_chat_model(const char* from, const char* to) {
  static const char key[] = "tokenizer.chat_template";
  char chat[512] =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}{#";
  const uint64_t key_bytes = sizeof key - 1;
  const uint32_t type = 8; /* text */
  uint64_t n_keys = 0;
  /* So long that tensors stay aligned: the key, the type and the lengths count, too. */
  while ((strlen(chat) + 2 + key_bytes + 20) % 32 != 0) strcat(chat, " ");
  strcat(chat, "#}");
  const uint64_t chat_bytes = strlen(chat);

  FILE* const in = fopen(from, "rb");
  FILE* const out = fopen(to, "wb");
  NEED(in != NULL && out != NULL);
  char head[16];
  NEED(fread(head, 1, 16, in) == 16 && fread(&n_keys, 8, 1, in) == 1);
  ++n_keys;
  fwrite(head, 1, 16, out);
  fwrite(&n_keys, 8, 1, out);
  fwrite(&key_bytes, 8, 1, out);
  fwrite(key, 1, key_bytes, out);
  fwrite(&type, 4, 1, out);
  fwrite(&chat_bytes, 8, 1, out);
  fwrite(chat, 1, chat_bytes, out);
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) fwrite(buffer, 1, n, out);
  fclose(in);
  NEED(fclose(out) == 0);
}

static void chats(const char* data, const char* scratch) {
  write_chat_model(path_in(data, "golden/llama/model.gguf"), path_in(scratch, "chat.gguf"));
  weft_model* const model = load_model(scratch, "chat.gguf");
  CHECK(strstr(weft_model_chat_template(model), "m.role") != NULL);
  const weft_chat_message messages[] = {{"user", "hi"}, {"assistant", "hello"}, {"user", "and?"}};
  char* text = NULL;
  weft_token* tokens = NULL;
  size_t n = 0;
  OK(weft_model_apply_chat_template(model, messages, 3, NULL, &text, &tokens, &n, &error));
  NEED(text != NULL && tokens != NULL);
  CHECK(strcmp(text, "<user>hi<assistant>hello<user>and?<assistant>") == 0 && n > 0);

  weft_chat_params params;
  weft_chat_params_init(&params, sizeof params);
  CHECK(params.add_generation_prompt);
  params.messages_json =
      "[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":\"hello\"},"
      "{\"role\":\"user\",\"content\":\"and?\"}]";
  char* same = NULL;
  OK(weft_model_apply_chat_template(model, NULL, 0, &params, &same, NULL, NULL, &error));
  CHECK(strcmp(same, text) == 0);
  weft_free(same);
  FAILS(weft_model_apply_chat_template(model, messages, 3, &params, &same, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "one of them");
  params.messages_json = "[";
  FAILS(weft_model_apply_chat_template(model, NULL, 0, &params, &same, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "");
  params.messages_json = NULL;
  params.add_generation_prompt = false;
  OK(weft_model_apply_chat_template(model, messages, 3, &params, &same, NULL, NULL, &error));
  CHECK(strlen(same) < strlen(text));
  weft_free(same);
  weft_free(text);
  weft_free(tokens);

  const weft_chat_message nobody = {NULL, "hi"};
  FAILS(weft_model_apply_chat_template(model, &nobody, 1, NULL, &text, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "a message's role is NULL");
  FAILS(weft_model_apply_chat_template(NULL, messages, 3, NULL, &text, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "model is NULL");
  FAILS(weft_model_apply_chat_template(model, NULL, 3, NULL, &text, NULL, NULL, &error),
        WEFT_INVALID_ARGUMENT, "messages is NULL");
  FAILS(weft_model_apply_chat_template(model, messages, 3, NULL, NULL, &tokens, NULL, &error),
        WEFT_INVALID_ARGUMENT, "n_tokens is NULL");
  weft_model_free(model);

  weft_model* const encoder = load_model(data, "golden_encoders/bert/model.gguf");
  FAILS(weft_model_apply_chat_template(encoder, messages, 3, NULL, &text, NULL, NULL, &error),
        WEFT_UNSUPPORTED, "no chat template");
  CHECK(weft_model_chat_template(encoder) == NULL);
  weft_model_free(encoder);
}

static void grammars(const char* data) {
  weft_model* const model = load_model(data, "golden/llama/model.gguf");
  const struct {
    weft_grammar_kind kind;
    const char* source;
  } good[] = {{WEFT_GRAMMAR_GBNF, "root ::= \"yes\" | \"no\""},
              {WEFT_GRAMMAR_REGEX, "[0-9]{2}"},
              {WEFT_GRAMMAR_JSON_SCHEMA, "{\"type\":\"boolean\"}"},
              {WEFT_GRAMMAR_JSON_OBJECT, NULL},
              {WEFT_GRAMMAR_STRUCTURAL_TAG,
               "{\"format\": {\"type\": \"tag\", \"begin\": \"<a>\", \"end\": \"</a>\", "
               "\"content\": {\"type\": \"any_text\"}}}"}};
  for (int i = 0; i < 5; ++i) {
    weft_grammar* grammar = NULL;
    MADE(grammar, weft_grammar_create(model, good[i].kind, good[i].source, &error));
    weft_grammar_free(grammar);
  }
  NO_POINTER(weft_grammar_create(model, WEFT_GRAMMAR_GBNF, "root ::= (", &error), WEFT_INVALID_ARGUMENT, "");
  NO_POINTER(weft_grammar_create(model, WEFT_GRAMMAR_REGEX, NULL, &error), WEFT_INVALID_ARGUMENT,
             "source is NULL");
  NO_POINTER(weft_grammar_create(model, WEFT_GRAMMAR_STRUCTURAL_TAG, "{\"format\": 1}", &error),
             WEFT_INVALID_ARGUMENT, "format");
  NO_POINTER(weft_grammar_create(model, 9, "a", &error), WEFT_INVALID_ARGUMENT, "kind of grammar 9");
  NO_POINTER(weft_grammar_create(NULL, WEFT_GRAMMAR_REGEX, "a", &error), WEFT_INVALID_ARGUMENT,
             "model is NULL");
  weft_grammar_free(NULL);
  weft_model_free(model);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  errors();
  structs(argv[1]);
  devices();
  models(argv[1]);
  files(argv[1]);
  tokenizers(argv[1]);
  chats(argv[1], argv[2]);
  grammars(argv[1]);
  return n_failures == 0 ? 0 : 1;
}
