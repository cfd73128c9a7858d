// No operation on a sequence's cache changes a bit of the real models' next logits.
#include <random>

#include "engine/test_support.h"

namespace weft {
namespace {

using test::all_logits;

class RealSequences : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto path = test::cached_model(GetParam());
    if (!path) GTEST_SKIP() << GetParam() << " is not in the model cache; make models fetches it";
    model = Model::load(*path);
    std::mt19937 random(3);
    for (int i = 0; i < 120; ++i) text.push_back(static_cast<Token>(random() % 40000));
    Context alone(model, {.n_ctx = 256});
    expected = all_logits(alone, text, 100);
  }
  std::span<const Token> part(std::size_t begin, std::size_t end) const {
    return std::span(text).subspan(begin, end - begin);
  }
  /// Whether `logits` are the sequence's own, from token `begin` on.
  bool is_text_from(std::size_t begin, const std::vector<float>& logits) const {
    const std::size_t first = begin * static_cast<std::size_t>(model->info().n_vocab);
    return expected.size() - first == logits.size() &&
           std::equal(logits.begin(), logits.end(), expected.begin() + static_cast<std::ptrdiff_t>(first));
  }

  std::shared_ptr<const Model> model;
  std::vector<Token> text;
  std::vector<float> expected;
};

TEST_P(RealSequences, PiecesAndThreads) {
  for (const int n_ubatch : {1, 7, 64, 120}) {
    Context context(model, {.n_ctx = 256, .n_ubatch = n_ubatch, .n_threads = n_ubatch % 2 + 1});
    EXPECT_TRUE(is_text_from(0, all_logits(context, text, text.size()))) << n_ubatch;
  }
}

TEST_P(RealSequences, ASharedPrefix) {
  Context context(model, {.n_ctx = 512, .n_sequences = 4});
  all_logits(context, part(0, 100), 100);
  for (SeqId seq = 1; seq < 4; ++seq) ASSERT_TRUE(context.cache().copy(0, seq, 0, 100 - 20 * seq));
  for (SeqId seq = 3; seq >= 0; --seq) {
    const auto begin = static_cast<std::size_t>(100 - 20 * seq);
    EXPECT_TRUE(is_text_from(begin, all_logits(context, part(begin, 120), 30, seq))) << seq;
  }
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RealSequences, ARestoredState) {
  Context context(model, {.n_ctx = 512, .n_sequences = 2});
  all_logits(context, part(0, 80), 64, 1);
  const std::vector<std::byte> state = context.save(1);
  Context other(model, {.n_ctx = 300, .n_sequences = 5, .n_ubatch = 33, .n_threads = 1});
  all_logits(other, part(20, 60), 40, 2);
  other.cache().remove(2, 5, 35);
  ASSERT_TRUE(other.restore(state, 4));
  EXPECT_TRUE(is_text_from(80, all_logits(other, part(80, 120), 20, 4)));
  EXPECT_TRUE(is_text_from(80, all_logits(context, part(80, 120), 20, 1)));
}

TEST_P(RealSequences, Defragmentation) {
  constexpr SeqId kOthers = 5;
  Context context(model, {.n_ctx = 1024, .n_sequences = kOthers + 1});
  all_logits(context, part(0, 70), 70);
  for (SeqId seq = 1; seq <= kOthers; ++seq) {
    all_logits(context, part(0, 50), 50, seq);
    context.cache().remove(seq, 8 * seq, 50);
  }
  context.cache().remove(0, 40, 70);  // Each holds the beginning of a page only: they can be packed.
  context.cache().defragment();
  EXPECT_TRUE(is_text_from(40, all_logits(context, part(40, 120), 50)));
  for (SeqId seq = 1; seq <= kOthers; ++seq) {
    const auto begin = static_cast<std::size_t>(8 * seq);
    EXPECT_TRUE(is_text_from(begin, all_logits(context, part(begin, 120), 75, seq))) << seq;
  }
  EXPECT_EQ(context.plan_stats().compiled, 1);
}

INSTANTIATE_TEST_SUITE_P(Models, RealSequences, testing::Values(test::kSmolLm2, test::kGemma3),
                         [](const auto& tested) {
                           return std::string(tested.param).substr(0, 3) == "Smo" ? "smollm2" : "gemma3";
                         });

}  // namespace
}  // namespace weft
