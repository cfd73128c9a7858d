// Texts that outlive the cache: saved, taken up by another batcher, dropped.
#include <numeric>
#include <thread>

#include "engine/batcher_testing.h"
#include "engine/model_impl.h"
#include "engine/small_device.h"
#include "weft/prefix_state.h"
#include "weft/service.h"

namespace weft {
namespace {

using test::alone;
using test::Ask;
using test::code_of;
using test::Collector;
using test::expect_same;
using test::golden;
using test::random_ask;
using test::Result;

Ask ask_of(const Model& model, int n_prompt, std::uint64_t seed, int n_predict = 20) {
  Ask ask;
  std::mt19937_64 random(seed);
  for (int i = 0; i < n_prompt; ++i)
    ask.prompt.push_back(static_cast<Token>(random() % static_cast<unsigned>(model.info().n_vocab)));
  ask.params = {.n_predict = n_predict, .ignore_end = true};
  ask.params.sampler.seed = seed;
  return ask;
}

/// The prompt and the completion.
std::vector<Token> whole_text(const Ask& ask, const Result& result) {
  std::vector<Token> text = ask.prompt;
  text.insert(text.end(), result.tokens.begin(), result.tokens.end());
  return text;
}

Result run(Batcher& batcher, const Ask& ask) {
  Collector collector;
  const RequestId id = collector.submit(batcher, ask);
  batcher.run();
  return collector(id);
}

struct SavedSetting {
  const char* family;
  int window_rewind;
};
void PrintTo(const SavedSetting& setting, std::ostream* out) {
  *out << setting.family << setting.window_rewind;
}

class SavedTexts : public testing::TestWithParam<SavedSetting> {
 protected:
  const std::shared_ptr<const Model> model_ = golden(GetParam().family);
  const ContextParams params_ = {
      .n_ctx = 512, .n_sequences = 4, .n_threads = 1, .window_rewind = GetParam().window_rewind};
};

TEST_P(SavedTexts, GoOnInAnotherBatcher) {
  const Ask first = ask_of(*model_, 90, 1);
  std::vector<Token> text;
  SavedPrefix saved;
  {
    Context context(model_, params_);
    Batcher batcher(context);
    text = whole_text(first, run(batcher, first));
    EXPECT_EQ(batcher.save_prefix(std::vector<Token>{text[1], text[0]}).n_tokens, 0);
    saved = batcher.save_prefix(text);
    EXPECT_EQ(saved.n_tokens, static_cast<int>(text.size()) - 1) << "the last token was not computed";
    EXPECT_TRUE(batcher.consistent());
  }
  Context context(model_,
                  {.n_ctx = 700, .n_sequences = 3, .n_threads = 1, .window_rewind = params_.window_rewind});
  Batcher batcher(context);
  const std::vector<Token> restored = batcher.restore_prefix(saved.state).tokens;
  EXPECT_EQ(restored, std::vector<Token>(text.begin(), text.end() - 1));
  EXPECT_TRUE(batcher.consistent());
  Ask next = ask_of(*model_, 7, 2);
  next.prompt.insert(next.prompt.begin(), text.begin(), text.end());
  const Result result = run(batcher, next);
  expect_same(result, alone(model_, next), "behind a restored text");
  EXPECT_EQ(result.stats.n_cached, saved.n_tokens);
  // It was a finished sequence like others: its continuation replaces it, and may have left a snapshot.
  EXPECT_EQ(batcher.forget_prefix(restored), context.cache().cuts_anywhere() ? 1 : 2);
  EXPECT_EQ(batcher.stats().cells_used, 0);
  EXPECT_EQ(run(batcher, next).stats.n_cached, 0);
}

TEST_P(SavedTexts, SavesOnlyTheRequestedPart) {
  Context context(model_, params_), other_context(model_, params_);
  Batcher batcher(context), other(other_context);
  const Ask ask = ask_of(*model_, 90, 1, 2);
  const std::vector<Token> text = whole_text(ask, run(batcher, ask));
  const SavedPrefix saved = batcher.save_prefix(std::span(text).first(70));
  if (!context.cache().cuts_anywhere() && saved.n_tokens == 0) return;  // It keeps only whole sequences.
  EXPECT_EQ(saved.n_tokens, 70);
  EXPECT_EQ(other.restore_prefix(saved.state).tokens, std::vector<Token>(text.begin(), text.begin() + 70));
  EXPECT_EQ(other.stats().cells_used, 70);
  EXPECT_TRUE(batcher.consistent());
  EXPECT_TRUE(other.consistent());
  expect_same(run(other, ask), alone(model_, ask), "from a part");
}

TEST_P(SavedTexts, DamageIsRefused) {
  Context context(model_, params_), other_context(model_, params_);
  Batcher batcher(context), other(other_context);
  const Ask ask = ask_of(*model_, 20, 3, 4);
  const std::vector<Token> text = whole_text(ask, run(batcher, ask));
  const std::vector<std::byte> good = batcher.save_prefix(text).state;
  std::mt19937_64 random(4);
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bad = good;
    if (i % 3 == 0) {
      bad.resize(random() % bad.size());
    } else {
      bad[i < 60 ? static_cast<std::size_t>(i) : random() % bad.size()] ^= std::byte{1} << random() % 8;
    }
    const std::optional<ErrorCode> code = code_of([&] { other.restore_prefix(bad); });
    EXPECT_TRUE(code == ErrorCode::kInvalidFile || code == ErrorCode::kUnsupported);
  }
  // What has right checksums and contradicts itself.
  const PrefixState parts = read_prefix_state(good);
  const auto made = [&](std::vector<Token> tokens, std::span<const std::byte> state) {
    return code_of([&] { other.restore_prefix(write_prefix_state(tokens, state)); });
  };
  std::vector<Token> tokens = parts.tokens;
  tokens.pop_back();
  EXPECT_EQ(made(tokens, parts.state), ErrorCode::kInvalidFile);
  tokens.push_back(model_->info().n_vocab);
  EXPECT_EQ(made(tokens, parts.state), ErrorCode::kInvalidArgument);
  EXPECT_EQ(made(parts.tokens, parts.state.first(parts.state.size() - 1)), ErrorCode::kInvalidFile);
  EXPECT_EQ(made({}, {}), ErrorCode::kInvalidFile);
  EXPECT_EQ(other.stats().cells_used, 0);
  EXPECT_TRUE(other.consistent());
  EXPECT_EQ(other.restore_prefix(good).tokens, parts.tokens);
}

INSTANTIATE_TEST_SUITE_P(Models, SavedTexts,
                         testing::Values(SavedSetting{"llama", 256}, SavedSetting{"gemma3", 256},
                                         SavedSetting{"gemma3", 0}, SavedSetting{"gemma3", -1},
                                         SavedSetting{"lfm2", 256}, SavedSetting{"mamba", 256}));

TEST(SavedPrefix, SavesRunningStreams) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 3, .n_threads = 1});
  Batcher batcher(context);
  Collector collector;
  const Ask ask = ask_of(*model, 100, 5, 40);
  const RequestId id = collector.submit(batcher, ask);
  while (collector(id).tokens.size() < 3) batcher.step();
  EXPECT_EQ(batcher.save_prefix(ask.prompt).n_tokens, 100);
  EXPECT_EQ(batcher.save_prefix(whole_text(ask, collector(id))).n_tokens, 102);
  EXPECT_EQ(batcher.forget_prefix(ask.prompt), 0) << "it runs";
  batcher.run();
  expect_same(collector(id), alone(model, ask), "saved while it ran");
}

TEST(SavedPrefix, OnlyTheTextThatIsNamedIsForgotten) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 1024, .n_sequences = 8, .n_threads = 1});
  Batcher batcher(context);
  const Ask one = ask_of(*model, 60, 1), two = ask_of(*model, 60, 2);
  const std::vector<Token> text = whole_text(one, run(batcher, one));
  run(batcher, two);
  EXPECT_EQ(batcher.forget_prefix({}), 0);
  EXPECT_EQ(batcher.forget_prefix(std::vector<Token>{text[1]}), 0);
  EXPECT_EQ(batcher.forget_prefix(text), 1);
  EXPECT_EQ(batcher.save_prefix(text).n_tokens, 0);
  EXPECT_EQ(batcher.save_prefix(two.prompt).n_tokens, 60);
  EXPECT_EQ(batcher.forget_prefix(std::span(two.prompt).first(10)), 1);
  EXPECT_EQ(batcher.stats().cells_used, 0);
  EXPECT_TRUE(batcher.consistent());
}

TEST(SavedPrefix, EvictsFinishedSequencesOnly) {
  const auto model = golden("llama");
  Context big(model, {.n_ctx = 512, .n_sequences = 2, .n_threads = 1});
  Batcher source(big);
  const Ask ask = ask_of(*model, 100, 1, 2), large = ask_of(*model, 300, 2, 2);
  const SavedPrefix saved = source.save_prefix(whole_text(ask, run(source, ask)));
  const SavedPrefix too_large = source.save_prefix(whole_text(large, run(source, large)));

  Context context(model, {.n_ctx = 192, .n_sequences = 2, .n_threads = 1});
  Batcher batcher(context);
  run(batcher, ask_of(*model, 150, 3, 2));
  EXPECT_EQ(std::ssize(batcher.restore_prefix(saved.state).tokens), saved.n_tokens);
  EXPECT_EQ(batcher.stats().n_evicted, 1);
  EXPECT_EQ(code_of([&] { batcher.restore_prefix(too_large.state); }), ErrorCode::kInvalidArgument);
  Collector collector;
  const Ask running = ask_of(*model, 150, 4, 30);
  const RequestId id = collector.submit(batcher, running);
  while (collector(id).tokens.empty()) batcher.step();
  EXPECT_EQ(code_of([&] { batcher.restore_prefix(saved.state); }), ErrorCode::kOverloaded);
  batcher.run();
  expect_same(collector(id), alone(model, running), "beside a text that found no room");

  // A state of another model, and a batcher that keeps nothing.
  Context foreign(golden("gemma3"), {.n_ctx = 512, .n_sequences = 2, .n_threads = 1});
  Batcher stranger(foreign);
  EXPECT_EQ(code_of([&] { stranger.restore_prefix(saved.state); }), ErrorCode::kInvalidArgument);
  Context forgetful(model, {.n_ctx = 512, .n_sequences = 2, .n_threads = 1});
  Batcher keeps_nothing(forgetful, {.reuse_prefixes = false});
  EXPECT_EQ(code_of([&] { keeps_nothing.restore_prefix(saved.state); }), ErrorCode::kUnsupported);
}

TEST(SavedPrefix, APartNeedsASequence) {
  const auto model = golden("llama");
  Context context(model, {.n_ctx = 512, .n_sequences = 1, .n_threads = 1});
  Batcher batcher(context);
  const Ask ask = ask_of(*model, 60, 1, 2);
  const std::vector<Token> text = whole_text(ask, run(batcher, ask));
  EXPECT_EQ(batcher.save_prefix(text).n_tokens, 61);
  EXPECT_EQ(code_of([&] { (void)batcher.save_prefix(std::span(text).first(30)); }), ErrorCode::kOverloaded);
  EXPECT_TRUE(batcher.consistent());
  EXPECT_EQ(run(batcher, ask).stats.n_cached, 59);
}

/// After any failure, sequences are right and nothing is lost.
TEST(SavedPrefix, AreRightWhereADeviceFails) {
  for (const char* family : {"llama", "gemma3", "lfm2"}) {
    const auto plain = golden(family);
    const auto model = test::load_with_small(test::golden_dir() / family / "model.gguf",
                                             std::uint64_t{1} << 32, true, {.n_layers = 1});
    test::Conduct& conduct = *dynamic_cast<test::SmallDevice&>(*model->impl().devices.devices[0]).conduct;
    std::mt19937_64 random(8);
    std::vector<Ask> asks;
    std::vector<Result> references;
    for (int i = 0; i < 12; ++i) {
      asks.push_back(random_ask(*plain, random));
      references.push_back(alone(plain, asks.back()));
    }
    Context context(model, {.n_ctx = 192, .n_sequences = 6, .n_threads = 1});
    Batcher batcher(context, {.n_running = 3});
    conduct.during = [n = 0]() mutable {
      if (++n % 17 == 0) throw Error(ErrorCode::kDevice, "the device hiccups");
    };
    Collector collector;
    std::vector<RequestId> ids;
    std::vector<std::vector<std::byte>> saved;
    int n_restored = 0;
    for (int round = 0; round < 300; ++round) {
      if (round % 10 == 0) {
        const std::size_t which = static_cast<std::size_t>(round / 10) % asks.size();
        ids.push_back(collector.submit(batcher, asks[which]));
      }
      const Ask& ask = asks[random() % asks.size()];
      try {
        switch (random() % 5) {
          case 0:
            if (SavedPrefix text = batcher.save_prefix(ask.prompt); text.n_tokens > 0)
              saved.push_back(text.state);
            break;
          case 1:
            if (saved.empty()) break;
            batcher.restore_prefix(saved[random() % saved.size()]);
            ++n_restored;
            break;
          case 2:
            batcher.forget_prefix(ask.prompt);
            break;
          default:
            batcher.step();
        }
      } catch (const Error& error) {
        EXPECT_TRUE(error.code() == ErrorCode::kDevice || error.code() == ErrorCode::kOverloaded)
            << error.what();
      }
      ASSERT_TRUE(batcher.consistent()) << family << ", round " << round;
    }
    batcher.run();
    conduct.during = [] {};
    EXPECT_GT(n_restored, 0);
    for (std::size_t i = 0; i < ids.size(); ++i)
      expect_same(collector(ids[i]), references[i % asks.size()], std::string(family) + std::to_string(i));
    EXPECT_EQ(batcher.stats().cells_used, batcher.stats().cells_cached);
  }
}

TEST(SavedPrefix, AnyThreadSavesAndRestores) {
  const auto model = golden("llama");
  Service service(Context(model, {.n_ctx = 512, .n_sequences = 10, .n_threads = 1}));
  std::vector<std::thread> clients;
  for (std::uint64_t c = 0; c < 4; ++c)
    clients.emplace_back([&, c] {
      const Ask ask = ask_of(*model, 40, 100 + c);
      const Result reference = alone(model, ask);
      for (int i = 0; i < 6; ++i) {
        Response response = service.submit(ask.prompt, ask.params);
        Result result;
        for (Output chunk; response.next(chunk);) {
          result.text += chunk.text;
          for (const OutputToken& token : chunk.tokens) result.tokens.push_back(token.id);
          result.done = chunk.done;
          result.stop = chunk.stop;
          result.stats = chunk.stats;
        }
        expect_same(result, reference, "a client");
        EXPECT_EQ(result.stats.n_cached, i == 0 ? 0 : 39);
        const SavedPrefix saved = service.save_prefix(whole_text(ask, result));
        EXPECT_EQ(saved.n_tokens, 59);
        EXPECT_EQ(service.forget_prefix(ask.prompt), 1);
        EXPECT_EQ(std::ssize(service.restore_prefix(saved.state).tokens), 59);
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(code_of([&] { service.restore_prefix(std::vector<std::byte>(100)); }), ErrorCode::kInvalidFile);
  service.shutdown();
  EXPECT_EQ(code_of([&] { service.save_prefix(std::vector<Token>{1}); }), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace weft
