#pragma once
// Shared by tests of encoders: the golden ones, with their inputs and the outputs of transformers.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/test_support.h"
#include "weft/embedder.h"

namespace weft::test {

/// The golden encoders: a family each, or a form of one.
inline constexpr const char* kEncoders[] = {
    "bert",           "bert-rank",    "xlm-roberta",      "xlm-roberta-rank",
    "nomic-bert",     "modern-bert",  "modern-bert-rank", "gemma-embedding",
    "eurobert",       "jina-bert-v2", "jina-bert-v3",     "llama-embed",
    "nomic-bert-moe", "t5encoder",    "t5encoder-umt5",   "neo-bert"};

struct GoldenEncoder {
  explicit GoldenEncoder(const std::string& name)
      : dir(std::filesystem::path(WEFT_TEST_DATA) / "golden_encoders" / name),
        tokens(read_tokens(dir / "tokens.json")),
        states(read_floats(dir / "states.f32")),
        vectors(read_floats(dir / "vectors.f32")) {
    if (std::filesystem::exists(dir / "scores.f32")) scores = read_floats(dir / "scores.f32");
    const std::vector<Token> lengths = read_tokens(dir / "lengths.json"),
                             types = read_tokens(dir / "types.json");
    std::size_t at = 0;
    for (const Token length : lengths) {
      const auto n = static_cast<std::size_t>(length);
      const auto begin = types.begin() + static_cast<std::ptrdiff_t>(at), end = begin + length;
      const auto second = std::find(begin, end, 1);
      texts.push_back(
          {std::span(tokens).subspan(at, n), second == end ? -1 : static_cast<int>(second - begin)});
      at += n;
    }
  }

  std::filesystem::path model() const { return dir / "model.gguf"; }

  const std::filesystem::path dir;
  const std::vector<Token> tokens;
  std::vector<TextTokens> texts;
  const std::vector<float> states;   ///< For all tokens of all sequences, concatenated.
  const std::vector<float> vectors;  ///< Pooled with the file's pooling.
  std::vector<float> scores;         ///< Empty where the model does not rank.
};

/// The vectors of each sequence alone.
inline std::vector<float> one_by_one(Embedder& embedder, std::span<const TextTokens> texts, Pooling pooling) {
  std::vector<float> result;
  for (const TextTokens& text : texts) {
    const std::vector<float> one = embedder.embed(std::span(&text, 1), pooling);
    result.insert(result.end(), one.begin(), one.end());
  }
  return result;
}

/// Checks that a loaded golden encoder gives transformers' outputs. Bits must be the same for sequences
/// together, alone, in another order and with one thread. `what` is for messages.
inline void expect_golden(const std::shared_ptr<const Model>& model, const GoldenEncoder& golden,
                          const std::string& what) {
  std::vector<float> states, vectors, scores;
  for (const int n_threads : {1, 2}) {
    Embedder embedder(model, {.n_threads = n_threads});
    const std::vector<float> together = embedder.embed(golden.texts, Pooling::kNone);
    ASSERT_EQ(together.size(), golden.states.size()) << what;
    if (states.empty()) {
      states = together;
      vectors = embedder.embed(golden.texts);
      ASSERT_EQ(vectors.size(), golden.vectors.size()) << what;
      const double of_states = nmse(states, golden.states), of_vectors = nmse(vectors, golden.vectors);
      testing::Test::RecordProperty("nmse_states_" + what, testing::PrintToString(of_states));
      testing::Test::RecordProperty("nmse_vectors_" + what, testing::PrintToString(of_vectors));
      EXPECT_LE(of_states, 1e-6) << what;
      EXPECT_LE(of_vectors, 1e-6) << what;
      if (!golden.scores.empty()) {
        scores = embedder.score(golden.texts);
        ASSERT_EQ(scores.size(), golden.scores.size()) << what;
        EXPECT_LE(nmse(scores, golden.scores), 1e-6) << what;
      }
    }
    EXPECT_TRUE(together == states) << what << ", " << n_threads << " threads";
    EXPECT_TRUE(one_by_one(embedder, golden.texts, Pooling::kNone) == states) << what << ", one by one";
    EXPECT_TRUE(one_by_one(embedder, golden.texts, model->info().pooling) == vectors)
        << what << ", one by one";
    if (!scores.empty()) {
      EXPECT_TRUE(embedder.score(golden.texts) == scores) << what << ", " << n_threads << " threads";
    }
    // The first sequence last.
    std::vector<TextTokens> turned = golden.texts;
    std::rotate(turned.begin(), turned.begin() + 1, turned.end());
    std::vector<float> expected = states;
    const auto first = golden.texts[0].tokens.size() * static_cast<std::size_t>(embedder.dimensions());
    std::rotate(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(first), expected.end());
    EXPECT_TRUE(embedder.embed(turned, Pooling::kNone) == expected) << what << ", in another order";
  }
}

}  // namespace weft::test
