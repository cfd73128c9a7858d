// Cost of adapters: steps of a model without adapters, with unused adapters loaded, with one adapter for all
// sequences, and with adapters mixed over sequences. Prints milliseconds a step, of the best round.
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

constexpr int kPrompt = 32, kRounds = 4;

/// Steps of n_texts sequences, each with n_tokens tokens.
struct Work {
  const char* name;
  int n_texts, n_tokens, n_steps;
};
constexpr Work kWorks[] = {
    {"32 texts write", 32, 1, 10}, {"1 text writes", 1, 1, 20}, {"4 texts read 128 tokens", 4, 128, 1}};

std::shared_ptr<const weft::Model> load(const char* path, const std::vector<weft::AdapterFile>& adapters) {
  weft::ModelParams params;
  params.adapters = adapters;
  return weft::Model::load(path, params);
}

/// Texts that have read a prompt where they write.
class Texts {
 public:
  /// The sequences use `n_adapters` adapters in turn, one each; 0: none.
  Texts(const std::shared_ptr<const weft::Model>& model, const Work& work, int n_adapters)
      : work_(work),
        n_adapters_(n_adapters),
        context_(model,
                 {.n_ctx = work.n_texts * (kPrompt + work.n_tokens * work.n_steps * (kRounds + 1) + 64),
                  .n_sequences = work.n_texts}) {
    if (reads()) return;
    weft::Batch batch;
    for (int text = 0; text < work.n_texts; ++text) {
      choose(text);
      for (int i = 0; i < kPrompt; ++i)
        batch.add(100 + (7 * text + i) % 300, text, {.logits = i + 1 == kPrompt});
    }
    (void)context_.decode(batch);
  }
  /// Milliseconds a step.
  double run() {
    std::chrono::duration<double, std::milli> elapsed{};
    weft::Batch batch;
    for (int step = 0; step < work_.n_steps; ++step) {
      batch.clear();
      for (int text = 0; text < work_.n_texts; ++text) {
        if (reads()) {
          context_.cache().remove(text);
          choose(text);
        }
        for (int i = 0; i < work_.n_tokens; ++i) {
          const bool last = i + 1 == work_.n_tokens;
          batch.add(100 + (5 * text + i + step) % 300, text, {.logits = last, .n_best = last ? 1 : 0});
        }
      }
      const auto start = std::chrono::steady_clock::now();
      (void)context_.decode(batch);
      elapsed += std::chrono::steady_clock::now() - start;
    }
    return elapsed.count() / work_.n_steps;
  }

 private:
  bool reads() const { return work_.n_tokens > 1; }
  void choose(int text) {
    if (n_adapters_ == 0) return;
    const weft::AdapterUse use = {text % n_adapters_, 1.0f};
    context_.set_adapters(text, {&use, 1});
  }

  const Work& work_;
  const int n_adapters_;
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
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // Shows each line at once.
  for (const Work& work : kWorks) {
    struct Case {
      const char* name;
      Texts texts;
      double best = 1e9;
    };
    Case cases[] = {{"without", {plain, work, 0}},
                    {"loaded, not used", {adapted, work, 0}},
                    {"one for all", {adapted, work, 1}},
                    {"all mixed", {adapted, work, static_cast<int>(files.size())}}};
    // In turns: others run on this machine. The first round warms up.
    for (int round = 0; round <= kRounds; ++round)
      for (Case& c : cases) {
        const double ms = c.texts.run();
        if (round > 0) c.best = std::min(c.best, ms);
      }
    for (const Case& c : cases)
      std::printf("%-24s %-18s %8.2f ms a step  %+5.1f %%\n", work.name, c.name, c.best,
                  100.0 * (c.best / cases[0].best - 1.0));
  }
  return 0;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "bench_adapters: %s\n", error.what());
  return 1;
}
