// Options of requests for the start, the end and the form of a completion.
#include <limits>

#include "engine/batcher_testing.h"
#include "weft/service.h"

namespace weft {
namespace {

using test::Ask;
using test::Collector;
using test::golden;
using test::Result;
using test::Script;

constexpr float kNever = -std::numeric_limits<float>::infinity();

Token end_of(const Model& model) { return model.tokenizer().end_tokens().front(); }

Token control_of(const Model& model) {
  const Tokenizer& tokenizer = model.tokenizer();
  Token token = 0;
  while (tokenizer.kind(token) != TokenKind::kControl || tokenizer.is_end(token)) ++token;
  return token;
}

/// The result of a request that is alone in the batcher.
Result run(const std::shared_ptr<const Model>& model, const Ask& ask, const BatcherParams& params = {}) {
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context, params);
  Collector collector;
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  return collector(id);
}

TEST(BatcherOptions, CompletionsContainControlTokensButNotEndTokens) {
  const auto model = golden("gemma3");
  const Tokenizer& tokenizer = model->tokenizer();
  const Token end = end_of(*model), control = control_of(*model);
  for (const bool special : {false, true}) {
    Ask ask{{5, 6, 7}, {.special = special}};
    ask.params.constraint = Script::writes({40, control, 41, end});
    const Result result = run(model, ask);
    EXPECT_EQ(result.stop, StopReason::kEnd);
    EXPECT_EQ(result.text, tokenizer.decode(std::vector<Token>{40, control, 41}, special));
    EXPECT_EQ(result.text.find(tokenizer.text(control)) != std::string::npos, special);

    Ask on{{5, 6, 7}, {.n_predict = 3, .ignore_end = true, .special = special}};
    on.params.constraint = Script::writes({40, end, 41});
    EXPECT_EQ(run(model, on).text, tokenizer.decode(std::vector<Token>{40, 41}, special));
  }
}

TEST(BatcherOptions, AStopStringIsNamed) {
  const auto model = golden("llama");
  const Tokenizer& tokenizer = model->tokenizer();
  const std::vector<Token> script = tokenizer.encode("one two three four", {.add_special = false});
  const auto ask_with = [&](std::vector<std::string> stop) {
    Ask ask{{5, 6, 7}, {.n_predict = static_cast<int>(script.size()), .stop = std::move(stop)}};
    ask.params.constraint = Script::writes(script);
    return ask;
  };
  EXPECT_EQ(run(model, ask_with({"five", "four", "three"})).stop_string, 2) << "the first in the text";
  EXPECT_EQ(run(model, ask_with({"xx", " three", "three", " three"})).stop_string, 1);
  EXPECT_EQ(run(model, ask_with({"five"})).stop_string, -1);
  EXPECT_EQ(run(model, ask_with({})).stop_string, -1);

  Service service(Context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1}));
  const Ask ask = ask_with({"five", "two"});
  Response response = service.submit(ask.prompt, ask.params);
  int stop_string = -1;
  for (Output chunk; response.next(chunk);) {
    EXPECT_TRUE(chunk.done || chunk.stop_string == -1);
    stop_string = chunk.stop_string;
  }
  EXPECT_EQ(stop_string, 1);
}

TEST(BatcherOptions, CompletionsMayContainStopStrings) {
  const auto model = golden("llama");
  const std::vector<Token> script = model->tokenizer().encode("one two three four", {.add_special = false});
  for (const int n_shown : {0, 1, 2}) {
    Ask ask{{5, 6, 7}, {.n_predict = static_cast<int>(script.size()), .stop = {"five", "three"}}};
    ask.params.n_shown_stops = n_shown;
    ask.params.constraint = Script::writes(script);
    const Result result = run(model, ask);
    EXPECT_EQ(result.stop, StopReason::kStopString);
    EXPECT_EQ(result.text.ends_with("three"), n_shown == 2) << result.text;
  }
}

TEST(BatcherOptions, StopTokensEndTheText) {
  const auto model = golden("llama");
  for (const bool ignore_end : {false, true}) {
    Ask ask{{5, 6, 7}, {.n_predict = 4, .ignore_end = ignore_end, .stop_tokens = {90, 41}}};
    ask.params.constraint = Script::writes({40, 41, 42, 43});
    const Result result = run(model, ask);
    EXPECT_EQ(result.stop, StopReason::kEnd);
    EXPECT_EQ(result.text, model->tokenizer().decode(std::vector<Token>{40}));
  }
}

TEST(BatcherOptions, PrefixCachingCanBeDisabled) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 6, .n_threads = 1});
  Batcher batcher(context, {});
  Collector collector;
  for (const bool reuse : {true, false, true}) {
    const RequestId id =
        collector.submit(batcher, Ask{{5, 6, 7, 8, 9, 10}, {.n_predict = 1, .reuse_prefix = reuse}});
    const bool has_prefix = batcher.stats().n_requests > 1;
    batcher.run();
    EXPECT_EQ(collector(id).stats.n_cached > 0, reuse && has_prefix);
  }
}

// Clients stop at control tokens such as <|im_end|>, which the completion excludes.
TEST(BatcherOptions, AStopStringFindsAControlToken) {
  const auto model = golden("llama");
  const Tokenizer& tokenizer = model->tokenizer();
  const Token end = end_of(*model), control = control_of(*model);
  const std::string mark(tokenizer.text(control)), before = tokenizer.decode(std::vector<Token>{40});
  for (const bool special : {false, true})
    for (const std::string& stop : {mark, before + mark, mark + tokenizer.piece(41)}) {
      Ask ask{{5, 6, 7}, {.special = special, .stop = {"none", stop}}};
      ask.params.constraint = Script::writes({40, control, 41, end});
      const Result result = run(model, ask);
      EXPECT_EQ(result.stop, StopReason::kStopString) << stop;
      EXPECT_EQ(result.stop_string, 1) << stop;
      EXPECT_EQ(result.text, stop.starts_with(before) ? "" : before) << stop;
    }
}

/// A sequence that would end at once is generated as without end tokens, and ends then.
TEST(BatcherOptions, RespectsMinimumLengths) {
  for (const char* family : {"llama", "gemma3", "mamba"}) {
    const auto model = golden(family);
    const std::span<const Token> ends = model->tokenizer().end_tokens();
    for (const float temperature : {0.0f, 1.0f})
      for (const auto speculation : {Speculation::kNone, Speculation::kNgram}) {
        const BatcherParams params{.speculation = speculation, .adapt_drafts = false};
        Ask ask{{5, 6, 7, 5, 6, 7, 5, 6}, {.n_predict = 20}};
        ask.params.sampler.seed = 3;
        ask.params.sampler.temperature = temperature;
        Ask endless = ask;
        for (const Token end : ends) {
          ask.params.sampler.logit_bias.emplace_back(end, 1e6f);
          endless.params.sampler.logit_bias.emplace_back(end, kNever);
        }
        EXPECT_EQ(run(model, ask, params).tokens.size(), 1u);
        std::vector<Token> expected = run(model, endless, params).tokens;
        for (const int n_min : {1, 7, 20}) {
          ask.params.n_min = n_min;
          const Result result = run(model, ask, params);
          ASSERT_EQ(result.tokens.size(), std::min<std::size_t>(static_cast<std::size_t>(n_min) + 1, 20));
          EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.begin() + n_min, expected.begin()));
          EXPECT_EQ(result.stop, n_min < 20 ? StopReason::kEnd : StopReason::kLength);
        }
        // Where ends are tokens like others there is nothing to hold back.
        ask.params.ignore_end = true;
        const Result held = run(model, ask, params);
        ask.params.n_min = 0;
        EXPECT_TRUE(held == run(model, ask, params));
        EXPECT_TRUE(model->tokenizer().is_end(held.tokens.front()));
      }
  }
}

TEST(BatcherOptions, StopStringsCountAfterTheMinimumLength) {
  const auto model = golden("llama");
  const Tokenizer& tokenizer = model->tokenizer();
  const std::vector<Token> script = {40, 41, 42, 40, 41, 42};
  const std::string all = tokenizer.decode(script), stop = tokenizer.piece(41);
  for (const bool ignore_end : {false, true})
    for (const int n_min : {0, 1, 2, 4, 5, 6}) {
      Ask ask{{5, 6, 7}, {.n_predict = 6, .ignore_end = ignore_end, .n_min = n_min, .stop = {stop}}};
      ask.params.constraint = Script::writes(script);
      const Result result = run(model, ask);
      const std::size_t n = n_min < 2 ? 2 : n_min < 5 ? 5 : 6;
      EXPECT_EQ(result.tokens.size(), n) << n_min;
      EXPECT_EQ(result.stop, n < 6 ? StopReason::kStopString : StopReason::kLength) << n_min;
      EXPECT_EQ(result.stop_string, n < 6 ? 0 : -1) << n_min;
      const std::vector<Token> before(script.begin(), script.begin() + static_cast<std::ptrdiff_t>(n - 1));
      EXPECT_EQ(result.text, n < 6 ? tokenizer.decode(before) : all) << n_min;
    }
}

TEST(BatcherOptions, StopTokensAreHeldBackUntilTheMinimumLength) {
  const auto model = golden("llama");
  for (const bool ignore_end : {false, true}) {
    Ask ask{{5, 6, 7}, {.n_predict = 8, .ignore_end = ignore_end, .stop_tokens = {41}}};
    ask.params.sampler.logit_bias.emplace_back(41, 1e6f);
    EXPECT_EQ(run(model, ask).tokens.size(), 1u);
    ask.params.n_min = 5;
    const Result result = run(model, ask);
    EXPECT_EQ(result.tokens.size(), 6u);
    EXPECT_EQ(std::count(result.tokens.begin(), result.tokens.end(), 41), 1);
    EXPECT_EQ(result.stop, StopReason::kEnd);
  }
}

TEST(BatcherOptions, AConstraintEndsATextAtAnyLength) {
  const auto model = golden("llama");
  Ask ask{{5, 6, 7}, {.n_predict = 20, .n_min = 10}};
  ask.params.constraint = Script::writes({40, 41, end_of(*model)});
  const Result result = run(model, ask);
  EXPECT_EQ(result.stop, StopReason::kEnd);
  EXPECT_EQ(result.tokens.size(), 3u);
}

TEST(BatcherOptions, LengthsThatContradictEachOtherAreRefused) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_sequences = 1, .n_threads = 1});
  Batcher batcher(context);
  EXPECT_THROW(batcher.submit(std::vector<Token>{1}, {.n_predict = 4, .n_min = 5}), Error);
  EXPECT_THROW(batcher.submit(std::vector<Token>{1}, {.n_min = -1}), Error);
}

}  // namespace
}  // namespace weft
