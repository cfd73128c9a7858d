// A model over several devices has the bits that it has on one: layers, single tensors, rows. The second
// device is the CPU once more, under another name and with tensors of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "engine/allocation_counter.h"
#include "engine/model_impl.h"
#include "engine/needed_memory.h"
#include "engine/small_device.h"
#include "engine/test_support.h"
#include "weft/graph/extent.h"

namespace weft {
namespace {

using test::all_logits;
using test::load_with_small;
using test::SmallDevice;
using Names = std::vector<std::string>;

std::shared_ptr<const Model> load(const std::filesystem::path& path, const PlacementParams& placement) {
  ModelParams params;
  params.n_threads = 1;
  params.placement = placement;
  return Model::load(path, params);
}

/// The second device takes n layers from the last.
PlacementParams layers_on_second(int n) {
  PlacementParams placement;
  placement.devices = {"cpu", "cpu1=cpu"};
  placement.n_layers = n;
  return placement;
}

class Spread : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path() const { return test::golden_dir() / GetParam() / "model.gguf"; }
  std::vector<Token> tokens() const {
    return test::read_tokens(test::golden_dir() / GetParam() / "tokens.json");
  }

  /// Prompt in pieces, then token by token; a copy, a shift where the model can, and on.
  std::vector<float> logits(const std::shared_ptr<const Model>& model) const {
    Context context(model, {.n_ctx = 256, .n_sequences = 2, .n_ubatch = 16, .n_threads = 1});
    std::vector<float> result = all_logits(context, tokens(), 11);
    EXPECT_TRUE(context.cache().copy(0, 1));
    if (context.cache().can_shift()) {
      context.cache().remove(1, 0, 3);
      EXPECT_TRUE(context.cache().shift(1, 3, -1, -3));
    }
    const std::vector<Token> few = {9, 4, 7, 200, 1};
    for (const SeqId seq : {1, 0}) {
      const std::vector<float> more = all_logits(context, few, 1, seq);
      result.insert(result.end(), more.begin(), more.end());
    }
    return result;
  }
};

TEST_P(Spread, AnyNumberOfLayersOnASecondDeviceGivesTheSameBits) {
  const std::vector<float> expected = logits(load(path(), {}));
  const int n_layers = load(path(), {})->info().n_layers;
  for (int n = 0; n <= n_layers + 1; ++n) {
    const auto model = load(path(), layers_on_second(n));
    EXPECT_TRUE(logits(model) == expected) << n << " layers";
  }
}

TEST_P(Spread, PinsOfManyTensorsGiveTheSameBits) {
  const std::vector<float> expected = logits(load(path(), {}));
  const FileInfo file = inspect(path());
  std::mt19937 random(7);
  for (int round = 0; round < 3; ++round) {
    PlacementParams placement = layers_on_second(static_cast<int>(random() % 4));
    for (int i = 0; i < 200; ++i) {
      const std::string& name = file.tensors[random() % file.tensors.size()].name;
      placement.pins.push_back({"^" + name, random() % 2 == 0 ? "cpu" : "cpu1"});
    }
    EXPECT_TRUE(logits(load(path(), placement)) == expected) << "round " << round;
  }
}

TEST_P(Spread, RowsOfMatricesOnTwoDevicesGiveTheSameBits) {
  const std::vector<float> expected = logits(load(path(), {}));
  for (const std::vector<float>& shares : {std::vector<float>{}, {3.0f, 1.0f}, {0.0f, 1.0f}}) {
    PlacementParams placement = layers_on_second(-1);
    placement.split_rows = true;
    placement.shares = shares;
    const auto model = load(path(), placement);
    // Both devices have parts of matrices.
    const auto n_parts = [&](std::size_t device) {
      const auto& weights = model->impl().weights[device];
      return std::count_if(weights.begin(), weights.end(),
                           [](const auto& weight) { return weight.first.find('[') != std::string::npos; });
    };
    if (shares.empty()) {
      EXPECT_GT(n_parts(0), 0);
      EXPECT_GT(n_parts(1), 0);
    }
    EXPECT_TRUE(logits(model) == expected);
  }
}

TEST_P(Spread, AStateGoesFromOnePlacementToAnother) {
  const auto alone = load(path(), {}), spread = load(path(), layers_on_second(1));
  Context from(spread, {.n_ctx = 256, .n_threads = 1}), to(alone, {.n_ctx = 256, .n_threads = 1});
  all_logits(from, tokens(), 16);
  ASSERT_TRUE(to.restore(from.save(0), 0));
  const std::vector<Token> more = {9, 4, 7};
  EXPECT_TRUE(all_logits(from, more, 1) == all_logits(to, more, 1));
}

TEST_P(Spread, StepsCopyAsPlannedAndAllocateNothing) {
  for (const bool split_rows : {false, true}) {
    ModelParams params;
    params.placement = layers_on_second(1);
    params.placement.split_rows = split_rows;
    params.placement.n_ctx = 256;
    const PlanReport plan = inspect_plan(path(), params);
    // Only the used one of the tables of extents, and no embeddings.
    std::uint64_t bytes = 0;
    for (const PlanReport::Copy& copy : plan.copies)
      bytes += copy.value.ends_with("extents") ? sizeof(Extent) : copy.value == "embeddings" ? 0 : copy.bytes;
    EXPECT_GT(plan.splits.size(), 1u);
    EXPECT_GT(plan.devices[1].weights, 0u);

    Context context(load(path(), params.placement), {.n_ctx = 256, .n_threads = 1});
    Batch batch;
    PlanStats before;
    long allocations = 0;
    for (int i = 0; i < 12; ++i) {
      if (i == 2) {
        before = context.plan_stats();
        allocations = test::n_allocations();
      }
      batch.clear();
      batch.add(i, 0, {.logits = true});
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    }
    if (test::kCountsAllocations) {
      EXPECT_EQ(test::n_allocations() - allocations, 0);
    }
    const PlanStats after = context.plan_stats();
    EXPECT_EQ(after.copies - before.copies, 10 * static_cast<std::int64_t>(plan.copies.size()));
    EXPECT_EQ(after.copied_bytes - before.copied_bytes, static_cast<std::int64_t>(10 * bytes));
    EXPECT_EQ(after.compiled, 1);
  }
}

TEST_P(Spread, PredictsMemoryExactlyAlsoWithOverlappingSteps) {
  PlacementParams rows = layers_on_second(-1);
  rows.split_rows = true;
  const auto spread = [&](const PlacementParams& placement) {
    return test::needed_memory(*load(path(), placement), {.n_ctx = 1024, .n_ubatch = 48, .n_threads = 2});
  };
  const auto beside = [&](bool attends, int n_layers) {
    const auto model = load_with_small(path(), std::uint64_t{1} << 32, attends, {.n_layers = n_layers}, true);
    return test::needed_memory(*model, {.n_ctx = 1024, .n_ubatch = 48, .n_threads = 2});
  };
  for (const auto& devices :
       {spread({}), spread(layers_on_second(1)), spread(rows), beside(true, 1), beside(false, 2)})
    for (const test::DeviceMemory& memory : devices) test::expect_needed(memory);
  // Steps that overlap take inputs, outputs and copies twice and more.
  EXPECT_GE(beside(true, 1)[0].need.step_tensors, 2 * spread(layers_on_second(1))[1].need.step_tensors);
}

TEST_P(Spread, ExpertsStayWithTheCpu) {
  PlacementParams placement = layers_on_second(1000);
  placement.experts_on_cpu = true;
  const auto model = load(path(), placement);
  for (const auto& [name, weight] : model->impl().weights[1])
    EXPECT_EQ(name.find("_exps"), std::string::npos) << name;
  EXPECT_FALSE(model->impl().weights[1].empty());
  // Values between their products stay as well: only the inputs and the sum are copied.
  ModelParams params;
  params.placement = placement;
  for (const PlanReport::Copy& copy : inspect_plan(path(), params).copies)
    EXPECT_EQ(copy.value.find("_exps"), std::string::npos) << copy.value;
}

TEST_P(Spread, ExpertsOfTheFirstLayersStayWithTheCpu) {
  const std::vector<float> expected = logits(load(path(), {}));
  const auto experts_on = [](const Model& model, std::size_t device) {
    std::set<std::string> layers;
    for (const auto& [name, weight] : model.impl().weights[device])
      if (name.find("_exps.weight") != std::string::npos) layers.insert(name.substr(0, name.find('.', 4)));
    return layers;
  };
  const PlacementParams placement = layers_on_second(1000);
  const std::set<std::string> all = experts_on(*load(path(), placement), 1);
  const int n_layers = load(path(), {})->info().n_layers;
  for (const int n : {1, n_layers - 1, n_layers, 1000}) {
    ModelParams params;
    params.placement = placement;
    params.n_cpu_moe = n;
    const auto model = Model::load(path(), params);
    std::set<std::string> first, rest;
    for (const std::string& layer : all) (std::stoi(layer.substr(4)) < n ? first : rest).insert(layer);
    EXPECT_EQ(experts_on(*model, 0), first) << n << " layers";
    EXPECT_EQ(experts_on(*model, 1), rest) << n << " layers";
    EXPECT_FALSE(model->impl().weights[1].empty());
    EXPECT_TRUE(logits(model) == expected) << n << " layers";
  }
}

TEST_P(Spread, ABackendOfTheProgramsOwnTakesWhatItCanAndWhatFits) {
  const std::vector<float> expected = logits(load(path(), {}));
  const auto all = load_with_small(path(), std::uint64_t{1} << 32, true);
  const auto bytes_on = [](const Model& model, std::size_t device) {
    std::size_t sum = 0;
    for (const auto& [name, weight] : model.impl().weights[device]) sum += weight->bytes();
    return sum;
  };
  const std::size_t whole = bytes_on(*all, 0);
  ASSERT_GT(whole, 0u);
  EXPECT_TRUE(logits(all) == expected);
  // What it cannot compute is left to the CPU, and the rest stays.
  const auto partly = load_with_small(path(), std::uint64_t{1} << 32, false);
  EXPECT_GT(bytes_on(*partly, 0), 0u);
  EXPECT_TRUE(logits(partly) == expected);
  // Less and less memory takes fewer and fewer layers.
  std::size_t last = whole;
  for (const double part : {1.1, 0.6, 0.0}) {
    const auto model =
        load_with_small(path(), static_cast<std::uint64_t>(part * static_cast<double>(whole)), true);
    EXPECT_LE(bytes_on(*model, 0), last);
    last = bytes_on(*model, 0);
    EXPECT_LE(static_cast<double>(last), part * static_cast<double>(whole));
    EXPECT_TRUE(logits(model) == expected);
  }
  EXPECT_EQ(last, 0u);
  EXPECT_THROW(load_with_small(path(), 1000, true, {.n_layers = 1}), Error);
}

/// The tokens cannot be decoded, and the sequence of `n` tokens is unchanged.
void expect_device_error(Context& context, const std::vector<Token>& tokens, Pos n) {
  Batch batch;
  for (const Token token : tokens) batch.add(token, 0, {.logits = true});
  try {
    (void)context.decode(batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
  }
  EXPECT_EQ(context.cache().next_pos(0), n);
  EXPECT_TRUE(context.cache().consistent());
}

TEST_P(Spread, ADeviceThatFailsInAStepFailsTheBatchAndNoMore) {
  const auto model = load_with_small(path(), std::uint64_t{1} << 32, true, {.n_layers = 1});
  Context context(model, {.n_ctx = 256, .n_threads = 1}),
      alone(load(path(), {}), {.n_ctx = 256, .n_threads = 1});
  const std::vector<Token> few = {9, 4, 7}, more = {200, 1};
  EXPECT_TRUE(all_logits(context, few, 3) == all_logits(alone, few, 3));
  std::atomic<bool>& fails = dynamic_cast<SmallDevice&>(*model->impl().devices.devices[0]).conduct->fails;
  fails = true;
  expect_device_error(context, {5}, 3);
  // After a temporary failure the sequence continues as if nothing had happened.
  fails = false;
  EXPECT_TRUE(all_logits(context, more, 2) == all_logits(alone, more, 2));
}

/// A prompt decoded as one batch, which takes several steps: the logits of its last token, then some more.
std::vector<float> in_one_batch(Context& context, const std::vector<Token>& tokens, int logits_every) {
  std::vector<float> result;
  Batch batch;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    batch.add(tokens[i], 0,
              {.logits = i + 1 == tokens.size() ||
                         (logits_every > 0 && i % static_cast<std::size_t>(logits_every) == 0)});
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
  for (int i = 0; i < batch.size(); ++i) {
    if (!batch[i].options.logits) continue;
    const std::span<const float> row = context.logits(i);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

TEST_P(Spread, StepsOfABatchThatOverlapGiveTheSameBits) {
  std::vector<Token> text = tokens();
  while (text.size() < 45) text.push_back(static_cast<Token>((text.size() * 7) % 200));
  const ContextParams params = {.n_ctx = 512, .n_sequences = 2, .n_ubatch = 8, .n_threads = 1};
  const std::vector<Token> few = {9, 4, 7};
  const auto run = [&](const std::shared_ptr<const Model>& model) {
    Context context(model, params);
    std::vector<float> result = in_one_batch(context, text, 3);
    const auto add = [&](const std::vector<float>& more) {
      result.insert(result.end(), more.begin(), more.end());
    };
    add(all_logits(context, few, 1));
    // Moves are owed before the next batch.
    EXPECT_TRUE(context.cache().copy(0, 1));
    if (context.cache().can_shift()) {
      context.cache().remove(0, 0, 5);
      EXPECT_TRUE(context.cache().shift(0, 5, -1, -5));
    }
    add(in_one_batch(context, text, 0));
    add(all_logits(context, few, 1, 1));
    EXPECT_TRUE(context.cache().consistent());
    return std::pair(result, context.plan_stats());
  };
  const auto [expected, alone] = run(load(path(), {}));
  const int n_layers = load(path(), {})->info().n_layers;
  for (int n = 1; n <= n_layers + 1; ++n) {
    const auto model = load_with_small(path(), std::uint64_t{1} << 32, true, {.n_layers = n}, true);
    const auto [logits, stats] = run(model);
    EXPECT_EQ(Context(model, params).batch_size(), 4 * params.n_ubatch);
    EXPECT_GT(dynamic_cast<SmallDevice&>(*model->impl().devices.devices[0]).conduct->n_bound_anew, 0)
        << "no steps overlap";
    EXPECT_TRUE(logits == expected) << n << " layers";
    EXPECT_EQ(stats.steps, alone.steps);
    EXPECT_EQ(stats.steps_tensors, 0);
  }
  // Attention stays with the host: there and back in each layer.
  EXPECT_TRUE(run(load_with_small(path(), std::uint64_t{1} << 32, false, {}, true)).first == expected);
}

TEST_P(Spread, ADeviceThatFailsWhileStepsOverlapFailsTheBatchAndNoMore) {
  const auto model = load_with_small(path(), std::uint64_t{1} << 32, true, {.n_layers = 1}, true);
  const ContextParams params = {.n_ctx = 256, .n_ubatch = 4, .n_threads = 1};
  Context context(model, params), alone(load(path(), {}), params);
  const std::vector<Token> few = {9, 4, 7}, many = {200, 1, 5, 6, 7, 8, 9, 10, 11, 12};
  EXPECT_TRUE(all_logits(context, few, 3) == all_logits(alone, few, 3));
  std::atomic<bool>& fails = dynamic_cast<SmallDevice&>(*model->impl().devices.devices[0]).conduct->fails;
  fails = true;
  expect_device_error(context, many, 3);
  fails = false;
  EXPECT_TRUE(in_one_batch(context, many, 1) == in_one_batch(alone, many, 1));
}

TEST(Placing, AContextThatItsDeviceCannotComputeIsRefused) {
  const auto model =
      load_with_small(test::golden_dir() / "llama" / "model.gguf", std::uint64_t{1} << 32, true);
  // As with a type of cache that the device lacks.
  dynamic_cast<SmallDevice&>(*model->impl().devices.devices[0]).attends = false;
  try {
    Context context(model, {.n_ctx = 256});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("small0 cannot compute attention"), std::string::npos);
  }
}

TEST(Placing, ALayerIsOneSplitAndATokenCopiesLittle) {
  ModelParams params;
  params.placement = layers_on_second(1);
  const PlanReport plan = inspect_plan(test::golden_dir() / "llama" / "model.gguf", params);
  EXPECT_EQ(plan.splits.size(), 3u);  // What is before it, the layer, and the output.
  std::uint64_t bytes = 0;
  for (const PlanReport::Copy& copy : plan.copies) bytes += copy.bytes;
  EXPECT_LT(bytes, 16u << 10);
}

TEST(Placing, WeightsThatOnlyLongerContextsReadAreCountedOnEveryDevice) {
  const auto model = load(test::golden_dir() / "phimoe" / "model.gguf", layers_on_second(1));
  for (const test::DeviceMemory& memory : test::needed_memory(*model, {.n_ctx = 256, .n_ubatch = 32}))
    test::expect_needed(memory);
}

TEST(Placing, WrongWishesAreRefusedWithTheWayOut) {
  using testing::HasSubstr;
  const auto path = test::golden_dir() / "llama" / "model.gguf";
  const auto refusal = [&](const PlacementParams& placement) {
    try {
      load(path, placement);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refusal({.devices = {"gpu7"}}), HasSubstr("unknown device \"gpu7\"; known are cpu"));
  EXPECT_THAT(refusal({.devices = {"a=cpu", "a=cpu"}}), HasSubstr("NAME=DEVICE"));
  // On two devices, on the CPU alone, and with the default devices.
  for (const Names& devices : {Names{"a=cpu"}, Names{"cpu"}, Names{}}) {
    const std::string known = devices == Names{"a=cpu"} ? "a" : "cpu";
    EXPECT_THAT(refusal({.devices = devices, .pins = {{"attn_q", "gpu7"}}}), HasSubstr("\"gpu7\""));
    EXPECT_THAT(refusal({.devices = devices, .pins = {{"(", known}}}), HasSubstr("not a regular expression"));
    EXPECT_THAT(refusal({.devices = devices, .pins = {{"nothing", known}}}), HasSubstr("matches no tensor"));
  }
  EXPECT_THAT(refusal({.n_layers = -2}), HasSubstr("-1 for as many as fit"));
  for (const float wrong : {NAN, INFINITY, -0.5f})
    EXPECT_THAT(refusal({.devices = {"a=cpu", "b=cpu"}, .shares = {1.0f, wrong}}), HasSubstr("0 or more"));
  EXPECT_THAT(refusal({.devices = {"a=cpu", "b=cpu"}, .shares = {0.0f, 0.0f}}), HasSubstr("share of 0"));
  EXPECT_THAT(refusal({.devices = {"a=cpu"}, .shares = {1.0f, 1.0f}}), HasSubstr("2 shares for 1 devices"));
  EXPECT_THAT(refusal({.n_ctx = -1}), HasSubstr("n_ctx is -1"));
}

INSTANTIATE_TEST_SUITE_P(Families, Spread,
                         testing::Values("llama", "llama-rope3", "qwen3", "qwen3moe", "gemma3", "phi3",
                                         "gpt2", "mamba", "mamba2", "lfm2"));

}  // namespace
}  // namespace weft
