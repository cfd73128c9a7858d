// A program outside weft's tree: it sees the installed headers and library only. It uses a part of every
// header, and an exception that crosses from the library into the program. With a model file it generates a
// few tokens.
#include <weft/chat_template.h>
#include <weft/context.h>
#include <weft/device.h>
#include <weft/error.h>
#include <weft/generate.h>
#include <weft/model.h>
#include <weft/sampler.h>
#include <weft/tokenizer.h>

#include <cstdio>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  try {
    for (const weft::DeviceInfo& device : weft::devices()) std::printf("device %s\n", device.name.c_str());

    const weft::ChatTemplate chat("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}");
    std::printf("prompt %s\n", weft::join(chat.render({{"user", "hi"}}, {})).c_str());

    try {
      weft::Model::load("/no/such/model.gguf");
      return 1;
    } catch (const weft::Error& error) {
      if (error.code() != weft::ErrorCode::kNotFound) throw;
      std::printf("caught %s\n", error.what());
    }

    if (argc > 1) {
      const auto model = weft::Model::load(argv[1]);
      weft::Context context(model, {.n_ctx = 64, .n_threads = 1});
      weft::Sampler sampler({.temperature = 0.0f}, model->info().n_vocab);
      weft::GenerateParams params;
      params.n_predict = 4;
      params.ignore_end = true;
      const std::vector<weft::Token> prompt = model->tokenizer().encode("hello");
      const weft::Generation generation = weft::generate(context, sampler, prompt, params);
      std::printf("generated %zu tokens\n", generation.tokens.size());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "example: %s\n", error.what());
    return 1;
  }
}
