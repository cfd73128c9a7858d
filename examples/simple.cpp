// Prompt in, completion out.
//
//   simple -m MODEL [PROMPT] [TOKENS]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "weft/context.h"
#include "weft/error.h"
#include "weft/generate.h"
#include "weft/sampler.h"

int main(int argc, char** argv) try {
  if (argc < 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: simple -m MODEL [PROMPT] [TOKENS]\n");
    return 2;
  }
  const char* prompt = argc > 3 ? argv[3] : "The sea is";
  const int n_tokens = argc > 4 ? std::atoi(argv[4]) : 32;

  const auto model = weft::Model::load(argv[2]);
  const auto tokens = model->tokenizer().encode(prompt);
  weft::Context context(model, {.n_ctx = static_cast<int>(tokens.size()) + n_tokens});
  weft::Sampler sampler({.temperature = 0.0f}, model->tokenizer());

  std::fputs(prompt, stdout);
  weft::GenerateParams params{.n_predict = n_tokens};
  params.on_text = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return true;
  };
  const weft::Generation result = weft::generate(context, sampler, tokens, params);
  std::printf("\n\n%d tokens read in %.0f ms, %d generated in %.0f ms\n", result.n_prompt, result.prefill_ms,
              static_cast<int>(result.tokens.size()), result.decode_ms);
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "simple: %s\n", error.what());
  return 1;
}
