#pragma once
// What tests of models that write about a source share: the golden ones, and what transformers makes of them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/error_testing.h"
#include "engine/test_support.h"
#include "weft/error.h"

namespace weft::test {

/// The golden models: forms of T5.
inline constexpr const char* kSourceReaders[] = {"t5", "flan-t5", "umt5"};

struct GoldenSources {
  /// The golden logits are for every kEvery-th token of each sequence, from the first on.
  static constexpr std::size_t kEvery = 5;

  explicit GoldenSources(const std::string& name)
      : dir(std::filesystem::path(WEFT_TEST_DATA) / "golden_sources" / name),
        sources(read_lists("sources")),
        texts(read_lists("texts")),
        logits(read_floats(dir / "logits.f32")) {}

  std::filesystem::path model() const { return dir / "model.gguf"; }

  const std::filesystem::path dir;
  const std::vector<std::vector<Token>> sources, texts;
  const std::vector<float> logits;

 private:
  std::vector<std::vector<Token>> read_lists(const std::string& what) const {
    const std::vector<Token> all = read_tokens(dir / (what + ".json"));
    std::vector<std::vector<Token>> lists;
    auto at = all.begin();
    for (const Token length : read_tokens(dir / (what + "_lengths.json"))) {
      lists.emplace_back(at, at + length);
      at += length;
    }
    return lists;
  }
};

/// The logits of all tokens of a sequence with a source, computed in chunks. The sequence is empty before and
/// after.
inline std::vector<float> logits_about(Context& context, const std::vector<Token>& source,
                                       const std::vector<Token>& text, std::size_t piece, SeqId seq = 0) {
  EXPECT_EQ(context.set_source(seq, source), DecodeStatus::kOk);
  std::vector<float> result = all_logits(context, text, piece, seq);
  context.cache().remove(seq);
  return result;
}

/// Adds the rows that the golden logits have from the logits of all tokens of a sequence.
inline void add_golden_rows(std::span<const float> logits, std::size_t n_vocab, std::vector<float>& result) {
  for (std::size_t row = 0; row * n_vocab < logits.size(); row += GoldenSources::kEvery) {
    const auto values = logits.subspan(row * n_vocab, n_vocab);
    result.insert(result.end(), values.begin(), values.end());
  }
}

/// That a loaded golden model computes what transformers does, and the same bits in any pieces and with any
/// number of threads. `what` is for messages.
inline void expect_golden(const std::shared_ptr<const Model>& model, const GoldenSources& golden,
                          const std::string& what) {
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  std::vector<float> first;
  for (const int n_threads : {1, 2})
    for (const std::size_t piece : {std::size_t{256}, std::size_t{7}, std::size_t{1}}) {
      Context context(
          model,
          {.n_ctx = 256, .n_threads = n_threads, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
      std::vector<float> logits, rows;
      for (std::size_t i = 0; i < golden.texts.size(); ++i) {
        const std::vector<float> own = logits_about(context, golden.sources[i], golden.texts[i], piece);
        add_golden_rows(own, n_vocab, rows);
        logits.insert(logits.end(), own.begin(), own.end());
      }
      ASSERT_EQ(rows.size(), golden.logits.size()) << what;
      if (first.empty()) {
        first = logits;
        const double difference = nmse(rows, golden.logits);
        testing::Test::RecordProperty("nmse_" + what, testing::PrintToString(difference));
        EXPECT_LE(difference, 1e-6) << what;
      }
      EXPECT_TRUE(logits == first) << what << ", pieces of " << piece << ", " << n_threads << " threads";
      EXPECT_EQ(context.plan_stats().compiled, 1) << what;
    }
}

}  // namespace weft::test
