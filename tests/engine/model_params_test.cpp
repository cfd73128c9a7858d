// Parameters that make no sense, and threads that the system does not give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "base/thread_limit.h"
#include "engine/test_support.h"
#include "weft/measure.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::filesystem::path llama_file() { return test::golden_dir() / "llama" / "model.gguf"; }

TEST(ModelParams, ThatMakeNoSenseAreRefusedWithTheWayOut) {
  const auto expect_refusal = [&](const ModelParams& params, const char* way_out) {
    for (const auto& use : {std::function([&] { Model::load(llama_file(), params); }),
                            std::function([&] { inspect_plan(llama_file(), params); }),
                            std::function([&] { measure_limits(params.n_threads, params.isa); })})
      try {
        use();
        ADD_FAILURE() << way_out;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_THAT(error.what(), HasSubstr(way_out));
      }
  };
  for (const int n_threads : {-5, 1025, 40000}) {
    ModelParams params;
    params.n_threads = n_threads;
    expect_refusal(params, "expected 1 to 1024, or 0 for the number of cores");
    ContextParams context;
    context.n_threads = n_threads;
    EXPECT_THROW(Context(Model::load(llama_file()), context), Error);
  }
  ModelParams params;
  params.isa = static_cast<CpuIsa>(77);
  expect_refusal(params, "unknown instruction set 77");
}

TEST(ModelParams, ExpertsOfFewerLayersThanNoneAreRefused) {
  EXPECT_THROW(Model::load(test::golden_dir() / "mixtral" / "model.gguf", {.n_cpu_moe = -1}), Error);
}

TEST(ModelParams, ThreadsThatTheSystemDoesNotGiveAreAnError) {
  if (!test::kLimitsThreads) GTEST_SKIP() << "sanitizers have a pthread_create of their own";
  ModelParams params;
  params.n_threads = 4;
  ContextParams context_params;
  context_params.n_ctx = 64;
  context_params.n_threads = 4;
  const auto code_of = [](const auto& use) {
    try {
      use();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("2 of 4 threads"));
      return error.code();
    }
    return ErrorCode::kCancelled;
  };
  const auto model = Model::load(llama_file(), params);
  {
    const test::ThreadLimit limit(1);
    EXPECT_EQ(code_of([&] { Model::load(llama_file(), params); }), ErrorCode::kOutOfMemory);
  }
  {
    const test::ThreadLimit limit(1);
    EXPECT_EQ(code_of([&] { Context(model, context_params); }), ErrorCode::kOutOfMemory);
  }
  {
    const test::ThreadLimit limit(1);
    EXPECT_EQ(code_of([&] { measure_limits(4); }), ErrorCode::kOutOfMemory);
  }
  Context context(model, context_params);
  Batch batch;
  batch.add(1, 0, {.logits = true});
  EXPECT_EQ(context.decode(batch), DecodeStatus::kOk);
}

}  // namespace
}  // namespace weft
