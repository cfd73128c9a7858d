// States: a restored sequence continues bit by bit, and a damaged state is refused and changes nothing. A
// file is the old one or the new one after any failure during the write.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <iostream>
#include <map>
#include <random>
#include <thread>

#include "base/hash.h"
#include "base/read_file.h"
#include "engine/source_testing.h"
#include "engine/test_support.h"
#include "gguf/gguf.h"
#include "gguf/writer.h"
#include "weft/graph/extent.h"

namespace weft {
namespace {

using test::all_logits;
using Bytes = std::vector<std::byte>;

std::vector<Token> state_tokens(const std::string& name) {
  return test::read_tokens(test::golden_dir() / name / "tokens.json");
}

/// The logits of the next token, which leaves no trace.
std::vector<float> peek(Context& context, SeqId seq, Token token = 7) {
  const Pos pos = context.cache().next_pos(seq);
  Batch batch;
  batch.add(token, seq, {.logits = true});
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  const auto row = context.logits(0);
  std::vector<float> result(row.begin(), row.end());
  context.cache().remove(seq, pos);
  return result;
}

/// A folder of its own, gone in the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft_state_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

Bytes read_all(const std::filesystem::path& path) { return base::read_file(path, std::uint64_t{1} << 32); }

// --- Going on
// ------------------------------------------------------------------------------------------------

class StateEquality : public testing::TestWithParam<const char*> {};

TEST_P(StateEquality, ARestoredTextGoesOnBitByBitWhereverItLies) {
  const auto model = test::golden(GetParam());
  const std::vector<Token> tokens = state_tokens(GetParam());
  const bool can_shift = std::string(GetParam()) != "gpt2";
  const std::span<const Token> head = std::span(tokens).first(40), rest = std::span(tokens).subspan(40);
  ASSERT_GE(rest.size(), 8u);

  // A sequence with a history: a range was removed, the rest was shifted, and its keys are not rotated when
  // it is saved.
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  const auto write_head = [&](Context& c, SeqId seq) {
    all_logits(c, head, 17, seq);
    if (!can_shift) return;
    c.cache().remove(seq, 10, 15);
    ASSERT_TRUE(c.cache().shift(seq, 15, -1, -5));
  };
  write_head(context, 0);
  const Bytes state = context.save(0);
  EXPECT_EQ(context.save(0), state);
  const std::vector<float> expected = all_logits(context, rest, 5);

  const auto check = [&](Context& c, SeqId seq, const char* where) {
    ASSERT_TRUE(c.restore(state, seq)) << where;
    EXPECT_EQ(c.cache().next_pos(seq), can_shift ? 35 : 40);
    EXPECT_EQ(c.save(seq).size(), state.size());
    EXPECT_TRUE(all_logits(c, rest, 3, seq) == expected) << where;
    EXPECT_TRUE(c.cache().consistent()) << where;
  };
  check(context, 0, "in its own place");
  check(context, 2, "another sequence");
  check(context, 2, "over what it was before");
  Context larger(model, {.n_ctx = 500, .n_sequences = 5, .n_ubatch = 7});
  check(larger, 4, "a larger context");
  Context smaller(model, {.n_ctx = 64, .n_threads = 1});
  check(smaller, 0, "a smaller context");

  // A fragmented cache: many sequences with holes, and no free page.
  Context fragmented(model, {.n_ctx = 320, .n_sequences = 12});
  for (SeqId seq = 1; seq < 12; ++seq) {
    all_logits(fragmented, head.first(20), 20, seq);
    fragmented.cache().remove(seq, seq, 18);
  }
  std::vector<std::vector<float>> others;
  for (SeqId seq = 1; seq < 12; ++seq) others.push_back(peek(fragmented, seq));
  check(fragmented, 0, "a fragmented cache");
  for (SeqId seq = 1; seq < 12; ++seq)
    EXPECT_TRUE(peek(fragmented, seq) == others[static_cast<std::size_t>(seq - 1)]);
}

TEST_P(StateEquality, AWholeContextComesBackWithWhatItShared) {
  const auto model = test::golden(GetParam());
  const std::vector<Token> tokens = state_tokens(GetParam());
  const std::span<const Token> rest = std::span(tokens).subspan(40);
  Context context(model, {.n_ctx = 512, .n_sequences = 5});
  all_logits(context, std::span(tokens).first(40), 40, 0);
  ASSERT_TRUE(context.cache().copy(0, 1));
  ASSERT_TRUE(context.cache().copy(0, 3, 0, 30));
  all_logits(context, rest.first(3), 3, 3);
  const Bytes state = context.save();
  const int used = context.cache().cells_used();
  std::vector<std::vector<float>> expected;
  for (const SeqId seq : {0, 1, 3}) expected.push_back(all_logits(context, rest, 4, seq));

  Context other(model, {.n_ctx = 256, .n_sequences = 6});
  all_logits(other, rest, 8, 2);
  all_logits(other, rest, 8, 3);
  ASSERT_TRUE(other.restore(state));
  EXPECT_EQ(other.cache().cells_used(), used);
  EXPECT_EQ(other.cache().next_pos(2), 0);
  EXPECT_EQ(other.save(), state);
  std::size_t i = 0;
  for (const SeqId seq : {0, 1, 3}) EXPECT_TRUE(all_logits(other, rest, 4, seq) == expected[i++]) << seq;
  EXPECT_TRUE(other.cache().consistent());
}

INSTANTIATE_TEST_SUITE_P(Models, StateEquality,
                         testing::Values("llama", "gemma3", "gpt2", "phi3", "qwen3moe"),
                         [](const auto& param) { return std::string(param.param); });

TEST(State, SavingLeavesTheLastLogitsAlone) {
  Context context(test::golden("llama"), {.n_ctx = 128, .n_sequences = 2});
  Batch batch;
  for (Token t = 0; t < 30; ++t) batch.add(t, 0, {.logits = t == 29});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const auto logits = context.logits(29);
  const std::vector<float> before(logits.begin(), logits.end());
  (void)context.cache().shift(0, 0, -1, 3);  // Moves that saving carries out.
  context.save(0);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), context.logits(29).begin()));
}

TEST(State, EmptySequencesAreStatesToo) {
  Context context(test::golden("llama"), {.n_ctx = 128, .n_sequences = 3});
  const Bytes empty = context.save(1), nothing = context.save();
  all_logits(context, state_tokens("llama"), 48, 1);
  EXPECT_TRUE(context.restore(empty, 1));
  EXPECT_EQ(context.cache().next_pos(1), 0);
  all_logits(context, state_tokens("llama"), 48, 1);
  EXPECT_TRUE(context.restore(nothing));
  EXPECT_EQ(context.cache().cells_used(), 0);
}

TEST(State, AFullCacheIsNoErrorAndChangesNothing) {
  Context context(test::golden("llama"), {.n_ctx = 64, .n_sequences = 2});
  const std::vector<Token> tokens = state_tokens("llama");
  all_logits(context, std::span(tokens).first(40), 40, 0);
  const Bytes state = context.save(0);
  const std::vector<float> before = peek(context, 0);
  EXPECT_FALSE(context.restore(state, 1));
  EXPECT_EQ(context.cache().cells_used(), 40);
  EXPECT_TRUE(peek(context, 0) == before);
  context.cache().remove(0, 10);
  EXPECT_TRUE(context.restore(state, 1));
  EXPECT_TRUE(peek(context, 1) == before);
}

// --- Refusing
// ------------------------------------------------------------------------------------------------

std::string refusal(const std::function<void()>& restore, ErrorCode code) {
  try {
    restore();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(State, StatesOfOthersAreRefused) {
  constexpr auto kArgument = ErrorCode::kInvalidArgument;
  Context context(test::golden("llama"), {.n_ctx = 64, .n_sequences = 2});
  all_logits(context, state_tokens("llama"), 48, 0);
  const Bytes one = context.save(0), whole = context.save();
  const auto says = [](const std::string& what, const char* word) {
    EXPECT_NE(what.find(word), std::string::npos) << what;
  };
  Context other(test::golden("qwen2"), {.n_ctx = 64});
  says(refusal([&] { (void)other.restore(one, 0); }, kArgument), "another model");
  Context sibling(test::golden("llama-rope3"), {.n_ctx = 64});
  says(refusal([&] { (void)sibling.restore(one, 0); }, kArgument), "another model");
  Context wide(test::golden("llama"), {.n_ctx = 64, .k_type = CacheType::kF32});
  says(refusal([&] { (void)wide.restore(one, 0); }, kArgument),
       "this context's of f32; restore it into a context with the same cache types");
  Context rotated(test::golden("llama"),
                  {.n_ctx = 64, .k_type = CacheType::kQ8_0, .v_type = CacheType::kQ8_0});
  says(refusal([&] { (void)rotated.restore(one, 0); }, kArgument), "is of f16, this context's of q8_0");
  Context narrow(test::golden("llama"), {.n_ctx = 32});
  says(refusal([&] { (void)narrow.restore(one, 0); }, kArgument), "create it with a larger n_ctx");
  says(refusal([&] { (void)context.restore(one); }, kArgument), "give the sequence id");
  says(refusal([&] { (void)context.restore(one, 2); }, kArgument), "outside");
  says(refusal([&] { context.save(-1); }, kArgument), "outside");
  EXPECT_TRUE(context.restore(whole, 0));  // It holds a single one.
  Context three(test::golden("llama"), {.n_ctx = 64, .n_sequences = 3});
  const std::vector<Token> tokens = state_tokens("llama");
  all_logits(three, std::span(tokens).first(20), 20, 2);
  const Bytes last = three.save();
  says(refusal([&] { (void)context.restore(last); }, kArgument), "create it with more");
  all_logits(three, std::span(tokens).first(20), 20, 1);
  says(refusal([&] { (void)context.restore(three.save(), 0); }, kArgument), "2 sequences");
  EXPECT_TRUE(context.cache().consistent());
}

/// A golden model with something else in it.
std::shared_ptr<const Model> changed(const std::string& name,
                                     const std::function<void(gguf::Writer&)>& change,
                                     const std::string& without = "") {
  const gguf::File file = gguf::File::open(test::golden_dir() / name / "model.gguf");
  gguf::Writer writer;
  for (const auto& entry : file.metadata()) writer.set(entry.key, entry.value);
  for (const auto& t : file.tensors())
    if (t.name != without) writer.add_tensor(t.name, t.dtype, t.shape, t.data);
  change(writer);
  const TemporaryFolder folder;
  writer.write_file(folder / "model.gguf");
  return Model::load(folder / "model.gguf");
}

TEST(State, AModelIsKnownByItsContent) {
  Context context(test::golden("llama"), {.n_ctx = 64});
  all_logits(context, state_tokens("llama"), 48, 0);
  const Bytes state = context.save(0);
  Context again(changed("llama", [](gguf::Writer& w) { w.set("general.name", "another name"); }),
                {.n_ctx = 64});
  EXPECT_TRUE(again.restore(state, 0));
  EXPECT_TRUE(peek(again, 0) == peek(context, 0));
  const gguf::File file = gguf::File::open(test::golden_dir() / "llama" / "model.gguf");
  const gguf::TensorInfo& norm = *file.find_tensor("output_norm.weight");
  Bytes bytes(norm.data.begin(), norm.data.end());
  bytes[5] ^= std::byte{1};
  Context tuned(changed(
                    "llama", [&](gguf::Writer& w) { w.add_tensor(norm.name, norm.dtype, norm.shape, bytes); },
                    norm.name),
                {.n_ctx = 64});
  EXPECT_NE(
      refusal([&] { (void)tuned.restore(state, 0); }, ErrorCode::kInvalidArgument).find("another model"),
      std::string::npos);
}

TEST(State, ModelsDifferByHyperparameters) {
  Context context(test::golden("granite"), {.n_ctx = 64});
  all_logits(context, state_tokens("granite"), 48, 0);
  const Bytes state = context.save(0);
  for (const char* key : {"granite.attention.scale", "granite.residual_scale", "granite.embedding_scale"}) {
    Context other(changed("granite", [&](gguf::Writer& w) { w.set(key, 0.375f); }), {.n_ctx = 64});
    EXPECT_NE(
        refusal([&] { (void)other.restore(state, 0); }, ErrorCode::kInvalidArgument).find("another model"),
        std::string::npos)
        << key;
  }
}

TEST(State, KeysTurnedByOtherFrequenciesAreRefused) {
  const std::vector<float> ones(16, 1.0f), twos(16, 2.0f);
  const auto model = changed("phi3", [&](gguf::Writer& w) {
    w.set("phi3.rope.scaling.original_context_length", std::uint32_t{64});
    w.add_tensor("rope_factors_short.weight", DType::kF32, {16}, std::as_bytes(std::span(ones)));
    w.add_tensor("rope_factors_long.weight", DType::kF32, {16}, std::as_bytes(std::span(twos)));
  });
  Context shorter(model, {.n_ctx = 64}), also_short(model, {.n_ctx = 60}), longer(model, {.n_ctx = 128});
  all_logits(shorter, state_tokens("phi3"), 48, 0);
  const Bytes state = shorter.save(0);
  EXPECT_TRUE(also_short.restore(state, 0));
  EXPECT_NE(refusal([&] { (void)longer.restore(state, 0); }, ErrorCode::kInvalidArgument).find("frequencies"),
            std::string::npos);
}

/// Sets the checksums of a state right again; the head's end stands where a forger would keep it.
void forge(Bytes& state) {
  std::uint64_t head = 0;
  std::memcpy(&head, state.data() + 16, sizeof(head));
  if (head + 8 + 16 > state.size()) return;
  const std::uint64_t check = base::hash64(std::span(state).first(static_cast<std::size_t>(head)));
  std::memcpy(state.data() + head, &check, sizeof(check));
  base::Hasher hash;
  hash.add(std::span(state).first(state.size() - 16));
  const base::Hash128 end = hash.result();
  std::memcpy(state.data() + state.size() - 16, &end, sizeof(end));
}

/// A context with a second sequence whose next logits show any change.
struct Neighbours {
  Neighbours() : context(test::golden("llama"), {.n_ctx = 128, .n_sequences = 3}) {
    const std::vector<Token> tokens = state_tokens("llama");
    all_logits(context, std::span(tokens).first(33), 33, 0);
    EXPECT_TRUE(context.cache().copy(0, 1, 0, 20));
    all_logits(context, std::span(tokens).subspan(20, 10), 10, 1);
    for (SeqId seq = 0; seq < 2; ++seq) expected.push_back(peek(context, seq));
    all = context.save();
  }
  void expect_untouched() {
    for (SeqId seq = 0; seq < 2; ++seq)
      ASSERT_TRUE(peek(context, seq) == expected[static_cast<std::size_t>(seq)]);
    ASSERT_EQ(context.save(), all);
    ASSERT_TRUE(context.cache().consistent());
  }
  Context context;
  std::vector<std::vector<float>> expected;
  Bytes all;
};

TEST(State, DamagedStatesAreRefusedAndTouchNothing) {
  Neighbours n;
  std::mt19937_64 random(3);
  const auto pick = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const Bytes states[] = {n.context.save(1), n.all};
  int n_refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const bool whole = pick(2) == 1;
    const Bytes& good = states[whole ? 1 : 0];
    Bytes bad = good;
    switch (i % 5) {
      case 0:
        bad[pick(bad.size())] ^= std::byte{1} << pick(8);
        break;
      case 1:
        bad.resize(pick(bad.size()));
        break;
      case 2:  // A number of the head.
        for (std::size_t at = pick(300) / 4 * 4, k = 0; k < 4; ++k)
          bad[at + k] = static_cast<std::byte>(random());
        break;
      case 3: {  // Two pieces change places.
        const std::size_t size = 1 + pick(200), a = pick(bad.size() - size), b = pick(bad.size() - size);
        std::memmove(bad.data() + a, good.data() + b, size);
        break;
      }
      default:
        bad.insert(bad.begin() + static_cast<std::ptrdiff_t>(pick(bad.size())), 1 + pick(64), std::byte{0});
    }
    if (bad == good) continue;
    try {
      const bool restored = whole ? n.context.restore(bad) : n.context.restore(bad, 2);
      FAIL() << "mutant " << i << " was taken: " << restored;
    } catch (const Error&) {
      ++n_refused;
    }
    if (i % 20 == 0) n.expect_untouched();
  }
  std::cout << n_refused << " mutants, all refused\n";
  EXPECT_GT(n_refused, 1990);
  n.expect_untouched();
}

TEST(State, ForgedHeadsAreRefusedOrHarmless) {
  Neighbours n;
  std::mt19937_64 random(4);
  const auto pick = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const Bytes good = n.context.save(1);
  std::uint64_t head = 0;
  std::memcpy(&head, good.data() + 16, sizeof(head));
  const std::uint32_t numbers[] = {0, 1, 2, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 0xffffffc0, 1u << 30};
  int n_refused = 0, n_taken = 0;
  for (int i = 0; i < 3000; ++i) {
    Bytes bad = good;
    for (std::size_t changes = 1 + pick(2); changes > 0; --changes) {
      // Beyond the magic; half of the changes in the masks, sequences and extents at the end of the head.
      const std::size_t at = pick(2) == 0 ? 8 + pick(head - 8 - 4) : head - 4 * (1 + pick(16));
      const std::uint32_t number = pick(3) == 0 ? static_cast<std::uint32_t>(random()) : numbers[pick(10)];
      if (pick(3) == 0)
        bad[at] ^= std::byte{1} << pick(8);
      else
        std::memcpy(bad.data() + at / 4 * 4, &number, 4);
    }
    forge(bad);
    try {
      if (n.context.restore(bad, 2)) ++n_taken;
    } catch (const Error&) {
      ++n_refused;
    }
    ASSERT_TRUE(n.context.cache().consistent()) << i;
    if (n.context.cache().next_pos(2) > 0 && n.context.cache().next_pos(2) < 1000000) peek(n.context, 2);
    n.context.cache().remove(2);
    if (i % 50 == 0) n.expect_untouched();
  }
  EXPECT_GT(n_refused, 2000);
  std::cout << "3,000 forged heads: " << n_refused << " refused, " << n_taken << " possible and taken\n";
  EXPECT_GT(n_taken, 0);  // Bits of a base or an id that say something else, and possible.
  n.expect_untouched();
}

TEST(State, ForgedSourcesAreRefusedOrHarmless) {
  const test::GoldenSources golden("flan-t5");
  const auto model = Model::load(golden.model());
  Context from(model, {.n_ctx = 64, .n_sequences = 4, .n_source = 100});
  const std::vector<Token> source = {5, 6, 7}, text(golden.texts[0].begin(), golden.texts[0].begin() + 4);
  for (const SeqId seq : {0, 2}) ASSERT_EQ(from.set_source(seq, source), DecodeStatus::kOk);
  ASSERT_TRUE(from.cache().copy(2, 3));
  const std::vector<float> expected = test::all_logits(from, text, 4, 2);
  const Bytes good = from.save();
  std::uint64_t head = 0;
  std::memcpy(&head, good.data() + 16, sizeof(head));
  constexpr std::size_t kRecords =
      3 * 8;  // The number and the size of each sequence, at the end of the header.
  const std::uint32_t numbers[] = {0, 1, 2, 3, 4, 6, 100, 101, 0x7fffffff, 0x80000000, 0xffffffff};
  std::mt19937_64 random(5);
  int n_refused = 0, n_taken = 0;
  Context context(model, {.n_ctx = 64, .n_sequences = 4, .n_source = 100});
  for (int i = 0; i < 2000; ++i) {
    Bytes bad = good;
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::uint32_t number = numbers[random() % std::size(numbers)];
      std::memcpy(bad.data() + head - kRecords + random() % (kRecords / 4) * 4, &number, 4);
    }
    forge(bad);
    try {
      n_taken += context.restore(bad) ? 1 : 0;
    } catch (const Error&) {
      ++n_refused;
    }
    ASSERT_TRUE(context.cache().consistent()) << i;
  }
  EXPECT_GT(n_refused, 1000);
  EXPECT_GT(n_taken, 0);
  ASSERT_TRUE(context.restore(good));
  EXPECT_EQ(context.source_size(3), 3);
  context.cache().remove(2);
  ASSERT_TRUE(context.cache().copy(3, 2));
  EXPECT_TRUE(test::all_logits(context, text, 4, 2) == expected);
}

// What no operation of the context reaches, and no table of a model has.
TEST(State, PositionsThatTheModelLacksAreRefused) {
  for (const char* family : {"llama", "gpt2"}) {
    Context context(test::golden(family), {.n_ctx = 64});
    constexpr Pos kText = 10;
    all_logits(context, std::vector<Token>(kText, 7), kText, 0);
    Bytes state = context.save(0);
    context.cache().clear();
    std::uint64_t head = 0;
    std::memcpy(&head, state.data() + 16, sizeof(head));
    const auto begins_at = [&](Pos pos) {  // The header ends with the sequence's extent.
      std::memcpy(state.data() + head - sizeof(Extent) + offsetof(Extent, base), &pos, sizeof(pos));
      forge(state);
    };
    const Pos end = context.cache().max_positions();
    for (const Pos past : {1, kText, 1000, 1 << 20}) {
      begins_at(end - kText + past);
      EXPECT_THROW((void)context.restore(state, 0), Error) << family << ", past the end by " << past;
      EXPECT_EQ(context.cache().cells_used(), 0);
    }
    begins_at(end - kText);
    ASSERT_TRUE(context.restore(state, 0)) << family;
    EXPECT_EQ(context.cache().next_pos(0), end);
    context.cache().remove(0);
    EXPECT_EQ(context.cache().cells_used(), 0);
  }
}

TEST(State, SwappedCachesAreRefused) {
  Neighbours n;
  const Bytes good = n.context.save(0);
  std::uint64_t head = 0;
  std::memcpy(&head, good.data() + 16, sizeof(head));
  // All of them have the same size here: rows and checksum.
  const auto n_caches = static_cast<std::size_t>(2 * test::golden("llama")->info().n_layers);
  const std::size_t blocks = good.size() - head - 8 - 16;
  ASSERT_EQ(blocks % n_caches, 0u);
  const auto block = static_cast<std::ptrdiff_t>(blocks / n_caches);
  Bytes bad = good;
  const auto first = bad.begin() + static_cast<std::ptrdiff_t>(head) + 8;
  std::swap_ranges(first, first + block, first + block);
  forge(bad);
  EXPECT_NE(refusal([&] { (void)n.context.restore(bad, 2); }, ErrorCode::kInvalidFile).find("cache."),
            std::string::npos);
  n.expect_untouched();
}

// --- Files
// ---------------------------------------------------------------------------------------------------

/// Two states of some size, and a context that can write both.
struct StateWriter {
  StateWriter() : context(test::golden("llama"), {.n_ctx = 4096, .n_sequences = 2}) {
    std::vector<Token> text(1500);
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<Token>(i * 7 % 500);
    Batch batch;
    batch.add(text, 0, {.logits = false});
    text.resize(1200);
    batch.add(text, 1, {.logits = false});
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    for (SeqId seq = 0; seq < 2; ++seq) states.push_back(context.save(seq));
  }
  Context context;
  std::vector<Bytes> states;
};

TEST(StateFile, IsReadBack) {
  const TemporaryFolder folder;
  StateWriter w;
  const std::vector<float> expected = peek(w.context, 0);
  w.context.save_file(folder / "one", 0);
  w.context.save_file(folder / "all");
  EXPECT_EQ(read_all(folder / "one"), w.states[0]);
  w.context.cache().clear();
  ASSERT_TRUE(w.context.restore_file(folder / "one", 1));
  EXPECT_TRUE(peek(w.context, 1) == expected);
  ASSERT_TRUE(w.context.restore_file(folder / "all"));
  EXPECT_TRUE(peek(w.context, 0) == expected);
  EXPECT_EQ(w.context.cache().next_pos(1), 1200);
  refusal([&] { (void)w.context.restore_file(folder / "none"); }, ErrorCode::kNotFound);
  refusal([&] { (void)w.context.restore_file(folder.path()); }, ErrorCode::kIo);
  refusal([&] { (void)w.context.restore_file("/dev/zero"); }, ErrorCode::kIo);
  refusal([&] { w.context.save_file(folder / "no/such/folder", 0); }, ErrorCode::kIo);
  // A file that no context of this size could have written is not read.
  std::filesystem::resize_file(folder / "one", std::uintmax_t{1} << 40);
  refusal([&] { (void)w.context.restore_file(folder / "one", 0); }, ErrorCode::kInvalidFile);
}

TEST(StateFile, IsTheOldOrTheNewOneWhenTheWriterIsKilled) {
  const TemporaryFolder folder;
  StateWriter w;
  const auto path = folder / "state";
  w.context.save_file(path, 0);
  std::mt19937 random(6);
  int n_new = 0;
  std::mt19937::result_type most_us = 12000;
  for (int i = 0; i < 60; ++i) {
    const bool old_is_first = read_all(path) == w.states[0];
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Until it is killed; no moves are owed, so no thread is needed that is not here.
      for (SeqId seq = old_is_first ? 1 : 0;; seq = 1 - seq) w.context.save_file(path, seq);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most_us));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    const Bytes found = read_all(path);
    ASSERT_TRUE(found == w.states[0] || found == w.states[1]) << i;
    const bool is_new = (found == w.states[0]) != old_is_first;
    n_new += is_new ? 1 : 0;
    // However slow the machine is, some are killed early and some late.
    most_us = std::max(is_new ? most_us * 3 / 4 : most_us * 5 / 4, std::mt19937::result_type{100});
  }
  EXPECT_TRUE(w.context.restore_file(path, 0));
  EXPECT_GT(n_new, 0);
  EXPECT_LT(n_new, 60);
  // The next writer removes the leftovers of killed ones.
  w.context.save_file(path, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(StateFile, AFullDiskLeavesTheOldOne) {
  const TemporaryFolder folder;
  StateWriter w;
  const auto path = folder / "state";
  w.context.save_file(path, 1);
  for (const std::size_t limit :
       {std::size_t{0}, std::size_t{100}, w.states[0].size() / 2, w.states[0].size() - 1}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::signal(SIGXFSZ, SIG_IGN);  // The write then fails, as on a full disk.
      const rlimit limits = {limit, limit};
      ::setrlimit(RLIMIT_FSIZE, &limits);
      try {
        w.context.save_file(path, 0);
      } catch (const Error& error) {
        ::_exit(error.code() == ErrorCode::kIo ? 42 : 43);
      }
      ::_exit(44);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 42);
    EXPECT_EQ(read_all(path), w.states[1]);
  }
  // Nothing is left behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

}  // namespace
}  // namespace weft
