#pragma once
// Texts to vectors, and to scores.
//
//   weft::Embedder embedder(weft::Model::load("all-MiniLM-L6-v2.gguf"));
//   std::vector<float> vectors = embedder.embed(texts);
//
// A class of its own beside Context, as nothing that a context is about is there in an encoder: no cache, no
// sequences that go on, no token to choose. Texts go in as they are and are forgotten with the call. Many of
// them are computed in one step, one behind another and without padding, and pooled where they are computed;
// a text's vector has the same bits whoever is computed beside it. On a decoder it keeps a context of its
// own, so that who wants vectors need not ask which kind of model there is.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/model.h"
#include "weft/types.h"

#pragma GCC visibility push(default)

namespace weft {

struct EmbedderParams {
  int n_tokens = 0;   ///< Of a text, at most. 0: what the model was trained for, at most 8192.
  int n_threads = 0;  ///< 0: as many as there are cores.
  std::vector<AdapterUse> adapters = {};  ///< That texts are read with, on a decoder.
};

/// A text as an embedder reads it. What it refers to must live as long as the call.
struct TextTokens {
  std::span<const Token> tokens;
  /// Where its second part begins, as a document behind a query; -1: it has none. Only models with types of
  /// tokens (BERT's) know the difference.
  int second = -1;
};

/// Used by one thread at a time. Holds the model alive.
class Embedder {
 public:
  /// Texts share a step up to so many tokens: weights are read often enough for them, and what a step writes
  /// stays in the processor's caches.
  static constexpr int kTokensOfStep = 1024;

  /// Reserves what steps compute in. Throws Error: kInvalidArgument for params, and what devices throw.
  Embedder(std::shared_ptr<const Model> model, const EmbedderParams& params = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  const Model& model() const;
  int max_tokens() const;  ///< Of a text.
  int dimensions() const;  ///< Of a vector.
  int n_scores() const;    ///< Of a text; 0: the model does not rank.

  /// A vector of dimensions() for each text, one behind another in the texts' order; with kNone one for each
  /// token of each text. They are not normalised. Throws Error kInvalidArgument for a text that is empty, has
  /// a token that there is not, or is longer than max_tokens(), NotNumbersError where a value is NaN or
  /// infinite, and what devices throw; an embedder can be used again after that.
  std::vector<float> embed(std::span<const TextTokens> texts, Pooling pooling);
  /// Pooled as the model's file says.
  std::vector<float> embed(std::span<const TextTokens> texts);
  /// n_scores() for each text, as the model's classifier gives them. Throws as embed does, and kUnsupported
  /// where the model has none.
  std::vector<float> score(std::span<const TextTokens> texts);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Scales a vector to the length 1; one of zeros stays. A model that was trained for it (Matryoshka) is
/// useful with the first numbers of its vectors: cut first, then normalise.
void normalise(std::span<float> vector);

/// A query and a document as one text, with the special tokens that rerankers read around them. Tokens of the
/// document that would be more than max_tokens in all are left out; throws Error kInvalidArgument where the
/// query alone leaves it no room.
struct TokenPair {
  std::vector<Token> tokens;
  int second = -1;  ///< See TextTokens.
};
TokenPair pair_tokens(const Tokenizer& tokenizer, std::string_view query, std::string_view document,
                      int max_tokens);

/// The same for many documents of one query, which is encoded once. The tokenizer must outlive it.
class PairTokens {
 public:
  /// Throws as pair_tokens does.
  PairTokens(const Tokenizer& tokenizer, std::string_view query, int max_tokens);
  TokenPair with(std::string_view document) const;

 private:
  const Tokenizer* tokenizer_;
  std::size_t max_document_;   // Tokens of it.
  std::vector<Token> before_;  // A document's: the query, and the marks around it.
  std::vector<Token> behind_;
};

/// A text's tokens with what the model wants around them. One that is empty has the token that texts begin
/// with, where there is one: so it has a vector of its own.
std::vector<Token> tokens_of_text(const Tokenizer& tokenizer, std::string_view text);

/// A document's place in an order.
struct Ranked {
  int index = 0;       ///< Among the documents as they were given.
  float score = 0.0f;  ///< How well it answers, from 0 to 1: the sigmoid of the classifier's number.
};
/// Scores in their order, the best first; among equals in the order of documents.
std::vector<Ranked> rank(std::span<const float> scores);

struct RankedTexts {
  std::vector<Ranked> ranked;
  std::size_t n_tokens = 0;  ///< That were read.
};
/// Documents by how well they answer a query, each read with it (pair_tokens). Throws as Embedder::score and
/// pair_tokens do, and Error kUnsupported for a model that gives a text several scores.
RankedTexts rank(Embedder& embedder, std::string_view query, std::span<const std::string> documents);

/// At most n of a text's tokens: the first ones, and the last one where the tokenizer puts a mark there.
std::vector<Token> cut_tokens(const Tokenizer& tokenizer, std::vector<Token> tokens, int n);

}  // namespace weft

#pragma GCC visibility pop
