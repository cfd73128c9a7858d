// Errors of requests for a model that cannot be loaded.
#include "models/model_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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

TEST(ModelPool, FailedLoadsAre503AndNotRepeatedForEachRequest) {
  PoolParams params = params_of({"one"});
  std::atomic<int> n_loads = 0;
  std::vector<std::string> warnings;
  params.load = [&](const ModelSpec& spec,
                    const std::function<bool(float)>&) -> std::shared_ptr<ServedModel> {
    ++n_loads;
    throw Error(ErrorCode::kInvalidFile, "cannot open " + spec.path.string() + ": it is broken");
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

TEST(ModelPool, UnsupportedOptionsAreErrorsThatClientsDoNotRepeat) {
  PoolParams params = params_of({"one"});
  params.load = [](const ModelSpec&, const std::function<bool(float)>&) -> std::shared_ptr<ServedModel> {
    throw Error(ErrorCode::kUnsupported, "the cache type q4_0 does not fit heads of 80 columns");
  };
  ModelPool pool(params);
  const ApiError error = error_of(pool);
  EXPECT_EQ(error.status, 500);
  EXPECT_EQ(error.code, "model_not_supported");
  EXPECT_STREQ(error.what(),
               "the model 'one' could not be loaded: the cache type q4_0 does not fit heads of 80 columns");
  const HttpResponse response = error_response(error, ErrorShape::kOpenAi);
  EXPECT_EQ(response.headers, (HttpHeaders{{"X-Should-Retry", "false"}}));
}

TEST(ModelPool, LoadsInterruptedByStopAreNotFailures) {
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

/// A model "one" or "two", of golden weights.
std::shared_ptr<ServedModel> tiny_model(const ModelSpec& spec) {
  const std::filesystem::path path =
      std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf";
  ServedModelParams served;
  served.context.n_ctx = 64;
  served.context.n_threads = 1;
  return std::make_shared<ServedModel>(spec, Model::load(path, {.n_threads = 1}), served);
}

using Got = std::future<std::shared_ptr<ServedModel>>;

/// What get() delivers: a model or an ApiError.
Got get(ModelPool& pool, std::string_view name, bool is_background) {
  const auto promise = std::make_shared<std::promise<std::shared_ptr<ServedModel>>>();
  pool.get(
      name,
      [promise](std::shared_ptr<ServedModel> model, const std::exception_ptr& error) {
        if (error != nullptr) return promise->set_exception(error);
        promise->set_value(std::move(model));
      },
      is_background);
  return promise->get_future();
}

std::string code_of(Got got) {
  try {
    got.get();
    return "";
  } catch (const ApiError& error) {
    return error.code;
  }
}

TEST(ModelPool, RequestsInTheBackgroundLeaveForAClient) {
  PoolParams params = params_of({"one", "two"});
  params.n_loaded = 1;
  params.load = [](const ModelSpec& spec, const std::function<bool(float)>&) { return tiny_model(spec); };
  ModelPool pool(params);
  std::mutex mutex;
  std::shared_ptr<ServedModel> held;  // By a batch.
  std::string refused;
  pool.on_crowded([&] {
    refused = code_of(get(pool, "one", true));  // Its next request does not hold the model again.
    EXPECT_EQ(pool.use("one", true), nullptr);
    const std::lock_guard lock(mutex);
    held.reset();
  });
  {
    auto got = get(pool, "one", true).get();
    const std::lock_guard lock(mutex);
    held = std::move(got);
  }
  const std::shared_ptr<ServedModel> two = get(pool, "two", false).get();
  EXPECT_EQ(two->spec.name, "two");
  EXPECT_EQ(refused, kNoRoom);
  // In the background it neither waits for the client nor delays it.
  EXPECT_EQ(code_of(get(pool, "one", true)), kNoRoom);
  EXPECT_EQ(get(pool, "two", false).get(), two);
  EXPECT_EQ(get(pool, "two", true).get(), two);
}

TEST(ModelPool, ModelsThatClientsUseNowAndThenStayForThem) {
  for (const auto time : {std::chrono::milliseconds(1h), 0ms}) {
    PoolParams params = params_of({"one", "two"});
    params.n_loaded = 1;
    params.keep_from_background = time;
    params.load = [](const ModelSpec& spec, const std::function<bool(float)>&) { return tiny_model(spec); };
    ModelPool pool(params);
    (void)get(pool, "one", false).get();
    EXPECT_EQ(code_of(get(pool, "two", true)), time == 0ms ? "" : kNoRoom);
    EXPECT_EQ(code_of(get(pool, "one", false)), "");
  }
}

/// A model "one" of golden weights that are read where they are mapped, and "two", which is never loaded.
class LostModel : public testing::Test {
 protected:
  LostModel() {
    std::filesystem::copy_file(std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf",
                               path_, std::filesystem::copy_options::overwrite_existing);
    PoolParams params = params_of({"one", "two"});
    params.models.front().path = path_;
    params.load = [this](const ModelSpec& spec, const std::function<bool(float)>&) {
      const ModelParams how = {.n_threads = 1, .repack = false};
      const std::shared_ptr<Model> model = Model::load(spec.path, how);
      ServedModelParams served;
      served.context.n_ctx = 64;
      served.lost = [this] { return why_lost_; };
      served.reload = [this, model, how](const std::function<bool(float)>&) {
        why_lost_.clear();
        model->reload(how);
      };
      return std::make_shared<ServedModel>(spec, model, served);
    };
    params.warn = [this](const std::string& line) { warnings_.push_back(line); };
    pool_.emplace(params);
  }
  ~LostModel() override {
    pool_.reset();
    std::filesystem::remove(path_);
  }

  std::shared_ptr<ServedModel> get(std::string_view name) {
    std::promise<std::shared_ptr<ServedModel>> told;
    pool_->get(name, [&](std::shared_ptr<ServedModel> model, const std::exception_ptr&) {
      told.set_value(std::move(model));
    });
    return told.get_future().get();
  }
  /// Before the pool loads a model, it asks the loaded models whether they are lost.
  void lose(const std::string& why) {
    why_lost_ = why;
    EXPECT_EQ(get("two"), nullptr);
  }
  ModelState state() const { return pool_->states().front(); }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("weft_lost_" + std::to_string(::getpid()) + ".gguf");
  std::string why_lost_;
  std::vector<std::string> warnings_;
  std::optional<ModelPool> pool_;
};

TEST_F(LostModel, IsReloadedAndStays) {
  const std::shared_ptr<ServedModel> model = get("one");
  ASSERT_NE(model, nullptr);
  lose("one.packed was cut");
  EXPECT_EQ(state().stage, ModelState::Stage::kLoaded);
  EXPECT_EQ(state().model, model);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_EQ(warnings_.front(),
            "model 'one' lost its weights; requests wait while the server reloads them: one.packed was cut");
}

TEST_F(LostModel, WithAChangedFileFailsAndNamesTheFile) {
  const std::shared_ptr<ServedModel> model = get("one");
  ASSERT_NE(model, nullptr);
  std::filesystem::resize_file(path_, 1000);
  lose("its file was cut");
  EXPECT_EQ(state().stage, ModelState::Stage::kFailed);
  EXPECT_EQ(state().model, nullptr);
  EXPECT_NE(state().error.find(path_.filename().string()), std::string::npos) << state().error;
  const auto gone = model->gone();
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->status, 503);
  EXPECT_NE(std::string(gone->what()).find(path_.filename().string()), std::string::npos) << gone->what();
  // The error and the log say that the model was served, and what the server does.
  const std::string lost =
      "the model 'one' lost its weights while it was served, and the server loads it again: ";
  EXPECT_TRUE(std::string(gone->what()).starts_with(lost)) << gone->what();
  ASSERT_GE(warnings_.size(), 2u);
  EXPECT_TRUE(warnings_[1].starts_with(lost)) << warnings_[1];
  EXPECT_EQ(get("one"), nullptr);
}

/// Models of golden weights that are named as files of hubs are.
class ServedModels : public testing::Test {
 protected:
  ModelPool& start(PoolParams params = params_of({"Llama-3.2-1B-Instruct-Q4_K_M", "gemma-3-270m"})) {
    params.any_name = false;
    params.load = [this](const ModelSpec& spec, const std::function<bool(float)>&) {
      ++n_loads_;
      const std::filesystem::path path =
          std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf";
      ServedModelParams served;
      served.context.n_ctx = 64;
      served.lost = lost_;
      return std::make_shared<ServedModel>(spec, Model::load(path, {.n_threads = 1}), served);
    };
    pool_.emplace(std::move(params));
    return *pool_;
  }
  std::shared_ptr<ServedModel> get(std::string_view name) {
    std::promise<std::shared_ptr<ServedModel>> told;
    pool_->get(name, [&](std::shared_ptr<ServedModel> model, const std::exception_ptr&) {
      told.set_value(std::move(model));
    });
    return told.get_future().get();
  }
  void wait_until_unloaded() {
    while (pool_->states().front().stage != ModelState::Stage::kIdle) std::this_thread::sleep_for(1ms);
  }

  std::atomic<int> n_loads_ = 0;
  std::function<std::string()> lost_;
  std::optional<ModelPool> pool_;
};

TEST_F(ServedModels, AreFoundByNamesOfOllama) {
  ModelPool& pool = start();
  for (const char* name :
       {"llama3.2:1b", "llama3.2:1b-instruct-q4_K_M", "Llama-3.2-1B-Instruct-Q4_K_M:latest",
        "hf.co/bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "library/llama3.2:1b"})
    EXPECT_EQ(pool.whole_name(name), "Llama-3.2-1B-Instruct-Q4_K_M") << name;
  EXPECT_EQ(pool.whole_name("gemma3:270m"), "gemma-3-270m");
  for (const char* name : {"llama3.2:3b", "llama3.2:1b-instruct-q8_0", "gemma3:1b", "qwen3:latest", ":", "/"})
    EXPECT_FALSE(pool.knows(name)) << name;
}

TEST_F(ServedModels, AreUnloadedOnceNoRequestUsesThem) {
  ModelPool& pool = start();
  std::shared_ptr<ServedModel> model = get("gemma-3-270m");
  pool.keep("gemma-3-270m", 0ms);
  EXPECT_EQ(pool.states().back().stage, ModelState::Stage::kLoaded);
  EXPECT_EQ(pool.states().back().idle, 0ms);
  model.reset();
  while (pool.states().back().stage != ModelState::Stage::kIdle) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(pool.states().back().was_loaded);
  // The next request loads it, and the pool's own time counts again.
  EXPECT_NE(get("gemma-3-270m"), nullptr);
  EXPECT_EQ(n_loads_, 2);
  EXPECT_EQ(pool.states().back().keep_alive, std::nullopt);
}

TEST_F(ServedModels, AreUnloadedAfterThePoolsTime) {
  PoolParams params = params_of({"one"});
  params.keep_alive = 0ms;
  start(std::move(params));
  EXPECT_NE(get("one"), nullptr);
  wait_until_unloaded();
}

TEST_F(ServedModels, StayAsLongAsARequestSays) {
  PoolParams params = params_of({"one"});
  params.keep_alive = 0ms;
  ModelPool& pool = start(std::move(params));
  std::shared_ptr<ServedModel> model = get("one");
  pool.keep("one", std::nullopt);
  model.reset();
  EXPECT_EQ(pool.states().front().stage, ModelState::Stage::kLoaded);
  EXPECT_EQ(get("one")->spec.name, "one");
  EXPECT_EQ(n_loads_, 1);
}

TEST_F(ServedModels, OfAStoppedPoolDoNotKeepItsThreadBusy) {
  std::atomic<int> n_looks = 0;
  lost_ = [&] {
    ++n_looks;
    return std::string();
  };
  PoolParams params = params_of({"one"});
  params.keep_alive = 0ms;
  ModelPool& pool = start(std::move(params));
  std::shared_ptr<ServedModel> model = get("one");
  pool.stop();
  model.reset();  // Its time is over, but it stays.
  const int before = n_looks;
  const auto begin = std::chrono::steady_clock::now();
  while (n_looks < before + 4) std::this_thread::sleep_for(1ms);
  // The thread pauses between looks.
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 100ms);
  EXPECT_EQ(pool.states().front().stage, ModelState::Stage::kLoaded);
  pool_.reset();
}

TEST(ModelPool, ClientsDoNotSeeFolders) {
  EXPECT_EQ(without_folders("cannot open '/srv/a/m.gguf': gone"), "cannot open 'm.gguf': gone");
  EXPECT_EQ(without_folders("/a/b"), "b");
  EXPECT_EQ(without_folders("../x/y.gguf and ./z.gguf  (/q/w)"), "y.gguf and z.gguf  (w)");
  EXPECT_EQ(without_folders("12 tokens/s, and/or"), "12 tokens/s, and/or");
  EXPECT_EQ(without_folders(""), "");
}

}  // namespace
}  // namespace weft::server
