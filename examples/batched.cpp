// Several continuations of one prompt, written at the same time: the prompt is computed once and its cells
// are shared, then each step computes the next token of all of them. (weft::Batcher does this, and more, by
// itself.)
//
//   batched -m MODEL [CONTINUATIONS] [PROMPT] [TOKENS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "weft/context.h"
#include "weft/error.h"
#include "weft/sampler.h"

namespace {

struct Continuation {
  weft::Sampler sampler;
  weft::Detokenizer detokenizer;
  std::string text;
  int item = 0;  // Of the batch: where its logits stand.
  bool done = false;
};

void decode(weft::Context& context, const weft::Batch& batch) {
  if (context.decode(batch) == weft::DecodeStatus::kOk) return;
  throw weft::Error(weft::ErrorCode::kOutOfMemory,
                    "the cache is full: ask for fewer continuations or tokens");
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: batched -m MODEL [CONTINUATIONS] [PROMPT] [TOKENS]\n");
    return 2;
  }
  const int n = argc > 3 ? std::max(1, std::atoi(argv[3])) : 4;
  const char* prompt = argc > 4 ? argv[4] : "Once upon a time";
  const int n_tokens = argc > 5 ? std::max(1, std::atoi(argv[5])) : 24;

  const auto model = weft::Model::load(argv[2]);
  const auto tokens = model->tokenizer().encode(prompt);
  // Sequences share whole pages of 64 cells; where the prompt ends within one, each gets a copy of it.
  const int n_own = n_tokens + 64;
  weft::Context context(model, {.n_ctx = static_cast<int>(tokens.size()) + n * n_own, .n_sequences = n});

  weft::Batch batch;
  batch.add(tokens, 0);
  decode(context, batch);
  std::vector<Continuation> all;
  for (int i = 0; i < n; ++i) {
    if (i > 0) context.copy(0, i);
    all.push_back({weft::Sampler({.seed = static_cast<std::uint64_t>(i)}, model->info().n_vocab),
                   weft::Detokenizer(model->tokenizer()), "", batch.size() - 1});
  }

  int n_steps = 1;  // The prompt's.
  int n_generated = 0;
  for (;; ++n_steps) {
    // All draw from the step's logits before the batch is made anew.
    weft::Batch next;
    for (int i = 0; i < n; ++i) {
      Continuation& c = all[static_cast<std::size_t>(i)];
      if (c.done) continue;
      const weft::Token token = c.sampler.sample(context.logits(c.item));
      c.sampler.accept(token);
      ++n_generated;
      c.done = model->tokenizer().is_end(token);
      if (c.done) continue;
      c.text += c.detokenizer.push(token);
      c.item = next.size();
      next.add(token, i, /*logits=*/true);
    }
    if (next.size() == 0 || n_steps == n_tokens) break;
    decode(context, next);
  }

  for (int i = 0; i < n; ++i)
    std::printf("%d: %s%s\n\n", i, prompt, all[static_cast<std::size_t>(i)].text.c_str());
  std::printf("%d tokens in %d steps; %d cells in use\n", n_generated, n_steps, context.cells_used());
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "batched: %s\n", error.what());
  return 1;
}
