#pragma once
// Embeddings of documents, and their relevance to a query (reranking).
//
//   const auto model = weft::Model::load("all-MiniLM-L6-v2.gguf");
//   weft::Embedder embedder(model);
//   const auto first = weft::tokens_of_text(model->tokenizer(), "A cat sleeps.");
//   const auto second = weft::tokens_of_text(model->tokenizer(), "It rains.");
//   const std::vector<weft::TextTokens> inputs = {{first}, {second}};
//   const std::vector<float> vectors = embedder.embed(inputs);  // {2, embedder.dimensions()}
//
// Unlike a Context, an embedder has no sequences, no sampler and no state between calls. It takes encoders
// (BERT) and decoders alike; for a decoder it makes a context of its own. Inputs are packed without padding
// and share steps. A vector has the same bits whichever inputs are embedded with it.
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
  /// The most tokens of an input. 0: the training context length, at most 8192 (1024 for T5's encoder, whose
  /// memory grows with the square).
  int n_tokens = 0;
  int n_threads = 0;                      ///< 0: the number of cores.
  std::vector<AdapterUse> adapters = {};  ///< LoRA adapters, for decoders only.
};

/// An input. The tokens must stay valid until the call returns.
struct TextTokens {
  std::span<const Token> tokens;
  /// The index of the first token of the second segment, for example of the document after the query; -1:
  /// none. Only models with token types (BERT) use it.
  int second = -1;
};

/// Used by one thread at a time. Keeps the model alive.
class Embedder {
 public:
  /// The tokens of a step: inputs share a step until it is full. Larger steps are not faster, and their
  /// activations leave the processor's caches.
  static constexpr int kTokensOfStep = 1024;

  /// Reserves memory for the temporaries of steps. Throws Error kInvalidArgument for wrong params,
  /// kUnsupported for an encoder-decoder model, and errors of devices.
  Embedder(std::shared_ptr<const Model> model, const EmbedderParams& params = {});
  ~Embedder();
  Embedder(Embedder&&) noexcept;
  Embedder& operator=(Embedder&&) noexcept;

  const Model& model() const;
  int max_tokens() const;  ///< The most tokens of an input.
  int dimensions() const;  ///< The size of a vector.
  int n_scores() const;    ///< Scores per input. 0: the model is not a reranker.

  /// One vector of dimensions() floats per input, in order. With Pooling::kNone, one vector per token.
  /// Vectors are not normalised. Throws Error kInvalidArgument for an empty input, an unknown token, or more
  /// than max_tokens() tokens. Throws NotNumbersError if a value is NaN or infinite, and errors of devices.
  /// After an error the embedder can still be used.
  std::vector<float> embed(std::span<const TextTokens> texts, Pooling pooling);
  /// The same with the pooling that the model's file names (ModelInfo::pooling).
  std::vector<float> embed(std::span<const TextTokens> texts);
  /// The n_scores() outputs of the model's classifier per input, in order. Throws like embed(), and Error
  /// kUnsupported if the model has no classifier.
  std::vector<float> score(std::span<const TextTokens> texts);

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Scales a vector to length 1 (L2 norm). A zero vector stays as it is. To shorten vectors of models that are
/// trained for it (Matryoshka), truncate before normalising.
void normalise(std::span<float> vector);

/// A query and a document as one input for a reranker, with its special tokens. The document is truncated so
/// that the input has at most max_tokens tokens. Throws Error kInvalidArgument if the query alone leaves no
/// room for it.
struct TokenPair {
  std::vector<Token> tokens;
  int second = -1;  ///< As TextTokens::second.
};
TokenPair pair_tokens(const Tokenizer& tokenizer, std::string_view query, std::string_view document,
                      int max_tokens);

/// The same for many documents and one query, which is tokenized once. The tokenizer must outlive it.
class PairTokens {
 public:
  /// Throws like pair_tokens().
  PairTokens(const Tokenizer& tokenizer, std::string_view query, int max_tokens);
  TokenPair with(std::string_view document) const;

 private:
  const Tokenizer* tokenizer_;
  std::size_t max_document_;   // The most tokens of a document.
  std::vector<Token> before_;  // Tokens before a document: the query and its special tokens.
  std::vector<Token> behind_;
};

/// The tokens of a string as an embedder's input, with the model's special tokens around them. An empty
/// string becomes the first special token, if the model has one: otherwise it would have no vector.
std::vector<Token> tokens_of_text(const Tokenizer& tokenizer, std::string_view text,
                                  Tokenizer::EncodeOptions options = {});

/// A ranked document.
struct Ranked {
  int index = 0;       ///< In the given documents.
  float score = 0.0f;  ///< Relevance from 0 to 1: sigmoid of the classifier's output.
};
/// Sorts by score, best first. Equal scores keep the order of the documents.
std::vector<Ranked> rank(std::span<const float> scores);

struct RankedTexts {
  std::vector<Ranked> ranked;
  std::size_t n_tokens = 0;  ///< Tokens that were computed.
};
/// Ranks documents by relevance to a query. Each is scored together with the query (pair_tokens). Throws like
/// Embedder::score and pair_tokens, and Error kUnsupported for a model with several scores per input.
RankedTexts rank(Embedder& embedder, std::string_view query, std::span<const std::string> documents);

/// Truncates tokens to at most n. If the tokenizer adds a special token at the end, that token stays last.
std::vector<Token> cut_tokens(const Tokenizer& tokenizer, std::vector<Token> tokens, int n);

}  // namespace weft

#pragma GCC visibility pop
