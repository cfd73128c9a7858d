// Endless generation in a small context: 256 cells, any number of tokens. When the cache is full, the older
// half of the sequence is dropped and the rest moves up. Nothing is computed again.
//
//   endless -m MODEL [TOKENS]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "weft/context.h"
#include "weft/error.h"
#include "weft/sampler.h"

namespace {

/// The sequences of this example fit into the cache, so a full cache is an error.
void compute(weft::Context& context, const weft::Batch& batch) {
  if (context.decode(batch) != weft::DecodeStatus::kOk)
    throw weft::Error(weft::ErrorCode::kInvalidArgument, "the cache is full");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: endless -m MODEL [TOKENS]\n");
    return 2;
  }
  const int n_tokens = argc > 3 ? std::atoi(argv[3]) : 1000;
  constexpr weft::SeqId kSequence = 0;
  constexpr weft::Pos kKeep = 4;      // The beginning stays: attention leans on it.
  constexpr weft::Pos kForget = 128;  // Whole pages of 64, so cells stay where they are.

  const auto model = weft::Model::load(argv[2]);
  weft::Context context(model, {.n_ctx = 256});
  weft::Sampler sampler({.seed = 1}, model->tokenizer());
  weft::Detokenizer text(model->tokenizer());

  weft::Batch batch;
  batch.add(model->tokenizer().encode("The sea"), kSequence);
  compute(context, batch);
  int n_shifts = 0;
  for (int i = 0; i < n_tokens; ++i) {
    const weft::Token token = sampler.sample(context.logits(batch.size() - 1));
    sampler.accept(token);
    std::fputs(text.push(token).c_str(), stdout);
    batch.clear();
    batch.add(token, kSequence, {.logits = true});
    while (context.decode(batch) == weft::DecodeStatus::kCacheFull) {
      context.cache().remove(kSequence, kKeep, kKeep + kForget);
      if (!context.cache().shift(kSequence, kKeep + kForget, -1, -kForget))
        return 1;  // Never: no other sequence shares these cells.
      ++n_shifts;
    }
  }
  std::printf("\n\n%d tokens in %d cells, moved up %d times; plans compiled: %d\n", n_tokens,
              context.cache().cells_total(), n_shifts, static_cast<int>(context.plan_stats().compiled));
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "endless: %s\n", error.what());
  return 1;
}
