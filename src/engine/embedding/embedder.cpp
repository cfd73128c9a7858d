#include "weft/embedder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/to_size.h"
#include "engine/boundary.h"
#include "engine/context_params.h"
#include "engine/embedding/text_reader.h"
#include "engine/graph_sizes.h"
#include "engine/model_impl.h"
#include "engine/model_params.h"
#include "engine/refuse.h"
#include "weft/not_numbers.h"

namespace weft {

using engine::refuse;
using engine::TextReader;

struct Embedder::Impl {
  std::shared_ptr<const Model> model;
  std::unique_ptr<TextReader> reader;
  int max_tokens;  // For one input.

  void check(std::span<const TextTokens> texts) const;
  std::vector<float> read(std::span<const TextTokens> texts, Pooling pooling, TextReader::What what) const;
};

namespace {

constexpr int kMaxTokens = 1 << 20;

std::unique_ptr<Embedder::Impl> make(std::shared_ptr<const Model> model, const EmbedderParams& params) {
  if (model == nullptr) refuse("an embedder needs a model");
  engine::check_has_weights(*model);
  if (params.n_tokens < 0 || params.n_tokens > kMaxTokens)
    refuse("n_tokens is " + std::to_string(params.n_tokens) + ", expected 0 to " +
           std::to_string(kMaxTokens));
  engine::check_threads(params.n_threads);
  const ModelInfo& info = model->info();
  int n = engine::checked_length(params.n_tokens, "n_tokens", info);
  if (n == 0) n = engine::default_text_length(info);
  const model::HParams& h = model->impl().description.hparams;
  if (h.embedding.learned_positions) n = std::min(n, info.n_ctx_train);
  const bool one_text = h.encoder && h.encoder->one_text;
  // The temporaries of such a model grow with the square.
  if (one_text && params.n_tokens == 0) n = std::min(n, Embedder::kTokensOfStep);
  if (info.reads_source)
    throw Error(ErrorCode::kUnsupported,
                "models of the family " + info.architecture +
                    " generate from an encoder input; for embeddings use a file with the encoder alone "
                    "(t5encoder for t5)");
  if (info.encoder && !params.adapters.empty())
    refuse("adapters are for models that write text, and this one is an encoder");
  const auto make_reader = info.encoder ? engine::read_by_encoder : engine::read_by_decoder;
  const bool shares_steps = info.encoder && !one_text;
  auto reader = make_reader(model, shares_steps ? std::max(n, Embedder::kTokensOfStep) : n, params);
  return std::make_unique<Embedder::Impl>(Embedder::Impl{std::move(model), std::move(reader), n});
}

}  // namespace

void Embedder::Impl::check(std::span<const TextTokens> texts) const {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::span<const Token> tokens = texts[i].tokens;
    const auto text = [&] { return "text " + std::to_string(i) + " (counting from 0) "; };
    if (tokens.empty()) refuse(text() + "has no tokens");
    if (tokens.size() > to_size(max_tokens))
      refuse(text() + "has " + std::to_string(tokens.size()) + " tokens, but the limit is " +
             std::to_string(max_tokens) + "; split it into several");
    for (const Token token : tokens)
      if (token < 0 || token >= model->info().n_vocab)
        refuse(text() + "has the token " + std::to_string(token) + ", which is outside the vocabulary of " +
               std::to_string(model->info().n_vocab));
  }
}

std::vector<float> Embedder::Impl::read(std::span<const TextTokens> texts, Pooling pooling,
                                        TextReader::What what) const {
  check(texts);
  std::vector<float> result;
  const auto most = to_size(std::min(reader->max_tokens(), Embedder::kTokensOfStep));
  for (std::size_t begin = 0; begin < texts.size();) {
    std::size_t end = begin + 1, n_tokens = texts[begin].tokens.size();
    while (end < texts.size() && end - begin < to_size(reader->max_texts()) &&
           n_tokens + texts[end].tokens.size() <= most)
      n_tokens += texts[end++].tokens.size();
    const std::size_t n_before = result.size();
    reader->read(texts.subspan(begin, end - begin), pooling, what, result);
    check_numbers(*model, std::span(result).subspan(n_before));
    begin = end;
  }
  return result;
}

Embedder::Embedder(std::shared_ptr<const Model> model, const EmbedderParams& params)
    : impl_(engine::throwing_errors([&] { return make(std::move(model), params); })) {}
Embedder::~Embedder() = default;
Embedder::Embedder(Embedder&&) noexcept = default;
Embedder& Embedder::operator=(Embedder&&) noexcept = default;

const Model& Embedder::model() const { return *impl_->model; }
int Embedder::max_tokens() const { return impl_->max_tokens; }
int Embedder::dimensions() const { return impl_->reader->dimensions(); }
int Embedder::n_scores() const { return impl_->reader->n_scores(); }

std::vector<float> Embedder::embed(std::span<const TextTokens> texts, Pooling pooling) {
  return engine::throwing_errors([&] { return impl_->read(texts, pooling, TextReader::What::kVectors); });
}

std::vector<float> Embedder::embed(std::span<const TextTokens> texts) {
  return embed(texts, impl_->model->info().pooling);
}

std::vector<float> Embedder::score(std::span<const TextTokens> texts) {
  if (n_scores() == 0)
    throw Error(
        ErrorCode::kUnsupported,
        "this model is not a reranker: it has no classifier (tensors cls.weight or cls.output.weight); "
        "compare embeddings instead");
  const Pooling own = impl_->model->info().pooling;
  const Pooling pooling = own == Pooling::kNone ? Pooling::kCls : own;
  return engine::throwing_errors([&] { return impl_->read(texts, pooling, TextReader::What::kScores); });
}

void normalise(std::span<float> vector) {
  double sum = 0.0;
  for (const float x : vector) sum += static_cast<double>(x) * static_cast<double>(x);
  const double scale = sum > 0.0 ? 1.0 / std::sqrt(sum) : 0.0;
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) * scale);
}

std::vector<Token> cut_tokens(const Tokenizer& tokenizer, std::vector<Token> tokens, int n) {
  if (n < 1 || tokens.size() <= to_size(n)) return tokens;
  const Token last = tokens.back();
  tokens.resize(to_size(n));
  if (tokenizer.kind(last) == TokenKind::kControl) tokens.back() = last;
  return tokens;
}

}  // namespace weft
