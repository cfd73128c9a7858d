// What inspection says of a model's memory and its type.
#include <functional>

#include "engine/allocation_counter.h"
#include "engine/model_draft.h"
#include "engine/test_support.h"

namespace weft {
namespace {

class InspectedCache : public testing::TestWithParam<const char*> {};

TEST_P(InspectedCache, IsWhatAFullContextKeeps) {
  const std::filesystem::path path = test::golden_dir() / GetParam() / "model.gguf";
  const auto model = Model::load(path);
  for (ContextParams params :
       {ContextParams{.n_ctx = 1024, .n_ubatch = 64},
        {.n_ctx = 1000, .window_rewind = -1},
        {.n_ctx = 1024, .n_ubatch = 64, .k_type = CacheType::kF32, .window_rewind = 0}}) {
    const FileInfo::Cache said = inspect(path, params).cache;
    Context context(model, params);
    EXPECT_EQ(said.n_ctx, context.params().n_ctx);
    Batch batch;
    for (int i = 0; i < params.n_ctx; ++i) {
      batch.clear();
      batch.add(i % 100, 0);
      // Most of it in pieces: those need the most room.
      if (i < params.n_ctx / 2) {
        while (batch.size() < params.n_ubatch && i + 1 < params.n_ctx / 2) batch.add(++i % 100, 0);
      }
      ASSERT_EQ(context.decode(batch), DecodeStatus::kOk);
    }
    const auto kept = static_cast<std::uint64_t>(context.cache().bytes());
    const bool windows = model->info().window > 0 && params.window_rewind >= 0;
    EXPECT_LE(kept, said.bytes);
    if (windows) {
      EXPECT_LE(said.bytes, kept + kept / 2);
      EXPECT_LT(
          said.bytes,
          inspect(path, {.n_ctx = params.n_ctx, .k_type = params.k_type, .window_rewind = -1}).cache.bytes);
    } else if (!model->info().recurrent) {
      EXPECT_EQ(said.bytes, kept);
      EXPECT_EQ(said.bytes_per_token, kept / ((static_cast<std::uint64_t>(params.n_ctx) + 63) / 64 * 64));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, InspectedCache, testing::Values("llama", "gemma3", "lfm2"));

TEST(Inspection, NamesTheTypesOfACache) {
  const std::filesystem::path path = test::golden_dir() / "llama" / "model.gguf";
  EXPECT_EQ(inspect(path, {.k_type = CacheType::kF32, .v_type = CacheType::kF32}).cache.type, "f32");
  EXPECT_EQ(inspect(path, {.k_type = CacheType::kF32, .v_type = CacheType::kF16}).cache.type, "f32, f16");
  const Context context(Model::load(path), {});
  const bool bf16 = context.params().k_type == CacheType::kBF16;
  EXPECT_EQ(inspect(path).cache.type, bf16 ? "bf16" : "f16");
}

TEST(Inspection, RefusesContextsThatThereCannotBe) {
  try {
    inspect(test::golden_dir() / "llama" / "model.gguf", {.n_ctx = -5});
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

TEST(Inspection, CallsFilesAsTheyCallThemselves) {
  const auto name_with = [](std::uint32_t file_type) {
    test::Draft draft("llama");
    const test::DraftFile file(draft.set("general.file_type", file_type));
    return inspect(file.path()).model->quantisation;
  };
  EXPECT_EQ(name_with(15), "Q4_K_M");
  EXPECT_EQ(name_with(9999), "f16");  // An unknown number: the type of most weights.
}

// What the standard library throws inside is an Error outside.
TEST(Inspection, OfAFileThatMemoryIsTooSmallForIsAnError) {
  if (!test::kCountsAllocations) GTEST_SKIP() << "sanitizers bring their own operator new";
  const std::filesystem::path path = test::golden_dir() / "llama" / "model.gguf";
  const std::function<void()> calls[] = {[&] { (void)inspect(path); }, [&] { (void)inspect_plan(path, {}); },
                                         [&] { (void)load_tokenizer(path); }};
  for (const auto& call : calls) {
    for (const long n : {1, 2}) {
      test::fail_allocation(n);
      try {
        call();
        test::fail_allocation(0);
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        test::fail_allocation(0);
        EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
      }
      test::fail_allocation(0);
    }
  }
}

}  // namespace
}  // namespace weft
