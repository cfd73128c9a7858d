// What those are told who ask for a model that cannot be loaded.
#include "models/model_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "weft/error.h"

namespace weft::server {
namespace {

using namespace std::chrono_literals;

ApiError error_of(ModelPool& pool, std::string_view name = {}) {
  std::promise<std::exception_ptr> told;
  pool.get(name,
           [&](const std::shared_ptr<ServedModel>&, std::exception_ptr error) { told.set_value(error); });
  return to_api_error(told.get_future().get());
}

PoolParams params_of(std::vector<std::string> names) {
  PoolParams params;
  for (std::string& name : names) {
    const std::filesystem::path path = "/srv/secret/" + name + ".gguf";
    params.models.push_back({.name = std::move(name), .path = path});
  }
  return params;
}

TEST(ModelPool, AFailedLoadIsNobodysFaultAndNotRepeatedForEach) {
  PoolParams params = params_of({"one"});
  std::atomic<int> n_loads = 0;
  std::vector<std::string> warnings;
  params.load = [&](const ModelSpec& spec,
                    const std::function<bool(float)>&) -> std::shared_ptr<ServedModel> {
    ++n_loads;
    throw Error(ErrorCode::kInvalidArgument, "cannot open " + spec.path.string() + ": it is broken");
  };
  params.warn = [&](const std::string& line) { warnings.push_back(line); };
  {
    ModelPool pool(params);
    for (int i = 0; i < 5; ++i) {
      const ApiError error = error_of(pool);
      EXPECT_EQ(error.status, 503);
      EXPECT_EQ(error.code, "model_unavailable");
      EXPECT_STREQ(error.what(), "the model 'one' could not be loaded: cannot open one.gguf: it is broken");
      EXPECT_GE(error.retry_after_ms, 1000.0);
    }
    EXPECT_EQ(pool.states().front().stage, ModelState::Stage::kFailed);
    EXPECT_EQ(pool.states().front().error, "cannot open one.gguf: it is broken");
  }
  EXPECT_EQ(n_loads, 1);
  EXPECT_EQ(warnings,
            std::vector<std::string>{
                "the model 'one' could not be loaded: cannot open /srv/secret/one.gguf: it is broken"});
}

TEST(ModelPool, ALoadThatIsBrokenOffByTheEndIsNoFailure) {
  PoolParams params = params_of({"one", "two"});
  std::promise<void> began;
  std::vector<std::string> warnings;
  params.load = [&](const ModelSpec&,
                    const std::function<bool(float)>& progress) -> std::shared_ptr<ServedModel> {
    began.set_value();
    while (progress(0.5f)) std::this_thread::sleep_for(1ms);
    throw Error(ErrorCode::kCancelled, "loading was cancelled");
  };
  params.warn = [&](const std::string& line) { warnings.push_back(line); };
  ModelPool pool(params);
  auto first = std::async(std::launch::async, [&] { return error_of(pool, "one"); });
  began.get_future().wait();
  EXPECT_EQ(pool.states().front().stage, ModelState::Stage::kLoading);
  auto second = std::async(std::launch::async, [&] { return error_of(pool, "two"); });
  while (pool.states().back().stage != ModelState::Stage::kLoading) std::this_thread::sleep_for(1ms);
  pool.stop();
  for (auto* const told : {&first, &second}) EXPECT_STREQ(told->get().what(), "the server is shutting down");
  pool.join();
  EXPECT_EQ(pool.states().front().stage, ModelState::Stage::kIdle);
  EXPECT_STREQ(error_of(pool, "one").what(), "the server is shutting down");
  EXPECT_TRUE(warnings.empty());
}

TEST(ModelPool, FoldersAreNotForClients) {
  EXPECT_EQ(without_folders("cannot open '/srv/a/m.gguf': gone"), "cannot open 'm.gguf': gone");
  EXPECT_EQ(without_folders("/a/b"), "b");
  EXPECT_EQ(without_folders("../x/y.gguf and ./z.gguf  (/q/w)"), "y.gguf and z.gguf  (w)");
  EXPECT_EQ(without_folders("12 tokens/s, and/or"), "12 tokens/s, and/or");
  EXPECT_EQ(without_folders(""), "");
}

}  // namespace
}  // namespace weft::server
