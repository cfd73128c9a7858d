// Operations on sequences with a real model, compared in numbers: sharing, shifting, gaps and packing.
#include <cmath>
#include <random>

#include "engine/test_support.h"

namespace weft {
namespace {

using test::all_logits;

class SequenceOperations : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto dir = test::golden_dir() / GetParam();
    model = Model::load(dir / "model.gguf");
    tokens = test::read_tokens(dir / "tokens.json");
  }
  std::vector<float> alone(std::span<const Token> text) const {
    Context context(model, {.n_ctx = 256});
    return all_logits(context, text, 16);
  }
  std::span<const Token> text(std::size_t begin, std::size_t n) const {
    return std::span(tokens).subspan(begin, n);
  }

  std::shared_ptr<const Model> model;
  std::vector<Token> tokens;
};

TEST_P(SequenceOperations, ACopyGoesOnAsIfItHadBeenComputed) {
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  const std::vector<float> expected = alone(tokens);
  const std::vector<float> head = all_logits(context, text(0, 30), 30);
  ASSERT_TRUE(context.cache().copy(0, 1));
  ASSERT_TRUE(context.cache().copy(0, 2, 0, 20));
  EXPECT_EQ(context.cache().cells_used(), 30);
  // The three continue in turns, and write into the formerly shared page.
  std::vector<float> rest[3] = {
      head, head, {head.begin(), head.begin() + static_cast<std::ptrdiff_t>(head.size() / 30 * 20)}};
  for (std::size_t step = 0; step < 18; ++step) {
    Batch batch;
    for (SeqId seq = 0; seq < 3; ++seq) batch.add(tokens[(seq == 2 ? 20 : 30) + step], seq, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    for (int i = 0; i < 3; ++i) {
      const auto row = context.logits(i);
      rest[i].insert(rest[i].end(), row.begin(), row.end());
    }
  }
  EXPECT_TRUE(rest[0] == expected);
  EXPECT_TRUE(rest[1] == expected);
  EXPECT_TRUE(std::equal(rest[2].begin(), rest[2].end(), expected.begin()));
  EXPECT_TRUE(context.cache().consistent());
  EXPECT_EQ(context.plan_stats().compiled, 1);
}

TEST_P(SequenceOperations, ATokenOfSeveralSequencesIsComputedOnce) {
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  const std::vector<float> expected = alone(tokens);
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  Batch batch;
  const SeqId both[] = {1, 2};
  for (std::size_t i = 0; i < 40; ++i) batch.add(tokens[i], both);
  batch.add(tokens[40], 1, {.logits = true});
  batch.add(tokens[40], 2, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  // Pages diverge with the sequences: 40 shared cells, copied for the second to continue, and one token each.
  EXPECT_EQ(context.cache().cells_used(), 40 + 40 + 2);
  for (const int i : {40, 41})
    EXPECT_TRUE(std::equal(context.logits(i).begin(), context.logits(i).end(),
                           expected.begin() + 40 * static_cast<std::ptrdiff_t>(n_vocab)));
  context.cache().remove(1);
  EXPECT_EQ(context.cache().cells_used(), 41);
}

TEST_P(SequenceOperations, ATreeIsOneStepAndEachBranchAsIfAlone) {
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  // Paths of the tree: the tokens of each of four sequences after the common prefix.
  const std::vector<std::vector<Token>> paths = {{3, 5, 7, 9}, {3, 5, 8, 1}, {3, 6, 7, 9}, {4, 5, 7, 9}};
  for (const std::size_t n : {5u, 30u, 62u, 64u}) {
    std::vector<Token> head(tokens.begin(),
                            tokens.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(n, 48)));
    head.resize(n, 11);
    Context context(model, {.n_ctx = 512, .n_sequences = 5});
    all_logits(context, head, 17);
    for (SeqId seq = 1; seq < 4; ++seq) ASSERT_TRUE(context.cache().copy(0, seq));
    // A node for each beginning of a path, for all sequences that begin so.
    Batch batch;
    std::vector<std::vector<int>> items(4);
    for (std::size_t depth = 0; depth < 4; ++depth) {
      for (std::size_t first = 0; first < 4; ++first) {
        std::vector<SeqId> seqs;
        for (std::size_t seq = 0; seq < 4; ++seq)
          if (std::equal(paths[seq].begin(), paths[seq].begin() + static_cast<std::ptrdiff_t>(depth) + 1,
                         paths[first].begin()))
            seqs.push_back(static_cast<SeqId>(seq));
        if (seqs.front() != static_cast<SeqId>(first)) continue;
        batch.add(paths[first][depth], seqs, {.logits = true});
        for (const SeqId seq : seqs) items[static_cast<std::size_t>(seq)].push_back(batch.size() - 1);
      }
    }
    const auto steps = context.plan_stats().steps;
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_EQ(context.plan_stats().steps, steps + 1);
    for (std::size_t seq = 0; seq < 4; ++seq) {
      std::vector<Token> text = head;
      text.insert(text.end(), paths[seq].begin(), paths[seq].end());
      const std::vector<float> expected = alone(text);
      for (std::size_t depth = 0; depth < 4; ++depth) {
        const auto row = context.logits(items[seq][depth]);
        EXPECT_TRUE(std::equal(row.begin(), row.end(),
                               expected.begin() + static_cast<std::ptrdiff_t>((n + depth) * n_vocab)))
            << "text of " << n << ", path " << seq << ", depth " << depth;
      }
    }
    // The branches continue after the step, and one is accepted.
    ASSERT_TRUE(context.cache().copy(2, 4));
    context.cache().keep(4);
    std::vector<Token> text = head;
    text.insert(text.end(), paths[2].begin(), paths[2].end());
    text.push_back(12);
    const std::vector<float> expected = alone(text);
    const std::vector<float> next = all_logits(context, std::span(text).last(1), 1, 4);
    EXPECT_TRUE(std::equal(next.begin(), next.end(), expected.end() - static_cast<std::ptrdiff_t>(n_vocab)));
    EXPECT_TRUE(context.cache().consistent());
  }
}

TEST_P(SequenceOperations, SequencesThatPartInABatchAreEachAsIfAlone) {
  // For any order of the sequences, and any cut of the batch into steps.
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  const std::vector<SeqId> all = {0, 1, 2};
  for (const std::vector<SeqId>& order :
       {std::vector<SeqId>{1, 0, 2}, {0, 1, 2}, {2, 1, 0, 0, 1, 2}, {1, 1, 1, 0, 2}}) {
    for (const int n_ubatch : {512, 13, 12, 11, 5, 1}) {
      Context context(model, {.n_ctx = 256, .n_sequences = 3, .n_ubatch = n_ubatch});
      Batch batch;
      std::vector<std::vector<Token>> texts(3);
      std::vector<std::vector<int>> items(3);
      const auto add = [&](Token token, std::span<const SeqId> seqs) {
        batch.add(token, seqs, {.logits = true});
        for (const SeqId seq : seqs) {
          texts[static_cast<std::size_t>(seq)].push_back(token);
          items[static_cast<std::size_t>(seq)].push_back(batch.size() - 1);
        }
      };
      for (std::size_t i = 0; i < 12; ++i) add(tokens[i], all);
      for (std::size_t i = 0; i < order.size(); ++i) add(tokens[12 + i], {&order[i], 1});
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
      for (std::size_t seq = 0; seq < 3; ++seq) {
        const std::vector<float> expected = alone(texts[seq]);
        for (std::size_t i = 0; i < texts[seq].size(); ++i) {
          const auto row = context.logits(items[seq][i]);
          ASSERT_TRUE(
              std::equal(row.begin(), row.end(), expected.begin() + static_cast<std::ptrdiff_t>(i * n_vocab)))
              << "sequence " << seq << ", token " << i << ", steps of " << n_ubatch;
        }
      }
      EXPECT_TRUE(context.cache().consistent());
    }
  }
}

TEST_P(SequenceOperations, ATokenIsSharedByTextsThatLieApart) {
  // The same prefix three times, computed separately: later shared tokens are in each sequence's own pages.
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  const std::vector<float> expected = alone(tokens);
  for (const std::size_t n_head : {20u, 0u}) {
    Context context(model, {.n_ctx = 256, .n_sequences = 3});
    const std::vector<SeqId> all = {0, 1, 2};
    if (n_head > 0)
      for (const SeqId seq : all) all_logits(context, text(0, n_head), 8, seq);
    Batch batch;
    for (std::size_t i = n_head; i < 40; ++i) batch.add(tokens[i], all, {.logits = true});
    const auto steps = context.plan_stats().steps;
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_EQ(context.plan_stats().steps, steps + 1);
    EXPECT_EQ(context.cache().cells_used(), n_head > 0 ? 120 : 40);
    const auto row = context.logits(batch.size() - 1);
    EXPECT_TRUE(
        std::equal(row.begin(), row.end(), expected.begin() + static_cast<std::ptrdiff_t>(39 * n_vocab)));
    for (const SeqId seq : all) {
      const std::vector<float> rest = all_logits(context, text(40, 5), 2, seq);
      EXPECT_TRUE(
          std::equal(rest.begin(), rest.end(), expected.begin() + static_cast<std::ptrdiff_t>(40 * n_vocab)));
    }
    EXPECT_TRUE(context.cache().consistent());
  }
}

TEST_P(SequenceOperations, PackingPagesChangesNoBit) {
  const std::vector<float> expected = alone(tokens);
  Context context(model, {.n_ctx = 512, .n_sequences = 6});
  std::vector<std::vector<float>> heads;
  for (SeqId seq = 0; seq < 6; ++seq) all_logits(context, text(0, 20), 20, seq);
  // Holes at other lanes in each, so that pages can be packed.
  for (SeqId seq = 0; seq < 6; ++seq) context.cache().remove(seq, 3 + seq, 20);
  context.cache().defragment();
  for (SeqId seq = 0; seq < 6; ++seq) {
    const auto begin = static_cast<std::size_t>(3 + seq);
    const std::vector<float> rest = all_logits(context, text(begin, 48 - begin), 7, seq);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(),
                           expected.begin() + static_cast<std::ptrdiff_t>(begin) * model->info().n_vocab));
  }
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(SequenceOperations, OperationsOnOneSequenceNeverChangeAnother) {
  const std::vector<float> expected = alone(tokens);
  Context context(model, {.n_ctx = 400, .n_sequences = 4});
  std::mt19937 random(5);
  std::vector<float> logits;
  const bool can_shift = std::string(GetParam()) != "gpt2";
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Batch batch;
    batch.add(tokens[t], 0, {.logits = true});
    const auto other = static_cast<SeqId>(1 + random() % 3);
    if (context.cache().cells_used() < 300)
      batch.add(tokens[random() % tokens.size()], other, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    logits.insert(logits.end(), context.logits(0).begin(), context.logits(0).end());
    const auto begin = static_cast<Pos>(random() % 20);
    switch (random() % 5) {
      case 0:
        (void)context.cache().copy(0, other);
        break;
      case 1:
        context.cache().remove(other, begin, begin + 5);
        break;
      case 2:
        context.cache().remove(other, begin, begin + 7);
        if (can_shift && context.cache().next_pos(other) > begin + 7)
          (void)context.cache().shift(other, begin + 7, -1, -7);
        break;
      case 3:
        context.cache().defragment(64);
        break;
      default:
        break;
    }
    ASSERT_TRUE(context.cache().consistent());
  }
  EXPECT_TRUE(logits == expected);
}

/// Families whose sequences can be shifted: without learned positions.
class ShiftedSequences : public SequenceOperations {};

// A shifted sequence equals the sequence computed at the new positions, except for the rounding of rotated
// keys. Rope depends only on differences of positions, so a sequence that is shifted as a whole must continue
// as before.
TEST_P(ShiftedSequences, AShiftedTextGoesOnAsBefore) {
  const ContextParams params{.n_ctx = 256, .k_type = CacheType::kF32, .v_type = CacheType::kF32};
  Context unshifted(model, params);
  const std::vector<float> expected = all_logits(unshifted, tokens, tokens.size());
  const std::size_t n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  for (const Pos delta : {1, 37, 64, 128}) {
    Context context(model, params);
    all_logits(context, text(0, 40), 40);
    ASSERT_TRUE(context.cache().shift(0, 0, -1, delta));
    EXPECT_EQ(context.cache().min_pos(0), delta);
    const std::vector<float> rest = all_logits(context, text(40, 8), 3);
    EXPECT_EQ(context.cache().next_pos(0), 48 + delta);
    const double difference = test::nmse(rest, std::span(expected).subspan(40 * n_vocab));
    EXPECT_LT(difference, 1e-5) << "shifted by " << delta;
    // And back again: turning is additive.
    ASSERT_TRUE(context.cache().shift(0, 0, -1, -delta));
    context.cache().remove(0, 40);
    EXPECT_LT(test::nmse(all_logits(context, text(40, 8), 8), std::span(expected).subspan(40 * n_vocab)),
              1e-5);
  }
}

// A sequence that was shifted up for a gap equals one computed at the later positions. (No tokens may precede
// it, as it would have seen them at the old distance.)
TEST_P(ShiftedSequences, FilledGapsMatchComputingInOrder) {
  const ContextParams params{.n_ctx = 256, .k_type = CacheType::kF32, .v_type = CacheType::kF32};
  constexpr int kInserted = 7, kBehind = 20;
  const auto put = [&](Context& context, std::size_t begin, int n, Pos pos, bool logits) {
    Batch batch;
    for (int i = 0; i < n; ++i)
      batch.add(tokens[begin + static_cast<std::size_t>(i)], 0,
                {.logits = logits && i + 1 == n, .pos = pos + i});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    if (!logits) return std::vector<float>();
    return std::vector<float>(context.logits(n - 1).begin(), context.logits(n - 1).end());
  };
  Context moved(model, params), placed(model, params);
  put(moved, 20, kBehind, 0, false);
  ASSERT_TRUE(moved.cache().shift(0, 0, -1, kInserted));
  put(moved, 10, kInserted, 0, false);

  put(placed, 20, kBehind, kInserted, false);
  put(placed, 10, kInserted, 0, false);

  const Pos end = kInserted + kBehind;
  EXPECT_EQ(moved.cache().next_pos(0), end);
  EXPECT_LT(test::nmse(put(moved, 40, 5, end, true), put(placed, 40, 5, end, true)), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Families, SequenceOperations,
                         testing::Values("llama", "llama-rope3", "qwen2", "gemma3", "phi3", "gpt2"),
                         test::name_of_family);
INSTANTIATE_TEST_SUITE_P(Families, ShiftedSequences,
                         testing::Values("llama", "llama-rope3", "qwen2", "gemma3", "phi3"),
                         test::name_of_family);

TEST(SequencesOfLearnedPositions, AreNotShifted) {
  Context context(Model::load(test::golden_dir() / "gpt2" / "model.gguf"), {.n_ctx = 256});
  all_logits(context, std::vector<Token>{5, 6, 7, 8, 9}, 5);
  EXPECT_THROW((void)context.cache().shift(0, 0, -1, 5), Error);
}

// The cache does not know the lines and columns of images. A division would move the surrounding tokens
// closer, but not the images.
TEST(PromptsWithImages, AreShiftedAndNotDivided) {
  const auto model = Model::load(test::golden_dir() / "qwen2vl" / "model.gguf");
  Context context(model, {.n_ctx = 128, .n_sequences = 3});
  const auto why_not_divided = [&](SeqId seq) -> std::string {
    try {
      EXPECT_TRUE(context.cache().divide(seq, 0, -1, 2));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      return error.what();
    }
    return {};
  };
  const auto decode = [&](SeqId seq, bool on_axes) {
    Batch batch;
    for (int i = 0; i < 16; ++i) {
      ItemOptions options = {.logits = i == 15};
      if (on_axes && i >= 8) options.axes = {8, 8 + (i - 8) / 4, 8 + i % 4};
      batch.add(5 + i, seq, options);
    }
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  };
  decode(0, true);
  decode(1, false);
  ASSERT_TRUE(context.cache().copy(0, 2));
  EXPECT_NE(why_not_divided(0).find("image"), std::string::npos);
  EXPECT_NE(why_not_divided(2).find("image"), std::string::npos);
  EXPECT_EQ(why_not_divided(1), "");
  EXPECT_EQ(context.cache().next_pos(1), 8);
  ASSERT_TRUE(context.cache().copy(1, 2));  // Replaces the sequence with the image.
  EXPECT_EQ(why_not_divided(2), "");
  EXPECT_TRUE(context.cache().shift(0, 0, -1, 5));
  const std::vector<std::byte> saved = context.save(1);
  context.cache().remove(0);
  decode(0, false);
  EXPECT_EQ(why_not_divided(0), "");
  ASSERT_TRUE(context.restore(saved, 2));
  EXPECT_NE(why_not_divided(2).find("restored"), std::string::npos);
}

TEST(EndlessText, GoesOnInASmallCache) {
  const auto model = Model::load(test::golden_dir() / "llama" / "model.gguf");
  Context context(model, {.n_ctx = 64});
  Batch batch;
  Token token = 5;
  for (int i = 0; i < 1000; ++i) {
    if (context.cache().cells_used() == 64) {
      context.cache().remove(0, 4, 4 + 21);
      ASSERT_TRUE(context.cache().shift(0, 4 + 21, -1, -21));
    }
    batch.clear();
    batch.add(token, 0, {.logits = true});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    const auto logits = context.logits(0);
    token = static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    ASSERT_TRUE(std::isfinite(logits[0]));
  }
  EXPECT_EQ(context.plan_stats().compiled, 1);
  EXPECT_TRUE(context.cache().consistent());
}

}  // namespace
}  // namespace weft
