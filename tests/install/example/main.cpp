// A program outside weft's tree: it sees the installed headers and library only. It uses a part of every
// header, and an exception that crosses from the library into the program. With a model file it generates a
// few tokens.
#include <weft/batcher.h>
#include <weft/chat_template.h>
#include <weft/conformance.h>
#include <weft/context.h>
#include <weft/device.h>
#include <weft/error.h>
#include <weft/generate.h>
#include <weft/measure.h>
#include <weft/model.h>
#include <weft/profile.h>
#include <weft/sampler.h>
#include <weft/tokenizer.h>

#include <cstdio>
#include <exception>
#include <vector>

// Of each parameter struct some members are named; the others have their defaults, without a warning.
void name_some_members() {
  [[maybe_unused]] const weft::ModelParams model{.n_threads = 2};
  [[maybe_unused]] const weft::PlacementParams placement{.n_layers = 0};
  [[maybe_unused]] const weft::Pin pin{.pattern = "ffn"};
  [[maybe_unused]] const weft::ContextParams context{.n_threads = 2};
  [[maybe_unused]] const weft::SamplerParams sampler{.temperature = 0.0f};
  [[maybe_unused]] const weft::GenerateParams generate{.n_predict = 4};
  [[maybe_unused]] const weft::RequestParams request{.n = 2};
  [[maybe_unused]] const weft::BatcherParams batcher{.n_running = 2};
  [[maybe_unused]] const weft::ConformanceOptions conformance{.seed = 2};
  [[maybe_unused]] const weft::ChatTemplate::Options options{.add_generation_prompt = false};
  [[maybe_unused]] const weft::ChatMessage message{.role = "user"};
  [[maybe_unused]] const weft::Tokenizer::EncodeOptions encode{.add_special = false};
  [[maybe_unused]] const weft::PromptPiece piece{.text = "a"};
  [[maybe_unused]] const weft::ModelInfo info{.name = "a"};
  [[maybe_unused]] const weft::DeviceInfo device{.name = "a"};
  [[maybe_unused]] const weft::Generation generation{.text = "a"};
  [[maybe_unused]] const weft::Output output{.request = 1};
  [[maybe_unused]] const weft::Profile profile{.n_steps = 1};
}

int main(int argc, char** argv) {
  name_some_members();
  try {
    for (const weft::DeviceInfo& device : weft::list_devices())
      std::printf("device %s\n", device.name.c_str());

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
      weft::Sampler sampler({.temperature = 0.0f}, model->tokenizer());
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
