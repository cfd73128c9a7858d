// Overlapping batches by a scheduler of a user's own (Context::begin): results have the bits of decode().
#include <algorithm>
#include <cstddef>
#include <vector>

#include "engine/error_testing.h"
#include "engine/small_device.h"
#include "engine/test_support.h"

namespace weft {
namespace {

constexpr ContextParams kParams = {.n_ctx = 512, .n_sequences = 6, .n_ubatch = 8, .n_threads = 1};
constexpr int kSteps = 12;

/// The last layers on devices in addition to the host, a layer each.
std::shared_ptr<const Model> overlapping(int n_devices, const char* family = "llama") {
  const PlacementParams placement = {.n_layers = n_devices,
                                     .shares = std::vector<float>(static_cast<std::size_t>(n_devices), 1.0f)};
  return test::load_with_small(test::golden_dir() / family / "model.gguf", std::uint64_t{1} << 32, true,
                               placement, true, false, n_devices);
}

/// A sequence that continues with its most probable tokens, and the logits of each step.
struct Text {
  SeqId seq = 0;
  std::vector<Token> next;
  std::vector<float> logits = {};

  explicit Text(SeqId id) : seq(id) {
    for (int i = 0; i < 3 + 2 * id; ++i) next.push_back(static_cast<Token>(i * 7 + id));
  }
  void add(Batch& batch) const { batch.add(next, seq); }
  void read(const Context& context, int item) {
    const std::span<const float> row = context.logits(item);
    logits.insert(logits.end(), row.begin(), row.end());
    next = {static_cast<Token>(std::max_element(row.begin(), row.end()) - row.begin())};
  }
};

/// Sequences whose tokens are in the same batches.
struct Group {
  std::vector<Text> texts;
  std::vector<int> items = {};  // The last items of the sequences in the last batch.

  Batch batch() {
    Batch result;
    items.clear();
    for (const Text& text : texts) {
      text.add(result);
      items.push_back(result.size() - 1);
    }
    return result;
  }
  void read(const Context& context) {
    for (std::size_t i = 0; i < texts.size(); ++i) texts[i].read(context, items[i]);
  }
};

std::vector<std::vector<float>> logits_of(const std::vector<Group>& groups) {
  std::vector<std::vector<float>> all(static_cast<std::size_t>(kParams.n_sequences));
  for (const Group& group : groups)
    for (const Text& text : group.texts) all[static_cast<std::size_t>(text.seq)] = text.logits;
  return all;
}

std::vector<Group> groups_of(int n) {
  std::vector<Group> groups(static_cast<std::size_t>(n));
  for (SeqId seq = 0; seq < kParams.n_sequences; ++seq)
    groups[static_cast<std::size_t>(seq % n)].texts.emplace_back(seq);
  return groups;
}

TEST(OverlappingDecode, AUsersSchedulerGivesTheBitsOfDecode) {
  for (const int n_devices : {1, 2}) {
    const auto model = overlapping(n_devices);
    Context one_by_one(model, kParams);
    std::vector<Group> expected = groups_of(1);
    for (int step = 0; step < kSteps; ++step) {
      ASSERT_EQ(one_by_one.decode(expected[0].batch()), DecodeStatus::kOk);
      expected[0].read(one_by_one);
    }

    Context context(model, kParams);
    const int n = context.n_at_once();
    ASSERT_GT(n, 1) << n_devices;
    std::vector<Group> groups = groups_of(n);
    for (int step = 0; step < kSteps * n + n; ++step) {
      Group& group = groups[static_cast<std::size_t>(step % n)];
      if (step >= n) {
        ASSERT_EQ(context.finish(), DecodeStatus::kOk);
        group.read(context);
      }
      if (step < kSteps * n) {
        ASSERT_EQ(context.begin(group.batch()), DecodeStatus::kOk);
      }
    }
    EXPECT_TRUE(logits_of(groups) == logits_of(expected)) << n_devices;
    EXPECT_TRUE(context.cache().consistent());
  }
}

TEST(OverlappingDecode, TooManyBatchesAreRefused) {
  Context context(overlapping(1), kParams);
  const int n = context.n_at_once();
  Batch batch;
  for (SeqId seq = 0; seq < n; ++seq) {
    batch.clear();
    batch.add(7, seq, {.logits = true});
    ASSERT_EQ(context.begin(batch), DecodeStatus::kOk);
  }
  batch.clear();
  batch.add(7, n, {.logits = true});
  test::expect_error(ErrorCode::kInvalidArgument, "finish()", [&] { (void)context.begin(batch); });
  // The earlier ones are still in flight.
  std::vector<float> first;
  for (SeqId seq = 0; seq < n; ++seq) {
    ASSERT_EQ(context.finish(), DecodeStatus::kOk);
    const std::span<const float> row = context.logits(0);
    if (seq == 0) first.assign(row.begin(), row.end());
    EXPECT_TRUE(std::equal(row.begin(), row.end(), first.begin(), first.end())) << seq;
  }
  EXPECT_EQ(context.cache().next_pos(n), 0);
  EXPECT_EQ(context.finish(), DecodeStatus::kOk) << "nothing is in flight";
}

TEST(OverlappingDecode, DroppedBatchesLeaveAUsableContext) {
  Context context(overlapping(1), kParams);
  Batch batch;
  batch.add(7, 0, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const std::vector<float> expected(context.logits(0).begin(), context.logits(0).end());
  context.cache().clear();
  ASSERT_EQ(context.begin(batch), DecodeStatus::kOk);
  context.drop_begun();
  context.cache().clear();
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  const std::span<const float> row = context.logits(0);
  EXPECT_TRUE(std::equal(row.begin(), row.end(), expected.begin(), expected.end()));
}

TEST(OverlappingDecode, AnUnsupportedBatchEndsAllBatches) {
  Context context(overlapping(1, "mamba"), kParams);
  ASSERT_GT(context.n_at_once(), 1);
  Batch first, earlier;
  first.add(7, 0, {.logits = true, .pos = 5});
  ASSERT_EQ(context.begin(first), DecodeStatus::kOk);
  earlier.add(7, 0, {.logits = true, .pos = 2});
  test::expect_error(ErrorCode::kUnsupported, "recurrent", [&] { (void)context.begin(earlier); });
  EXPECT_EQ(context.finish(), DecodeStatus::kOk) << "nothing is in flight";
  test::expect_error(ErrorCode::kInvalidArgument, "no results", [&] { (void)context.logits(0); });
}

TEST(OverlappingDecode, ACancelledFinishEndsAllBatchesAndLeavesTheirItemsToTheCaller) {
  Context context(overlapping(1), kParams);
  ASSERT_EQ(context.n_at_once(), 2);
  Batch first, second, third;
  first.add({7, 8, 9}, 0);
  second.add({7, 8}, 1);
  third.add(7, 2, {.logits = true});
  ASSERT_EQ(context.begin(first), DecodeStatus::kOk);
  ASSERT_EQ(context.begin(second), DecodeStatus::kOk);
  test::expect_error(ErrorCode::kInvalidArgument, "finish()", [&] { (void)context.logits(2); });
  context.cancel();
  EXPECT_EQ(context.finish(), DecodeStatus::kCancelled);
  EXPECT_EQ(context.cache().next_pos(0), 3);
  EXPECT_EQ(context.cache().next_pos(1), 2);
  test::expect_error(ErrorCode::kInvalidArgument, "no results", [&] { (void)context.logits(2); });
  context.cache().clear();

  // begin() removes the items of its own batch only.
  ASSERT_EQ(context.begin(first), DecodeStatus::kOk);
  context.cancel();
  EXPECT_EQ(context.begin(third), DecodeStatus::kCancelled);
  EXPECT_EQ(context.cache().next_pos(0), 3);
  EXPECT_EQ(context.cache().next_pos(2), 0);
  context.cache().clear();
  EXPECT_EQ(context.decode(third), DecodeStatus::kOk);
  EXPECT_EQ(context.logits(0).size(), 512u);
}

}  // namespace
}  // namespace weft
