// Drafters alone: how far back they look, and which sequences they drop when the cache is full.
#include <vector>

#include "engine/batcher_testing.h"
#include "engine/batching/speculation.h"

namespace weft::engine {
namespace {

TEST(NgramDrafter, LooksBackSoFarAndNoFurther) {
  const auto guessed = [](int n_between) {
    std::vector<Token> text = {1, 2, 3};
    for (int i = 0; i < n_between; ++i) text.push_back(10 + i % 1000);
    text.insert(text.end(), {1, 2});
    DraftTree draft;
    draft.begin({.n_max = 4});
    const DraftJob job{.seq = 0, .text = text, .draft = &draft};
    make_ngram_drafter()->draft({&job, 1}, 0);
    return draft.empty() ? kNoToken : draft.nodes()[0].token;
  };
  EXPECT_EQ(guessed(100), 3);
  EXPECT_EQ(guessed(8000), 3);
  EXPECT_EQ(guessed(9000), kNoToken) << "a step's time must not grow with the text";
}

// The cache of the draft model has a sequence without requests, and two sequences with requests.
TEST(ModelDrafter, FullCachesDropUnusedSequences) {
  const auto model = test::golden("llama");
  constexpr int kText = 40;
  Context context(model, {.n_ctx = 3 * kText, .n_sequences = 3, .n_ubatch = 4, .n_threads = 1});
  const auto drafter = make_model_drafter(context, *model, 3);
  std::vector<std::vector<Token>> texts(3);
  const auto write = [&](std::vector<SeqId> seqs) {
    std::vector<DraftTree> drafts(seqs.size());
    std::vector<DraftJob> jobs;
    for (std::size_t i = 0; i < seqs.size(); ++i) {
      drafts[i].begin({.n_max = 2});
      jobs.push_back({seqs[i], texts[static_cast<std::size_t>(seqs[i])], &drafts[i]});
    }
    drafter->draft(jobs, 0);
    for (const DraftTree& draft : drafts) EXPECT_FALSE(draft.empty());
  };
  for (SeqId seq = 0; seq < 3; ++seq)
    texts[static_cast<std::size_t>(seq)] = test::prompt_of(kText - 3, 4 + seq);
  write({2});
  write({0, 1});
  ASSERT_GT(context.cache().next_pos(2), 0);
  for (const SeqId seq : {0, 1}) {  // None of the guesses was right.
    drafter->cut(seq, kText - 3);
    std::vector<Token>& text = texts[static_cast<std::size_t>(seq)];
    text.insert(text.end(), 6, 17);
  }
  const std::int64_t before = context.plan_stats().steps;
  write({0, 1});
  EXPECT_EQ(context.cache().next_pos(2), 0);
  // Seven tokens of each sequence, and the second drafts; to compute both whole would take twenty steps and
  // more.
  EXPECT_LT(context.plan_stats().steps - before, 8);
}

}  // namespace
}  // namespace weft::engine
