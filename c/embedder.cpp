// Texts to vectors, and to scores.
#include "weft/embedder.h"

#include "context.h"

using namespace weft;
using namespace weft::c;

struct weft_embedder {
  std::shared_ptr<LoadedModel> loaded;
  Embedder embedder;
  OneUser user = {};
};

namespace weft::c {

template <>
weft_embedder_params defaults() {
  return {};
}

namespace {

void embed(weft_embedder& self, std::span<const TextTokens> texts, weft_pooling pooling, bool normalise_them,
           float* vectors, std::size_t n_floats) {
  if (pooling == WEFT_POOLING_NONE ||
      (pooling == WEFT_POOLING_FILE && self.loaded->model->info().pooling == Pooling::kNone))
    refuse("without pooling, a sequence has no single vector");
  const auto width = static_cast<std::size_t>(self.embedder.dimensions());
  if (n_floats != texts.size() * width)
    refuse("n_floats is " + std::to_string(n_floats) + "; " + std::to_string(texts.size()) +
           " vectors have " + std::to_string(texts.size() * width));
  if (texts.empty()) return;
  need(vectors, "vectors");
  std::vector<float> made = pooling == WEFT_POOLING_FILE
                                ? self.embedder.embed(texts)
                                : self.embedder.embed(texts, choice(pooling, Pooling::kLast, "pooling"));
  if (normalise_them)
    for (std::size_t i = 0; i < texts.size(); ++i) normalise(std::span(made).subspan(i * width, width));
  std::ranges::copy(made, vectors);
}

template <typename F>
weft_status run_with(weft_embedder* embedder, weft_error** error, F&& use) {
  return run(error, [&] {
    weft_embedder& self = need(embedder, "embedder");
    const OneUser::Hold hold(self.user, "the embedder");
    use(self);
  });
}

}  // namespace

}  // namespace weft::c

void weft_embedder_params_init(weft_embedder_params* params, size_t struct_size) {
  init(params, struct_size);
}
weft_embedder* weft_embedder_create(const weft_model* model, const weft_embedder_params* params,
                                    weft_error** error) {
  return make(error, [&] {
    const std::shared_ptr<LoadedModel>& loaded = need(model, "model").loaded;
    const weft_embedder_params p = read(params, "params");
    const EmbedderParams all = {
        .n_tokens = p.n_tokens, .n_threads = p.n_threads, .adapters = adapter_uses(p.adapters, p.n_adapters)};
    return std::unique_ptr<weft_embedder>(
        new weft_embedder{.loaded = loaded, .embedder = Embedder(loaded->model, all)});
  });
}
void weft_embedder_free(weft_embedder* embedder) { delete embedder; }
int32_t weft_embedder_dimensions(const weft_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder.dimensions();
}
int32_t weft_embedder_max_tokens(const weft_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder.max_tokens();
}

weft_status weft_embedder_embed(weft_embedder* embedder, const char* const* given, size_t n_texts,
                                weft_pooling pooling, bool normalise, float* vectors, size_t n_floats,
                                weft_error** error) {
  return run_with(embedder, error, [&](weft_embedder& self) {
    const Tokenizer& tokenizer = self.loaded->model->tokenizer();
    std::vector<std::vector<Token>> tokens;
    for (const std::string& text : texts(given, n_texts, "texts"))
      tokens.push_back(cut_tokens(tokenizer, tokens_of_text(tokenizer, text), self.embedder.max_tokens()));
    std::vector<TextTokens> all;
    for (const std::vector<Token>& one : tokens) all.push_back({.tokens = one});
    embed(self, all, pooling, normalise, vectors, n_floats);
  });
}
weft_status weft_embedder_embed_tokens(weft_embedder* embedder, const weft_tokens* given, size_t n_texts,
                                       weft_pooling pooling, bool normalise, float* vectors, size_t n_floats,
                                       weft_error** error) {
  return run_with(embedder, error, [&](weft_embedder& self) {
    std::vector<TextTokens> all;
    for (const weft_tokens& one : list(given, n_texts, "texts"))
      all.push_back({.tokens = list(one.tokens, one.n_tokens, "a text's tokens")});
    embed(self, all, pooling, normalise, vectors, n_floats);
  });
}
weft_status weft_embedder_rank(weft_embedder* embedder, const char* query, const char* const* documents,
                               size_t n_documents, float* scores, weft_error** error) {
  return run_with(embedder, error, [&](weft_embedder& self) {
    const std::vector<std::string> all = texts(documents, n_documents, "documents");
    need_text(query, "query");
    need(scores, "scores");
    for (const Ranked& one : rank(self.embedder, query, all).ranked) scores[one.index] = one.score;
  });
}
