// The best tokens of a position have the bits of its full logits, in any batch. Requests with them generate
// the same tokens.
#include "engine/sampling/best.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "engine/allocation_counter.h"
#include "engine/sampling/log_sum_exp.h"
#include "engine/test_support.h"
#include "weft/batcher.h"
#include "weft/generate.h"
#include "weft/sampler.h"

namespace weft {
namespace {

using test::code_of;

std::vector<Token> golden_tokens(const std::string& family) {
  return test::read_tokens(test::golden_dir() / family / "tokens.json");
}

/// By the definition.
std::vector<Best> sorted(std::span<const float> logits, std::size_t n) {
  std::vector<Best> all;
  for (std::size_t i = 0; i < logits.size(); ++i)
    all.push_back(
        {static_cast<Token>(i), std::isnan(logits[i]) ? -std::numeric_limits<float>::infinity() : logits[i]});
  std::stable_sort(all.begin(), all.end(), [](const Best& a, const Best& b) { return a.logit > b.logit; });
  all.resize(n);
  return all;
}

void expect_same(std::span<const Best> a, std::span<const Best> b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].id, b[i].id) << what << ", place " << i;
    EXPECT_EQ(std::memcmp(&a[i].logit, &b[i].logit, sizeof(float)), 0) << what << ", place " << i;
  }
}

TEST(FindBest, IsTheHeadOfTheSortedRow) {
  std::mt19937 random(3);
  for (const std::size_t size : {1, 2, 127, 128, 129, 1000})
    for (std::size_t n = 1; n <= std::min<std::size_t>(size, 40); n += 13) {
      std::vector<float> logits(size);
      for (float& x : logits) {
        x = static_cast<float>(random() % 50) / 4.0f;
        if (random() % 20 == 0) x = std::nanf("");
        if (random() % 20 == 0) x = -std::numeric_limits<float>::infinity();
        if (random() % 200 == 0) x = std::numeric_limits<float>::infinity();
      }
      std::vector<Best> best(n);
      engine::find_best(logits, best);
      expect_same(best, sorted(logits, n), std::to_string(size));
      std::fill(logits.begin(), logits.end(), std::nanf(""));
      engine::find_best(logits, best);
      expect_same(best, sorted(logits, n), "no number");
    }
}

class BestOfFamily : public testing::TestWithParam<const char*> {};

TEST_P(BestOfFamily, AreThoseOfTheLogits) {
  const auto model = test::golden(GetParam());
  const std::vector<Token> tokens = golden_tokens(GetParam());
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  Context reference(model, {.n_ctx = 64, .n_best = 0});
  const std::vector<float> logits = test::all_logits(reference, tokens, tokens.size());
  for (const auto& [n_threads, piece] : {std::pair(1, tokens.size()), std::pair(2, std::size_t{7})}) {
    // So few outputs that a batch takes several steps.
    Context context(model, {.n_ctx = 64, .n_outputs = 5, .n_threads = n_threads});
    ASSERT_EQ(context.params().n_best, 64);
    Batch batch;
    for (std::size_t done = 0; done < tokens.size(); done += piece) {
      batch.clear();
      const std::size_t n = std::min(piece, tokens.size() - done);
      for (std::size_t i = 0; i < n; ++i) {
        batch.add(tokens[done + i], 0, {.logits = true, .n_best = 1 + static_cast<int>((done + i) % 64)});
      }
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
      for (std::size_t i = 0; i < n; ++i)
        expect_same(context.best(static_cast<int>(i)),
                    sorted(std::span(logits).subspan((done + i) * n_vocab, n_vocab), 1 + (done + i) % 64),
                    "token " + std::to_string(done + i));
    }
    EXPECT_EQ(context.plan_stats().compiled, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BestOfFamily, testing::ValuesIn(test::kFamilies), test::name_of_family);

TEST(BestTokens, CombineWithRowsOfLogits) {
  const auto model = test::golden("gemma3");
  constexpr int kStreams = 32;
  // Each sequence alone, with all its logits.
  std::vector<std::vector<Token>> texts;
  std::vector<std::vector<float>> logits;
  std::mt19937 random(5);
  for (int s = 0; s < kStreams; ++s) {
    texts.emplace_back(1 + random() % 9);
    for (Token& token : texts.back()) token = static_cast<Token>(random() % 500);
    Context alone(model, {.n_ctx = 64, .n_threads = 1, .n_best = 0});
    logits.push_back(test::all_logits(alone, texts.back(), texts.back().size()));
  }
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  for (const int n_outputs : {3, 64})
    for (const int every : {1, 2, 7, 100}) {  // One in `every` sequences wants all logits; none for 100.
      Context context(model,
                      {.n_ctx = 1024, .n_sequences = kStreams, .n_ubatch = 64, .n_outputs = n_outputs});
      Batch batch;
      std::vector<int> last;
      for (int s = 0; s < kStreams; ++s) {
        batch.add(texts[static_cast<std::size_t>(s)], s,
                  {.logits = true, .n_best = s % every != every / 2 ? 1 + s : 0});
        last.push_back(batch.size() - 1);
      }
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
      for (std::size_t s = 0; s < kStreams; ++s) {
        const auto row = std::span(logits[s]).last(n_vocab);
        if (batch[last[s]].options.n_best == 0) {
          EXPECT_TRUE(std::ranges::equal(context.logits(last[s]), row)) << s;
          EXPECT_THROW(context.best(last[s]), Error);
        } else {
          expect_same(context.best(last[s]), sorted(row, s + 1), "text " + std::to_string(s));
          EXPECT_THROW(context.logits(last[s]), Error);
        }
      }
    }
}

/// The logarithm of the sum of e^logit, in double.
double log_sum(std::span<const float> logits) {
  double sum = 0.0, max = -std::numeric_limits<double>::infinity();
  for (const float x : logits) max = std::max(max, static_cast<double>(x));
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - max);
  return max + std::log(sum);
}

class LogSumsOfFamily : public testing::TestWithParam<const char*> {};

TEST_P(LogSumsOfFamily, MatchTheLogitsInAnyBatch) {
  const auto model = test::golden(GetParam());
  const std::vector<Token> tokens = golden_tokens(GetParam());
  const auto n_vocab = static_cast<std::size_t>(model->info().n_vocab);
  Context reference(model, {.n_ctx = 64, .n_best = 0});
  const std::vector<float> logits = test::all_logits(reference, tokens, tokens.size());
  for (const int n_best : {0, -1}) {
    std::vector<float> first;  // One after another, each in a step of its own.
    for (const int n_threads : {1, 2})
      for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, tokens.size()}) {
        Context context(model, {.n_ctx = 64, .n_outputs = 5, .n_threads = n_threads, .n_best = n_best});
        std::vector<float> sums;
        Batch batch;
        for (std::size_t done = 0; done < tokens.size(); done += piece) {
          batch.clear();
          const std::size_t n = std::min(piece, tokens.size() - done);
          for (std::size_t i = 0; i < n; ++i) {
            // The next token of a prompt, as for its log-probabilities; some also want all logits.
            batch.add(tokens[done + i], 0,
                      {.logits = true,
                       .n_best = n_best != 0 && (done + i) % 3 != 0 ? 1 + batch.size() % 3 : 0,
                       .log_sum_exp = true,
                       .logit_of = done + i + 1 < tokens.size() ? tokens[done + i + 1] : kNoToken});
          }
          ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
          for (std::size_t i = 0; i < n; ++i) {
            const int item = static_cast<int>(i);
            const auto row = std::span(logits).subspan((done + i) * n_vocab, n_vocab);
            sums.push_back(context.log_sum_exp(item));
            EXPECT_NEAR(static_cast<double>(sums.back()), log_sum(row), 2e-6 * std::abs(log_sum(row)) + 1e-6);
            if (done + i + 1 < tokens.size()) {
              EXPECT_EQ(context.logit(item), row[static_cast<std::size_t>(tokens[done + i + 1])]);
            } else {
              EXPECT_EQ(code_of([&] { context.logit(item); }), ErrorCode::kInvalidArgument);
            }
            if (batch[item].options.n_best == 0) {
              EXPECT_TRUE(std::ranges::equal(context.logits(item), row));
            } else {
              expect_same(context.best(item),
                          sorted(row, static_cast<std::size_t>(batch[item].options.n_best)), "");
            }
          }
        }
        if (first.empty()) first = sums;
        EXPECT_EQ(sums, first) << "pieces of " << piece << ", " << n_threads << " threads";
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LogSumsOfFamily, testing::Values("llama", "gemma3", "mamba"),
                         test::name_of_family);

TEST(LogSums, HostSumsIgnoreNaN) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0f, 8.0f);
  for (const std::size_t n : {1, 5, 127, 128, 129, 5000}) {
    std::vector<float> logits(n);
    for (float& x : logits) x = normal(random);
    const auto near = [&](double expected) {
      EXPECT_NEAR(static_cast<double>(engine::log_sum_exp(logits, kNoToken).sum), expected,
                  1e-6 * std::abs(expected) + 1e-6);
    };
    near(log_sum(logits));
    for (std::size_t i = 1; i < n; i += 3) logits[i] = i % 2 == 0 ? std::nanf("") : -kInf;
    std::vector<float> rest;
    std::ranges::copy_if(logits, std::back_inserter(rest), [](float x) { return std::isfinite(x); });
    near(log_sum(rest));
    if (n > 1) {
      EXPECT_EQ(engine::log_sum_exp(logits, 1).logit, -kInf);
    }
    std::ranges::fill(logits, std::nanf(""));
    EXPECT_EQ(engine::log_sum_exp(logits, kNoToken).sum, -kInf);
  }
}

TEST(LogSums, RejectsReadingUnrequestedSums) {
  const auto model = test::golden("llama");
  for (const int n_best : {0, -1}) {
    Context context(model, {.n_ctx = 64, .n_best = n_best});
    Batch batch;
    batch.add(5, 0);
    batch.add(6, 0, {.logits = true});
    batch.add(7, 0, {.logits = true});
    for (const int item : {-1, 0, 3})
      EXPECT_EQ(code_of([&] { test::set(batch, item, &ItemOptions::log_sum_exp, true); }),
                ErrorCode::kInvalidArgument);
    for (const Token token : {-2, model->info().n_vocab}) {
      batch.set_options(1, {.logits = true, .log_sum_exp = true, .logit_of = token});
      EXPECT_EQ(code_of([&] { (void)context.decode(batch); }), ErrorCode::kInvalidArgument);
      EXPECT_EQ(context.cache().next_pos(0), 0);
    }
    batch.set_options(1, {.logits = true, .log_sum_exp = true, .logit_of = 3});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_EQ(context.logit(1), context.logits(1)[3]);
    for (const int item : {-1, 0, 2, 3}) {
      EXPECT_EQ(code_of([&] { context.log_sum_exp(item); }), ErrorCode::kInvalidArgument);
      EXPECT_EQ(code_of([&] { context.logit(item); }), ErrorCode::kInvalidArgument);
    }
  }
}

TEST(BestTokens, RejectsInvalidRequestsWithoutSideEffects) {
  const auto model = test::golden("llama");
  Context context(model, {.n_ctx = 64, .n_best = 3});
  EXPECT_EQ(context.params().n_best, 3);
  Batch batch;
  batch.add(5, 0);
  batch.add(6, 0, {.logits = true});
  for (const auto& [item, n] : {std::pair{0, 1}, {2, 1}, {-1, 1}, {1, -4}})
    EXPECT_EQ(code_of([&] { test::set(batch, item, &ItemOptions::n_best, n); }), ErrorCode::kInvalidArgument);
  test::set(batch, 1, &ItemOptions::n_best, 4);
  EXPECT_EQ(code_of([&] { (void)context.decode(batch); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(context.cache().next_pos(0), 0);
  test::set(batch, 1, &ItemOptions::n_best, 3);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  EXPECT_EQ(context.best(1).size(), 3u);
  EXPECT_EQ(code_of([&] { context.best(0); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { context.best(2); }), ErrorCode::kInvalidArgument);
  Context without(model, {.n_ctx = 64, .n_best = 0});
  EXPECT_EQ(code_of([&] { (void)without.decode(batch); }), ErrorCode::kInvalidArgument);
  for (const int n : {-2, 513, 1 << 20})
    EXPECT_EQ(code_of([&] { Context(model, {.n_ctx = 64, .n_best = n}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Context(model, {.n_ctx = 64, .n_best = 512}).params().n_best, 512);
}

TEST(BestTokens, CancelledBatchesHaveNone) {
  const auto model = test::golden("llama");
  const std::vector<Token> tokens = golden_tokens("llama");
  const auto decode_best = [&](Context& context) {
    Batch batch;
    for (const Token token : tokens)
      batch.add(token, 0, {.logits = true, .n_best = 1 + (batch.size() + 1) % 7});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    std::vector<std::vector<Best>> result;
    for (int i = 0; i < batch.size(); ++i)
      result.emplace_back(context.best(i).begin(), context.best(i).end());
    return result;
  };
  for (const int n_threads : {1, 2}) {
    Context reference(model, {.n_ctx = 128, .n_threads = n_threads});
    Context context(model, {.n_ctx = 4096, .n_ubatch = 16, .n_threads = n_threads});
    Batch many;  // Nothing but best tokens is wanted of any step.
    for (int i = 0; i < 3000; ++i) {
      many.add(tokens[static_cast<std::size_t>(i) % tokens.size()], 0, {.logits = true, .n_best = 64});
    }
    const auto expected = decode_best(reference);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(test::decode_and_cancel(context, many), DecodeStatus::kCancelled);
      EXPECT_EQ(context.cache().cells_used(), 0);
      EXPECT_EQ(code_of([&] { context.best(0); }), ErrorCode::kInvalidArgument);
      const auto got = decode_best(context);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) expect_same(got[i], expected[i], std::to_string(i));
      context.cache().remove(0);
    }
  }
}

TEST(BestTokens, AStepWithThemAllocatesNothing) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  Context context(test::golden("llama"), {.n_ctx = 512});
  Sampler sampler({.seed = 1}, context.model().info().n_vocab);
  Batch batch;
  batch.add(std::vector<Token>(20, 9), 0, {.logits = true, .n_best = sampler.n_best()});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  long before = 0;
  for (int i = 0; i < 50; ++i) {
    if (i == 1) before = test::n_allocations();
    const Token token = sampler.sample(context.best(batch.size() - 1));
    batch.clear();
    batch.add(token, 0, {.logits = true, .n_best = sampler.n_best()});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  }
  EXPECT_EQ(test::n_allocations() - before, 0);
}

/// What a batcher writes for many requests of all kinds.
std::map<std::pair<RequestId, int>, std::vector<Token>> write(const std::shared_ptr<const Model>& model,
                                                              int n_best, Speculation speculation) {
  Context context(model, {.n_ctx = 2048, .n_sequences = 12, .n_best = n_best});
  const auto draft = std::make_shared<Context>(
      model, ContextParams{.n_ctx = 2048, .n_sequences = 12, .n_best = n_best}, context);
  Batcher batcher(context, {.speculation = speculation,
                            .adapt_drafts = false,
                            .draft = speculation == Speculation::kModel ? draft : nullptr});
  std::map<std::pair<RequestId, int>, std::vector<Token>> written;
  std::mt19937 random(11);
  for (int i = 0; i < 24; ++i) {
    std::vector<Token> prompt(1 + random() % 20);
    for (Token& token : prompt) token = static_cast<Token>(random() % 500);
    RequestParams params;
    params.n_predict = 12;
    params.ignore_end = true;
    params.sampler.seed = static_cast<std::uint64_t>(i);
    params.sampler.temperature = i % 3 == 0 ? 0.0f : 0.9f;
    if (i % 4 == 0) params.sampler.repetition_penalty = 1.2f;
    if (i % 5 == 0) params.sampler.top_k = 100;  // More than the context gives.
    if (i % 6 == 0) params.n_logprobs = 2;
    params.on_output = [&](const Output& output) {
      for (const OutputToken& token : output.tokens)
        written[{output.request, output.completion}].push_back(token.id);
      return true;
    };
    batcher.submit(prompt, std::move(params));
  }
  batcher.run();
  return written;
}

TEST(BestTokens, ABatcherWritesTheSameWithThem) {
  for (const char* family : {"llama", "gemma3"}) {
    const auto reference = write(test::golden(family), 0, Speculation::kNone);
    ASSERT_EQ(reference.size(), 24u);
    EXPECT_EQ(write(test::golden(family), -1, Speculation::kNone), reference) << family;
    EXPECT_EQ(write(test::golden(family), -1, Speculation::kNgram), reference) << family;
    EXPECT_EQ(write(test::golden(family), -1, Speculation::kModel), reference) << family;
    EXPECT_EQ(write(test::golden(family), 1, Speculation::kModel), reference) << family;
  }
}

std::vector<Token> generated(const std::shared_ptr<const Model>& model, int n_best, float temperature) {
  Context context(model, {.n_ctx = 128, .n_best = n_best});
  Sampler sampler({.seed = 7, .temperature = temperature}, model->info().n_vocab);
  const Token prompt[] = {1, 30, 31, 32};
  return generate(context, sampler, prompt, {.n_predict = 24, .ignore_end = true}).tokens;
}

TEST(BestTokens, GenerationWritesTheSameWithThem) {
  for (const float temperature : {0.0f, 1.0f})
    EXPECT_EQ(generated(test::golden("qwen3"), -1, temperature),
              generated(test::golden("qwen3"), 0, temperature));
}

TEST(BestTokens, OfRealModelsAreTheSame) {
  bool any = false;
  for (const char* file : {test::kSmolLm2, test::kGemma3}) {
    const auto path = test::cached_model(file);
    if (!path) continue;
    any = true;
    const auto model = Model::load(*path);
    for (const float temperature : {0.0f, 1.0f})
      EXPECT_EQ(generated(model, -1, temperature), generated(model, 0, temperature)) << file;
  }
  if (!any) GTEST_SKIP() << "no real model in the cache; see weft models";
}

}  // namespace
}  // namespace weft
