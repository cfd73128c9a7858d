#pragma once
// Shared by tests of the batcher and the service: requests, their results, and their results alone.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/allocation_counter.h"
#include "engine/test_support.h"
#include "weft/batcher.h"
#include "weft/generate.h"

namespace weft::test {

/// What a request gets.
struct Result {
  std::string text;
  std::vector<Token> tokens;
  bool done = false;
  StopReason stop = StopReason::kEnd;
  int stop_string = -1;
  CompletionStats stats;
  friend bool operator==(const Result& a, const Result& b) {
    return a.text == b.text && a.tokens == b.tokens && a.done == b.done && a.stop == b.stop;
  }
};

/// A request as the tests make them: any prompt, any sampler.
struct Ask {
  std::vector<Token> prompt;
  RequestParams params;
};

/// Allows only one completion.
class Script final : public TokenConstraint {
 public:
  explicit Script(std::vector<Token> script) : script_(std::move(script)) {}
  static std::function<std::unique_ptr<TokenConstraint>(int)> writes(std::vector<Token> script) {
    return [script = std::move(script)](int) { return std::make_unique<Script>(script); };
  }
  void accept(Token token) override {
    EXPECT_EQ(token, script_[n_]);
    ++n_;
  }
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    const Token next = script_.at(n_ + draft.size());
    allowed[static_cast<std::size_t>(next) / 32] |= 1u << next % 32;
  }
  bool allows(std::span<const Token> draft, Token next) override {
    return n_ + draft.size() < script_.size() && next == script_[n_ + draft.size()];
  }

 protected:
  std::vector<Token> script_;
  std::size_t n_ = 0;
};

/// Submits and collects; the result lives as long as the map.
class Collector {
 public:
  RequestId submit(Batcher& batcher, const Ask& ask) {
    RequestParams params = ask.params;
    params.on_output = [this](const Output& output) {
      const AllocationsSucceed guard;  // Faults are for the batcher.
      Result& result = results[{output.request, output.completion}];
      EXPECT_FALSE(result.done) << "told after its end";
      result.text += output.text;
      for (const OutputToken& token : output.tokens) result.tokens.push_back(token.id);
      result.done = output.done;
      result.stop = output.stop;
      result.stop_string = output.stop_string;
      result.stats = output.stats;
      return true;
    };
    return batcher.submit(ask.prompt, std::move(params));
  }
  const Result& operator()(RequestId request, int completion = 0) { return results[{request, completion}]; }

  std::map<std::pair<RequestId, int>, Result> results;
};

/// So many tokens, alike but for the first one.
inline std::vector<Token> prompt_of(int n, Token first) {
  std::vector<Token> prompt(static_cast<std::size_t>(n), 17);
  prompt[0] = first;
  return prompt;
}

inline Ask random_ask(const Model& model, std::mt19937_64& random, std::size_t max_prompt = 60,
                      int max_tokens = 24) {
  Ask ask;
  const auto n_vocab = static_cast<std::uint64_t>(model.info().n_vocab);
  // Prompts have a few prefixes, so that some share cells.
  std::mt19937_64 beginning(random() % 3);
  for (std::size_t n = random() % (max_prompt / 2); n > 0; --n)
    ask.prompt.push_back(static_cast<Token>(beginning() % n_vocab));
  for (std::size_t n = 1 + random() % (max_prompt / 2); n > 0; --n)
    ask.prompt.push_back(static_cast<Token>(random() % n_vocab));
  ask.params.sampler.temperature = random() % 2 == 0 ? 0.0f : 0.9f;
  ask.params.sampler.seed = random() % 1000;
  ask.params.n_predict = 1 + static_cast<int>(random() % static_cast<unsigned>(max_tokens));
  constexpr int kPriorities[] = {0, 1, kBackgroundPriority};
  ask.params.priority = kPriorities[random() % 3];
  ask.params.ignore_end = random() % 2 == 0;
  return ask;
}

/// The result of a request that is the only one.
inline Result alone(const std::shared_ptr<const Model>& model, const Ask& ask) {
  Context context(model, {.n_ctx = std::max(256, static_cast<int>(ask.prompt.size()) + 64), .n_threads = 1});
  Sampler sampler(ask.params.sampler, model->info().n_vocab);
  GenerateParams params;
  params.n_predict = ask.params.n_predict;
  params.ignore_end = ask.params.ignore_end;
  params.stop = ask.params.stop;
  const Generation g = generate(context, sampler, ask.prompt, params);
  Result result{.text = g.text, .tokens = g.tokens, .done = true, .stop = g.stop, .stats = {}};
  return result;
}

/// generate() leaves the end token out.
inline void expect_same(const Result& result, const Result& reference, const std::string& what) {
  EXPECT_TRUE(result.done) << what;
  EXPECT_EQ(result.stop, reference.stop) << what;
  EXPECT_EQ(result.text, reference.text) << what;
  std::vector<Token> tokens = result.tokens;
  if (result.stop == StopReason::kEnd && !tokens.empty()) tokens.pop_back();
  EXPECT_TRUE(tokens == reference.tokens) << what;
}

}  // namespace weft::test
