// Caches that keep only a sliding window: the same bits as full caches, in less memory, and a clear refusal
// where a sequence could not continue.
#include <cstring>
#include <random>

#include "base/hash.h"
#include "engine/test_support.h"
#include "weft/batcher.h"
#include "weft/generate.h"

namespace weft {
namespace {

using test::all_logits;

constexpr int kWindow = 16;  // Of the golden model.

std::shared_ptr<const Model> gemma() {
  static const std::shared_ptr<const Model> model = Model::load(test::golden_dir() / "gemma3" / "model.gguf");
  return model;
}

std::vector<Token> random_tokens(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Token> tokens(n);
  for (Token& token : tokens)
    token = static_cast<Token>(random() % static_cast<std::uint64_t>(gemma()->info().n_vocab));
  return tokens;
}

void expect_unsupported(const std::function<void()>& what) {
  try {
    what();
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    EXPECT_NE(std::string(error.what()).find("window_rewind"), std::string::npos) << error.what();
  }
}

TEST(Windows, AnyStepsGiveTheBitsOfAFullCacheInLessMemory) {
  const std::vector<Token> tokens = random_tokens(1500, 1);
  Context full(gemma(), {.n_ctx = 2048, .window_rewind = -1});
  const std::vector<float> expected = all_logits(full, tokens, 512);
  for (const int rewind : {0, 256})
    for (const int n_ubatch : {512, 64, 7}) {
      Context context(gemma(), {.n_ctx = 2048, .n_ubatch = n_ubatch, .window_rewind = rewind});
      EXPECT_TRUE(all_logits(context, tokens, 700) == expected) << n_ubatch;
      EXPECT_TRUE(context.cache().consistent());
      EXPECT_LT(context.cache().bytes(), full.cache().bytes() * 2 / 3) << rewind << " " << n_ubatch;
      EXPECT_FALSE(context.cache().cuts_anywhere());
      EXPECT_TRUE(context.cache().cuts_back());
    }
  EXPECT_TRUE(full.cache().cuts_anywhere());
  // Where everything fits into the window there is nothing to be saved.
  EXPECT_TRUE(Context(gemma(), {.n_ctx = 272}).cache().cuts_anywhere());
}

/// After any operation, sequences of both contexts have the same logits.
TEST(Windows, RandomOperationsGiveTheBitsOfAFullCache) {
  for (const int rewind : {0, 40}) {
    std::mt19937_64 random(3);
    const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
    constexpr int kSequences = 32;
    const ContextParams params{.n_ctx = 4000, .n_sequences = kSequences, .n_ubatch = 50};
    ContextParams windowed = params, everything = params;
    windowed.window_rewind = rewind;
    everything.window_rewind = -1;
    Context context(gemma(), windowed), full(gemma(), everything);
    int n_refused = 0, n_done[9] = {};
    // On the one that may refuse first: then nothing may have changed.
    const auto both = [&](const auto& operation) {
      try {
        const bool done = operation(context);
        EXPECT_EQ(operation(full), done);
        return done;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
        ++n_refused;
        return false;
      }
    };
    std::vector<std::byte> state, state_of_full;
    for (int round = 0; round < 700; ++round) {
      Batch batch;
      std::vector<bool> in_batch(kSequences, false);
      for (int n = 1 + pick(4); n > 0; --n) {
        const SeqId seq = pick(kSequences / (round % 3 == 0 ? 1 : 4));
        if (in_batch[static_cast<std::size_t>(seq)]) continue;
        in_batch[static_cast<std::size_t>(seq)] = true;
        for (int length = pick(4) == 0 ? 1 + pick(120) : 1 + pick(8); length > 0; --length)
          batch.add(pick(gemma()->info().n_vocab), seq, {.logits = length < 3});
      }
      const bool filled = both([&](Context& c) { return c.decode(batch) == DecodeStatus::kOk; });
      for (int i = 0; filled && i < batch.size(); ++i) {
        if (!batch[i].options.logits) continue;
        const auto a = context.logits(i), b = full.logits(i);
        ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin())) << "round " << round << " item " << i;
      }
      if (!filled) {
        for (int n = 0; n < 6; ++n) {
          const SeqId seq = pick(kSequences);
          both([&](Context& c) { return c.cache().remove(seq), true; });
        }
        continue;
      }
      const SeqId seq = pick(kSequences / 4), other = pick(kSequences);
      const Pos next = context.cache().next_pos(seq);
      const int what = pick(9);
      const Pos begin = pick(std::max(next, 1)), length = pick(60), coin = pick(2);
      bool done = true;
      switch (what) {
        case 0:
          done = both([&](Context& c) { return c.cache().copy(seq, other); });
          break;
        case 1:
          both([&](Context& c) { return c.cache().remove(other), true; });
          done = both([&](Context& c) { return c.cache().copy(seq, other, 0, begin); });
          break;
        case 2:  // As far back as it may be, at least.
          ASSERT_TRUE(context.cache().can_cut(seq, next - std::min(next, rewind / 2)));
          done = both([&](Context& c) {
            return c.cache().remove(seq, next - std::min(next, coin * rewind / 2)), true;
          });
          break;
        case 3:
          done = both([&](Context& c) { return c.cache().remove(seq, begin), true; });
          break;
        case 4:
          both([&](Context& c) { return c.cache().remove(seq, begin, begin + length), true; });
          if (context.cache().next_pos(seq) > begin + length)
            done = both([&](Context& c) { return c.cache().shift(seq, begin + length, -1, -length); });
          break;
        case 5:
          done = both([&](Context& c) { return c.cache().shift(seq, begin, -1, coin * 64); });
          break;
        case 6:
          both([&](Context& c) { return c.cache().defragment(300), true; });
          break;
        case 7:
          done = !state.empty() && context.restore(state, seq);
          EXPECT_TRUE(!done || full.restore(state_of_full, seq));
          state = context.save(other);
          state_of_full = full.save(other);
          break;
        case 8:
          if (pick(8) == 0) done = both([&](Context& c) { return c.cache().divide(seq, 0, -1, 2); });
          break;
      }
      n_done[what] += done ? 1 : 0;
      ASSERT_TRUE(context.cache().consistent()) << "round " << round << " operation " << what;
      ASSERT_EQ(context.cache().cells_used(), full.cache().cells_used());
    }
    EXPECT_GT(n_refused, 20);
    for (int what = 0; what < 9; ++what) EXPECT_GT(n_done[what], 5) << what;
  }
}

TEST(Windows, RejectsCutsIntoDroppedCellsWithoutSideEffects) {
  Context context(gemma(), {.n_ctx = 1024, .n_sequences = 3, .n_ubatch = 64, .window_rewind = 10});
  const std::vector<Token> tokens = random_tokens(600, 2);
  all_logits(context, tokens, 64);
  Context full(gemma(), {.n_ctx = 1024, .window_rewind = -1});
  const std::vector<float> expected = all_logits(full, tokens, 64);
  EXPECT_FALSE(context.cache().can_cut(0, 100));
  EXPECT_TRUE(context.cache().can_cut(0, 0));
  EXPECT_TRUE(context.cache().can_cut(0, 590));
  expect_unsupported([&] { context.cache().remove(0, 100); });
  expect_unsupported([&] { (void)context.cache().copy(0, 1, 0, 100); });
  expect_unsupported([&] { (void)context.cache().divide(0, 0, -1, 30); });
  context.cache().remove(0, 300, 310);  // A gap far back: no window reaches it.
  Batch batch;
  batch.add(5, 0, {.pos = 305});
  expect_unsupported([&] { (void)context.decode(batch); });
  // What is shifted into the window must be there.
  ASSERT_TRUE(context.cache().copy(0, 2));
  context.cache().remove(2, 20, 598);
  expect_unsupported([&] { (void)context.cache().shift(2, 598, -1, -570); });
  EXPECT_EQ(context.cache().next_pos(0), 600);
  EXPECT_EQ(context.cache().next_pos(1), 0);
  EXPECT_TRUE(context.cache().consistent());
  const auto n_vocab = static_cast<std::ptrdiff_t>(gemma()->info().n_vocab);
  context.cache().remove(0, 592);
  const std::vector<float> rest = all_logits(context, std::span(tokens).subspan(592), 3);
  // The gap counts in layers that see everything: compare with a full cache that has it too.
  full.cache().remove(0, 300, 310);
  full.cache().remove(0, 592);
  EXPECT_TRUE(rest == all_logits(full, std::span(tokens).subspan(592), 8));
  EXPECT_EQ(expected.size(), static_cast<std::size_t>(600 * n_vocab));
}

TEST(Windows, ACancelledOrRefusedBatchLeavesTheTextAsItWas) {
  Context context(gemma(), {.n_ctx = 700, .n_sequences = 2, .n_ubatch = 16, .window_rewind = 0});
  Context full(gemma(), {.n_ctx = 700, .n_sequences = 2, .window_rewind = -1});
  const std::vector<Token> tokens = random_tokens(650, 4);
  const std::span<const Token> head = std::span(tokens).first(200), rest = std::span(tokens).subspan(200, 30);
  for (Context* c : {&context, &full}) all_logits(*c, head, 100);
  // A part that turns out invalid after many steps: it would see cells that follow later.
  Batch batch;
  for (std::size_t i = 0; i < 300; ++i) batch.add(tokens[200 + i], 0);
  test::set(batch, 280, &ItemOptions::attend_to, 500);
  EXPECT_THROW((void)context.decode(batch), Error);
  EXPECT_EQ(context.cache().next_pos(0), 200);
  EXPECT_TRUE(context.cache().consistent());
  EXPECT_TRUE(all_logits(context, rest, 9) == all_logits(full, rest, 9));
}

std::string generated(const ContextParams& params, int n_keep) {
  Context context(gemma(), params);
  SamplerParams sampling;
  sampling.temperature = 1.0f;
  sampling.seed = 5;
  Sampler sampler(sampling, gemma()->info().n_vocab);
  GenerateParams generate_params;
  generate_params.n_predict = 1200;
  generate_params.ignore_end = generate_params.context_shift = true;
  generate_params.n_keep = n_keep;
  const Generation g = generate(context, sampler, random_tokens(30, 8), generate_params);
  EXPECT_EQ(g.tokens.size(), 1200u);
  EXPECT_TRUE(context.cache().consistent());
  return g.text;
}

TEST(Windows, EndlessTextGoesOnAsInAFullCache) {
  for (const int n_ctx : {40, 90, 200, 500})
    for (const int n_keep : {0, 4})
      EXPECT_EQ(generated({.n_ctx = n_ctx, .window_rewind = 20}, n_keep),
                generated({.n_ctx = n_ctx, .window_rewind = -1}, n_keep))
          << n_ctx;
}

TEST(Windows, AStateHoldsTheWindowOnlyAndGoesOn) {
  const std::vector<Token> tokens = random_tokens(900, 6);
  const std::span<const Token> head = std::span(tokens).first(800), rest = std::span(tokens).subspan(800);
  Context full(gemma(), {.n_ctx = 1024, .window_rewind = -1});
  Context context(gemma(), {.n_ctx = 1024, .n_sequences = 2, .window_rewind = 20});
  all_logits(full, head, 300);
  all_logits(context, head, 300);
  const std::vector<std::byte> state = context.save(0), everything = full.save(0);
  EXPECT_LT(state.size(), everything.size() / 2);
  EXPECT_TRUE(context.save(0) == state);
  const std::vector<float> expected = all_logits(full, rest, 7);
  Context other(gemma(), {.n_ctx = 3000, .n_sequences = 3, .n_ubatch = 30, .window_rewind = 64});
  all_logits(other, rest, 40, 1);
  ASSERT_TRUE(other.restore(state, 2));
  EXPECT_TRUE(all_logits(other, rest, 7, 2) == expected);
  ASSERT_TRUE(other.restore(state, 1));
  EXPECT_EQ(other.save(1).size(), state.size());
  Context again(gemma(), {.n_ctx = 2000, .window_rewind = 20});
  ASSERT_TRUE(again.restore(state, 0));
  EXPECT_TRUE(again.save(0) == state);
  // A full state fits into every cache. A state with only the window does not fit into a full cache.
  ASSERT_TRUE(other.restore(everything, 0));
  EXPECT_TRUE(all_logits(other, rest, 50, 0) == expected);
  EXPECT_TRUE(other.cache().consistent());
  try {
    (void)full.restore(state, 0);
    FAIL() << "restored";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
}

TEST(Windows, ForgedWindowsAreRefused) {
  Context context(gemma(), {.n_ctx = 1024, .n_sequences = 2, .window_rewind = 0});
  all_logits(context, random_tokens(300, 7), 100);
  const std::vector<std::byte> good = context.save(0);
  const std::vector<Token> next = {3};
  const auto peek = [&] {
    ASSERT_TRUE(context.cache().copy(0, 1));
    all_logits(context, next, 1, 1);
    context.cache().remove(1);
  };
  std::mt19937_64 random(5);
  int n_refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bad = good;
    std::uint64_t head = 0;
    std::memcpy(&head, bad.data() + 16, sizeof(head));
    // The tables (masks of pages, sequences, extents) with right checksums.
    for (int n = 1 + static_cast<int>(random() % 2); n > 0; --n)
      bad[64 + random() % (head - 64)] ^= static_cast<std::byte>(1u << random() % 8);
    const std::uint64_t check = base::hash64(std::span(bad).first(static_cast<std::size_t>(head)));
    std::memcpy(bad.data() + head, &check, sizeof(check));
    base::Hasher hash;
    hash.add(std::span(bad).first(bad.size() - 16));
    const base::Hash128 end = hash.result();
    std::memcpy(bad.data() + bad.size() - 16, &end, sizeof(end));
    try {
      if (context.restore(bad, 1)) all_logits(context, next, 1, 1);
      context.cache().remove(1);
    } catch (const Error&) {
      ++n_refused;
    }
    ASSERT_TRUE(context.cache().consistent());
  }
  EXPECT_GT(n_refused, 2000);
  peek();
}

}  // namespace
}  // namespace weft
