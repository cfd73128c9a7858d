// One model, many threads: each submits a request to a service and reads its own response.
//
//   service -m MODEL [TOKENS]
#include "weft/service.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "weft/error.h"

int main(int argc, char** argv) try {
  if (argc < 3 || std::strcmp(argv[1], "-m") != 0) {
    std::fprintf(stderr, "usage: service -m MODEL [TOKENS]\n");
    return 2;
  }
  const int n_tokens = argc > 3 ? std::atoi(argv[3]) : 24;
  const auto model = weft::Model::load(argv[2]);
  weft::Service service(weft::Context(model, {.n_ctx = 1024, .n_sequences = 8}));

  const std::vector<std::string> prompts = {"The sea is", "The sea was", "Bread is made of",
                                            "In the year 1900"};
  std::vector<std::string> responses(prompts.size());
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < prompts.size(); ++i)
    clients.emplace_back([&, i] {
      weft::RequestParams params{.n_predict = n_tokens, .timeout_ms = 60e3};
      params.sampler.temperature = 0.0f;
      weft::Response response = service.submit(model->tokenizer().encode(prompts[i]), params);
      for (weft::Output output; response.next(output);) responses[i] += output.text;
    });
  for (std::thread& client : clients) client.join();

  for (std::size_t i = 0; i < prompts.size(); ++i)
    std::printf("%s%s\n\n", prompts[i].c_str(), responses[i].c_str());
  const weft::BatcherStats stats = service.stats();
  std::printf("%d completions in %d steps, first tokens after %.0f ms (median)\n",
              static_cast<int>(stats.n_completed), static_cast<int>(stats.n_steps),
              stats.first_token.percentile_ms(0.5));
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "service: %s\n", error.what());
  return 1;
}
