#pragma once
// How an embedder computes the inputs of one step, by kind of model.
#include <memory>
#include <span>
#include <vector>

#include "weft/embedder.h"

namespace weft::engine {

class TextReader {
 public:
  virtual ~TextReader() = default;
  virtual int max_tokens() const = 0;  ///< All inputs of a step together.
  virtual int max_texts() const = 0;   ///< Of a step.
  virtual int dimensions() const = 0;
  virtual int n_scores() const = 0;
  enum class What : bool { kVectors, kScores };
  /// Appends the vectors, or scores, of checked inputs that fit into a step.
  virtual void read(std::span<const TextTokens> texts, Pooling pooling, What what,
                    std::vector<float>& result) = 0;
};

std::unique_ptr<TextReader> read_by_encoder(std::shared_ptr<const Model> model, int n_tokens,
                                            const EmbedderParams& params);
std::unique_ptr<TextReader> read_by_decoder(std::shared_ptr<const Model> model, int n_tokens,
                                            const EmbedderParams& params);

}  // namespace weft::engine
