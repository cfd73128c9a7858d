/* Goes on with a text: c MODEL.gguf TEXT */
#include <stdio.h>
#include <string.h>
#include <weft.h>

static bool print(const char* text, size_t n_bytes, void* user_data) {
  (void)user_data;
  fwrite(text, 1, n_bytes, stdout);
  return fflush(stdout) == 0;
}

/* What failed, on stderr. */
static int report(weft_error* error) {
  fprintf(stderr, "%s: %s\n", weft_status_name(weft_error_status(error)), weft_error_message(error));
  weft_error_free(error);
  return 1;
}

static int write_on(const weft_model* model, const char* text) {
  int result = 1;
  weft_error* error = NULL;
  weft_model_info info = {.struct_size = sizeof info};
  weft_context_params context_params;
  weft_context_params_init(&context_params, sizeof context_params);
  context_params.n_ctx = 1024;
  weft_sampler_params sampler_params;
  weft_sampler_params_init(&sampler_params, sizeof sampler_params);
  sampler_params.temperature = 0.0f;
  weft_generate_params params;
  weft_generate_params_init(&params, sizeof params);
  params.n_predict = 64;
  params.on_text = print;
  weft_generation how = {.struct_size = sizeof how};

  weft_context* context = NULL;
  weft_sampler* sampler = NULL;
  weft_tokenizer* tokenizer = NULL;
  weft_token* prompt = NULL;
  size_t n_prompt = 0;
  if (weft_model_get_info(model, &info, &error) == WEFT_OK &&
      (context = weft_context_create(model, &context_params, &error)) != NULL &&
      (sampler = weft_sampler_create(info.n_vocab, &sampler_params, &error)) != NULL &&
      (tokenizer = weft_model_tokenizer(model, &error)) != NULL &&
      weft_tokenizer_encode(tokenizer, text, strlen(text), WEFT_ADD_SPECIAL, &prompt, &n_prompt, &error) ==
          WEFT_OK &&
      weft_generate(context, sampler, prompt, n_prompt, 0, &params, NULL, NULL, NULL, &how, &error) ==
          WEFT_OK) {
    printf("\n%d tokens (%s)\n", (int)how.n_generated, weft_stop_name(how.stop));
    result = 0;
  } else {
    report(error);
  }
  weft_free(prompt);
  weft_tokenizer_free(tokenizer);
  weft_sampler_free(sampler);
  weft_context_free(context);
  return result;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s MODEL.gguf TEXT\n", argv[0]);
    return 2;
  }
  weft_error* error = NULL;
  weft_model* const model = weft_model_load(argv[1], NULL, &error);
  if (model == NULL) return report(error);
  const int result = write_on(model, argv[2]);
  weft_model_free(model);
  return result;
}
