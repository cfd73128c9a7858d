// Generation: how it ends, its callbacks, and sequences that continue beyond the context.
#include "weft/generate.h"

#include <algorithm>

#include "engine/test_support.h"
#include "weft/batcher.h"

namespace weft {
namespace {

std::shared_ptr<const Model> tiny(const char* family = "llama") {
  return Model::load(test::golden_dir() / family / "model.gguf");
}

SamplerParams greedy() { return {.seed = 1, .temperature = 0.0f}; }

Generation run(Context& context, const GenerateParams& params) {
  Sampler sampler(greedy(), context.model().info().n_vocab);
  const Token prompt[] = {1, 30, 31, 32};
  return generate(context, sampler, prompt, params);
}

TEST(Generate, StopsAtTheLengthAndStreamsTheSameText) {
  Context context(tiny(), {.n_ctx = 128});
  std::string streamed;
  GenerateParams params{.n_predict = 20, .ignore_end = true};
  params.on_text = [&](std::string_view text) {
    streamed += text;
    return true;
  };
  const Generation g = run(context, params);
  EXPECT_EQ(g.stop, StopReason::kLength);
  EXPECT_EQ(g.tokens.size(), 20u);
  EXPECT_EQ(g.n_prompt, 4);
  EXPECT_EQ(streamed, g.text);
  // The last token was not computed, as its logits were not needed.
  EXPECT_EQ(context.cache().next_pos(0), 4 + 19);
}

TEST(Generate, StopStringsEndTheTextBeforeThem) {
  Context context(tiny(), {.n_ctx = 128});
  const std::string whole = run(context, {.n_predict = 30, .ignore_end = true}).text;
  ASSERT_GT(whole.size(), 12u);
  const std::string stop = whole.substr(5, 4);
  context.cache().clear();
  const Generation g = run(context, {.n_predict = 30, .ignore_end = true, .stop = {"not in there", stop}});
  EXPECT_EQ(g.stop, StopReason::kStopString);
  EXPECT_EQ(g.text, whole.substr(0, whole.find(stop)));
}

// A cancel() during a generation ends that one, between two batches too, and not the next.
TEST(Generate, ACancelIsForTheTextThatIsWritten) {
  Context context(tiny(), {.n_ctx = 128});
  for (const bool go_on : {true, false}) {
    int n_calls = 0;
    GenerateParams params{.n_predict = 20, .ignore_end = true};
    params.on_text = [&](std::string_view) {
      if (++n_calls == 3) context.cancel();
      return go_on || n_calls < 3;
    };
    EXPECT_EQ(run(context, params).stop, StopReason::kCancelled);
    EXPECT_EQ(n_calls, 3);
    context.cache().clear();
    EXPECT_EQ(run(context, {.n_predict = 3, .ignore_end = true}).stop, StopReason::kLength);
    context.cache().clear();
  }
}

TEST(Generate, ChunksChangeNothing) {
  Context a(tiny(), {.n_ctx = 128}), b(tiny(), {.n_ctx = 128});
  EXPECT_EQ(run(a, {.n_predict = 10, .ignore_end = true}).tokens,
            run(b, {.n_predict = 10, .ignore_end = true, .n_chunk = 1}).tokens);
}

TEST(Generate, WrongParametersAreRefusedAndChangeNothing) {
  Context context(tiny(), {.n_ctx = 64});
  for (const GenerateParams& params :
       {GenerateParams{.n_keep = -1}, GenerateParams{.n_chunk = -1}, GenerateParams{.stop = {"a", ""}}}) {
    try {
      run(context, params);
      ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
    EXPECT_EQ(context.cache().next_pos(0), 0);
  }
}

TEST(Generate, AFullContextEndsTheText) {
  Context context(tiny(), {.n_ctx = 64});
  const Generation g = run(context, {.ignore_end = true});
  EXPECT_EQ(g.stop, StopReason::kContextFull);
  EXPECT_EQ(context.cache().cells_used(), 64);
}

TEST(Generate, ContextShiftGoesOnWithoutEnd) {
  for (const int n_ctx : {64, 200}) {
    Context context(tiny(), {.n_ctx = n_ctx});
    const Generation g = run(context, {.n_predict = 1000, .ignore_end = true, .context_shift = true});
    EXPECT_EQ(g.stop, StopReason::kLength);
    EXPECT_EQ(g.tokens.size(), 1000u);
    EXPECT_EQ(context.plan_stats().compiled, 1);
    EXPECT_TRUE(context.cache().consistent());
  }
}

// The recurrent state holds the whole sequence, so the tokens do not depend on the size of the context.
TEST(Generate, ContextShiftOfARecurrentModelChangesNothing) {
  for (const char* const family : {"mamba", "mamba2", "falcon-mamba", "rwkv6", "rwkv7"}) {
    const auto model = tiny(family);
    Context large(model, {.n_ctx = 512}), small(model, {.n_ctx = 64});
    const Generation whole = run(large, {.n_predict = 300, .ignore_end = true});
    const Generation shifted = run(small, {.n_predict = 300, .ignore_end = true, .context_shift = true});
    EXPECT_EQ(shifted.stop, StopReason::kLength) << family;
    EXPECT_EQ(shifted.tokens, whole.tokens) << family;
    EXPECT_LE(small.cache().next_pos(0), 64) << family;
    EXPECT_TRUE(small.cache().consistent());
    small.cache().clear();
    EXPECT_EQ(run(small, {.ignore_end = true}).stop, StopReason::kContextFull) << family;
  }
}

// As llama.cpp does since its pull request 17009: attention forgets, the state stays.
TEST(Generate, ContextShiftOfAHybridModelGoesOn) {
  for (const char* const family : {"lfm2", "jamba", "falcon-h1", "qwen35"}) {
    const auto model = tiny(family);
    Context context(model, {.n_ctx = 64});
    const Generation g = run(context, {.n_predict = 300, .ignore_end = true, .context_shift = true});
    EXPECT_EQ(g.stop, StopReason::kLength) << family;
    EXPECT_TRUE(context.cache().consistent()) << family;
    Context other(model, {.n_ctx = 64, .n_sequences = 2});
    Batcher batcher(other);
    std::vector<Token> tokens;
    RequestParams params{.n_predict = 300, .ignore_end = true, .context_shift = true, .n_ctx = 64};
    params.sampler = greedy();
    params.on_output = [&](const Output& output) {
      for (const OutputToken& token : output.tokens) tokens.push_back(token.id);
      return true;
    };
    batcher.submit({1, 30, 31, 32}, params);
    batcher.run();
    EXPECT_EQ(tokens, g.tokens) << family;
  }
}

std::string why_no_shift(const char* family, const GenerateParams& params) {
  Context context(tiny(family), {.n_ctx = 64});
  try {
    run(context, params);
  } catch (const Error& error) {
    EXPECT_EQ(context.cache().next_pos(0), 0);
    return error.what();
  }
  return "it can";
}

TEST(Generate, AContextThatCannotBeShiftedSaysWhy) {
  const GenerateParams shift{.n_predict = 200, .ignore_end = true, .context_shift = true};
  EXPECT_NE(why_no_shift("gpt2", shift).find("learned positions"), std::string::npos);
  for (const char* const family : {"llama", "gemma3", "mamba", "bloom", "lfm2", "jamba", "falcon-h1"})
    EXPECT_EQ(why_no_shift(family, shift), "it can") << family;
  GenerateParams keeps_all = shift;
  keeps_all.n_keep = 63;
  EXPECT_NE(why_no_shift("llama", keeps_all).find("n_keep is 63"), std::string::npos);
  keeps_all.context_shift = false;
  EXPECT_EQ(why_no_shift("llama", keeps_all), "it can");
}

TEST(Generate, TakesListsWhereItTakesSpans) {
  const auto model = tiny();
  Context context(model, {.n_ctx = 64, .n_sequences = 2});
  Sampler sampler(greedy(), model->tokenizer());
  EXPECT_EQ(generate(context, sampler, {1, 30, 31, 32}, {.n_predict = 4}).n_prompt, 4);
  Batch batch;
  batch.add({1, 2, 3}, 1);
  batch.add(7, {0, 1}, {.logits = true, .pos = 50});
  EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ(batch.shared_with(3).size(), 1u);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  EXPECT_EQ(context.cache().next_pos(0), 51);
  EXPECT_NE(context.cache().why_full(70).find("of 64 cells are in use, and the batch has 70 tokens"),
            std::string::npos);
  Batcher batcher(context);
  EXPECT_GT(batcher.submit({1, 2, 3}, {.n_predict = 1}), 0);
}

TEST(Generate, OnTextIsNotCalledAfterItReturnedFalse) {
  Context context(tiny(), {.n_ctx = 128});
  const std::string whole = run(context, {.n_predict = 30, .ignore_end = true}).text;
  context.cache().clear();
  int n_calls = 0;
  GenerateParams params{.n_predict = 30, .ignore_end = true, .stop = {whole.substr(8, 9) + "#"}};
  params.on_text = [&](std::string_view) { return ++n_calls < 2; };
  EXPECT_EQ(run(context, params).stop, StopReason::kCancelled);
  EXPECT_EQ(n_calls, 2);
}

TEST(Generate, LearnedPositionsEndWhereTheirTableEnds) {
  Context context(tiny("gpt2"), {.n_ctx = 512});
  EXPECT_EQ(context.cache().max_positions(), 128);
  const Generation g = run(context, {.ignore_end = true});
  EXPECT_EQ(g.stop, StopReason::kContextFull);
  EXPECT_EQ(context.cache().next_pos(0), 128);
}

TEST(Generate, CallbacksCancel) {
  Context context(tiny(), {.n_ctx = 128});
  GenerateParams params{.n_predict = 50, .ignore_end = true, .n_chunk = 1};
  params.on_prefill = [](int done) { return done < 2; };
  EXPECT_EQ(run(context, params).stop, StopReason::kCancelled);
  context.cache().clear();
  params.on_prefill = nullptr;
  int n = 0;
  params.on_text = [&](std::string_view) { return ++n < 3; };
  const Generation g = run(context, params);
  EXPECT_EQ(g.stop, StopReason::kCancelled);
  EXPECT_LT(g.tokens.size(), 50u);
}

TEST(Generate, APromptThatDoesNotFitSaysBothNumbers) {
  Context context(tiny(), {.n_ctx = 8});
  Sampler sampler(greedy(), 512);
  const std::vector<Token> prompt(9, 5);
  try {
    generate(context, sampler, prompt, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("9 tokens"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("room for 8"), std::string::npos) << error.what();
  }
  EXPECT_THROW(generate(context, sampler, {}, {}), Error);
}

/// Allows one token n times, and then the end.
class Times final : public TokenConstraint {
 public:
  Times(const Tokenizer& tokenizer, Token token, int n) : tokenizer_(tokenizer), token_(token), left_(n) {}
  void accept(Token token) override { EXPECT_TRUE(left_-- > 0 ? token == token_ : tokenizer_.is_end(token)); }
  void fill(std::span<const Token> draft, std::span<std::uint32_t> allowed) override {
    EXPECT_TRUE(draft.empty());
    EXPECT_TRUE(std::all_of(allowed.begin(), allowed.end(), [](std::uint32_t word) { return word == 0; }));
    const auto allow = [&](Token token) {
      allowed[static_cast<std::size_t>(token) / 32] |= 1u << token % 32;
    };
    if (left_ > 0) return allow(token_);
    for (const Token token : tokenizer_.end_tokens()) allow(token);
  }
  bool allows(std::span<const Token>, Token) override { return true; }

 private:
  const Tokenizer& tokenizer_;
  const Token token_;
  int left_;
};

TEST(Generate, ATextIsHeldToItsConstraint) {
  const auto model = tiny();
  for (const bool ignore_end : {false, true}) {
    Context context(model, {.n_ctx = 128});
    Times three(model->tokenizer(), 77, 3);
    const Generation g = run(context, {.n_predict = 20, .ignore_end = ignore_end, .constraint = &three});
    EXPECT_EQ(g.tokens, (std::vector<Token>{77, 77, 77}));
    EXPECT_EQ(g.stop, StopReason::kEnd) << "a text that is over does not go on";
  }
  Context context(model, {.n_ctx = 128});
  Times many(model->tokenizer(), 77, 100);
  const Generation g = run(context, {.n_predict = 5, .constraint = &many});
  EXPECT_EQ(g.tokens.size(), 5u);
  EXPECT_EQ(g.stop, StopReason::kLength);
}

TEST(Generate, ControlTokensStandInTheTextWhereTheyAreWanted) {
  const auto model = tiny();
  const Token bos = model->tokenizer().bos();
  for (const bool special : {false, true}) {
    Context context(model, {.n_ctx = 128});
    Times once(model->tokenizer(), bos, 1);
    const Generation g = run(context, {.constraint = &once, .special = special});
    EXPECT_EQ(g.tokens, std::vector<Token>{bos});
    EXPECT_EQ(g.text, special ? std::string(model->tokenizer().text(bos)) : "");
  }
}

}  // namespace
}  // namespace weft
