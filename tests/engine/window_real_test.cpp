// Gemma 3 with its window of 512: caches that keep only the window give the bits of full caches. Skipped
// where the model is not in the cache (make models).
#include <random>

#include "engine/test_support.h"
#include "weft/batcher.h"

namespace weft {
namespace {

/// Logits of the last token only, in pieces.
std::vector<float> last_logits(Context& context, std::span<const Token> tokens, SeqId seq) {
  Batch batch;
  batch.add(tokens, seq);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  const auto row = context.logits(batch.size() - 1);
  return {row.begin(), row.end()};
}

TEST(RealWindows, GiveTheBitsOfAFullCache) {
  const auto path = test::cached_model(test::kGemma3);
  if (!path) GTEST_SKIP() << test::kGemma3 << " is not in the model cache; make models fetches it";
  const auto model = Model::load(*path);
  std::mt19937_64 random(1);
  std::vector<Token> tokens(1300);
  for (Token& token : tokens) token = static_cast<Token>(1000 + random() % 50000);
  const auto text = [&](std::size_t begin, std::size_t n) { return std::span(tokens).subspan(begin, n); };

  // All operations on sequences, in both caches; returns the results in order.
  const auto walk = [&](int rewind, int n_ubatch) {
    Context context(model, {.n_ctx = 4096, .n_sequences = 4, .n_ubatch = n_ubatch, .window_rewind = rewind});
    std::vector<float> all;
    const auto note = [&](const std::vector<float>& logits) {
      all.insert(all.end(), logits.begin(), logits.end());
    };
    note(last_logits(context, text(0, 1100), 0));
    EXPECT_EQ(context.cache().can_cut(0, 600), rewind < 0);
    EXPECT_TRUE(context.cache().copy(0, 1));
    for (std::size_t i = 0; i < 4; ++i) {  // Two that part.
      note(last_logits(context, text(1100 + i, 1), 0));
      note(last_logits(context, text(1200 + i, 1), 1));
    }
    const std::vector<std::byte> state = context.save(0);
    context.cache().remove(1, 4, 4 + 448);  // Drops a range, and continues.
    EXPECT_TRUE(context.cache().shift(1, 4 + 448, -1, -448));
    note(last_logits(context, text(1204, 20), 1));
    EXPECT_TRUE(context.restore(state, 2));
    note(last_logits(context, text(1104, 30), 0));
    note(last_logits(context, text(1104, 30), 2));
    EXPECT_TRUE(context.cache().consistent());
    return std::make_pair(all, context.cache().bytes());
  };
  const auto [expected, bytes_of_full] = walk(-1, 512);
  for (const int n_ubatch : {512, 150}) {
    const auto [logits, bytes] = walk(0, n_ubatch);
    EXPECT_TRUE(logits == expected) << n_ubatch;
    EXPECT_LT(bytes, bytes_of_full);
    std::printf("cache: %.1f MB of %.1f MB\n", static_cast<double>(bytes) / 1e6,
                static_cast<double>(bytes_of_full) / 1e6);
  }
}

}  // namespace
}  // namespace weft
