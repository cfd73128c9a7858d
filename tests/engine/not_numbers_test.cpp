// Models whose steps compute NaN or infinity: these requests end with an error, others continue.
#include "weft/not_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/batcher_testing.h"
#include "engine/model_draft.h"
#include "weft/embedder.h"
#include "weft/service.h"

namespace weft {
namespace {

using testing::HasSubstr;

const std::vector<Token> kGood = {1, 40, 50}, kBad = {1, 300, 50};

/// Sets rows of a tensor to NaN: bytes of ones are NaN in floats and in the scales of quantised types.
void damage(test::Draft& draft, const std::string& tensor, std::int64_t first = 0, std::int64_t n_rows = -1) {
  test::Draft::Tensor& t = draft.tensor(tensor);
  const std::size_t n_bytes = row_bytes(t.dtype, t.shape.back());
  const auto begin =
      t.bytes.begin() + static_cast<std::ptrdiff_t>(first) * static_cast<std::ptrdiff_t>(n_bytes);
  const auto end = n_rows < 0
                       ? t.bytes.end()
                       : begin + static_cast<std::ptrdiff_t>(n_rows) * static_cast<std::ptrdiff_t>(n_bytes);
  std::fill(begin, end, std::byte{0xff});
}

/// Token 300 alone is read as NaN.
test::Draft with_bad_token(const std::string& golden = "llama") {
  test::Draft draft(golden);
  damage(draft, "token_embd.weight", 300, 1);
  return draft;
}

SamplerParams sampler(float temperature, int top_k, float repetition_penalty) {
  SamplerParams params;
  params.seed = 1;
  params.temperature = temperature;
  params.top_k = top_k;
  params.repetition_penalty = repetition_penalty;
  return params;
}

/// From the best token, the best few and all logits.
std::vector<SamplerParams> samplers() {
  return {sampler(0.0f, 0, 1.0f), sampler(0.8f, 40, 1.0f), sampler(0.8f, 0, 1.0f), sampler(0.0f, 0, 1.5f)};
}

std::string error_of(const std::shared_ptr<const Model>& model, const SamplerParams& params,
                     TokenConstraint* constraint = nullptr) {
  Context context(model, {.n_ctx = 128, .n_threads = 1});
  Sampler sampler(params, model->info().n_vocab);
  try {
    (void)generate(context, sampler, kGood, {.n_predict = 2, .constraint = constraint});
  } catch (const NotNumbersError& error) {
    return error.what();
  }
  return {};
}

TEST(NotNumbers, EndATextWithAnErrorThatNamesTheModel) {
  for (const char* golden : {"llama", "gemma2", "qwen2", "falcon"})
    for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight", "blk.0.attn_output.weight",
                             "blk.1.ffn_down.weight", "blk.1.ffn_up.weight"}) {
      test::Draft draft(golden);
      damage(draft, name);
      const test::DraftFile file(draft);
      const auto model = Model::load(file.path(), {.n_threads = 1});
      const std::string error = error_of(model, samplers().front());
      EXPECT_THAT(error, HasSubstr("computed NaN or infinity")) << golden << " " << name;
      EXPECT_THAT(error, HasSubstr(file.path().stem().string()));
    }
}

/// Attention's maxima pass over NaN.
TEST(NotNumbers, AreFoundAfterAttention) {
  for (const char* golden : {"llama", "gemma2"})
    for (const char* name : {"blk.0.attn_q.weight", "blk.1.attn_k.weight", "blk.0.attn_v.weight"}) {
      test::Draft draft(golden);
      damage(draft, name);
      const test::DraftFile file(draft);
      EXPECT_NE(error_of(Model::load(file.path(), {.n_threads = 1}), samplers().front()), "")
          << golden << " " << name;
    }
}

class Allowed : public TokenConstraint {
 public:
  void accept(Token) override {}
  void fill(std::span<const Token>, std::span<std::uint32_t> allowed) override { allowed[1] = 0xff; }
  bool allows(std::span<const Token>, Token) override { return true; }
};

TEST(NotNumbers, AreFoundByEverySampler) {
  test::Draft draft("llama");
  damage(draft, "output_norm.weight");
  const test::DraftFile file(draft);
  const auto model = Model::load(file.path(), {.n_threads = 1});
  for (const SamplerParams& params : samplers()) EXPECT_NE(error_of(model, params), "") << params.top_k;
  Allowed constraint;
  EXPECT_NE(error_of(model, samplers().front(), &constraint), "");
  // Whole models compute numbers.
  for (const SamplerParams& params : samplers()) EXPECT_EQ(error_of(test::golden("llama"), params), "");
}

/// A token whose own logit is NaN is never drawn.
TEST(NotNumbers, ASingleLogitIsMinusInfinity) {
  test::Draft draft("llama");
  damage(draft, "output.weight", 7, 1);
  const test::DraftFile file(draft);
  const auto model = Model::load(file.path(), {.n_threads = 1});
  for (const SamplerParams& params : samplers()) EXPECT_EQ(error_of(model, params), "");
}

TEST(NotNumbers, OtherRequestsOfABatchGoOn) {
  const test::DraftFile file(with_bad_token());
  const auto model = Model::load(file.path(), {.n_threads = 1});
  for (const SamplerParams& params : samplers()) {
    test::Ask ask;
    ask.prompt = kGood;
    ask.params.n_predict = 8;
    ask.params.sampler = params;
    Service service(Context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}));
    Response good = service.submit(kGood, ask.params), bad = service.submit(kBad, ask.params);
    test::Result result;
    for (Output chunk; good.next(chunk);) {
      result.text += chunk.text;
      for (const OutputToken& token : chunk.tokens) result.tokens.push_back(token.id);
      result.done = chunk.done;
      result.stop = chunk.stop;
      EXPECT_FALSE(chunk.not_numbers);
    }
    test::expect_same(result, test::alone(model, ask), "the good one");
    Output end;
    for (Output chunk; bad.next(chunk);) end = chunk;
    EXPECT_EQ(end.stop, StopReason::kError);
    EXPECT_TRUE(end.not_numbers);
    EXPECT_THAT(end.error, HasSubstr("computed NaN or infinity"));
  }
}

TEST(NotNumbers, AreNoLogprobsOfPromptsAndNoEmbeddings) {
  const test::DraftFile file(with_bad_token());
  const auto model = Model::load(file.path(), {.n_threads = 1});
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}));
  RequestParams logprobs, mean, last;
  logprobs.n_predict = 0;
  logprobs.prompt_logprobs = true;
  mean.pooling = Pooling::kMean;
  last.pooling = Pooling::kLast;
  for (const RequestParams& params : {logprobs, mean, last})
    for (const bool is_bad : {true, false}) {
      Response response = service.submit(is_bad ? kBad : kGood, params);
      Output end;
      for (Output chunk; response.next(chunk);) end = chunk;
      EXPECT_EQ(end.not_numbers, is_bad) << static_cast<int>(params.pooling);
      EXPECT_EQ(end.stop, is_bad ? StopReason::kError : StopReason::kLength);
    }
}

TEST(NotNumbers, AreNoVectorsOfEncoders) {
  const test::DraftFile file(with_bad_token("../golden_encoders/bert"));
  const auto model = Model::load(file.path(), {.n_threads = 1});
  Embedder embedder(model, {.n_threads = 1});
  const std::vector<TextTokens> good = {{kGood, -1}}, both = {{kGood, -1}, {kBad, -1}};
  EXPECT_FALSE(embedder.embed(good).empty());
  EXPECT_THROW((void)embedder.embed(both), NotNumbersError);
}

}  // namespace
}  // namespace weft
