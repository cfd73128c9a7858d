// Several continuations of one prompt, generated at the same time. The prompt is computed once and its cells
// are shared. Then each step computes the next token of all continuations. (weft::Batcher does this and
// more.)
//
//   batched -m MODEL [CONTINUATIONS] [PROMPT] [TOKENS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "weft/context.h"
#include "weft/error.h"
#include "weft/sampler.h"

namespace {

struct Continuation {
  weft::Sampler sampler;
  weft::Detokenizer detokenizer;
  std::string text;
  int item = 0;  // Of the batch: whose logits it samples from.
  bool done = false;
};

void decode(weft::Context& context, const weft::Batch& batch) {
  if (context.decode(batch) == weft::DecodeStatus::kOk) return;
  throw weft::Error(weft::ErrorCode::kOutOfMemory,
                    "the cache is full: generate fewer continuations or tokens");
}

// Most samplers need only the most probable tokens. Then the step does not return a row of logits.
weft::ItemOptions for_drawing(const weft::Sampler& sampler, const weft::Context& context) {
  const int n = sampler.n_best();
  return {.logits = true, .n_best = n <= context.params().n_best ? n : 0};
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

  std::vector<Continuation> all;
  for (int i = 0; i < n; ++i)
    all.push_back({weft::Sampler({.seed = static_cast<std::uint64_t>(i)}, model->tokenizer()),
                   weft::Detokenizer(model->tokenizer()), "", static_cast<int>(tokens.size()) - 1});
  weft::Batch batch;
  batch.add(tokens, 0, for_drawing(all[0].sampler, context));  // They differ in their seeds only.
  decode(context, batch);
  for (int i = 1; i < n; ++i)
    if (!context.cache().copy(0, i)) return 1;

  int n_steps = 1;  // The prompt's.
  int n_generated = 0;
  for (;; ++n_steps) {
    // All continuations sample from this step's logits before the batch is rebuilt.
    const weft::Batch drawn_from = std::exchange(batch, {});
    for (int i = 0; i < n; ++i) {
      Continuation& c = all[static_cast<std::size_t>(i)];
      if (c.done) continue;
      const weft::Token token = drawn_from[c.item].options.n_best > 0
                                    ? c.sampler.sample(context.best(c.item))
                                    : c.sampler.sample(context.logits(c.item));
      c.sampler.accept(token);
      ++n_generated;
      c.done = model->tokenizer().is_end(token);
      if (c.done) continue;
      c.text += c.detokenizer.push(token);
      c.item = batch.size();
      batch.add(token, i, for_drawing(c.sampler, context));
    }
    if (batch.size() == 0 || n_steps == n_tokens) break;
    decode(context, batch);
  }

  for (int i = 0; i < n; ++i)
    std::printf("%d: %s%s\n\n", i, prompt, all[static_cast<std::size_t>(i)].text.c_str());
  std::printf("%d tokens in %d steps; %d cells in use\n", n_generated, n_steps, context.cache().cells_used());
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "batched: %s\n", error.what());
  return 1;
}
