#include "api/embeddings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "api/encoder_texts.h"
#include "api/prompts.h"
#include "base/base64.h"
#include "base/to_size.h"
#include "weft/embedder.h"

namespace weft::server {
namespace {

double largest(std::span<const float> vector) {
  double most = 0.0;
  for (const float value : vector) most = std::max(most, std::abs(static_cast<double>(value)));
  return most;
}

double norm_of(std::span<const float> vector, int degree) {
  // The numbers are scaled to at most 1, so that powers stay finite.
  const double scale = largest(vector);
  if (scale == 0.0) return 0.0;
  double sum = 0.0;
  for (const float value : vector) sum += std::pow(std::abs(value) / scale, degree);
  return scale * std::pow(sum, 1.0 / degree);
}

/// The vector as the field "embedding".
Json vector_json(const std::vector<float>& vector, bool as_base64) {
  if (!as_base64) return vector;
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(vector.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), vector.data(), bytes.size());
  return base::to_base64(std::as_bytes(std::span(bytes)));
}

/// For a decoder, whose service pools prompts.
class EmbeddingWriter : public ResponseWriter {
 public:
  EmbeddingWriter(EmbeddingOrder order, std::size_t n) : order_(std::move(order)), vectors_(n) {}

  bool streams() const override { return false; }
  ErrorShape shape() const override { return order_.shape; }

  void add(int choice, const Output& chunk, std::string& /*out*/) override {
    if (!chunk.done) return;
    n_tokens_ += to_size(chunk.stats.n_prompt);
    vectors_[to_size(choice)] = order_.form.finish(chunk.embedding);
  }

  void finish(std::string& out) override { out = to_text(order_.answer(vectors_, n_tokens_)); }

 private:
  const EmbeddingOrder order_;
  std::vector<std::vector<float>> vectors_;
  std::size_t n_tokens_ = 0;
};

void embed_by_encoder(Job& job, EmbeddingOrder order) {
  EncoderTexts texts;
  texts.pooling = order.pooling;
  texts.shape = order.shape;
  for (Prompt& prompt : order.prompts) texts.texts.push_back({std::move(prompt.tokens), -1});
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, order.field);
  const auto n_columns = to_size(job.model->embedding->dimensions());
  texts.answer = [order = std::move(order), n_tokens, n_columns](std::vector<float> values) {
    std::vector<std::vector<float>> vectors;
    for (std::size_t at = 0; at < values.size(); at += n_columns)
      vectors.push_back(order.form.finish(std::span(values).subspan(at, n_columns)));
    return order.answer(vectors, n_tokens);
  };
  submit(job, std::move(texts));
}

/// The fields that both forms share. `field` has the inputs.
EmbeddingOrder read_embedding(Fields& fields, Job& job, std::string field) {
  EmbeddingOrder order = usual_embedding(job);
  order.field = std::move(field);
  const Tokenizer& tokenizer = job.model->tokenizer();
  const Tokenizer::EncodeOptions options{.add_special = fields.boolean("add_special_tokens", true)};
  order.prompts = read_prompts(fields, order.field, tokenizer, job.params->n_inputs, options);
  const int n_kept = read_n_kept(fields);
  for (Prompt& prompt : order.prompts) keep_end(prompt.tokens, n_kept, tokenizer);
  const bool encoder = job.model->embedding != nullptr;
  order.form.n_dimensions = to_size(fields.integer(
      "dimensions", 0, 0, encoder ? job.model->embedding->dimensions() : job.model->model->info().n_embd));
  // vLLM has a boolean.
  const int norm = fields.has("normalize") ? (fields.boolean("normalize", true) ? 2 : -1) : order.form.norm;
  order.form.norm = fields.integer("embd_normalize", norm, -1, 1024);
  constexpr Pooling kPoolings[] = {Pooling::kMean, Pooling::kLast, Pooling::kCls};
  if (fields.has("pooling"))
    order.pooling = kPoolings[encoder ? fields.word("pooling", 0, {"mean", "last", "cls"})
                                      : fields.word("pooling", 0, {"mean", "last"})];
  fields.ignore({"user"});
  return order;
}

}  // namespace

std::vector<float> VectorForm::finish(std::span<const float> vector) const {
  std::vector<float> kept(vector.begin(), vector.end());
  if (n_dimensions != 0 && n_dimensions < kept.size()) kept.resize(n_dimensions);
  if (norm == 2) {
    normalise(kept);
  } else if (norm >= 0) {
    const double size = norm == 0 ? largest(kept) / 32760.0 : norm_of(kept, norm);
    if (size > 0.0)
      for (float& value : kept) value = static_cast<float>(value / size);
  }
  return kept;
}

EmbeddingOrder usual_embedding(const Job& job) {
  const RequestDefaults& defaults = job.params->defaults;
  const Pooling own = job.model->model->info().pooling;
  return {.pooling = defaults.pooling.value_or(own == Pooling::kNone ? Pooling::kMean : own),
          .form = {.norm = defaults.embedding_norm}};
}

int max_input_tokens(const ServedModel& model) {
  if (model.embedding != nullptr) return model.embedding->max_tokens();
  return model.model->info().reads_source ? model.context.n_source : model.n_ctx;
}

void embed(Job& job, EmbeddingOrder order) {
  if (job.model->embedding != nullptr) return embed_by_encoder(job, std::move(order));
  RequestParams params = job.params->defaults.params;
  params.pooling = order.pooling;
  params.context_shift = false;
  params.timeout_ms = job.params->defaults.timeout_ms;
  std::vector<std::vector<Token>> tokens;
  for (Prompt& prompt : std::exchange(order.prompts, {})) {
    check_length(*job.model, prompt.tokens.size(), order.field, false);
    tokens.push_back(std::move(prompt.tokens));
  }
  auto writer = std::make_unique<EmbeddingWriter>(std::move(order), tokens.size());
  submit(job, std::move(tokens), params, std::move(writer));
}

void embeddings(Job& job) {
  Fields fields = job.fields();
  // llama.cpp's name for the input.
  EmbeddingOrder order =
      read_embedding(fields, job, fields.has("content") && !fields.has("input") ? "content" : "input");
  const bool as_base64 = fields.word("encoding_format", 0, {"float", "base64"}) == 1;
  fields.done();
  order.answer = [as_base64, model = job.model_name](const auto& vectors, std::size_t n_tokens) {
    Json data = Json::array();
    for (std::size_t i = 0; i < vectors.size(); ++i)
      data.push_back(
          {{"object", "embedding"}, {"index", i}, {"embedding", vector_json(vectors[i], as_base64)}});
    return Json{{"object", "list"},
                {"data", std::move(data)},
                {"model", model},
                {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
  };
  embed(job, std::move(order));
}

void native_embedding(Job& job) {
  Fields fields = job.fields();
  EmbeddingOrder order =
      read_embedding(fields, job, fields.has("input") && !fields.has("content") ? "input" : "content");
  fields.done();
  // A list of one vector for each input. Without pooling, llama.cpp has a vector for each token in this list.
  order.answer = [](const auto& vectors, std::size_t) {
    Json list = Json::array();
    for (std::size_t i = 0; i < vectors.size(); ++i)
      list.push_back({{"index", i}, {"embedding", Json::array({vectors[i]})}});
    return list;
  };
  embed(job, std::move(order));
}

}  // namespace weft::server
