// Speculative decoding of the same prompts: without drafts, with drafts from the sequence itself, and with
// -md from a small draft model. Drafts are a chain of tokens, or a tree of likely continuations. The
// completions are the same, token by token; only the time differs.
//
//   speculative -m MODEL [-md DRAFT] [-n TOKENS] [-np AT_A_TIME] [-t THREADS] [-r ROUNDS] [PROMPT...]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/batcher.h"
#include "weft/error.h"

namespace {

constexpr const char* kUsage =
    "usage: speculative -m MODEL [-md DRAFT] [-n TOKENS] [-np AT_A_TIME] [-t THREADS] [-r ROUNDS] "
    "[PROMPT...]\n";

constexpr int kBranches = 4;

using TokenLists = std::vector<std::vector<weft::Token>>;

struct Result {
  TokenLists completions;
  double seconds = 0.0;
  weft::BatcherStats stats;
};

/// All prompts through one batcher. Greedy, as the most probable token is the easiest to draft.
Result serve(weft::Context& context, const weft::BatcherParams& params, const TokenLists& prompts,
             int n_tokens) {
  Result result;
  result.completions.resize(prompts.size());
  weft::Batcher batcher(context, params);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    weft::RequestParams request{.n_predict = n_tokens, .ignore_end = true};
    request.sampler.temperature = 0.0f;
    request.on_output = [&completion = result.completions[i]](const weft::Output& output) {
      for (const weft::OutputToken& token : output.tokens) completion.push_back(token.id);
      return true;
    };
    batcher.submit(prompts[i], std::move(request));
  }
  const auto start = std::chrono::steady_clock::now();
  batcher.run();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.stats = batcher.stats();
  return result;
}

[[noreturn]] void fail_usage() {
  std::fputs(kUsage, stderr);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) try {
  std::string model_path, draft_path;
  std::vector<std::string> strings;
  int n_tokens = 64;
  int n_parallel = 1;
  int n_threads = 0;
  int n_rounds = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&] { return i + 1 < argc ? argv[++i] : (fail_usage(), nullptr); };
    if (option == "-m")
      model_path = value();
    else if (option == "-md")
      draft_path = value();
    else if (option == "-n")
      n_tokens = std::max(1, std::atoi(value()));
    else if (option == "-np")
      n_parallel = std::max(1, std::atoi(value()));
    else if (option == "-t")
      n_threads = std::max(1, std::atoi(value()));
    else if (option == "-r")
      n_rounds = std::max(1, std::atoi(value()));
    else if (option.starts_with('-'))
      fail_usage();
    else
      strings.emplace_back(option);
  }
  if (model_path.empty()) fail_usage();
  if (strings.empty()) {
    strings = {
        "One two three four five six. One two three four five six. One two three", "The capital of France is",
        "for (int i = 0; i < 10; ++i) sum += a[i];\nfor (int i = 0; i < 10; ++i) sum += b[i];\nfor (int "
        "i = 0;"};
  }

  const auto model = weft::Model::load(model_path, {.n_threads = n_threads});
  TokenLists prompts;
  std::size_t n_longest = 0;
  for (const std::string& string : strings) {
    prompts.push_back(model->tokenizer().encode(string));
    n_longest = std::max(n_longest, prompts.back().size());
  }
  // A branch of a tree takes a sequence, and a page of its own.
  weft::ContextParams params{.n_ctx = n_parallel * (static_cast<int>(n_longest) + n_tokens + 64 * kBranches),
                             .n_sequences = n_parallel * kBranches,
                             .n_threads = n_threads};
  weft::Context context(model, params);
  std::shared_ptr<weft::Context> draft;
  if (!draft_path.empty())
    draft = std::make_shared<weft::Context>(weft::Model::load(draft_path, {.n_threads = n_threads}), params);

  struct Mode {
    const char* name;
    weft::Speculation speculation;
    int n_branches;
  };
  std::vector<Mode> modes = {{"none", weft::Speculation::kNone, 1},
                             {"ngram", weft::Speculation::kNgram, 1},
                             {"ngram trees", weft::Speculation::kNgram, kBranches}};
  if (draft) {
    modes.push_back({"model", weft::Speculation::kModel, 1});
    modes.push_back({"model trees", weft::Speculation::kModel, kBranches});
  }
  serve(context, {}, prompts, 1);  // Warms up.

  std::printf("%-12s %8s %8s %8s %9s %8s  %s\n", "speculation", "tokens/s", "steps", "drafted", "accepted",
              "branches", "completions");
  // Modes take turns, so that other work on the machine affects all of them.
  std::vector<Result> fastest(modes.size());
  bool all_equal = true;
  for (int round = 0; round < n_rounds; ++round) {
    for (std::size_t i = 0; i < modes.size(); ++i) {
      const weft::BatcherParams batcher{
          .n_running = n_parallel,
          .reuse_prefixes = false,
          .speculation = modes[i].speculation,
          .n_draft_branches = modes[i].n_branches,
          .draft = modes[i].speculation == weft::Speculation::kModel ? draft : nullptr};
      Result result = serve(context, batcher, prompts, n_tokens);
      if (round == 0 || result.seconds < fastest[i].seconds) fastest[i] = std::move(result);
    }
  }
  const TokenLists& expected = fastest[0].completions;
  for (std::size_t i = 0; i < modes.size(); ++i) {
    const Result& r = fastest[i];
    all_equal = all_equal && r.completions == expected;
    std::printf("%-12s %8.1f %8lld %8lld %9lld %8lld  %s\n", modes[i].name,
                static_cast<double>(r.stats.n_generated_tokens) / r.seconds,
                static_cast<long long>(r.stats.n_steps), static_cast<long long>(r.stats.n_drafted_tokens),
                static_cast<long long>(r.stats.n_accepted_tokens), static_cast<long long>(r.stats.n_branches),
                r.completions == expected ? "equal" : "DIFFERENT");
  }
  for (std::size_t i = 0; i < strings.size(); ++i)
    std::printf("\n%s|%s\n", strings[i].c_str(), model->tokenizer().decode(expected[i]).c_str());
  return all_equal ? 0 : 1;
} catch (const weft::Error& error) {
  std::fprintf(stderr, "speculative: %s\n", error.what());
  return 1;
}
