// Documents in the order of a reranker's scores.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/counted.h"
#include "base/to_size.h"
#include "engine/refuse.h"
#include "weft/embedder.h"

namespace weft {

PairTokens::PairTokens(const Tokenizer& tokenizer, std::string_view query, int max_tokens)
    : tokenizer_(&tokenizer), before_(tokenizer.encode(query, {.add_special = false})) {
  const std::size_t n_query = before_.size();
  if (n_query == 0)
    throw Error(ErrorCode::kInvalidArgument, "the query is empty: there is nothing to rank by");
  // The tokens around a sequence are the tokens of an empty one: the first half precedes it, as CLS and SEP.
  // A single one is the BOS token if the tokenizer adds one, otherwise an end token.
  const std::vector<Token> around = tokenizer.encode("");
  const std::size_t n_front =
      around.size() == 1 ? (around[0] == tokenizer.bos() && tokenizer.adds_bos() ? 1 : 0) : around.size() / 2;
  const auto middle = around.begin() + static_cast<std::ptrdiff_t>(n_front);
  behind_.assign(middle, around.end());
  before_.insert(before_.begin(), around.begin(), middle);
  before_.insert(before_.end(), behind_.begin(), behind_.end());
  // RoBERTa models have two separators between parts.
  if (!behind_.empty() && tokenizer.text(behind_.back()) == "</s>")
    before_.insert(before_.end(), behind_.begin(), behind_.end());
  const std::size_t used = before_.size() + behind_.size();
  if (max_tokens < 0 || used >= to_size(max_tokens))
    engine::refuse("the query has " + base::counted(n_query, "token") + ", which leaves none of " +
                   std::to_string(max_tokens) + " to a document");
  max_document_ = to_size(max_tokens) - used;
}

TokenPair PairTokens::with(std::string_view document) const {
  std::vector<Token> second = tokenizer_->encode(document, {.add_special = false});
  second.resize(std::min(second.size(), max_document_));
  TokenPair pair{before_, static_cast<int>(before_.size())};
  pair.tokens.insert(pair.tokens.end(), second.begin(), second.end());
  pair.tokens.insert(pair.tokens.end(), behind_.begin(), behind_.end());
  return pair;
}

TokenPair pair_tokens(const Tokenizer& tokenizer, std::string_view query, std::string_view document,
                      int max_tokens) {
  return PairTokens(tokenizer, query, max_tokens).with(document);
}

std::vector<Token> tokens_of_text(const Tokenizer& tokenizer, std::string_view text,
                                  Tokenizer::EncodeOptions options) {
  std::vector<Token> tokens = tokenizer.encode(text, options);
  if (tokens.empty() && options.add_special && tokenizer.bos() != kNoToken) tokens.push_back(tokenizer.bos());
  return tokens;
}

std::vector<Ranked> rank(std::span<const float> scores) {
  std::vector<Ranked> ranked;
  for (std::size_t i = 0; i < scores.size(); ++i)
    ranked.push_back({static_cast<int>(i), 1.0f / (1.0f + std::exp(-scores[i]))});
  // Sorted by the raw scores, because sigmoids of large numbers are all 1. NaN comes last.
  const auto key = [&](const Ranked& one) {
    const float score = scores[to_size(one.index)];
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const Ranked& a, const Ranked& b) { return key(a) > key(b); });
  return ranked;
}

RankedTexts rank(Embedder& embedder, std::string_view query, std::span<const std::string> documents) {
  if (embedder.n_scores() > 1)
    throw Error(ErrorCode::kUnsupported, "this model gives a document " +
                                             std::to_string(embedder.n_scores()) +
                                             " scores, and a reranker one: it is a classifier");
  RankedTexts result;
  std::vector<TokenPair> pairs;
  std::vector<TextTokens> texts;
  pairs.reserve(documents.size());
  if (documents.empty()) return result;
  const PairTokens pair(embedder.model().tokenizer(), query, embedder.max_tokens());
  for (const std::string& document : documents) {
    pairs.push_back(pair.with(document));
    texts.push_back({pairs.back().tokens, pairs.back().second});
    result.n_tokens += pairs.back().tokens.size();
  }
  result.ranked = rank(embedder.score(texts));
  return result;
}

}  // namespace weft
