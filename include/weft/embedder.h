#pragma once
// Embeddings and scores of documents.
//
//   weft::Embedder embedder(weft::Model::load("all-MiniLM-L6-v2.gguf"));
//   const std::vector<weft::TextTokens> inputs = ...;               // the tokens of each document
//   std::vector<float> vectors = embedder.embed(inputs);            // a row for each
//
// Separate from Context: encoders have no KV cache, sequences or sampler, and keep nothing between calls.
// Inputs are concatenated without padding, computed in shared steps and pooled on the device. A vector has
// the same bits in any batch. On a decoder the embedder keeps a context of its own, so callers need not know
// the kind of the model.
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
  int n_tokens = 0;   ///< The most tokens of an input. 0: the training length, at most 8192.
  int n_threads = 0;  ///< 0: the number of cores.
  std::vector<AdapterUse> adapters = {};  ///< For decoders.
};

/// An input of an embedder. The tokens must live until the call returns.
struct TextTokens {
  std::span<const Token> tokens;
  /// The index of its second part, for example the document after a query; -1: none. Only models with token
  /// types (BERT) use it.
  int second = -1;
};

/// Used by one thread at a time. Keeps the model alive.
class Embedder {
 public:
  /// Inputs share a step up to this many tokens. That is enough for each pass over the weights, and results
  /// of a step stay in the processor's caches.
  static constexpr int kTokensOfStep = 1024;

  /// Reserves the workspace. Throws Error: kInvalidArgument for params, and errors of devices.
  Embedder(std::shared_ptr<const Model> model, const EmbedderParams& params = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  const Model& model() const;
  int max_tokens() const;  ///< Maximum tokens of an input.
  int dimensions() const;  ///< Floats of a vector.
  int n_scores() const;    ///< Scores of an input; 0: the model does not rank.

  /// A vector of dimensions() floats for each input, in their order; with kNone one for each token. They are
  /// not normalised. Throws Error kInvalidArgument for an empty input, an unknown token, or more than
  /// max_tokens() tokens. Throws NotNumbersError if a value is NaN or infinite, and errors of devices. The
  /// embedder can be used again after an error.
  std::vector<float> embed(std::span<const TextTokens> texts, Pooling pooling);
  /// With the pooling of the model's file.
  std::vector<float> embed(std::span<const TextTokens> texts);
  /// The n_scores() of the model's classifier for each input. Throws as embed does, and kUnsupported where
  /// the model has no classifier.
  std::vector<float> score(std::span<const TextTokens> texts);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Scales a vector to length 1; a zero vector stays. With models trained for it (Matryoshka), vectors may be
/// truncated: do that before normalising.
void normalise(std::span<float> vector);

/// A query and a document as one input, with the special tokens of rerankers. The document is truncated so
/// that there are at most max_tokens in all. Throws Error kInvalidArgument where the query alone leaves it no
/// room.
struct TokenPair {
  std::vector<Token> tokens;
  int second = -1;  ///< See TextTokens.
};
TokenPair pair_tokens(const Tokenizer& tokenizer, std::string_view query, std::string_view document,
                      int max_tokens);

/// The same for one query, which is encoded once, and many documents. The tokenizer must outlive it.
class PairTokens {
 public:
  /// Throws as pair_tokens does.
  PairTokens(const Tokenizer& tokenizer, std::string_view query, int max_tokens);
  TokenPair with(std::string_view document) const;

 private:
  const Tokenizer* tokenizer_;
  std::size_t max_document_;   // The most tokens of a document.
  std::vector<Token> before_;  // Tokens before a document: the query and its special tokens.
  std::vector<Token> behind_;
};

/// The tokens of a string with the special tokens around them. An empty string becomes the first special
/// token, if there is one, so it has a vector.
std::vector<Token> tokens_of_text(const Tokenizer& tokenizer, std::string_view text,
                                  Tokenizer::EncodeOptions options = {});

/// A ranked document.
struct Ranked {
  int index = 0;       ///< In the given documents.
  float score = 0.0f;  ///< Relevance from 0 to 1: the sigmoid of the classifier's output.
};
/// Sorts by score, the best first; equal scores in the order of documents.
std::vector<Ranked> rank(std::span<const float> scores);

struct RankedTexts {
  std::vector<Ranked> ranked;
  std::size_t n_tokens = 0;  ///< Computed tokens.
};
/// Ranks documents by relevance to a query; each is scored together with it (pair_tokens). Throws as
/// Embedder::score and pair_tokens do, and Error kUnsupported for a model with several scores per input.
RankedTexts rank(Embedder& embedder, std::string_view query, std::span<const std::string> documents);

/// At most n of the tokens: the first ones, and the last one if the tokenizer adds a special token there.
std::vector<Token> cut_tokens(const Tokenizer& tokenizer, std::vector<Token> tokens, int n);

}  // namespace weft

#pragma GCC visibility pop
