// Models with an encoder and a decoder (T5), compared with PyTorch's logits, and with themselves in other
// chunks and batches, bit by bit. Also sources when sequences are copied and removed.
#include <algorithm>

#include "engine/model_impl.h"
#include "engine/small_device.h"
#include "engine/source_testing.h"
#include "weft/embedder.h"
#include "weft/generate.h"

namespace weft {
namespace {

using test::GoldenSources;
using test::logits_about;

class Sources : public testing::TestWithParam<const char*> {
 protected:
  const GoldenSources golden{GetParam()};
};

TEST_P(Sources, LogitsAreThoseOfPyTorchAndTheSameInAnyPieces) {
  for (const CpuIsa isa : test::kInstructionSets) {
    std::shared_ptr<const Model> model;
    try {
      model = Model::load(golden.model(), {.isa = isa});
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
      continue;  // This machine lacks the instruction set.
    }
    EXPECT_TRUE(model->info().reads_source);
    test::expect_golden(model, golden, "isa" + std::to_string(static_cast<int>(isa)));
  }
}

TEST_P(Sources, SequencesWithOtherSourcesChangeNothing) {
  const auto model = Model::load(golden.model());
  const std::size_t n = golden.texts.size();
  Context alone(model, {.n_ctx = 256});
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < n; ++i)
    expected.push_back(logits_about(alone, golden.sources[i], golden.texts[i], 5));

  // All sequences in one cache, interleaved token by token within each batch.
  Context together(model, {.n_ctx = 512, .n_sequences = static_cast<int>(n), .n_ubatch = 16});
  std::size_t longest = 0;
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(together.set_source(static_cast<SeqId>(i), golden.sources[i]), DecodeStatus::kOk);
    EXPECT_EQ(together.source_size(static_cast<SeqId>(i)), static_cast<int>(golden.sources[i].size()));
    longest = std::max(longest, golden.texts[i].size());
  }
  std::vector<std::vector<float>> logits(n);
  for (std::size_t t = 0; t < longest; ++t) {
    Batch batch;
    std::vector<std::size_t> of;
    for (std::size_t i = 0; i < n; ++i) {
      if (t >= golden.texts[i].size()) continue;
      batch.add(golden.texts[i][t], static_cast<SeqId>(i), {.logits = true});
      of.push_back(i);
    }
    ASSERT_EQ(together.decode(batch), DecodeStatus::kOk);
    for (int item = 0; item < batch.size(); ++item) {
      const auto row = together.logits(item);
      std::vector<float>& own = logits[of[static_cast<std::size_t>(item)]];
      own.insert(own.end(), row.begin(), row.end());
    }
  }
  for (std::size_t i = 0; i < n; ++i) EXPECT_TRUE(logits[i] == expected[i]) << "text " << i;
  EXPECT_TRUE(together.cache().consistent());
}

TEST_P(Sources, OnTwoDevicesTheBitsAreTheSame) {
  const auto logits = [&](const PlacementParams& placement) {
    const auto model = Model::load(golden.model(), {.n_threads = 1, .placement = placement});
    Context context(model, {.n_ctx = 256, .n_threads = 1});
    std::vector<float> result = logits_about(context, golden.sources[0], golden.texts[0], 5);
    const std::vector<float> more = logits_about(context, golden.sources[1], golden.texts[3], 1);
    result.insert(result.end(), more.begin(), more.end());
    return result;
  };
  const std::vector<float> expected = logits({});
  PlacementParams two;
  two.devices = {"cpu", "cpu1=cpu"};
  const int n_layers = Model::load(golden.model())->info().n_layers;
  for (two.n_layers = 0; two.n_layers <= n_layers + 1; ++two.n_layers)
    EXPECT_TRUE(logits(two) == expected) << two.n_layers << " layers";
  two.n_layers = -1;
  two.split_rows = true;
  EXPECT_TRUE(logits(two) == expected) << "rows";
}

TEST_P(Sources, TextsAreGeneratedFromTheFirstTokenOn) {
  const auto model = Model::load(golden.model());
  Context context(model, {.n_ctx = 256});
  const std::vector<Token>& source = golden.sources[0];
  const int n = 12;
  std::vector<Token> expected, text = {model->info().first_token};
  for (int i = 0; i < n; ++i) {
    const std::vector<float> logits = logits_about(context, source, text, 64);
    const auto last = logits.end() - model->info().n_vocab;
    expected.push_back(static_cast<Token>(std::max_element(last, logits.end()) - last));
    text.push_back(expected.back());
  }
  for (const int n_best : {0, -1}) {
    Context own(model, {.n_ctx = 256, .n_best = n_best});
    Sampler sampler({.temperature = 0.0f}, model->info().n_vocab);
    GenerateParams params;
    params.n_predict = n;
    params.ignore_end = true;
    const Generation result = generate(own, sampler, source, params);
    EXPECT_EQ(result.tokens, expected);
    EXPECT_EQ(result.n_prompt, static_cast<int>(source.size()));
    EXPECT_THROW((void)generate(own, sampler, source, params), Error) << "the sequence holds a text";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Sources, testing::ValuesIn(test::kSourceReaders), test::name_of_family);

class SourceUse : public testing::Test {
 protected:
  const GoldenSources golden{"flan-t5"};
  const std::shared_ptr<const Model> model = Model::load(golden.model());
  const std::vector<Token>& source = golden.sources[0];
  const std::vector<Token>& text = golden.texts[0];

  std::vector<float> expected(const std::vector<Token>& of, const std::vector<Token>& about) const {
    Context context(model, {.n_ctx = 256});
    return logits_about(context, about, of, 5);
  }
};

TEST_F(SourceUse, CopiesShareASource) {
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  ASSERT_EQ(context.set_source(0, source), DecodeStatus::kOk);
  const std::int64_t bytes = context.cache().bytes();
  // Copies of an empty sequence, of one with tokens, and of one that exists only as a copy.
  ASSERT_TRUE(context.cache().copy(0, 1));
  EXPECT_EQ(context.source_size(1), context.source_size(0));
  EXPECT_TRUE(test::all_logits(context, text, 3, 0) == expected(text, source));
  ASSERT_TRUE(context.cache().copy(0, 2, 0, 4));
  context.cache().remove(0);
  EXPECT_EQ(context.source_size(0), 0);
  // Another sequence would take the first one's place if it were free; it is not.
  ASSERT_EQ(context.set_source(0, golden.sources[1]), DecodeStatus::kOk);
  EXPECT_TRUE(test::all_logits(context, text, 64, 1) == expected(text, source));
  const std::vector<Token> rest(text.begin() + 4, text.end());
  const std::vector<float> whole = expected(text, source), of_rest = test::all_logits(context, rest, 2, 2);
  EXPECT_TRUE(
      std::equal(of_rest.begin(), of_rest.end(), whole.end() - static_cast<std::ptrdiff_t>(of_rest.size())));
  EXPECT_TRUE(test::all_logits(context, text, 64, 0) == expected(text, golden.sources[1]));
  EXPECT_GT(bytes, 0);
  EXPECT_TRUE(context.cache().consistent());
  context.cache().keep(0);
  EXPECT_EQ(context.source_size(1), 0);
  EXPECT_EQ(context.source_size(2), 0);
  EXPECT_GT(context.source_size(0), 0);
  context.cache().clear();
  EXPECT_EQ(context.source_size(0), 0);
  EXPECT_TRUE(context.cache().consistent());
}

TEST_F(SourceUse, ASourceTakesThePlaceOfAnother) {
  Context context(model, {.n_ctx = 256, .n_sequences = 2});
  ASSERT_EQ(context.set_source(1, golden.sources[2]), DecodeStatus::kOk);
  for (int round = 0; round < 5; ++round)
    for (const auto& other : golden.sources) ASSERT_EQ(context.set_source(0, other), DecodeStatus::kOk);
  ASSERT_EQ(context.set_source(0, source), DecodeStatus::kOk);
  EXPECT_TRUE(test::all_logits(context, text, 64, 0) == expected(text, source));
  EXPECT_TRUE(test::all_logits(context, text, 64, 1) == expected(text, golden.sources[2]));
}

TEST_F(SourceUse, TheBatchBeforeKeepsItsResults) {
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_best = 0});
  ASSERT_EQ(context.set_source(0, source), DecodeStatus::kOk);
  Batch batch;
  batch.add(text, 0);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const auto logits = context.logits(batch.size() - 1);
  const std::vector<float> before(logits.begin(), logits.end());
  ASSERT_EQ(context.set_source(1, golden.sources[2]), DecodeStatus::kOk);
  const auto still = context.logits(batch.size() - 1);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), still.begin()));
}

TEST_F(SourceUse, TokensAreSharedWhereSourcesAre) {
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  ASSERT_EQ(context.set_source(0, source), DecodeStatus::kOk);
  ASSERT_TRUE(context.cache().copy(0, 1));
  ASSERT_EQ(context.set_source(2, source), DecodeStatus::kOk);
  const std::vector<SeqId> both = {0, 1}, others = {0, 2};
  Batch batch;
  batch.add(text[0], both, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  batch.clear();
  batch.add(text[0], others, {.logits = true});
  test::expect_error(ErrorCode::kInvalidArgument, "different encoder inputs",
                     [&] { (void)context.decode(batch); });
}

TEST_F(SourceUse, RejectsInvalidSourcesWithoutSideEffects) {
  Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_source = 80});
  const auto refused = [&](SeqId seq, const std::vector<Token>& tokens, const char* part) {
    test::expect_error(ErrorCode::kInvalidArgument, part, [&] { (void)context.set_source(seq, tokens); });
  };
  ASSERT_EQ(context.set_source(0, source), DecodeStatus::kOk);
  refused(0, {}, "empty");
  refused(0, std::vector<Token>(81, 5), "n_source");
  refused(0, {5, model->info().n_vocab}, "vocabulary");
  refused(0, {-1}, "vocabulary");
  refused(2, source, "sequence 2");
  EXPECT_TRUE(test::all_logits(context, text, 64, 0) == expected(text, source));
  refused(0, source, "remove it first");
  EXPECT_EQ(context.set_source(1, std::vector<Token>(80, 5)), DecodeStatus::kOk);
  EXPECT_THROW(Context(model, {.n_ctx = 256, .n_source = -1}), Error);
  EXPECT_THROW(Context(model, {.n_ctx = 256, .n_source = 1 << 20}), Error);
  // Sequences without a source, and a part of a sequence with another one.
  context.cache().remove(1);
  Batch batch;
  batch.add(text, 1);
  test::expect_error(ErrorCode::kInvalidArgument, "set_source", [&] { (void)context.decode(batch); });
  ASSERT_EQ(context.set_source(1, golden.sources[1]), DecodeStatus::kOk);
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  test::expect_error(ErrorCode::kInvalidArgument, "another encoder input",
                     [&] { (void)context.cache().copy(0, 1, 2, 4); });
}

TEST_F(SourceUse, RejectsUnsupportedUses) {
  Context context(model, {.n_ctx = 256});
  const auto refused = [&](const char* part, auto f) {
    test::expect_error(ErrorCode::kUnsupported, part, f);
  };
  refused("encoder input", [&] { const Embedder embedder(model); });
  Context plain(Model::load(test::golden_dir() / "llama" / "model.gguf"), {.n_ctx = 64});
  refused("has no encoder", [&] { (void)plain.set_source(0, source); });
  EXPECT_EQ(plain.source_size(0), 0);
}

/// A sequence continues from a state as if nothing had happened, in contexts of other sizes.
TEST_F(SourceUse, AStateHoldsTheSource) {
  const std::vector<float> whole = expected(text, source);
  const std::vector<Token> begin(text.begin(), text.begin() + 3), rest(text.begin() + 3, text.end());
  Context context(model, {.n_ctx = 256, .n_sequences = 3, .n_source = 200});
  ASSERT_EQ(context.set_source(1, golden.sources[1]), DecodeStatus::kOk);
  ASSERT_EQ(context.set_source(2, source), DecodeStatus::kOk);
  std::vector<float> before = test::all_logits(context, begin, 2, 2);
  const std::vector<std::byte> state = context.save(2);
  for (const int n_source : {static_cast<int>(source.size()), 130, 512}) {
    Context other(model, {.n_ctx = 128, .n_sequences = 2, .n_source = n_source});
    ASSERT_EQ(other.set_source(0, {source.data(), 5}), DecodeStatus::kOk);
    for (const SeqId seq : {0, 1}) {
      ASSERT_TRUE(other.restore(state, seq));
      EXPECT_EQ(other.source_size(seq), static_cast<int>(source.size()));
      EXPECT_TRUE(other.cache().consistent());
    }
    for (const SeqId seq : {0, 1}) {
      std::vector<float> both = before;
      const std::vector<float> after = test::all_logits(other, rest, 64, seq);
      both.insert(both.end(), after.begin(), after.end());
      EXPECT_TRUE(both == whole) << n_source;
    }
    EXPECT_GT(other.cache().bytes(), 0);
  }
  // A source that is too long changes nothing.
  Context small(model, {.n_ctx = 128, .n_source = static_cast<int>(source.size()) - 1});
  ASSERT_EQ(small.set_source(0, {source.data(), 3}), DecodeStatus::kOk);
  test::expect_error(ErrorCode::kInvalidArgument, "n_source", [&] { (void)small.restore(state, 0); });
  EXPECT_EQ(small.source_size(0), 3);
}

TEST_F(SourceUse, AContextsStateHoldsSourcesThatTextsShareOnce) {
  Context context(model, {.n_ctx = 256, .n_sequences = 5});
  ASSERT_EQ(context.set_source(1, source), DecodeStatus::kOk);
  const std::size_t one = context.save().size();
  ASSERT_TRUE(context.cache().copy(1, 4));
  const std::size_t shared = context.save().size();
  ASSERT_EQ(context.set_source(3, source), DecodeStatus::kOk);
  const std::size_t two = context.save().size();
  EXPECT_GT(two - shared, 4 * (shared - one));
  (void)test::all_logits(context, text, 8, 4);
  const std::vector<std::byte> state = context.save();
  Context other(model, {.n_ctx = 256, .n_sequences = 6});
  ASSERT_EQ(other.set_source(0, golden.sources[1]), DecodeStatus::kOk);
  ASSERT_EQ(other.set_source(5, golden.sources[2]), DecodeStatus::kOk);
  ASSERT_TRUE(other.restore(state));
  EXPECT_TRUE(other.cache().consistent());
  for (const SeqId seq : {0, 2, 5}) EXPECT_EQ(other.source_size(seq), 0);
  EXPECT_EQ(other.cache().next_pos(4), static_cast<Pos>(text.size()));
  for (const SeqId seq : {1, 3}) EXPECT_TRUE(test::all_logits(other, text, 8, seq) == expected(text, source));
  other.cache().remove(4);
  ASSERT_TRUE(other.cache().copy(1, 4, 0, 2));
  EXPECT_EQ(other.source_size(4), static_cast<int>(source.size()));
  EXPECT_EQ(other.save(0).size(), Context(model, {.n_ctx = 64}).save(0).size());
}

TEST_F(SourceUse, DamagedStatesAreRefusedAndChangeNothing) {
  Context context(model, {.n_ctx = 64, .n_source = 40});
  const std::vector<Token> few(source.begin(), source.begin() + 4);
  ASSERT_EQ(context.set_source(0, few), DecodeStatus::kOk);
  (void)test::all_logits(context, text, 64, 0);
  const std::vector<std::byte> state = context.save(0);
  Context other(model, {.n_ctx = 64, .n_source = 40});
  ASSERT_EQ(other.set_source(0, {source.data(), 3}), DecodeStatus::kOk);
  for (std::size_t i = 0; i < state.size(); i += i < 600 ? 1 : 97) {
    std::vector<std::byte> damaged = state;
    damaged[i] ^= std::byte{1};
    EXPECT_THROW((void)other.restore(damaged, 0), Error) << i;
    EXPECT_THROW((void)other.restore(std::span(state).first(i), 0), Error) << i;
  }
  Context plain(Model::load(test::golden_dir() / "llama" / "model.gguf"), {.n_ctx = 64});
  EXPECT_THROW((void)plain.restore(state, 0), Error);
  EXPECT_THROW((void)other.restore(plain.save(0), 0), Error);
  EXPECT_EQ(other.source_size(0), 3);
  EXPECT_EQ(other.cache().next_pos(0), 0);
  EXPECT_TRUE(other.cache().consistent());
}

TEST_F(SourceUse, ACancelledSourceIsNone) {
  Context context(model, {.n_ctx = 256});
  context.cancel();
  EXPECT_EQ(context.set_source(0, source), DecodeStatus::kCancelled);
  EXPECT_EQ(context.source_size(0), 0);
  EXPECT_TRUE(logits_about(context, source, text, 5) == expected(text, source));
}

TEST_F(SourceUse, ADeviceThatFailsLeavesNoSource) {
  const auto on_small = test::load_with_small(golden.model(), std::uint64_t{1} << 40, true, {.n_layers = 1});
  Context context(on_small, {.n_ctx = 256, .n_ubatch = 16, .n_threads = 1});
  std::atomic<bool>& fails =
      dynamic_cast<test::SmallDevice&>(*on_small->impl().devices.devices[0]).conduct->fails;
  fails = true;
  test::expect_error(ErrorCode::kDevice, "lost", [&] { (void)context.set_source(0, source); });
  EXPECT_EQ(context.source_size(0), 0);
  fails = false;
  EXPECT_TRUE(logits_about(context, source, text, 5) == expected(text, source));
  // Also for a source that replaces another. A sequence whose cells were to be moved is not intact.
  ASSERT_EQ(context.set_source(0, golden.sources[1]), DecodeStatus::kOk);
  fails = true;
  test::expect_error(ErrorCode::kDevice, "lost", [&] { (void)context.set_source(0, source); });
  EXPECT_EQ(context.source_size(0), 0);
  EXPECT_TRUE(context.cache().consistent());
  fails = false;
  EXPECT_TRUE(logits_about(context, source, text, 5) == expected(text, source));
}

}  // namespace
}  // namespace weft
