// Profiles: their counts follow from the model and the batch, and taking them changes no bit.
#include "weft/profile.h"

#include <algorithm>

#include "test_support.h"

namespace weft {
namespace {

using test::golden_dir;

std::shared_ptr<const Model> load(const std::string& name) {
  return Model::load(golden_dir() / name / "model.gguf", {.n_threads = 1});
}

const Profile::Work& find(const Profile& profile, const std::string& name) {
  static const Profile::Work none;
  const auto found =
      std::find_if(profile.work.begin(), profile.work.end(), [&](const auto& w) { return w.name == name; });
  EXPECT_NE(found, profile.work.end()) << name;
  return found == profile.work.end() ? none : *found;
}

Batch tokens(SeqId seq, int n) {
  Batch batch;
  for (int i = 0; i < n; ++i) batch.add(1 + i % 7, seq, {.logits = i + 1 == n});
  return batch;
}

TEST(Profile, CountsProductsAndCellsExactly) {
  const auto model = load("llama");
  const ModelInfo& info = model->info();
  Context context(model, {.n_ctx = 1024, .n_sequences = 3, .n_threads = 2});
  const double cell_bytes = 2.0 * 2.0 * info.n_kv_heads * info.n_embd / info.n_heads;  // K and V, F16

  Profile profile;
  context.set_profile(&profile);
  ASSERT_EQ(context.decode(tokens(0, 130)), DecodeStatus::kOk);
  const Profile::Work q = find(profile, "matmul attn_q");
  EXPECT_EQ(q.calls, info.n_layers);
  EXPECT_EQ(q.multiply_adds.all(), 130.0 * info.n_layers * info.n_embd * info.n_embd);
  Profile::Work attention = find(profile, "attention");
  EXPECT_EQ(attention.bytes, info.n_layers * 130 * cell_bytes);
  // Row r sees r + 1 cells; a product of q and k, and one of the weight and v.
  EXPECT_EQ(attention.multiply_adds.int8, 0.0);
  EXPECT_EQ(attention.multiply_adds.all(), info.n_layers * (130.0 * 131.0 / 2.0) * 2.0 * info.n_embd);
  EXPECT_EQ(profile.n_steps, 1);
  EXPECT_EQ(profile.n_threads, 2);

  // Two sequences share a prefix and have one token each: shared cells are read once.
  profile = {};
  context.set_profile(nullptr);
  ASSERT_TRUE(context.cache().copy(0, 1, 0, 128));
  context.cache().remove(0, 128);
  context.set_profile(&profile);
  Batch batch;
  batch.add(3, 0, {.logits = true});
  batch.add(4, 1, {.logits = true});
  ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
  attention = find(profile, "attention");
  EXPECT_EQ(attention.bytes, info.n_layers * (128 + 2) * cell_bytes);
  EXPECT_EQ(attention.multiply_adds.all(), info.n_layers * 2 * 129.0 * 2.0 * info.n_embd);

  // Off again: nothing is added.
  context.set_profile(nullptr);
  const std::int64_t n_steps = profile.n_steps;
  ASSERT_EQ(context.decode(tokens(2, 5)), DecodeStatus::kOk);
  EXPECT_EQ(profile.n_steps, n_steps);
}

TEST(Profile, WindowsHideCells) {
  const auto model = load("gemma3");
  Context context(model, {.n_ctx = 1024, .n_threads = 1});
  Profile profile;
  ASSERT_EQ(context.decode(tokens(0, 500)), DecodeStatus::kOk);
  context.set_profile(&profile);
  ASSERT_EQ(context.decode(tokens(0, 1)), DecodeStatus::kOk);
  const Profile::Work& attention = find(profile, "attention");
  // Layers see 16 cells or all 501; heads have 32 elements, F16.
  const auto n_cells = static_cast<int>(attention.bytes / (2 * 2 * 32.0 * model->info().n_kv_heads));
  const int beyond_windows = n_cells - 16 * model->info().n_layers;
  const int n_global = beyond_windows / (501 - 16);
  EXPECT_EQ(beyond_windows % (501 - 16), 0);
  EXPECT_GT(n_global, 0);
  EXPECT_LT(n_global, model->info().n_layers);
}

/// Phases of a layer in steps of n_tokens tokens, without the two around the layers.
double phases_of_layer(const std::string& name, int n_tokens) {
  const auto model = load(name);
  Context context(model, {.n_ctx = 256, .n_threads = 2});
  EXPECT_EQ(context.decode(tokens(0, 3)), DecodeStatus::kOk);
  Profile profile;
  context.set_profile(&profile);
  EXPECT_EQ(context.decode(tokens(0, n_tokens)), DecodeStatus::kOk);
  return (static_cast<double>(profile.n_phases) - 2) / model->info().n_layers;
}

TEST(Profile, LayersHaveFivePhasesWhereRowsAreFew) {
  // Q, K and V with what turns and stores them; attention; its product; gate and up; down. What stands
  // between products of one row has no phase.
  for (const char* name : {"llama", "gemma3", "qwen2", "qwen3", "phi3"})
    EXPECT_EQ(phases_of_layer(name, 1), 5) << name;
  EXPECT_EQ(phases_of_layer("qwen3moe", 1), 6);  // And the choice of experts.
  EXPECT_GT(phases_of_layer("llama", 9), 5);
}

TEST(Profile, ChangesNoBitAndAddsUp) {
  const auto model = load("llama");
  Context plain(model, {.n_ctx = 256, .n_threads = 2}), profiled(model, {.n_ctx = 256, .n_threads = 2});
  Profile profile{.max_spans = 100000};
  profiled.set_profile(&profile);
  for (const int n : {40, 1, 1}) {
    const Batch batch = tokens(0, n);
    ASSERT_EQ(plain.decode(batch), DecodeStatus::kOk);
    ASSERT_EQ(profiled.decode(batch), DecodeStatus::kOk);
    const auto a = plain.logits(n - 1), b = profiled.logits(n - 1);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
  }
  double threads_seconds = 0.0, seconds = 0.0;
  for (const Profile::Work& work : profile.work) {
    threads_seconds += work.busy_seconds + work.wait_seconds;
    seconds += work.seconds;
  }
  EXPECT_NEAR(threads_seconds, 2.0 * profile.seconds, 1e-6);
  EXPECT_NEAR(seconds, profile.seconds, 1e-6);
  double span_seconds = 0.0, busy_seconds = 0.0;
  for (const Profile::Span& span : profile.spans) {
    EXPECT_LE(span.begin, span.end);
    span_seconds += span.end - span.begin;
  }
  for (const Profile::Work& work : profile.work) busy_seconds += work.busy_seconds;
  EXPECT_GE(span_seconds, busy_seconds - 1e-9);  // A span holds the gaps between its tasks.
  EXPECT_EQ(profile.n_steps, 3);

  Profile few{.max_spans = 5};
  profiled.set_profile(&few);
  ASSERT_EQ(profiled.decode(tokens(0, 1)), DecodeStatus::kOk);
  EXPECT_LE(few.spans.size(), 5u);
  profiled.set_profile(nullptr);
}

}  // namespace
}  // namespace weft
