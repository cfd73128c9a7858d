#include "api/embeddings.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "api/prompts.h"

namespace weft::server {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8U | (j < n ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out += j <= n ? kLetters[group >> (18 - 6 * j) & 63U] : '=';
  }
  return out;
}

class EmbeddingWriter : public AnswerWriter {
 public:
  EmbeddingWriter(std::string model, std::size_t n, std::size_t n_dimensions, bool as_base64)
      : model_(std::move(model)), n_dimensions_(n_dimensions), as_base64_(as_base64), vectors_(n) {}

  bool streams() const override { return false; }

  void add(int choice, const Chunk& chunk, std::string& /*out*/) override {
    if (!chunk.done) return;
    n_tokens_ += chunk.stats.n_prompt;
    std::vector<float>& vector = vectors_[static_cast<std::size_t>(choice)];
    vector.assign(chunk.embedding.begin(), chunk.embedding.end());
    if (n_dimensions_ != 0 && n_dimensions_ < vector.size()) vector.resize(n_dimensions_);
    double sum = 0.0;
    for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
    const double scale = sum > 0.0 ? 1.0 / std::sqrt(sum) : 0.0;
    for (float& x : vector) x = static_cast<float>(static_cast<double>(x) * scale);
  }

  void finish(std::string& out) override {
    Json data = Json::array();
    for (std::size_t i = 0; i < vectors_.size(); ++i) {
      Json entry = {{"object", "embedding"}, {"index", i}};
      if (as_base64_) {
        static_assert(std::endian::native == std::endian::little);
        std::string bytes(vectors_[i].size() * sizeof(float), '\0');
        std::memcpy(bytes.data(), vectors_[i].data(), bytes.size());
        entry["embedding"] = base64(bytes);
      } else {
        entry["embedding"] = vectors_[i];
      }
      data.push_back(std::move(entry));
    }
    out = to_text({{"object", "list"},
                   {"data", std::move(data)},
                   {"model", model_},
                   {"usage", {{"prompt_tokens", n_tokens_}, {"total_tokens", n_tokens_}}}});
  }

 private:
  const std::string model_;
  const std::size_t n_dimensions_;
  const bool as_base64_;
  std::vector<std::vector<float>> vectors_;
  int n_tokens_ = 0;
};

}  // namespace

void embeddings(Job& job) {
  Fields fields(job.body);
  std::vector<Prompt> prompts = read_prompts(fields, "input", job.model->tokenizer(), job.params->n_inputs);
  const bool as_base64 = fields.word("encoding_format", 0, {"float", "base64"}) == 1;
  const int n_dimensions = fields.integer("dimensions", 0, 0, job.model->model->info().n_embd);
  constexpr Pooling kPoolings[] = {Pooling::kMean, Pooling::kLast};
  RequestParams params = job.params->defaults.params;
  params.pooling = kPoolings[fields.word("pooling", 0, {"mean", "last"})];
  params.timeout_ms = job.params->defaults.timeout_ms;
  fields.ignore({"model", "user"});
  fields.done();
  std::vector<std::vector<Token>> tokens;
  for (Prompt& prompt : prompts) {
    check_length(*job.model, prompt.tokens.size(), "input");
    tokens.push_back(std::move(prompt.tokens));
  }
  auto writer = std::make_unique<EmbeddingWriter>(job.model->spec.name, tokens.size(),
                                                  static_cast<std::size_t>(n_dimensions), as_base64);
  submit(job, std::move(tokens), params, std::move(writer));
}

}  // namespace weft::server
