// What adapters cost: steps of 32 texts of a model as it is, with adapters loaded that nobody uses, and with
// all of them mixed in each step, text by text in turn. Prints milliseconds a step, of the best round.
//
//   bench_adapters MODEL.gguf ADAPTER.gguf...        (random_adapters.py makes some)
#include <weft/context.h>
#include <weft/error.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

constexpr int kTexts = 32, kPrompt = 32, kSteps = 10, kRounds = 5;

std::shared_ptr<const weft::Model> load(const char* path, const std::vector<weft::AdapterFile>& adapters) {
  weft::ModelParams params;
  params.adapters = adapters;
  return weft::Model::load(path, params);
}

/// Texts that have read their prompts.
class Texts {
 public:
  /// `n_adapters` of which each text has one; 0: none.
  Texts(const std::shared_ptr<const weft::Model>& model, int n_adapters)
      : context_(model, {.n_ctx = kTexts * (kPrompt + kSteps * kRounds + 64), .n_sequences = kTexts}) {
    weft::Batch batch;
    for (int text = 0; text < kTexts; ++text) {
      if (n_adapters > 0) {
        const weft::AdapterUse use = {text % n_adapters, 1.0f};
        context_.set_adapters(text, {&use, 1});
      }
      for (int i = 0; i < kPrompt; ++i) batch.add(100 + (7 * text + i) % 300, text, i + 1 == kPrompt);
    }
    (void)context_.decode(batch);
    step(kSteps / 2);
  }
  /// Milliseconds a step.
  double step(int n) {
    const auto start = std::chrono::steady_clock::now();
    weft::Batch batch;
    for (int i = 0; i < n; ++i) {
      batch.clear();
      for (int text = 0; text < kTexts; ++text) {
        batch.add(100 + (5 * text + i) % 300, text, true);
        batch.only_best(text, 1);
      }
      (void)context_.decode(batch);
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    return elapsed.count() / n;
  }

 private:
  weft::Context context_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: bench_adapters MODEL.gguf ADAPTER.gguf...\n");
    return 2;
  }
  std::vector<weft::AdapterFile> files;
  for (int i = 2; i < argc; ++i) files.push_back({argv[i], std::to_string(i)});
  const auto plain = load(argv[1], {}), adapted = load(argv[1], files);
  Texts texts[] = {{plain, 0}, {adapted, 0}, {adapted, static_cast<int>(files.size())}};
  double best[] = {1e9, 1e9, 1e9};
  // In turns: others run on this machine.
  for (int round = 0; round < kRounds; ++round)
    for (int i = 0; i < 3; ++i) best[i] = std::min(best[i], texts[i].step(kSteps));
  const char* const names[] = {"without", "loaded, not used", "all mixed"};
  for (int i = 0; i < 3; ++i)
    std::printf("%-18s %8.2f ms a step  %6.1f tokens/s  %+5.1f %%\n", names[i], best[i],
                kTexts * 1000.0 / best[i], 100.0 * (best[i] / best[0] - 1.0));
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "bench_adapters: %s\n", error.what());
  return 1;
}
