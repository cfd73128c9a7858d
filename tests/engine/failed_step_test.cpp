// Failed steps: the sequences' contents afterwards, and continuation with the same bits.
#include "engine/allocation_counter.h"
#include "engine/failing_device.h"
#include "engine/test_support.h"
#include "weft/context.h"

namespace weft {
namespace {

using test::code_of;
using test::Failure;

constexpr Failure kFailures[] = {Failure::kBefore, Failure::kAfter, Failure::kOutOfMemory};

/// A test defines the tokens of each sequence.
class FailedStep : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto dir = test::golden_dir() / GetParam();
    model = test::load_failing(dir / "model.gguf", faults);
    tokens = test::read_tokens(dir / "tokens.json");
  }
  /// Tokens for sequences, with logits for each; tokens of one sequence are in order.
  static Batch batch_of(std::span<const std::pair<SeqId, Token>> items) {
    Batch batch;
    for (const auto& [seq, token] : items) batch.add(token, seq, {.logits = true});
    return batch;
  }
  static std::vector<float> logits_of(Context& context, const Batch& batch) {
    std::vector<float> result;
    for (int i = 0; i < batch.size(); ++i)
      result.insert(result.end(), context.logits(i).begin(), context.logits(i).end());
    return result;
  }
  static ErrorCode expected(Failure failure) {
    return failure == Failure::kOutOfMemory ? ErrorCode::kOutOfMemory : ErrorCode::kDevice;
  }

  const std::shared_ptr<test::Faults> faults = std::make_shared<test::Faults>();
  std::shared_ptr<const Model> model;
  std::vector<Token> tokens;
};

// The first two sequences share a prefix and both continue, so that one is moved to a page of its own. The
// third is independent.
TEST_P(FailedStep, OwedMovesAreNeverTakenForDone) {
  const ContextParams params{.n_ctx = 256, .n_sequences = 3, .n_ubatch = 4};
  const std::span<const Token> text(tokens);
  const auto make = [&] {
    Context context(model, params);
    test::all_logits(context, text.first(30), 30, 0);
    test::all_logits(context, text.subspan(5, 11), 30, 2);
    EXPECT_TRUE(context.cache().copy(0, 1));
    return context;
  };
  const Batch batch = batch_of(std::vector<std::pair<SeqId, Token>>{{0, tokens[30]},
                                                                    {0, tokens[31]},
                                                                    {2, tokens[7]},
                                                                    {1, tokens[3]},
                                                                    {1, tokens[9]},
                                                                    {0, tokens[32]},
                                                                    {2, 5}});
  Context undisturbed = make();
  ASSERT_EQ(undisturbed.decode(batch), DecodeStatus::kOk);
  const std::vector<float> right = logits_of(undisturbed, batch);

  int n_not_intact = 0;
  for (const Failure failure : kFailures) {
    for (int n = 1;; ++n) {
      Context context = make();
      const int n_failed = faults->n_failed;
      faults->fail_at(n, failure);
      DecodeStatus status = DecodeStatus::kOk;
      try {
        status = context.decode(batch);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), expected(failure));
      }
      faults->fail_at(0, failure);
      ASSERT_EQ(status, DecodeStatus::kOk);
      if (faults->n_failed == n_failed) {  // It has fewer steps.
        EXPECT_GT(n, 2);
        break;
      }
      EXPECT_TRUE(context.cache().consistent());
      EXPECT_EQ(context.cache().next_pos(0), 30);
      EXPECT_EQ(context.cache().next_pos(1), 30);
      EXPECT_TRUE(context.cache().intact(0));
      EXPECT_TRUE(context.cache().intact(2));
      if (!context.cache().intact(1)) {
        ++n_not_intact;
        EXPECT_FALSE(context.cache().intact());
        EXPECT_EQ(code_of([&] { (void)context.decode(batch); }), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of([&] { (void)context.cache().copy(1, 2); }), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of([&] { (void)context.cache().copy(0, 1); }), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of([&] { context.save(1); }), ErrorCode::kInvalidArgument);
        context.save(0);
        context.cache().remove(1);
        ASSERT_TRUE(context.cache().intact());
        test::all_logits(context, text.first(30), 30, 1);
      }
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
      EXPECT_TRUE(logits_of(context, batch) == right) << "step " << n << ", failure " << int(failure);
      EXPECT_TRUE(context.cache().consistent());
    }
  }
  EXPECT_EQ(n_not_intact, std::ssize(kFailures));
}

/// Families whose sequences can be shifted.
class FailedShift : public FailedStep {};

// Keys that are turned in place would be turned twice by a second try.
TEST_P(FailedShift, TurnsInPlaceAreNotDoneAgain) {
  const std::span<const Token> text(tokens);
  const auto write = [&](Context& context) {
    test::all_logits(context, text.first(30), 30, 0);
    EXPECT_TRUE(context.cache().shift(0, 0, -1, 64));
  };
  Batch batch;
  batch.add(tokens[30], 0, {.logits = true});
  Context undisturbed(model, {.n_ctx = 256});
  write(undisturbed);
  ASSERT_EQ(undisturbed.decode(batch), DecodeStatus::kOk);
  const std::vector<float> right = logits_of(undisturbed, batch);
  for (const Failure failure : kFailures) {
    Context context(model, {.n_ctx = 256});
    write(context);
    faults->fail_at(1, failure);
    EXPECT_EQ(code_of([&] { (void)context.decode(batch); }), expected(failure));
    EXPECT_FALSE(context.cache().intact());
    context.cache().clear();
    EXPECT_TRUE(context.cache().intact());
    write(context);
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_TRUE(logits_of(context, batch) == right);
  }
}

// States that are restored while a step fails, which runs the owed moves of other sequences.
TEST_P(FailedShift, AStateThatWasNotWrittenIsNotIntact) {
  const std::span<const Token> text(tokens);
  Context context(model, {.n_ctx = 256, .n_sequences = 3});
  test::all_logits(context, text.first(30), 30, 0);
  const std::vector<std::byte> state = context.save(0);
  Batch batch;
  batch.add(tokens[30], 2, {.logits = true});
  ASSERT_TRUE(context.cache().copy(0, 2));
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const std::vector<float> right = logits_of(context, batch);
  context.cache().remove(2);
  for (const Failure failure : kFailures) {
    test::all_logits(context, text.first(20), 20, 1);
    ASSERT_TRUE(context.cache().shift(1, 0, -1, 64));
    faults->fail_at(1, failure);
    EXPECT_EQ(code_of([&] { (void)context.restore(state, 2); }), expected(failure));
    EXPECT_TRUE(context.cache().intact(0));
    EXPECT_FALSE(context.cache().intact(1));
    EXPECT_FALSE(context.cache().intact(2));
    context.cache().remove(1);
    ASSERT_TRUE(context.restore(state, 2));
    EXPECT_TRUE(context.cache().intact());
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_TRUE(logits_of(context, batch) == right);
    context.cache().remove(2);
  }
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(FailedStep, ADeviceThatIsLostStaysLost) {
  Context context(model, {.n_ctx = 256});
  Batch batch;
  batch.add(tokens[0], 0, {.logits = true});
  faults->lost = true;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(code_of([&] { (void)context.decode(batch); }), ErrorCode::kDevice);
    context.cache().clear();
    EXPECT_TRUE(context.cache().consistent());
  }
}

// Every allocation of an operation or a batch may fail.
TEST_P(FailedStep, ExhaustedMemoryIsAnErrorAndLeavesNothingHalfDone) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  const std::span<const Token> text(tokens);
  const bool shifts = std::string(GetParam()) != "gpt2" && !model->info().recurrent;
  const auto write = [&](Context& context) {
    Batch batch;
    for (const SeqId seq : {0, 2}) batch.add(text.first(30), seq, {.logits = false});
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  };
  Batch batch;
  for (std::size_t i = 0; i < 9; ++i) batch.add(tokens[30 + i], static_cast<SeqId>(i % 3), {.logits = true});
  const auto go_on = [&](Context& context) {
    EXPECT_TRUE(context.cache().copy(0, 1));
    EXPECT_TRUE(!shifts || context.cache().shift(2, 10, -1, 7));
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  };
  std::vector<float> right;
  int n = 0;
  for (bool failed = true; failed; ++n) {
    Context context(model, {.n_ctx = 256, .n_sequences = 3, .n_ubatch = 4});
    write(context);
    failed = false;
    test::fail_allocation(n);  // At first, none.
    try {
      go_on(context);
    } catch (const Error& error) {
      test::fail_allocation(0);
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
      failed = true;
    }
    test::fail_allocation(0);
    EXPECT_TRUE(context.cache().consistent());
    if (failed) {
      EXPECT_EQ(context.cache().next_pos(0), 30);
      EXPECT_TRUE(context.cache().intact(0));
      context.cache().clear();
      write(context);
      go_on(context);
    }
    if (n == 0) right = logits_of(context, batch);
    EXPECT_TRUE(logits_of(context, batch) == right) << "allocation " << n;
    failed = failed || n == 0;
  }
  EXPECT_GT(n, 2);
}

// Also for empty sequences of a state: either the old contents are gone, or nothing has changed.
TEST_P(FailedStep, ExhaustedMemoryWhileAStateIsTakenUpLeavesTextsThatGoOn) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  const ContextParams params{.n_ctx = 256, .n_sequences = 3};
  const std::span<const Token> text(tokens);
  Context saved(model, params);
  test::all_logits(saved, text.first(20), 20, 1);
  const std::vector<std::byte> state = saved.save();
  Context undisturbed(model, params);
  const std::vector<float> right = test::all_logits(undisturbed, text.first(9), 9, 0);
  long n = 0;
  for (bool failed = true; failed;) {
    Context context(model, params);
    for (const SeqId seq : {0, 2}) test::all_logits(context, text.subspan(5, 11), 11, seq);
    failed = false;
    test::fail_allocation(++n);
    try {
      EXPECT_TRUE(context.restore(state));
    } catch (const Error& error) {
      test::fail_allocation(0);
      EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
      failed = true;
    }
    test::fail_allocation(0);
    EXPECT_TRUE(context.cache().consistent()) << "allocation " << n;
    if (context.cache().next_pos(0) > 0) context.cache().remove(0);
    EXPECT_TRUE(test::all_logits(context, text.first(9), 9, 0) == right) << "allocation " << n;
  }
  EXPECT_GT(n, 3);
}

INSTANTIATE_TEST_SUITE_P(Families, FailedStep, testing::Values("llama", "gemma3", "gpt2", "mamba"),
                         test::name_of_family);
INSTANTIATE_TEST_SUITE_P(Families, FailedShift, testing::Values("llama", "gemma3"), test::name_of_family);

TEST(FailedStepOfManyMoves, FailsInAnyOfItsRuns) {
  const auto faults = std::make_shared<test::Faults>();
  const auto model = test::load_failing(test::golden_dir() / "llama" / "model.gguf", faults);
  constexpr int kLongText = 4500;  // More than a run moves.
  const auto make = [&] {
    Context context(model, {.n_ctx = 8192, .n_sequences = 2});
    Batch batch;
    for (int i = 0; i < kLongText; ++i) batch.add(5 + i % 7, 0);
    EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_TRUE(context.cache().shift(0, 0, -1, 64));
    return context;
  };
  Batch batch;
  batch.add(3, 0, {.logits = true});
  Context undisturbed = make();
  ASSERT_EQ(undisturbed.decode(batch), DecodeStatus::kOk);
  const std::vector<float> right(undisturbed.logits(0).begin(), undisturbed.logits(0).end());
  for (const int n : {1, 2}) {
    Context context = make();
    faults->fail_at(n, Failure::kAfter);
    EXPECT_THROW((void)context.decode(batch), Error);
    EXPECT_FALSE(context.cache().intact(0));
    context = make();  // The old one goes.
    ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    EXPECT_TRUE(std::equal(right.begin(), right.end(), context.logits(0).begin()));
  }
}

}  // namespace
}  // namespace weft
