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

/// The options for a pooled vector in the response.
struct VectorForm {
  std::size_t n_dimensions = 0;  ///< The first ones are kept; 0: all.
  /// As llama.cpp's embd_normalize: -1 none, 0 scales the largest number to 32760, p > 0 scales the p-norm to
  /// 1.
  int norm = 2;
  bool as_base64 = false;

  std::vector<float> finish(std::span<const float> vector) const {
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
  Json entry(std::size_t index, const std::vector<float>& vector) const {
    Json result = {{"object", "embedding"}, {"index", index}};
    if (as_base64) {
      static_assert(std::endian::native == std::endian::little);
      std::string bytes(vector.size() * sizeof(float), '\0');
      std::memcpy(bytes.data(), vector.data(), bytes.size());
      result["embedding"] = base::to_base64(std::as_bytes(std::span(bytes)));
    } else {
      result["embedding"] = vector;
    }
    return result;
  }
};

Json list_of(Json data, const std::string& model, std::size_t n_tokens) {
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}};
}

/// For a decoder, whose service pools prompts.
class EmbeddingWriter : public AnswerWriter {
 public:
  EmbeddingWriter(std::string model, std::size_t n, VectorForm form)
      : model_(std::move(model)), form_(form), vectors_(n) {}

  bool streams() const override { return false; }

  void add(int choice, const Output& chunk, std::string& /*out*/) override {
    if (!chunk.done) return;
    n_tokens_ += to_size(chunk.stats.n_prompt);
    vectors_[to_size(choice)] = form_.finish(chunk.embedding);
  }

  void finish(std::string& out) override {
    Json data = Json::array();
    for (std::size_t i = 0; i < vectors_.size(); ++i) data.push_back(form_.entry(i, vectors_[i]));
    out = to_text(list_of(std::move(data), model_, n_tokens_));
  }

 private:
  const std::string model_;
  const VectorForm form_;
  std::vector<std::vector<float>> vectors_;
  std::size_t n_tokens_ = 0;
};

void embed_by_encoder(Job& job, std::vector<Prompt> prompts, Pooling pooling, VectorForm form) {
  EncoderTexts texts;
  texts.pooling = pooling;
  for (Prompt& prompt : prompts) texts.texts.push_back({std::move(prompt.tokens), -1});
  const std::size_t n_tokens = check_texts(*job.model, texts.texts, "input");
  const auto n_columns = to_size(job.model->embedding->dimensions());
  texts.answer = [form, n_tokens, n_columns, model = job.model_name](std::vector<float> values) {
    Json data = Json::array();
    for (std::size_t at = 0; at < values.size(); at += n_columns)
      data.push_back(form.entry(at / n_columns, form.finish(std::span(values).subspan(at, n_columns))));
    return list_of(std::move(data), model, n_tokens);
  };
  submit(job, std::move(texts));
}

}  // namespace

void embeddings(Job& job) {
  Fields fields = job.fields();
  const Tokenizer::EncodeOptions options{.add_special = fields.boolean("add_special_tokens", true)};
  // llama.cpp's name for the input.
  const char* const name = fields.has("content") && !fields.has("input") ? "content" : "input";
  std::vector<Prompt> prompts =
      read_prompts(fields, name, job.model->tokenizer(), job.params->n_inputs, options);
  const int n_kept = read_n_kept(fields);
  for (Prompt& prompt : prompts) keep_end(prompt.tokens, n_kept, job.model->tokenizer());
  const bool encoder = job.model->embedding != nullptr;
  const ModelInfo& info = job.model->model->info();
  VectorForm form;
  form.as_base64 = fields.word("encoding_format", 0, {"float", "base64"}) == 1;
  form.n_dimensions =
      to_size(fields.integer("dimensions", 0, 0, encoder ? job.model->embedding->dimensions() : info.n_embd));
  // vLLM has a boolean.
  const int norm = fields.has("normalize") ? (fields.boolean("normalize", true) ? 2 : -1)
                                           : job.params->defaults.embedding_norm;
  form.norm = fields.integer("embd_normalize", norm, -1, 1024);
  constexpr Pooling kPoolings[] = {Pooling::kMean, Pooling::kLast, Pooling::kCls};
  Pooling pooling =
      job.params->defaults.pooling.value_or(info.pooling == Pooling::kNone ? Pooling::kMean : info.pooling);
  if (fields.has("pooling"))
    pooling = kPoolings[encoder ? fields.word("pooling", 0, {"mean", "last", "cls"})
                                : fields.word("pooling", 0, {"mean", "last"})];
  fields.ignore({"user"});
  fields.done();
  if (encoder) return embed_by_encoder(job, std::move(prompts), pooling, form);
  RequestParams params = job.params->defaults.params;
  params.pooling = pooling;
  params.context_shift = false;
  params.timeout_ms = job.params->defaults.timeout_ms;
  std::vector<std::vector<Token>> tokens;
  for (Prompt& prompt : prompts) {
    check_length(*job.model, prompt.tokens.size(), "input", false);
    tokens.push_back(std::move(prompt.tokens));
  }
  auto writer = std::make_unique<EmbeddingWriter>(job.model_name, tokens.size(), form);
  submit(job, std::move(tokens), params, std::move(writer));
}

}  // namespace weft::server
