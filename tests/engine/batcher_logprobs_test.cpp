// Log-probabilities of prompts and completions.
#include <algorithm>
#include <cmath>

#include "engine/batcher_testing.h"

namespace weft {
namespace {

using test::golden;

/// Log-probabilities of prompt and completion, with only the best few rows and with whole rows, alone and in
/// a batch.
TEST(BatcherLogprobs, AreThoseOfTheWholeRows) {
  for (const char* family : {"llama", "gemma3", "lfm2"}) {
    const auto model = golden(family);
    const std::vector<Token> prompt = {3, 6, 9, 12, 7, 7, 1};
    // The truth: each row's logits, in double.
    std::vector<std::vector<double>> truth;
    std::vector<Token> text = prompt;
    {
      Context context(model, {.n_ctx = 256, .n_threads = 1});
      for (std::size_t i = 0; i < prompt.size() + 5; ++i) {
        Batch batch;
        batch.add(text[i], 0, {.logits = true});
        ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
        const auto logits = context.logits(0);
        double sum = 0.0;
        for (const float x : logits) sum += std::exp(static_cast<double>(x));
        std::vector<double> row;
        for (const float x : logits) row.push_back(x - std::log(sum));
        if (i + 1 >= prompt.size())
          text.push_back(static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin()));
        truth.push_back(std::move(row));
      }
    }
    const auto check = [&](const OutputToken& token, std::size_t at, int n_top) {
      EXPECT_EQ(token.id, text[at]);
      EXPECT_NEAR(token.logprob, truth[at - 1][static_cast<std::size_t>(token.id)], 1e-4);
      ASSERT_EQ(token.top.size(), static_cast<std::size_t>(n_top));
      for (const Logprob& top : token.top)
        EXPECT_NEAR(top.logprob, truth[at - 1][static_cast<std::size_t>(top.id)], 1e-4);
      for (int i = 1; i < n_top; ++i)
        EXPECT_LE(token.top[static_cast<std::size_t>(i)].logprob,
                  token.top[static_cast<std::size_t>(i - 1)].logprob);
    };
    for (const int n_best : {0, 64})
      for (const int n_top : {0, 4, 90}) {
        Context context(model,
                        {.n_ctx = 512, .n_sequences = 4, .n_ubatch = 5, .n_threads = 1, .n_best = n_best});
        Batcher batcher(context);
        std::vector<OutputToken> read, written;
        RequestParams params{
            .n_predict = 5, .ignore_end = true, .n_logprobs = n_top, .prompt_logprobs = true};
        params.sampler.temperature = 0.0f;
        params.on_output = [&](const Output& output) {
          read.insert(read.end(), output.prompt.begin(), output.prompt.end());
          written.insert(written.end(), output.tokens.begin(), output.tokens.end());
          return true;
        };
        for (int again = 0; again < 2; ++again) {  // The second time all of it is cached.
          read.clear();
          written.clear();
          batcher.submit(prompt, params);
          batcher.submit(std::vector<Token>{1, 2, 3}, {.n_predict = 4});
          batcher.run();
          ASSERT_EQ(read.size(), prompt.size() - 1);
          ASSERT_EQ(written.size(), 5u);
          for (std::size_t i = 0; i < read.size(); ++i) check(read[i], i + 1, n_top);
          for (std::size_t i = 0; i < written.size(); ++i) check(written[i], prompt.size() + i, n_top);
        }
      }
  }
}

TEST(BatcherLogprobs, PromptLogprobsNeedNoLogprobsOfTheResponse) {
  const auto model = golden("llama");
  const std::vector<Token> prompt = {3, 1, 4, 1, 5, 9, 2, 6};
  for (const int n_best : {0, 64}) {
    std::vector<std::vector<float>> read(2);
    for (const int n_logprobs : {-1, 0}) {
      Context context(model, {.n_ctx = 512, .n_threads = 1, .n_best = n_best});
      Batcher batcher(context);
      RequestParams params{.n_predict = 3, .n_logprobs = n_logprobs, .prompt_logprobs = true};
      params.on_output = [&](const Output& output) {
        for (const OutputToken& token : output.prompt) {
          read[static_cast<std::size_t>(n_logprobs + 1)].push_back(token.logprob);
          EXPECT_TRUE(token.top.empty());
        }
        if (n_logprobs < 0) {
          for (const OutputToken& token : output.tokens) EXPECT_EQ(token.logprob, 0.0f);
        }
        return true;
      };
      batcher.submit(prompt, params);
      batcher.run();
    }
    ASSERT_EQ(read[0].size(), prompt.size() - 1);
    EXPECT_EQ(read[0], read[1]);
  }
}

/// A prompt that is only scored.
TEST(BatcherLogprobs, OfAPromptWithoutACompletion) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  Batcher batcher(context);
  std::vector<OutputToken> read;
  int n_ends = 0;
  RequestParams params{.n_predict = 0, .n_logprobs = 1, .prompt_logprobs = true};
  params.on_output = [&](const Output& output) {
    read.insert(read.end(), output.prompt.begin(), output.prompt.end());
    n_ends += output.done ? 1 : 0;
    EXPECT_TRUE(output.tokens.empty());
    return true;
  };
  batcher.submit(std::vector<Token>{3, 1, 4, 1, 5}, params);
  batcher.submit(std::vector<Token>{3}, params);
  batcher.run();
  EXPECT_EQ(read.size(), 4u);
  EXPECT_EQ(n_ends, 2);
  EXPECT_TRUE(batcher.consistent());
}

/// Rows of logits are as large as the vocabulary: they are written for those who cannot do without.
TEST(BatcherLogprobs, ComputesLogitRowsOnlyForRequestsThatNeedThem) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  int n_rows = 0, n_best = 0, n_steps = 0;
  BatcherParams params;
  params.on_step = [&](const StepRecord& record) {
    if (record.n_generated != 3) return;
    ++n_steps;
    const auto has = [](const auto& of) {
      try {
        of();
      } catch (const Error&) {
        return 0;
      }
      return 1;
    };
    for (int i = 0; i < record.n_rows; ++i) {
      n_rows += has([&] { (void)context.logits(i); });
      n_best += has([&] { (void)context.best(i); });
    }
  };
  Batcher batcher(context, params);
  RequestParams greedy{.n_predict = 12, .ignore_end = true};
  greedy.sampler.temperature = 0.0f;
  RequestParams told = greedy, biased = greedy;
  told.n_logprobs = 3;
  biased.sampler.logit_bias = {{5, 0.5f}};
  for (const RequestParams& each : {greedy, told, biased}) batcher.submit(std::vector<Token>{3, 6, 9}, each);
  batcher.run();
  ASSERT_GT(n_steps, 5);
  EXPECT_EQ(n_rows, n_steps) << "of the one with a bias";
  EXPECT_EQ(n_best, 2 * n_steps);
}

/// Nor for the tokens of a prompt whose log-probabilities are told.
TEST(BatcherLogprobs, OfPromptsTakeNoRowsOfLogits) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_threads = 1});
  int n_reported = 0, n_rows = 0;
  BatcherParams params;
  params.on_step = [&](const StepRecord& record) {
    for (int i = 0; i < record.n_rows; ++i) {
      try {
        (void)context.log_sum_exp(i);
        ++n_reported;
        (void)context.logits(i);
        ++n_rows;
      } catch (const Error&) {  // There are none.
      }
    }
  };
  Batcher batcher(context, params);
  batcher.submit(std::vector<Token>{3, 1, 4, 1, 5},
                 {.n_predict = 0, .n_logprobs = 1, .prompt_logprobs = true});
  batcher.run();
  EXPECT_GE(n_reported, 4);
  EXPECT_EQ(n_rows, 0);
}

}  // namespace
}  // namespace weft
