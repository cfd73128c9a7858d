/* Vectors of texts, and how well documents answer a query. */
#include <math.h>

#include "check.h"

static void vectors(const char* data) {
  weft_model* const model = load_model(data, "golden_encoders/bert/model.gguf");
  weft_context* const none = weft_context_create(model, NULL, NULL);
  CHECK(none == NULL);
  weft_embedder_params params;
  weft_embedder_params_init(&params, sizeof params);
  params.n_threads = 2;
  weft_embedder* embedder = NULL;
  MADE(embedder, weft_embedder_create(model, &params, &error));
  const size_t width = (size_t)weft_embedder_dimensions(embedder);
  NEED(width > 0 && weft_embedder_max_tokens(embedder) > 0);

  const char* const texts[] = {"hello world", "", "hello world"};
  float* const all = calloc(3 * width, sizeof *all);
  OK(weft_embedder_embed(embedder, texts, 3, WEFT_POOLING_FILE, true, all, 3 * width, &error));
  double length = 0.0;
  for (size_t i = 0; i < width; ++i) length += (double)all[i] * (double)all[i];
  CHECK(fabs(length - 1.0) < 1e-4);
  CHECK(memcmp(all, all + 2 * width, width * sizeof *all) == 0);
  CHECK(memcmp(all, all + width, width * sizeof *all) != 0);

  /* The same of tokens. */
  weft_tokenizer* tokenizer = NULL;
  MADE(tokenizer, weft_model_tokenizer(model, &error));
  weft_token* tokens = NULL;
  weft_tokens text = {NULL, 0};
  OK(weft_tokenizer_encode(tokenizer, texts[0], strlen(texts[0]), WEFT_ADD_SPECIAL, &tokens, &text.n_tokens,
                           &error));
  text.tokens = tokens;
  float* const one = calloc(width, sizeof *one);
  OK(weft_embedder_embed_tokens(embedder, &text, 1, WEFT_POOLING_FILE, true, one, width, &error));
  CHECK(memcmp(all, one, width * sizeof *one) == 0);
  OK(weft_embedder_embed_tokens(embedder, &text, 1, WEFT_POOLING_LAST, true, one, width, &error));
  CHECK(memcmp(all, one, width * sizeof *one) != 0);
  OK(weft_embedder_embed(embedder, NULL, 0, WEFT_POOLING_CLS, false, NULL, 0, &error));

  FAILS(weft_embedder_embed(embedder, texts, 3, WEFT_POOLING_MEAN, true, all, width, &error),
        WEFT_INVALID_ARGUMENT, "3 vectors have");
  FAILS(weft_embedder_embed(embedder, texts, 1, WEFT_POOLING_NONE, true, one, width, &error),
        WEFT_INVALID_ARGUMENT, "pooling");
  FAILS(weft_embedder_embed(embedder, texts, 1, 9, true, one, width, &error), WEFT_INVALID_ARGUMENT,
        "pooling is 9");
  FAILS(weft_embedder_embed(embedder, texts, 1, WEFT_POOLING_CLS, true, NULL, width, &error),
        WEFT_INVALID_ARGUMENT, "vectors is NULL");
  FAILS(weft_embedder_embed(embedder, NULL, 1, WEFT_POOLING_CLS, true, one, width, &error),
        WEFT_INVALID_ARGUMENT, "texts is NULL");
  FAILS(weft_embedder_embed(NULL, texts, 1, WEFT_POOLING_CLS, true, one, width, &error),
        WEFT_INVALID_ARGUMENT, "embedder is NULL");
  FAILS(weft_embedder_embed_tokens(embedder, NULL, 1, WEFT_POOLING_CLS, true, one, width, &error),
        WEFT_INVALID_ARGUMENT, "texts is NULL");
  text.n_tokens = 0;
  FAILS(weft_embedder_embed_tokens(embedder, &text, 1, WEFT_POOLING_CLS, true, one, width, &error),
        WEFT_INVALID_ARGUMENT, "");
  const char* const documents[] = {"a", "b"};
  float scores[2];
  FAILS(weft_embedder_rank(embedder, "q", documents, 2, scores, &error), WEFT_UNSUPPORTED, "");
  NO_POINTER(weft_embedder_create(NULL, NULL, &error), WEFT_INVALID_ARGUMENT, "model is NULL");
  CHECK(weft_embedder_dimensions(NULL) == 0 && weft_embedder_max_tokens(NULL) == 0);
  free(all);
  free(one);
  weft_free(tokens);
  weft_tokenizer_free(tokenizer);
  weft_embedder_free(embedder);
  weft_embedder_free(NULL);
  weft_model_free(model);
}

static void scores(const char* data) {
  weft_model* const model = load_model(data, "golden_encoders/bert-rank/model.gguf");
  weft_embedder* embedder = NULL;
  MADE(embedder, weft_embedder_create(model, NULL, &error));
  weft_model_free(model); /* The embedder goes on. */
  const char* const documents[] = {"one thing", "another", "one thing"};
  float all[3] = {-1.0f, -1.0f, -1.0f};
  OK(weft_embedder_rank(embedder, "what?", documents, 3, all, &error));
  for (int i = 0; i < 3; ++i) CHECK(all[i] >= 0.0f && all[i] <= 1.0f);
  CHECK(all[0] == all[2] && all[0] != all[1]);
  FAILS(weft_embedder_rank(embedder, NULL, documents, 3, all, &error), WEFT_INVALID_ARGUMENT,
        "query is NULL");
  FAILS(weft_embedder_rank(embedder, "q", NULL, 3, all, &error), WEFT_INVALID_ARGUMENT, "documents is NULL");
  FAILS(weft_embedder_rank(embedder, "q", documents, 3, NULL, &error), WEFT_INVALID_ARGUMENT,
        "scores is NULL");
  FAILS(weft_embedder_rank(NULL, "q", documents, 3, all, &error), WEFT_INVALID_ARGUMENT, "embedder is NULL");
  weft_embedder_free(embedder);
}

int main(int argc, char** argv) {
  NEED(argc == 3);
  vectors(argv[1]);
  scores(argv[1]);
  return n_failures == 0 ? 0 : 1;
}
