// Documents in the order of a reranker's scores.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "engine/refuse.h"
#include "weft/embedder.h"

namespace weft {

TokenPair pair_tokens(const Tokenizer& tokenizer, std::string_view query, std::string_view document,
                      int max_tokens) {
  constexpr Tokenizer::EncodeOptions kBare = {.add_special = false};
  const std::vector<Token> bare = tokenizer.encode(query, kBare);
  if (bare.empty())
    throw Error(ErrorCode::kInvalidArgument, "the query is empty: there is nothing to rank by");
  std::vector<Token> second = tokenizer.encode(document, kBare);
  TokenPair pair{tokenizer.encode(query), -1};
  // What stands around a text is what encoding adds: behind it, the marks that end a part.
  const auto at = std::search(pair.tokens.begin(), pair.tokens.end(), bare.begin(), bare.end());
  const std::size_t behind = static_cast<std::size_t>(at - pair.tokens.begin()) + bare.size();
  const std::vector<Token> marks(
      pair.tokens.begin() + static_cast<std::ptrdiff_t>(std::min(behind, pair.tokens.size())),
      pair.tokens.end());
  const auto add = [&](const std::vector<Token>& tokens) {
    pair.tokens.insert(pair.tokens.end(), tokens.begin(), tokens.end());
  };
  // RoBERTa's kind has two marks between parts.
  if (!marks.empty() && tokenizer.text(marks.back()) == "</s>") add(marks);
  const std::size_t used = pair.tokens.size() + marks.size();
  if (used >= static_cast<std::size_t>(max_tokens))
    engine::refuse("the query has " + std::to_string(bare.size()) + " tokens, which leaves none of " +
                   std::to_string(max_tokens) + " to a document");
  second.resize(std::min(second.size(), static_cast<std::size_t>(max_tokens) - used));
  pair.second = static_cast<int>(pair.tokens.size());
  add(second);
  add(marks);
  return pair;
}

std::vector<Ranked> rank(std::span<const float> scores) {
  std::vector<Ranked> ranked;
  for (std::size_t i = 0; i < scores.size(); ++i)
    ranked.push_back({static_cast<int>(i), 1.0f / (1.0f + std::exp(-scores[i]))});
  // By what the model said, as sigmoids of large numbers are all 1; NaN goes last.
  const auto key = [&](const Ranked& one) {
    const float score = scores[static_cast<std::size_t>(one.index)];
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  };
  std::stable_sort(ranked.begin(), ranked.end(),
                   [&](const Ranked& a, const Ranked& b) { return key(a) > key(b); });
  return ranked;
}

RankedTexts rank(Embedder& embedder, std::string_view query, std::span<const std::string> documents) {
  if (embedder.n_scores() > 1)
    throw Error(ErrorCode::kUnsupported, "this model gives a text " + std::to_string(embedder.n_scores()) +
                                             " scores, and a reranker one: it tells kinds of texts apart");
  RankedTexts result;
  std::vector<TokenPair> pairs;
  std::vector<TextTokens> texts;
  pairs.reserve(documents.size());
  for (const std::string& document : documents) {
    pairs.push_back(pair_tokens(embedder.model().tokenizer(), query, document, embedder.max_tokens()));
    texts.push_back({pairs.back().tokens, pairs.back().second});
    result.n_tokens += pairs.back().tokens.size();
  }
  result.ranked = rank(embedder.score(texts));
  return result;
}

}  // namespace weft
