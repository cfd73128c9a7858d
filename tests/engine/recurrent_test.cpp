// Models with recurrent layers: operations on sequences whose state summarizes all of their tokens.
// Impossible operations are refused and change nothing.

#include "engine/test_support.h"

namespace weft {
namespace {

using test::all_logits;

class RecurrentModels : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto dir = test::golden_dir() / GetParam();
    model = Model::load(dir / "model.gguf");
    tokens = test::read_tokens(dir / "tokens.json");
    n_vocab = model->info().n_vocab;
    Context context(model, {.n_ctx = 128});
    expected = all_logits(context, tokens, 16);
  }
  std::span<const Token> text(std::size_t begin, std::size_t n) const {
    return std::span(tokens).subspan(begin, n);
  }
  /// Whether these are the logits of the sequence's tokens from `begin` on.
  bool as_expected(std::span<const float> logits, std::size_t begin) const {
    return std::equal(logits.begin(), logits.end(),
                      expected.begin() + static_cast<std::ptrdiff_t>(begin) * n_vocab);
  }
  template <typename F>
  std::string unsupported(F operation) {
    try {
      operation();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      return error.what();
    }
    return "";
  }

  std::shared_ptr<const Model> model;
  std::vector<Token> tokens;
  std::vector<float> expected;
  int n_vocab = 0;
};

TEST_P(RecurrentModels, ReportThatTheyAreRecurrent) {
  EXPECT_TRUE(model->info().recurrent);
  const Context context(model, {.n_ctx = 512});
  EXPECT_FALSE(context.cache().cuts_back());
  EXPECT_FALSE(context.cache().cuts_anywhere());
  EXPECT_FALSE(context.cache().can_shift());
  EXPECT_FALSE(Model::load(test::golden_dir() / "llama" / "model.gguf")->info().recurrent);
}

TEST_P(RecurrentModels, ACopyIsAPointToComeBackTo) {
  Context context(model, {.n_ctx = 512, .n_sequences = 3});
  all_logits(context, text(0, 20), 20);
  ASSERT_TRUE(context.cache().copy(0, 1));
  ASSERT_TRUE(context.cache().copy(0, 2));
  // The first computes other tokens; the second continues as alone, and the first is restored.
  all_logits(context, text(3, 9), 4);
  EXPECT_TRUE(as_expected(all_logits(context, text(20, 28), 5, 1), 20));
  ASSERT_TRUE(context.cache().copy(2, 0));
  EXPECT_EQ(context.cache().next_pos(0), 20);
  EXPECT_TRUE(as_expected(all_logits(context, text(20, 28), 1, 0), 20));
  EXPECT_TRUE(as_expected(all_logits(context, text(20, 28), 28, 2), 20));
  EXPECT_TRUE(context.cache().consistent());
  EXPECT_EQ(context.plan_stats().compiled, 1);
}

TEST_P(RecurrentModels, ARemovedTextLeavesNoTrace) {
  Context context(model, {.n_ctx = 128, .n_sequences = 2});
  all_logits(context, text(7, 20), 20);
  all_logits(context, text(9, 20), 20, 1);
  context.cache().remove(0);
  EXPECT_TRUE(as_expected(all_logits(context, tokens, 11), 0));
  context.cache().keep(1);
  EXPECT_TRUE(as_expected(all_logits(context, text(0, 30), 11), 0));
  context.cache().clear();
  EXPECT_TRUE(as_expected(all_logits(context, tokens, 3, 1), 0));
  context.cache().remove(1, 0, 48);  // All of it, named by its positions.
  EXPECT_EQ(context.cache().next_pos(1), 0);
  EXPECT_TRUE(as_expected(all_logits(context, text(0, 10), 3, 1), 0));
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RecurrentModels, OperationsOnPartsAreRefusedAndChangeNothing) {
  Context context(model, {.n_ctx = 128, .n_sequences = 3});
  all_logits(context, text(0, 20), 20);
  all_logits(context, text(0, 5), 5, 1);
  EXPECT_NE(unsupported([&] { context.cache().remove(0, 10); }), "");
  EXPECT_NE(unsupported([&] { context.cache().remove(0, 0, 10); }), "");
  EXPECT_NE(unsupported([&] { context.cache().remove(0, 19); }).find("copy"), std::string::npos);
  EXPECT_NE(unsupported([&] { (void)context.cache().copy(0, 1, 0, 10); }), "");
  EXPECT_NE(unsupported([&] { (void)context.cache().copy(0, 2, 5); }), "");
  EXPECT_NE(unsupported([&] { (void)context.cache().copy(2, 0, 5); }), "");
  EXPECT_NE(unsupported([&] { (void)context.cache().shift(0, 0, -1, 5); }), "");
  EXPECT_NE(unsupported([&] { (void)context.cache().divide(0, 0, -1, 2); }), "");
  // Ranges without tokens are not parts.
  context.cache().remove(0, 20);
  context.cache().remove(2, 3, 7);
  ASSERT_TRUE(context.cache().copy(0, 2, 30));
  EXPECT_EQ(context.cache().next_pos(2), 0);
  EXPECT_EQ(context.cache().next_pos(0), 20);
  EXPECT_EQ(context.cache().next_pos(1), 5);
  EXPECT_TRUE(as_expected(all_logits(context, text(20, 28), 6), 20));
  EXPECT_TRUE(as_expected(all_logits(context, text(5, 8), 8, 1), 5));
  EXPECT_TRUE(context.cache().consistent());
}

// Attention no longer sees the removed tokens; the state does not change.
TEST_P(RecurrentModels, ForgetPositionsAndKeepTheirState) {
  Context context(model, {.n_ctx = 128, .n_sequences = 2});
  all_logits(context, text(0, 20), 20);
  ASSERT_TRUE(context.cache().copy(0, 1));
  EXPECT_EQ(context.cache().why_not_forget(), "");
  ASSERT_TRUE(context.cache().forget(0, 2, 10));
  EXPECT_EQ(context.cache().next_pos(0), 10);
  EXPECT_EQ(context.cache().next_pos(1), 20);
  const std::string family = GetParam();
  const bool is_pure = family.starts_with("mamba") || family.starts_with("rwkv");
  EXPECT_EQ(as_expected(all_logits(context, text(20, 28), 5), 20), is_pure);
  EXPECT_TRUE(as_expected(all_logits(context, text(20, 28), 5, 1), 20));
  for (const auto& [begin, n] : {std::pair{-1, 2}, {3, 0}, {3, 35}, {37, 1}})
    EXPECT_THROW((void)context.cache().forget(0, begin, n), Error) << begin << " " << n;
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RecurrentModels, TextIsReadInOrder) {
  Context context(model, {.n_ctx = 128});
  Batch batch;
  batch.add(tokens[0], 0, {.pos = 5});
  batch.add(tokens[1], 0, {.pos = 9});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  batch.clear();
  batch.add(tokens[2], 0, {.logits = true, .pos = 7});  // Into the gap.
  EXPECT_THROW((void)context.decode(batch), Error);
  EXPECT_EQ(context.cache().next_pos(0), 10);
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RecurrentModels, ATokenIsSharedBySequencesOfTheSameText) {
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  const SeqId both[] = {1, 2};
  Batch batch;
  for (std::size_t i = 0; i < 30; ++i) batch.add(tokens[i], both);
  batch.add(tokens[30], 1, {.logits = true});
  batch.add(tokens[30], 2, {.logits = true});
  batch.add(tokens[0], 0, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  EXPECT_TRUE(as_expected(context.logits(30), 30));
  EXPECT_TRUE(as_expected(context.logits(31), 30));
  EXPECT_TRUE(as_expected(context.logits(32), 0));
  // They have parted.
  batch.clear();
  batch.add(tokens[1], 0, {.logits = true});
  batch.add(tokens[31], both);
  EXPECT_NE(unsupported([&] { (void)context.decode(batch); }), "");
  EXPECT_EQ(context.cache().next_pos(0), 1);
  EXPECT_EQ(context.cache().next_pos(1), 31);
  EXPECT_TRUE(as_expected(all_logits(context, text(31, 17), 17, 2), 31));
  EXPECT_TRUE(as_expected(all_logits(context, text(31, 17), 2, 1), 31));
  EXPECT_TRUE(as_expected(all_logits(context, text(1, 20), 7, 0), 1));
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RecurrentModels, ABatchForWhichThereIsNoRoomChangesNothing) {
  Context context(model, {.n_ctx = 64, .n_sequences = 2});
  all_logits(context, text(0, 30), 30);
  Batch batch;
  for (int i = 0; i < 35; ++i) batch.add(tokens[7], 0);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kCacheFull);
  EXPECT_EQ(context.cache().next_pos(0), 30);
  EXPECT_TRUE(as_expected(all_logits(context, text(30, 18), 3), 30));
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RecurrentModels, ACancelledBatchChangesNothing) {
  Context context(model, {.n_ctx = 4096, .n_ubatch = 4});
  all_logits(context, text(0, 30), 30);
  Batch batch;  // Of very many steps.
  for (int i = 0; i < 4000; ++i) batch.add(tokens[static_cast<std::size_t>(i) % tokens.size()], 0);
  ASSERT_EQ(test::decode_and_cancel(context, batch), DecodeStatus::kCancelled);
  EXPECT_EQ(context.cache().next_pos(0), 30);
  EXPECT_TRUE(as_expected(all_logits(context, text(30, 18), 3), 30));
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(RecurrentModels, StatesCarryTheRunningStates) {
  Context context(model, {.n_ctx = 256, .n_sequences = 4});
  all_logits(context, text(0, 20), 20, 1);
  ASSERT_TRUE(context.cache().copy(1, 3));
  all_logits(context, text(20, 5), 5, 3);
  const std::vector<std::byte> one = context.save(3), all = context.save();

  Context other(model, {.n_ctx = 256, .n_sequences = 5});
  all_logits(other, text(2, 9), 9, 0);
  all_logits(other, text(6, 9), 9, 4);
  ASSERT_TRUE(other.restore(one, 0));
  EXPECT_TRUE(as_expected(all_logits(other, text(25, 23), 4, 0), 25));
  ASSERT_TRUE(other.restore(all));
  EXPECT_EQ(other.cache().next_pos(0), 0);
  EXPECT_EQ(other.cache().next_pos(4), 0);
  EXPECT_TRUE(as_expected(all_logits(other, text(20, 28), 4, 1), 20));
  EXPECT_TRUE(as_expected(all_logits(other, text(25, 23), 4, 3), 25));
  EXPECT_TRUE(as_expected(all_logits(other, text(0, 9), 4, 4), 0));
  EXPECT_TRUE(other.cache().consistent());

  std::vector<std::byte> damaged = one;
  damaged[damaged.size() - 100] ^= std::byte{1};
  EXPECT_THROW((void)other.restore(damaged, 0), Error);
  EXPECT_TRUE(other.cache().consistent());
}

// Wrong drafts, at each place of a batch. Another sequence decodes in the same steps.
TEST_P(RecurrentModels, TheLastItemsWithLogitsCanBeRemoved) {
  constexpr int kDrafts = 5;
  for (int right = 0; right <= kDrafts; ++right) {
    Context context(model, {.n_ctx = 128, .n_sequences = 3, .state_rewind = kDrafts + 2});
    EXPECT_TRUE(context.cache().cuts_back());
    EXPECT_FALSE(context.cache().cuts_anywhere());
    all_logits(context, text(0, 20), 20);
    all_logits(context, text(0, 9), 9, 1);
    Batch batch;
    for (int i = 0; i <= kDrafts; ++i) {
      const Token token = tokens[static_cast<std::size_t>(20 + i)];
      batch.add(i <= right ? token : (token + 1) % n_vocab, 0, {.logits = true});
    }
    batch.add(tokens[9], 1, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    for (int i = 0; i <= right; ++i)
      EXPECT_TRUE(as_expected(context.logits(i), static_cast<std::size_t>(20 + i))) << i;
    EXPECT_TRUE(as_expected(context.logits(kDrafts + 1), 9));
    const Pos end = 21 + right;
    EXPECT_TRUE(context.cache().can_cut(0, end));
    EXPECT_FALSE(context.cache().can_cut(0, 19));
    // A copy of the right part, before and after the rest is removed.
    ASSERT_TRUE(context.cache().copy(0, 2, 0, end));
    EXPECT_EQ(context.cache().next_pos(2), end);
    context.cache().remove(0, end);
    EXPECT_EQ(context.cache().next_pos(0), end);
    EXPECT_TRUE(context.cache().consistent());
    const auto rest = static_cast<std::size_t>(48 - end);
    EXPECT_TRUE(as_expected(all_logits(context, text(48 - rest, rest), 3, 2), 48 - rest)) << right;
    EXPECT_TRUE(as_expected(all_logits(context, text(48 - rest, rest), 5, 0), 48 - rest)) << right;
    EXPECT_TRUE(as_expected(all_logits(context, text(10, 20), 4, 1), 10));
    EXPECT_TRUE(context.cache().consistent());
  }
}

// As a draft model computes its drafts: each token in a step of its own.
TEST_P(RecurrentModels, ItemsOfEarlierBatchesCanBeRemoved) {
  Context context(model, {.n_ctx = 128, .n_sequences = 2, .state_rewind = 4});
  all_logits(context, text(0, 20), 20);
  for (int i = 0; i < 4; ++i) all_logits(context, text(7, 1), 1);
  ASSERT_TRUE(context.cache().can_cut(0, 20));
  context.cache().remove(0, 22);
  context.cache().remove(0, 20);
  EXPECT_TRUE(as_expected(all_logits(context, text(20, 9), 1), 20));
  // The four latest states are kept, of all sequences together.
  EXPECT_FALSE(context.cache().can_cut(0, 24));
  EXPECT_TRUE(context.cache().can_cut(0, 25));
  all_logits(context, text(0, 3), 1, 1);
  EXPECT_FALSE(context.cache().can_cut(0, 26));
  EXPECT_TRUE(context.cache().can_cut(0, 27));
  EXPECT_TRUE(context.cache().can_cut(1, 1));
  // States of a cancelled batch are not kept, and none after a context shift: positions differ then.
  context.cancel();
  Batch batch;
  for (int i = 0; i < 3; ++i) batch.add(tokens[7], 0, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kCancelled);
  context.cache().remove(0, 27);
  EXPECT_TRUE(as_expected(all_logits(context, text(27, 9), 1), 27));
  ASSERT_TRUE(context.cache().forget(0, 2, 10));
  for (Pos pos = 1; pos < 26; ++pos) EXPECT_FALSE(context.cache().can_cut(0, pos)) << pos;
  EXPECT_TRUE(context.cache().consistent());
}

INSTANTIATE_TEST_SUITE_P(Families, RecurrentModels,
                         testing::Values("mamba", "mamba2", "lfm2", "qwen35", "falcon-h1", "rwkv7"),
                         test::name_of_family);

}  // namespace
}  // namespace weft
