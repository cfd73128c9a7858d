// Adapters of models that write about a source: of what reads it, of what looks at it and of what writes.
#include "engine/adapter_testing.h"
#include "engine/batcher_testing.h"
#include "engine/source_testing.h"

namespace weft {
namespace {

using test::logits_about;

class AdaptedSources : public testing::TestWithParam<const char*> {
 protected:
  AdaptedSources() : file(gguf::File::open(golden.model())), first(test::random_adapter(file, 1, 3)) {
    ModelParams params;
    params.adapters = {{test::write_adapter(file, first, "first")},
                       {test::write_adapter(file, test::random_adapter(file, 2, 8, 0.5), "second")}};
    model = Model::load(golden.model(), params);
    for (const AdapterFile& adapter : params.adapters) std::filesystem::remove(adapter.path);
  }
  std::vector<float> alone(std::vector<AdapterUse> uses) const {
    Context context(model, {.n_ctx = 256, .n_threads = 1, .adapters = std::move(uses)});
    return logits_about(context, golden.sources[0], golden.texts[0], 5);
  }

  const test::GoldenSources golden{GetParam()};
  const gguf::File file;
  const test::RandomAdapter first;
  std::shared_ptr<const Model> model;
};

TEST_P(AdaptedSources, LogitsAreThoseOfTheMergedModel) {
  for (const char* part :
       {"enc.blk.0.attn_q.weight", "dec.blk.0.cross_attn_k.weight", "dec.blk.0.attn_q.weight"})
    ASSERT_TRUE(first.matrices.contains(part)) << part;
  const auto path = test::write_merged(file, first, 0.75f, "merged");
  const auto merged = Model::load(path);
  std::filesystem::remove(path);
  const auto logits = [&](const std::shared_ptr<const Model>& of, std::vector<AdapterUse> uses) {
    Context context(of, {.n_ctx = 256,
                         .n_threads = 1,
                         .k_type = CacheType::kF32,
                         .v_type = CacheType::kF32,
                         .adapters = std::move(uses)});
    return logits_about(context, golden.sources[0], golden.texts[0], 5);
  };
  const std::vector<float> expected = logits(merged, {});
  EXPECT_LE(test::nmse(logits(model, {{0, 0.75f}}), expected), 1e-6);
  EXPECT_GT(test::nmse(logits(model, {}), expected), 1e-5) << "the adapter does nothing";
}

TEST_P(AdaptedSources, ASourceIsReadWithThoseOfItsText) {
  const std::vector<AdapterUse> uses[] = {{}, {{0, 1.0f}}, {{0, -0.5f}, {1, 2.0f}}};
  const std::vector<Token>&source = golden.sources[0], &text = golden.texts[0];
  Context context(model, {.n_ctx = 256, .n_sequences = 4, .n_threads = 2});
  for (SeqId seq = 0; seq < 3; ++seq) {
    context.set_adapters(seq, uses[seq]);
    ASSERT_EQ(context.set_source(seq, source), DecodeStatus::kOk);
  }
  for (SeqId seq = 0; seq < 3; ++seq)
    EXPECT_TRUE(test::all_logits(context, text, 5, seq) == alone(uses[seq])) << "sequence " << seq;

  // A source keeps the adapters that it was encoded with: alone, in a state, and in a copy.
  context.cache().clear();
  context.set_adapters(0, uses[1]);
  ASSERT_EQ(context.set_source(0, source), DecodeStatus::kOk);
  test::expect_error(ErrorCode::kInvalidArgument, "computed with other adapters",
                     [&] { context.set_adapters(0, uses[2]); });
  context.set_adapters(0, uses[1]);
  ASSERT_TRUE(context.cache().copy(0, 1));
  ASSERT_TRUE(context.restore(context.save(0), 2));
  const std::vector<float> expected = alone(uses[1]);
  for (SeqId seq = 0; seq < 3; ++seq)
    EXPECT_TRUE(test::all_logits(context, text, 5, seq) == expected) << "sequence " << seq;
  context.cache().remove(0);
  EXPECT_TRUE(logits_about(context, source, text, 5, 0) == alone({}));
}

TEST_P(AdaptedSources, RequestsShareNoSourceWithOthers) {
  Context context(model, {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context);
  test::Collector collector;
  std::vector<std::pair<RequestId, std::vector<Token>>> asked;
  for (const std::vector<AdapterUse>& uses :
       {std::vector<AdapterUse>{}, {{0, 1.0f}}, {{0, 0.5f}}, {{1, 1.0f}}, {{0, 1.0f}}}) {
    test::Ask ask;
    ask.prompt = golden.sources[0];
    ask.params.sampler.temperature = 0.0f;
    ask.params.n_predict = 6;
    ask.params.ignore_end = true;
    ask.params.adapters = uses;
    Context own(model, {.n_ctx = 256, .n_threads = 1, .adapters = uses});
    Sampler sampler(ask.params.sampler, model->info().n_vocab);
    GenerateParams params;
    params.n_predict = 6;
    params.ignore_end = true;
    asked.emplace_back(collector.submit(batcher, ask), generate(own, sampler, ask.prompt, params).tokens);
  }
  batcher.run();
  for (const auto& [id, tokens] : asked) EXPECT_EQ(collector(id).tokens, tokens) << "request " << id;
  EXPECT_EQ(collector(asked[1].first).stats.n_cached + collector(asked[4].first).stats.n_cached,
            static_cast<int>(golden.sources[0].size()));
  EXPECT_TRUE(batcher.consistent());
}

TEST(AdaptedEncoders, AreRefused) {
  ModelParams params;
  params.adapters = {{std::filesystem::path(WEFT_TEST_DATA) / "adapters" / "one.gguf"}};
  for (const char* name : {"t5encoder", "bert"})
    test::expect_error(ErrorCode::kUnsupported, "this one is an encoder", [&] {
      (void)Model::load(std::filesystem::path(WEFT_TEST_DATA) / "golden_encoders" / name / "model.gguf",
                        params);
    });
}

INSTANTIATE_TEST_SUITE_P(Families, AdaptedSources, testing::ValuesIn(test::kSourceReaders),
                         test::name_of_family);

}  // namespace
}  // namespace weft
