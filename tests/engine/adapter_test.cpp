// Adapters compared with models with merged matrices, and mixed batches compared with each sequence alone,
// bit by bit.
#include <gmock/gmock.h>

#include <cstring>
#include <limits>
#include <tuple>

#include "engine/adapter_testing.h"
#include "engine/families_tried.h"
#include "weft/embedder.h"

namespace weft {
namespace {

using test::all_logits;
using testing::HasSubstr;

std::filesystem::path data(const std::string& name) {
  return std::filesystem::path(WEFT_TEST_DATA) / "adapters" / name;
}
std::filesystem::path llama() { return test::golden_dir() / "llama" / "model.gguf"; }
std::vector<Token> llama_tokens() { return test::read_tokens(test::golden_dir() / "llama" / "tokens.json"); }

ContextParams f32_cache(int n_threads, std::vector<AdapterUse> adapters = {}) {
  return {.n_ctx = 128,
          .n_threads = n_threads,
          .k_type = CacheType::kF32,
          .v_type = CacheType::kF32,
          .adapters = std::move(adapters)};
}

ModelParams with_adapters(std::vector<AdapterFile> adapters, CpuIsa isa = CpuIsa::kBest) {
  ModelParams params;
  params.isa = isa;
  params.adapters = std::move(adapters);
  return params;
}

TEST(Adapters, LogitsAreThoseOfTheMergedModel) {
  const std::vector<Token> tokens = llama_tokens();
  for (const CpuIsa isa : {CpuIsa::kGeneric, CpuIsa::kBest}) {
    const auto model = Model::load(llama(), with_adapters({{data("one.gguf")}, {data("two.gguf")}}, isa));
    ASSERT_EQ(model->adapters().size(), 2u);
    EXPECT_EQ(model->adapters()[0].name, "one");
    EXPECT_EQ(model->adapters()[0].rank, 5);
    EXPECT_EQ(model->adapters()[1].rank, 8);
    EXPECT_EQ(model->adapters()[0].n_tensors, 22);
    const std::pair<const char*, std::vector<AdapterUse>> cases[] = {
        {"logits_one.f32", {{0, 1.0f}}},
        {"logits_two.f32", {{1, 1.0f}}},
        {"logits_both.f32", {{1, -1.5f}, {0, 0.5f}}}};
    for (const auto& [file, uses] : cases) {
      const std::vector<float> reference = test::read_floats(data(file));
      std::vector<float> first;
      for (const int n_threads : {1, 2})
        for (const std::size_t piece : {tokens.size(), std::size_t{7}, std::size_t{1}}) {
          Context context(model, f32_cache(n_threads, uses));
          const std::vector<float> logits = all_logits(context, tokens, piece);
          if (first.empty()) {
            first = logits;
            EXPECT_LE(test::nmse(logits, reference), 1e-6) << file;
          }
          EXPECT_TRUE(logits == first) << file << ": pieces of " << piece << ", " << n_threads << " threads";
        }
    }
  }
}

TEST(Adapters, RejectsControlVectorsThatAreNotFinite) {
  const auto path = test::temporary("infinite.gguf");
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [bad, name] : {std::pair(-inf, "(-inf)"), std::pair(nan, "(nan)")}) {
    std::vector<float> direction(128);
    direction.back() = bad;
    gguf::Writer writer;
    writer.set("general.architecture", "controlvector");
    writer.add_tensor("direction.1", DType::kF32, {128}, std::as_bytes(std::span(direction)));
    writer.write_file(path);
    ModelParams params;
    params.control_vectors = {{path, 1.0f}};
    EXPECT_THAT([&] { Model::load(llama(), params); },
                testing::ThrowsMessage<Error>(
                    HasSubstr(std::string("direction.1 has a value that is not finite ") + name)));
  }
  std::filesystem::remove(path);
}

TEST(Adapters, ControlVectorsAreAddedAfterTheirLayers) {
  const std::vector<Token> tokens = llama_tokens();
  const auto logits = [&](float scale, int first, int last) {
    ModelParams params;
    params.control_vectors = {{data("control.gguf"), scale}};
    params.first_control_layer = first;
    params.last_control_layer = last;
    Context context(Model::load(llama(), params), f32_cache(1));
    return all_logits(context, tokens, 7);
  };
  const std::vector<float> reference = test::read_floats(data("logits_control.f32"));
  EXPECT_LE(test::nmse(logits(2.0f, -1, -1), reference), 1e-6);
  EXPECT_LE(test::nmse(logits(2.0f, 1, 2), reference), 1e-6);
  EXPECT_GT(test::nmse(logits(2.0f, 2, 2), reference), 1e-4);
  EXPECT_THROW(logits(2.0f, 2, 1), Error);
  EXPECT_THROW(logits(2.0f, 3, 3), Error);
  EXPECT_THROW(logits(std::numeric_limits<float>::quiet_NaN(), -1, -1), Error);
}

/// transformers' logits with hooks after the layers (scripts/make_control_golden.py), for families with
/// special layers.
TEST(Adapters, ControlVectorsAreAddedToAllThatALayerGives) {
  const std::filesystem::path folder = std::filesystem::path(WEFT_TEST_DATA) / "control";
  for (const std::string name : {"nemotron_h", "gemma3n", "gemma4"}) {
    const std::filesystem::path golden = test::golden_dir() / name;
    ModelParams params;
    params.control_vectors = {{folder / (name + ".gguf"), 1.0f}};
    Context context(Model::load(golden / "model.gguf", params), f32_cache(1));
    const std::vector<float> logits = all_logits(context, test::read_tokens(golden / "tokens.json"), 7);
    EXPECT_LE(test::nmse(logits, test::read_floats(folder / (name + ".f32"))), 1e-6) << name;
  }
}

TEST(Adapters, AStateOfAModelWithOtherControlVectorsIsRefused) {
  ModelParams params;
  params.control_vectors = {{data("control.gguf"), 1.0f}};
  Context plain(Model::load(llama()), f32_cache(1)), controlled(Model::load(llama(), params), f32_cache(1));
  all_logits(controlled, llama_tokens(), 16);
  EXPECT_THROW((void)plain.restore(controlled.save(0), 0), Error);
  EXPECT_EQ(plain.cache().next_pos(0), 0);
}

/// Every family that has matrices to adapt.
class AdaptedFamily : public testing::TestWithParam<const char*> {
 protected:
  AdaptedFamily()
      : path(test::golden_dir() / GetParam() / "model.gguf"),
        file(gguf::File::open(path)),
        tokens(test::read_tokens(test::golden_dir() / GetParam() / "tokens.json")),
        first(test::random_adapter(file, 1, 3)),
        second(test::random_adapter(file, 2, 16, 0.5)) {
    files = {{test::write_adapter(file, first, "first")}, {test::write_adapter(file, second, "second")}};
  }
  ~AdaptedFamily() override {
    for (const AdapterFile& adapter : files) std::filesystem::remove(adapter.path);
  }
  std::vector<float> alone(const std::shared_ptr<const Model>& model, std::vector<AdapterUse> uses) const {
    // LongRope's factors depend on the length of contexts: compared contexts have the same length.
    Context context(model, {.n_ctx = 512, .n_threads = 1, .adapters = std::move(uses)});
    return all_logits(context, tokens, 5);
  }

  const std::filesystem::path path;
  const gguf::File file;
  const std::vector<Token> tokens;
  const test::RandomAdapter first, second;
  std::vector<AdapterFile> files;
};

TEST_P(AdaptedFamily, LogitsAreThoseOfTheMergedModel) {
  const auto merged_path = test::write_merged(file, first, 0.75f, "merged");
  Context merged(Model::load(merged_path), f32_cache(1));
  std::filesystem::remove(merged_path);
  Context adapted(Model::load(path, with_adapters(files)), f32_cache(1, {{0, 0.75f}}));
  Context plain(Model::load(path), f32_cache(1));
  const std::vector<float> expected = all_logits(merged, tokens, 16);
  EXPECT_LE(test::nmse(all_logits(adapted, tokens, 16), expected), 1e-6);
  EXPECT_GT(test::nmse(all_logits(plain, tokens, 16), expected), 1e-5) << "the adapter does nothing";
}

TEST_P(AdaptedFamily, ControlVectorsAreAddedBehindEachLayer) {
  const std::string key = std::string(*file.get_string("general.architecture")) + ".embedding_length";
  const std::int64_t n_embd = *file.get_int(key);
  std::vector<float> direction(static_cast<std::size_t>(n_embd));
  for (std::size_t i = 0; i < direction.size(); ++i) direction[i] = i % 3 == 0 ? 0.5f : -0.25f;
  gguf::Writer writer;
  writer.set("general.architecture", "controlvector");
  writer.add_tensor("direction.1", DType::kF32, {n_embd}, std::as_bytes(std::span(direction)));
  const auto vector = test::temporary("family-vector.gguf");
  writer.write_file(vector);
  const auto logits = [&](float scale) {
    ModelParams params;
    params.control_vectors = {{vector, scale}};
    Context context(Model::load(path, params), f32_cache(1));
    return all_logits(context, tokens, 16);
  };
  Context plain(Model::load(path), f32_cache(1));
  const std::vector<float> expected = all_logits(plain, tokens, 16);
  EXPECT_TRUE(logits(0.0f) == expected);
  EXPECT_GT(test::nmse(logits(1.0f), expected), 1e-7);
  std::filesystem::remove(vector);
}

class AdaptedBatches : public AdaptedFamily {};

TEST_P(AdaptedBatches, MixedBatchesGiveTheBitsOfEachSequenceAlone) {
  const auto plain = Model::load(path), model = Model::load(path, with_adapters(files));
  const std::vector<std::vector<AdapterUse>> uses = {{}, {{0, 1.0f}}, {{1, 0.5f}}, {{0, -0.5f}, {1, 2.0f}}};
  std::vector<std::vector<float>> expected = {alone(plain, {})};
  for (std::size_t i = 1; i < uses.size(); ++i) expected.push_back(alone(model, uses[i]));
  for (std::size_t i = 1; i < uses.size(); ++i) EXPECT_FALSE(expected[i] == expected[0]);

  Context context(model, {.n_ctx = 512, .n_sequences = 4, .n_ubatch = 24, .n_threads = 2});
  for (SeqId seq = 0; seq < 4; ++seq) context.set_adapters(seq, uses[static_cast<std::size_t>(seq)]);
  std::vector<std::vector<float>> logits(4);
  // Sequences in pieces of their own lengths, in every order.
  std::vector<std::size_t> done(4);
  for (std::size_t round = 0;
       std::any_of(done.begin(), done.end(), [&](auto n) { return n < tokens.size(); }); ++round) {
    Batch batch;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t seq = (i + round) % 4,
                        n = std::min(1 + (seq * 3 + round) % 5, tokens.size() - done[seq]);
      for (std::size_t t = 0; t < n; ++t) {
        batch.add(tokens[done[seq]++], static_cast<SeqId>(seq), {.logits = true});
        owner.push_back(seq);
      }
    }
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    for (int i = 0; i < batch.size(); ++i) {
      const auto row = context.logits(i);
      std::vector<float>& to = logits[owner[static_cast<std::size_t>(i)]];
      to.insert(to.end(), row.begin(), row.end());
    }
  }
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(logits[i] == expected[i]) << "sequence " << i;
}

TEST_P(AdaptedBatches, OnTwoDevicesTheyHaveTheSameBits) {
  const std::vector<AdapterUse> uses = {{0, -0.5f}, {1, 2.0f}};
  const std::vector<float> expected = alone(Model::load(path, with_adapters(files)), uses);
  ModelParams params = with_adapters(files);
  params.placement.devices = {"cpu", "cpu1=cpu"};
  for (const int n_layers : {0, 1, 1000}) {
    params.placement.n_layers = n_layers;
    EXPECT_TRUE(alone(Model::load(path, params), uses) == expected) << n_layers << " layers";
  }
  params.placement.split_rows = true;
  EXPECT_TRUE(alone(Model::load(path, params), uses) == expected) << "rows";
  params.placement = {};
  params.repack = false;
  EXPECT_TRUE(alone(Model::load(path, params), uses) == expected) << "as they lie in the file";
}

TEST_P(AdaptedBatches, StepsAllocateNothing) {
  Context context(Model::load(path, with_adapters(files)), {.n_ctx = 128, .n_sequences = 2, .n_threads = 1});
  context.set_adapters(1, std::vector<AdapterUse>{{0, 1.0f}, {1, 1.0f}});
  const auto step = [&](Token token) {
    Batch batch;
    batch.add(token, 0, {.logits = true});
    batch.add(token, 1, {.logits = true});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  };
  step(1);
  const auto before = context.plan_stats();
  for (Token token = 2; token < 9; ++token) step(token);
  EXPECT_EQ(context.plan_stats().compiled, before.compiled);
  EXPECT_EQ(context.plan_stats().workspace_bytes, before.workspace_bytes);
}

INSTANTIATE_TEST_SUITE_P(Families, AdaptedFamily, testing::ValuesIn(test::kFamilies), test::name_of_family);
INSTANTIATE_TEST_SUITE_P(Families, AdaptedBatches, testing::ValuesIn(test::kinds_of_families()),
                         test::name_of_family);

/// Sequences of the golden llama with both adapters.
class AdaptedContext : public testing::Test {
 protected:
  AdaptedContext()
      : model(Model::load(llama(), with_adapters({{data("one.gguf")}, {data("two.gguf"), "zwei"}}))),
        context(model, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1}) {}

  std::string refusal(SeqId seq, const std::vector<AdapterUse>& uses) {
    try {
      context.set_adapters(seq, uses);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "";
  }
  std::vector<AdapterUse> of(SeqId seq) const {
    const auto uses = context.adapters(seq);
    return {uses.begin(), uses.end()};
  }

  const std::vector<AdapterUse> one = {{0, 1.0f}}, two = {{1, 0.5f}};
  const std::vector<Token> few = {9, 4, 7, 200, 1};
  std::shared_ptr<const Model> model;
  Context context;
};

TEST_F(AdaptedContext, RejectsInvalidAdapters) {
  EXPECT_THAT(refusal(0, {{2, 1.0f}}), HasSubstr("known are 0 to 1"));
  EXPECT_THAT(refusal(0, {{-1, 1.0f}}), HasSubstr("unknown adapter -1; known are 0 to 1"));
  EXPECT_THAT(refusal(0, {{0, 1.0f}, {0, 2.0f}}), HasSubstr("twice"));
  EXPECT_THAT(refusal(0, {{0, std::numeric_limits<float>::infinity()}}),
              HasSubstr("is inf, expected a finite number"));
  for (const float scale : {1.1e6f, -1e12f, 3e38f})
    EXPECT_THAT(refusal(0, {{0, scale}}), HasSubstr("a million at most")) << scale;
  EXPECT_THAT(refusal(9, {}), HasSubstr("sequence 9"));
  EXPECT_EQ(refusal(0, {{1, 0.5f}, {0, 1.0f}}), "");
  EXPECT_EQ(of(0), (std::vector<AdapterUse>{{0, 1.0f}, {1, 0.5f}}));
  EXPECT_EQ(refusal(0, {{1, 0.0f}}), "");
  EXPECT_TRUE(of(0).empty());
  all_logits(context, few, 5);
  EXPECT_THAT(refusal(0, one), HasSubstr("remove it first"));
  EXPECT_THROW(Context(model, {.n_ctx = 64, .adapters = {{5, 1.0f}}}), Error);
  EXPECT_THROW(Context(Model::load(llama()), {.n_ctx = 64, .adapters = one}), Error);
}

TEST_F(AdaptedContext, TextsKeepThemUntilTheyAreGone) {
  context.set_adapters(0, one);
  context.set_adapters(1, two);
  all_logits(context, few, 5, 0);
  all_logits(context, few, 5, 1);
  // A copy has the adapters of its sequence, and no others.
  ASSERT_TRUE(context.cache().copy(0, 2));
  EXPECT_EQ(of(2), one);
  EXPECT_THROW((void)context.cache().copy(0, 1, 0, 2), Error);
  EXPECT_EQ(of(1), two);
  ASSERT_TRUE(context.cache().copy(0, 1));  // All of it gives way.
  EXPECT_EQ(of(1), one);
  EXPECT_TRUE(context.cache().copy(3, 1, 3));  // Of nothing.
  context.cache().remove(1, 2);
  EXPECT_EQ(of(1), one);
  context.cache().remove(1);
  EXPECT_TRUE(of(1).empty());
  context.cache().keep(2);
  EXPECT_TRUE(of(0).empty());
  EXPECT_EQ(of(2), one);
  // Tokens are shared among those with the same only.
  context.set_adapters(0, one);
  context.set_adapters(1, two);
  Batch batch;
  const SeqId both[] = {0, 1};
  batch.add(3, both, {.logits = true});
  EXPECT_THROW((void)context.decode(batch), Error);
  EXPECT_EQ(of(0), one);
  context.set_adapters(1, one);
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
}

TEST_F(AdaptedContext, AFailedBatchLeavesThemAsTheyWere) {
  context.set_adapters(0, one);
  Batch batch;
  batch.add(3, 0, {.logits = true});
  context.cancel();
  EXPECT_EQ(context.decode(batch), DecodeStatus::kCancelled);
  EXPECT_EQ(context.cache().next_pos(0), 0);
  EXPECT_EQ(of(0), one);
}

TEST_F(AdaptedContext, AStateGoesOnWithItsOwn) {
  context.set_adapters(0, one);
  context.set_adapters(1, two);
  all_logits(context, few, 5, 0);
  all_logits(context, few, 5, 1);
  all_logits(context, few, 5, 2);
  const std::vector<std::byte> whole = context.save(), single = context.save(1);
  std::vector<std::vector<float>> expected;
  for (SeqId seq = 0; seq < 3; ++seq) expected.push_back(all_logits(context, few, 1, seq));

  // Into a model that has them in another order.
  const auto turned = Model::load(llama(), with_adapters({{data("two.gguf")}, {data("one.gguf")}}));
  Context other(turned, {.n_ctx = 512, .n_sequences = 4, .n_threads = 1, .adapters = {{1, 3.0f}}});
  ASSERT_TRUE(other.restore(whole));
  for (SeqId seq = 0; seq < 3; ++seq)
    EXPECT_TRUE(all_logits(other, few, 1, seq) == expected[static_cast<std::size_t>(seq)]) << seq;
  EXPECT_EQ(std::vector<AdapterUse>(other.adapters(3).begin(), other.adapters(3).end()),
            (std::vector<AdapterUse>{{1, 3.0f}}));
  ASSERT_TRUE(other.restore(single, 3));
  EXPECT_TRUE(all_logits(other, few, 1, 3) == expected[1]);
  // Nothing is restored where one is missing.
  Context lacking(Model::load(llama(), with_adapters({{data("one.gguf")}})),
                  {.n_ctx = 512, .n_sequences = 4});
  EXPECT_THROW((void)lacking.restore(whole), Error);
  EXPECT_THROW((void)lacking.restore(single, 0), Error);
  EXPECT_EQ(lacking.cache().cells_used(), 0);
  Context plain(Model::load(llama()), {.n_ctx = 512, .n_sequences = 4, .n_threads = 1});
  ASSERT_TRUE(plain.restore(context.save(2), 0));
}

TEST_F(AdaptedContext, AnEmbedderReadsWithThem) {
  const std::vector<TextTokens> texts = {{few}, {std::span(few).first(3)}};
  const auto vectors = [&](const std::shared_ptr<const Model>& of, std::vector<AdapterUse> uses) {
    Embedder embedder(of, {.n_tokens = 64, .n_threads = 1, .adapters = std::move(uses)});
    const std::vector<float> first = embedder.embed(texts, Pooling::kMean);
    EXPECT_TRUE(embedder.embed(texts, Pooling::kMean) == first);  // Also after its strings are dropped.
    return first;
  };
  const std::vector<float> plain = vectors(Model::load(llama()), {}), adapted = vectors(model, one);
  EXPECT_TRUE(vectors(model, {}) == plain);
  EXPECT_GT(test::nmse(adapted, plain), 1e-4);
  EXPECT_GT(test::nmse(vectors(model, two), adapted), 1e-4);
  EXPECT_THROW(Embedder(model, {.adapters = {{2, 1.0f}}}), Error);
}

TEST_F(AdaptedContext, AStateFindsEachOfAdaptersThatAddTheSame) {
  const auto twins = Model::load(llama(), with_adapters({{data("one.gguf"), "a"}, {data("one.gguf"), "b"}}));
  Context writer(twins, {.n_ctx = 128, .n_threads = 1, .adapters = {{0, 1.0f}, {1, 0.5f}}});
  all_logits(writer, few, 5);
  const std::vector<std::byte> state = writer.save(0);
  const std::vector<float> expected = all_logits(writer, few, 1);
  Context reader(twins, {.n_ctx = 128, .n_threads = 1});
  ASSERT_TRUE(reader.restore(state, 0));
  EXPECT_EQ(reader.adapters(0).size(), 2u);
  EXPECT_TRUE(all_logits(reader, few, 1) == expected);
  // A single adapter can replace only one of them.
  EXPECT_THROW((void)context.restore(state, 0), Error);
}

/// What is wrong with an adapter's file.
class AdapterFiles : public testing::Test {
 protected:
  using Change = std::function<void(gguf::Writer&)>;
  std::string refusal(const std::function<void(gguf::Writer&)>& write) {
    gguf::Writer writer;
    write(writer);
    const auto path = test::temporary("wrong.gguf");
    writer.write_file(path);
    try {
      Model::load(llama(), with_adapters({{path}}));
    } catch (const Error& error) {
      std::filesystem::remove(path);
      return error.what();
    }
    std::filesystem::remove(path);
    return "";
  }
  static void head(gguf::Writer& writer, const char* architecture = "llama", const char* type = "lora") {
    writer.set("general.type", "adapter");
    writer.set("adapter.type", type);
    writer.set("general.architecture", architecture);
    writer.set("adapter.lora.alpha", 4.0f);
  }
  void add(gguf::Writer& writer, const std::string& name, std::vector<std::int64_t> shape,
           DType dtype = DType::kF32) {
    writer.add_tensor(name, dtype, std::move(shape), [](std::span<std::byte>) {});
  }
  /// All zeros but the last value.
  void add_ending_in(gguf::Writer& writer, const std::string& name, std::vector<std::int64_t> shape,
                     float last) {
    writer.add_tensor(name, DType::kF32, std::move(shape), [last](std::span<std::byte> bytes) {
      std::memset(bytes.data(), 0, bytes.size());
      std::memcpy(bytes.data() + bytes.size() - sizeof(last), &last, sizeof(last));
    });
  }
  const std::string q = "blk.0.attn_q.weight";
};

TEST_F(AdapterFiles, ValuesThatAreNoNumbersAreRefused) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b, name] :
       {std::tuple(nan, 0.0f, ".lora_a"), std::tuple(0.0f, -inf, ".lora_b"), std::tuple(inf, nan, ".lora_a")})
    EXPECT_THAT(refusal([&](auto& w) {
                  head(w);
                  add_ending_in(w, q + ".lora_a", {4, 128}, a);
                  add_ending_in(w, q + ".lora_b", {128, 4}, b);
                }),
                HasSubstr(q + name + " has a value that is not finite"));
}

TEST_F(AdapterFiles, ErrorsNameTheTensorOrKey) {
  EXPECT_THAT(refusal([&](auto& w) { w.set("general.architecture", "llama"); }), HasSubstr("general.type"));
  EXPECT_THAT(refusal([&](auto& w) { head(w, "llama", "other"); }), HasSubstr("adapter.type is \"other\""));
  EXPECT_THAT(refusal([&](auto& w) { head(w, "gemma"); }), HasSubstr("expected \"llama\""));
  EXPECT_THAT(refusal([&](auto& w) { head(w); }), HasSubstr("no tensors"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                w.set("adapter.lora.alpha", std::numeric_limits<float>::infinity());
                add(w, q + ".lora_a", {4, 128});
                add(w, q + ".lora_b", {128, 4});
              }),
              HasSubstr("adapter.lora.alpha"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, q + ".lora_a", {4, 128});
              }),
              HasSubstr(q + ".lora_b is missing"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, q + ".lora_a", {4, 127});
                add(w, q + ".lora_b", {128, 4});
              }),
              HasSubstr(q + ".lora_a has the shape [4, 127], expected [4, 128]"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, q + ".lora_a", {5, 128});
                add(w, q + ".lora_b", {128, 4});
              }),
              HasSubstr(q + ".lora_a has the shape [5, 128], expected [4, 128]"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, q + ".lora_a", {4, 128});
                add(w, q + ".lora_b", {64, 4});
              }),
              HasSubstr(q + ".lora_b has the shape"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, q + ".lora_a", {4, 128}, DType::kI32);
                add(w, q + ".lora_b", {128, 4});
              }),
              HasSubstr("has the type i32"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, "blk.7.attn_q.weight.lora_a", {4, 128});
                add(w, "blk.7.attn_q.weight.lora_b", {128, 4});
              }),
              HasSubstr("which the model lacks"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, "blk.0.attn_norm.weight", {128});
              }),
              HasSubstr("blk.0.attn_norm.weight does not belong"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, "blk.0.attn_norm.weight.lora_a", {4, 128});
                add(w, "blk.0.attn_norm.weight.lora_b", {1, 4});
              }),
              HasSubstr("supports LoRA on matrices only"));
  EXPECT_THAT(refusal([&](auto& w) {
                head(w);
                add(w, "token_embd.weight.lora_a", {4, 128});
                add(w, "token_embd.weight.lora_b", {512, 4});
              }),
              HasSubstr("token_embd.weight"));
  EXPECT_EQ(refusal([&](auto& w) {
              head(w);
              add(w, q + ".lora_a", {4, 128});
              add(w, q + ".lora_b", {128, 4});
            }),
            "");
  EXPECT_THROW(Model::load(llama(), with_adapters({{llama()}})), Error);
  EXPECT_THROW(Model::load(llama(), with_adapters({{data("nothing.gguf")}})), Error);
  EXPECT_THROW(Model::load(llama(), with_adapters({{data("control.gguf")}})), Error);
  EXPECT_THROW(Model::load(llama(), with_adapters({{data("one.gguf")}, {data("two.gguf"), "one"}})), Error);
}

TEST_F(AdapterFiles, OfExpertsHaveAPairForEach) {
  const auto path = test::golden_dir() / "mixtral" / "model.gguf";
  const std::string up = "blk.0.ffn_up_exps.weight";
  const std::vector<std::int64_t> shape = gguf::File::open(path).find_tensor(up)->shape;
  ASSERT_EQ(shape.size(), 3u);
  const std::int64_t n = shape[0], n_out = shape[1], n_in = shape[2];
  const auto why = [&](std::vector<std::int64_t> a, std::vector<std::int64_t> b) -> std::string {
    gguf::Writer writer;
    head(writer);  // Mixtral is a llama.
    add(writer, up + ".lora_a", std::move(a));
    add(writer, up + ".lora_b", std::move(b));
    const auto file = test::temporary("experts.gguf");
    writer.write_file(file);
    std::string reason;
    try {
      Model::load(path, with_adapters({{file}}));
    } catch (const Error& error) {
      reason = error.what();
    }
    std::filesystem::remove(file);
    return reason;
  };
  EXPECT_EQ(why({n, 4, n_in}, {n, n_out, 4}), "");
  EXPECT_THAT(why({4, n_in}, {n_out, 4}), HasSubstr(up + ".lora_b has the shape"));
  EXPECT_THAT(why({n - 1, 4, n_in}, {n, n_out, 4}), HasSubstr(up + ".lora_a has the shape"));
  EXPECT_THAT(why({n, 4, n_in}, {n, n_out - 1, 4}), HasSubstr(up + ".lora_b has the shape"));
}

TEST_F(AdapterFiles, ThatEndTooEarlyAreErrors) {
  const auto whole = data("one.gguf"), path = test::temporary("cut.gguf");
  const auto size = std::filesystem::file_size(whole);
  for (const auto left : {std::uintmax_t{0}, std::uintmax_t{10}, size / 3, size / 2, size - 1}) {
    std::filesystem::copy_file(whole, path, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(path, left);
    EXPECT_THROW(Model::load(llama(), with_adapters({{path}})), Error) << left << " bytes";
  }
  std::filesystem::remove(path);
}

TEST_F(AdapterFiles, MayHaveAnyRankAndBeMany) {
  const auto loads = [&](std::int64_t rank) {
    return refusal([&](auto& w) {
      head(w);
      add(w, q + ".lora_a", {rank, 128});
      add(w, q + ".lora_b", {128, rank});
    });
  };
  EXPECT_EQ(loads(1), "");
  EXPECT_EQ(loads(300), "");  // More than the matrix has.
  std::vector<AdapterFile> many;
  for (int i = 0; i < 300; ++i)
    many.push_back({data(i % 2 == 0 ? "one.gguf" : "two.gguf"), std::to_string(i)});
  const std::vector<Token> tokens = llama_tokens();
  Context context(Model::load(llama(), with_adapters(many)), f32_cache(1, {{299, 1.0f}}));
  EXPECT_LE(test::nmse(all_logits(context, tokens, 16), test::read_floats(data("logits_two.f32"))), 1e-6);
}

TEST_F(AdapterFiles, ControlVectorErrorsNameTheTensorOrKey) {
  const auto why = [&](const std::function<void(gguf::Writer&)>& write) -> std::string {
    gguf::Writer writer;
    writer.set("general.architecture", "controlvector");
    write(writer);
    const auto path = test::temporary("wrong-vector.gguf");
    writer.write_file(path);
    ModelParams params;
    params.control_vectors = {{path, 1.0f}};
    std::string reason;
    try {
      Model::load(llama(), params);
    } catch (const Error& error) {
      reason = error.what();
    }
    std::filesystem::remove(path);
    return reason;
  };
  EXPECT_THAT(why([&](auto&) {}), HasSubstr("no control vectors"));
  EXPECT_THAT(why([&](auto& w) { add(w, "direction.0", {128}); }),
              HasSubstr("direction.0 names a layer that is not from 1 to"));
  EXPECT_THAT(why([&](auto& w) { add(w, "direction.3", {128}); }),
              HasSubstr("direction.3 names a layer that is not from 1 to"));
  EXPECT_THAT(why([&](auto& w) { add(w, "direction.1x", {128}); }),
              HasSubstr("whose tensors are named direction.N"));
  EXPECT_THAT(why([&](auto& w) { add(w, "direction.", {128}); }),
              HasSubstr("whose tensors are named direction.N"));
  EXPECT_THAT(why([&](auto& w) { add(w, "direction.1", {127}); }),
              HasSubstr("but the model has the width 128"));
  EXPECT_EQ(why([&](auto& w) { add(w, "direction.1", {128}); }), "");
}

}  // namespace
}  // namespace weft
