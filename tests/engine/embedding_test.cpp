// Embeddings of rows: what the head reads, without the head; and pooled over prompts by the batcher.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "engine/batcher_testing.h"
#include "engine/families_tried.h"
#include "gguf/gguf.h"
#include "tensor/codec.h"
#include "weft/embedder.h"
#include "weft/service.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::Collector;
using test::expect_same;
using test::golden;
using test::random_ask;

std::vector<float> floats_of(const gguf::TensorInfo& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.n_elements()));
  const auto columns = static_cast<std::size_t>(tensor.shape.back());
  const std::size_t row_bytes = weft::row_bytes(tensor.dtype, tensor.shape.back());
  for (std::size_t row = 0; row < values.size() / columns; ++row)
    unpack_row(tensor.dtype, tensor.data.data() + row * row_bytes,
               std::span(values).subspan(row * columns, columns));
  return values;
}

/// The embeddings of a sequence's tokens, computed in chunks.
std::vector<float> all_embeddings(Context& context, std::span<const Token> tokens, std::size_t piece,
                                  SeqId seq = 0) {
  std::vector<float> result;
  Batch batch;
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t n = std::min(piece, tokens.size() - done);
    batch.clear();
    for (std::size_t i = 0; i < n; ++i) {
      batch.add(tokens[done + i], seq, {.embedding = true});
    }
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    for (int i = 0; i < batch.size(); ++i) {
      const std::span<const float> row = context.embedding(i);
      result.insert(result.end(), row.begin(), row.end());
    }
    done += n;
  }
  return result;
}

class Embeddings : public testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path dir_ = test::golden_dir() / GetParam();
  const std::shared_ptr<const Model> model_ = golden(GetParam());
  const std::vector<Token> tokens_ = test::read_tokens(dir_ / "tokens.json");
};

TEST_P(Embeddings, TimesTheHeadAreTheLogitsOfPyTorch) {
  const gguf::File file = gguf::File::open(dir_ / "model.gguf");
  const gguf::TensorInfo* weight = file.find_tensor("output.weight");
  if (weight == nullptr) weight = file.find_tensor("token_embd.weight");
  const gguf::TensorInfo* bias = file.find_tensor("output.bias");
  const std::vector<float> head = floats_of(*weight);
  const std::vector<float> added = bias != nullptr ? floats_of(*bias) : std::vector<float>{};
  Context context(model_, {.n_ctx = 128, .k_type = CacheType::kF32, .v_type = CacheType::kF32});
  const std::vector<float> embeddings = all_embeddings(context, tokens_, tokens_.size());
  const auto n_embd = static_cast<std::size_t>(model_->info().n_embd);
  const auto n_vocab = static_cast<std::size_t>(model_->info().n_vocab);
  ASSERT_EQ(embeddings.size(), tokens_.size() * n_embd);
  // What some families do to logits: a factor, by which Granite and MiniCPM divide, and a cap. Grok has its
  // own where files name none.
  const std::string architecture(file.get_string("general.architecture").value());
  const double usual = architecture == "minicpm3" ? static_cast<double>(n_embd) / 256.0
                       : architecture == "grok"   ? 1.0 / std::sqrt(3.0)
                                                  : 1.0;
  double factor = file.get_float(architecture + ".logit_scale").value_or(usual);
  if (architecture.starts_with("granite") || architecture.starts_with("minicpm")) factor = 1.0 / factor;
  const double cap = file.get_float(architecture + ".final_logit_softcapping").value_or(0.0);
  std::vector<float> logits;
  for (std::size_t t = 0; t < tokens_.size(); ++t)
    for (std::size_t v = 0; v < n_vocab; ++v) {
      double sum = added.empty() ? 0.0 : added[v];
      for (std::size_t i = 0; i < n_embd; ++i)
        sum += static_cast<double>(embeddings[t * n_embd + i]) * head[v * n_embd + i];
      sum *= factor;
      logits.push_back(static_cast<float>(cap > 0.0 ? cap * std::tanh(sum / cap) : sum));
    }
  const std::vector<float> reference = test::read_floats(dir_ / "logits.f32");
  ASSERT_EQ(logits.size(), reference.size());
  EXPECT_LE(test::nmse(logits, reference), 1e-6);
}

class BatchedEmbeddings : public Embeddings {};

TEST_P(BatchedEmbeddings, AreTheSameInAnyChunksAndBatches) {
  std::vector<float> first;
  for (const ContextParams& params :
       {ContextParams{.n_ctx = 512, .n_sequences = 3, .n_threads = 1},
        ContextParams{.n_ctx = 512, .n_sequences = 3, .n_ubatch = 9, .n_outputs = 2, .n_threads = 2},
        ContextParams{.n_ctx = 512, .n_sequences = 3, .n_threads = 2, .n_best = 0}})
    for (const std::size_t piece : {tokens_.size(), std::size_t{7}, std::size_t{1}}) {
      Context context(model_, params);
      const std::vector<float> embeddings = all_embeddings(context, tokens_, piece, 1);
      if (first.empty()) first = embeddings;
      EXPECT_TRUE(embeddings == first) << "pieces of " << piece;
      EXPECT_EQ(context.plan_stats().compiled, 1);
    }
  // In a batch with other kinds of outputs; each has the same bits as alone.
  Context plain(model_, {.n_ctx = 512, .n_threads = 1});
  const std::vector<float> expected = test::all_logits(plain, tokens_, tokens_.size());
  const auto n_embd = static_cast<std::size_t>(model_->info().n_embd);
  const auto n_vocab = static_cast<std::size_t>(model_->info().n_vocab);
  Context context(model_, {.n_ctx = 512, .n_sequences = 3, .n_ubatch = 16, .n_outputs = 5});
  Batch batch;
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    batch.add(tokens_[t], 0, {.logits = true, .n_best = t % 3 == 0 ? 2 : 0, .embedding = t % 2 == 0});
    batch.add(tokens_[t], 1, {.embedding = t % 4 == 1});
    batch.add(tokens_[tokens_.size() - 1 - t], 2, {.logits = t % 5 == 0});
  }
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const auto is_row = [&](std::span<const float> row, const std::vector<float>& rows, std::size_t t,
                          std::size_t n) {
    return std::equal(row.begin(), row.end(), rows.begin() + static_cast<std::ptrdiff_t>(t * n));
  };
  for (std::size_t t = 0; t < tokens_.size(); ++t) {
    const int item = static_cast<int>(3 * t);
    if (t % 2 == 0) {
      EXPECT_TRUE(is_row(context.embedding(item), first, t, n_embd));
    }
    if (t % 4 == 1) {
      EXPECT_TRUE(is_row(context.embedding(item + 1), first, t, n_embd));
    } else {
      EXPECT_THROW(context.embedding(item + 1), Error);
    }
    if (t % 3 != 0) {
      EXPECT_TRUE(is_row(context.logits(item), expected, t, n_vocab));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Embeddings, testing::ValuesIn(test::kFamilies), test::name_of_family);
INSTANTIATE_TEST_SUITE_P(Families, BatchedEmbeddings, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

TEST(Embedding, CostsNoHeadAndIsAskedFor) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 64, .n_threads = 1});
  Batch batch;
  batch.add(std::vector<Token>{1, 2, 3}, 0, {.logits = false});
  batch.set_options(1, {.embedding = true});
  EXPECT_THROW(batch.set_options(3, {.embedding = true}), Error);
  EXPECT_THROW(batch.set_options(-1, {.embedding = true}), Error);
  Profile profile;
  context.set_profile(&profile);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const auto n_head = [&] {
    std::int64_t n = 0;
    for (const Profile::Work& work : profile.work)
      if (work.name.starts_with("matmul output")) n += work.calls;
    return n;
  };
  EXPECT_EQ(n_head(), 0);
  EXPECT_EQ(std::ssize(context.embedding(1)), model->info().n_embd);
  for (const int item : {-1, 0, 2, 3}) EXPECT_THROW(context.embedding(item), Error);
  EXPECT_THROW(context.logits(1), Error);
  batch.clear();
  batch.add(4, 0, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  EXPECT_EQ(n_head(), 1) << "and so the head is what it is called";
  EXPECT_THROW(context.embedding(0), Error) << "of the batch before";
  context.set_profile(nullptr);
}

// --- Pooled

struct Pooled {
  std::vector<float> embedding;
  bool done = false;
  StopReason stop = StopReason::kEnd;
  CompletionStats stats;
};

RequestId submit(Batcher& batcher, const std::vector<Token>& prompt, Pooling pooling, Pooled& pooled) {
  RequestParams params{.pooling = pooling};
  params.on_output = [&pooled](const Output& output) {
    EXPECT_FALSE(pooled.done);
    EXPECT_TRUE(output.text.empty());
    EXPECT_TRUE(output.tokens.empty());
    pooled = {{output.embedding.begin(), output.embedding.end()}, output.done, output.stop, output.stats};
    return true;
  };
  return batcher.submit(prompt, std::move(params));
}

/// By hand: in the order of the tokens, in double precision.
std::vector<float> mean(std::span<const float> rows, std::size_t n_embd) {
  std::vector<double> sums(n_embd, 0.0);
  for (std::size_t i = 0; i < rows.size(); ++i) sums[i % n_embd] += static_cast<double>(rows[i]);
  std::vector<float> result;
  for (const double sum : sums)
    result.push_back(static_cast<float>(sum / static_cast<double>(rows.size() / n_embd)));
  return result;
}

class PooledEmbeddings : public testing::TestWithParam<const char*> {};

TEST_P(PooledEmbeddings, AreThoseOfTheTextAlone) {
  const auto model = golden(GetParam());
  const auto n_embd = static_cast<std::size_t>(model->info().n_embd);
  std::mt19937_64 random(6);
  struct Text {
    std::vector<Token> prompt;
    std::vector<float> mean, last;
  };
  std::vector<Text> texts;
  for (int i = 0; i < 12; ++i) {
    Text text{random_ask(*model, random, 80).prompt, {}, {}};
    if (i == 3) text.prompt.resize(1);
    if (i == 7) text.prompt = texts[2].prompt;  // It is in the cache by then.
    Context context(model, {.n_ctx = 128, .n_threads = 1});
    const std::vector<float> rows = all_embeddings(context, text.prompt, 64);
    text.mean = mean(rows, n_embd);
    text.last.assign(rows.end() - static_cast<std::ptrdiff_t>(n_embd), rows.end());
    texts.push_back(std::move(text));
  }
  for (const ContextParams& params :
       {ContextParams{.n_ctx = 1024, .n_sequences = 8, .n_threads = 1},
        ContextParams{.n_ctx = 1024, .n_sequences = 8, .n_ubatch = 7, .n_threads = 1},
        ContextParams{.n_ctx = 128, .n_sequences = 6, .n_threads = 1}}) {
    Context context(model, params);
    Batcher batcher(context, {.speculation = Speculation::kNgram, .adapt_drafts = false});
    Collector collector;
    std::vector<Pooled> pooled(2 * texts.size());
    std::vector<std::pair<RequestId, Ask>> others;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      submit(batcher, texts[i].prompt, Pooling::kMean, pooled[2 * i]);
      submit(batcher, texts[i].prompt, Pooling::kLast, pooled[2 * i + 1]);
      if (i % 2 == 0) {
        const Ask ask = random_ask(*model, random);
        others.emplace_back(collector.submit(batcher, ask), ask);
      }
      batcher.step();
      ASSERT_TRUE(batcher.consistent());
    }
    while (batcher.step()) ASSERT_TRUE(batcher.consistent());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_TRUE(pooled[2 * i].done);
      EXPECT_EQ(pooled[2 * i].stop, StopReason::kLength);
      EXPECT_EQ(pooled[2 * i].stats.n_generated, 0);
      EXPECT_EQ(pooled[2 * i].stats.n_cached, 0);
      EXPECT_TRUE(pooled[2 * i].embedding == texts[i].mean) << "the mean of text " << i;
      EXPECT_TRUE(pooled[2 * i + 1].embedding == texts[i].last) << "the last of text " << i;
    }
    for (const auto& [id, ask] : others) expect_same(collector(id), alone(model, ask), "beside embeddings");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PooledEmbeddings, testing::Values("llama", "gemma3", "lfm2", "gpt2"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(PooledEmbedding, ComesFromAServiceToo) {
  const auto model = golden("llama");
  const auto n_embd = static_cast<std::size_t>(model->info().n_embd);
  Context context(model, {.n_ctx = 128, .n_threads = 1});
  const std::vector<Token> prompt = {5, 6, 7, 8, 9};
  const std::vector<float> rows = all_embeddings(context, prompt, 64);
  Service service(Context(model, {.n_ctx = 256, .n_sequences = 2, .n_threads = 1}));
  Response response = service.submit(prompt, {.n_predict = 0, .pooling = Pooling::kMean});
  std::vector<float> embedding;
  for (Output chunk; response.next(chunk);) {
    EXPECT_EQ(chunk.embedding.empty(), !chunk.done);
    embedding = chunk.embedding;
  }
  EXPECT_TRUE(embedding == mean(rows, n_embd));
  Response cancelled = service.submit(std::vector<Token>(200, 5), {.pooling = Pooling::kLast});
  cancelled.cancel();
  for (Output chunk; cancelled.next(chunk);)
    EXPECT_EQ(chunk.embedding.empty(), chunk.stop != StopReason::kLength);
}

TEST(PooledEmbedding, WhatMakesNoSenseIsRefused) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 128, .n_threads = 1});
  Batcher batcher(context);
  const std::vector<Token> prompt = {5, 6, 7};
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    EXPECT_THROW(batcher.submit(prompt, {.n = 2, .pooling = pooling}), Error);
    EXPECT_THROW(batcher.submit(prompt, {.pooling = pooling, .n_logprobs = 0, .prompt_logprobs = true}),
                 Error);
    EXPECT_THROW(batcher.submit(prompt, {.pooling = pooling, .context_shift = true}), Error);
    EXPECT_THROW(batcher.submit(prompt, {.n_min = 1, .pooling = pooling}), Error);
    EXPECT_THROW(batcher.submit(prompt, {.stop = {"a"}, .pooling = pooling}), Error);
    EXPECT_THROW(batcher.submit(prompt, {.pooling = pooling, .n_logprobs = 0}), Error);
    EXPECT_THROW(batcher.submit(prompt, {.pooling = pooling, .constraint = test::Script::writes({1})}),
                 Error);
  }
  EXPECT_THAT([&] { batcher.submit(prompt, {.pooling = Pooling::kCls}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("use \"mean\" or \"last\"")));
  Embedder embedder(model);
  const TextTokens text{.tokens = prompt};
  EXPECT_THAT([&] { embedder.embed({&text, 1}, Pooling::kCls); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("use \"mean\" or \"last\"")));
}

}  // namespace
}  // namespace weft
