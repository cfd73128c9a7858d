// Responses of requests: which thread makes their bodies, and prompts that wait for room in the queue.
#include "api/generation.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "server/fake_exchange.h"
#include "server/running_server.h"
#include "weft/model.h"

namespace weft::server {
namespace {

/// Counts completions, and notes the thread that makes the body.
class CountingWriter final : public ResponseWriter {
 public:
  explicit CountingWriter(std::thread::id& made_by) : made_by_(&made_by) {}
  bool streams() const override { return false; }
  void add(int /*choice*/, const Output& chunk, std::string& /*out*/) override { n_ += chunk.done ? 1 : 0; }
  void finish(std::string& out) override {
    *made_by_ = std::this_thread::get_id();
    out = std::to_string(n_);
  }

 private:
  std::thread::id* const made_by_;
  int n_ = 0;
};

class GenerationTest : public testing::Test {
 protected:
  GenerationParts parts(Workers& workers) {
    GenerationParts parts;
    parts.request = {.exchange = exchange_, .http = &*http_, .workers = &workers};
    parts.writer = std::make_unique<CountingWriter>(made_by_);
    return parts;
  }
  std::thread::id http_thread() {
    std::promise<std::thread::id> id;
    http_->post([&] { id.set_value(std::this_thread::get_id()); });
    return id.get_future().get();
  }

  const std::shared_ptr<FakeExchange> exchange_ = std::make_shared<FakeExchange>(HttpRequest{});
  std::thread::id made_by_;
  RunningServer http_{[](const std::shared_ptr<Exchange>&) {}};
};

TEST_F(GenerationTest, AWorkerMakesTheBody) {
  Workers workers(1, 10);
  start_generation(parts(workers));
  EXPECT_EQ(exchange_->answer().body, "0");
  EXPECT_NE(made_by_, http_thread());
}

TEST_F(GenerationTest, WithoutAFreeWorkerTheBodyIsMadeAllTheSame) {
  Workers workers(1, 10);
  workers.stop();
  start_generation(parts(workers));
  EXPECT_EQ(exchange_->answer().body, "0");
  EXPECT_EQ(made_by_, http_thread());
}

TEST_F(GenerationTest, LaterPromptsWaitForRoomInTheQueue) {
  ServedModelParams served;
  served.context = {.n_ctx = 256, .n_sequences = 1, .n_threads = 1};
  served.service = {.batcher = {.limits = {.n_waiting = 1}}, .n_unread = 1 << 30};
  const auto model = std::make_shared<ServedModel>(
      ModelSpec{.name = "m"},
      Model::load(std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf",
                  {.n_threads = 1}),
      served);
  const std::vector<Token> prompt = {1, 2, 3};
  Workers workers(1, 10);
  GenerationParts made = parts(workers);
  made.request.model = model;
  made.prompts = {prompt, prompt, prompt};
  made.params.n_predict = 1;
  made.n_at_once = 1;
  std::promise<void> full;
  http_->post([until = full.get_future().share()] { until.wait(); });
  start_generation(std::move(made));
  EXPECT_TRUE(eventually([&] { return model->service->stats().n_completed == 1; }));  // The first prompt.
  // One of its completions waits in the queue for as long as the other one runs.
  Response endless = model->service->submit(prompt, {.n = 2, .ignore_end = true, .context_shift = true});
  full.set_value();
  EXPECT_TRUE(eventually([&] { return model->service->stats().n_rejected > 0; }));
  endless.cancel();
  EXPECT_EQ(exchange_->answer().body, "3");
}

TEST_F(GenerationTest, IfTheQueueRefusesAFirstPromptNoneIsGenerated) {
  ServedModelParams served;
  served.context = {.n_ctx = 256, .n_sequences = 1, .n_threads = 1};
  served.service = {.batcher = {.limits = {.n_waiting = 1}}};
  const auto model = std::make_shared<ServedModel>(
      ModelSpec{.name = "m"},
      Model::load(std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf",
                  {.n_threads = 1}),
      served);
  Workers workers(1, 10);
  GenerationParts made = parts(workers);
  made.request.model = model;
  made.prompts.assign(8, {1, 2, 3});
  made.params = {.ignore_end = true, .context_shift = true};  // Endless.
  EXPECT_THROW(start_generation(std::move(made)), OverloadedError);
  EXPECT_TRUE(eventually([&] {
    const BatcherStats stats = model->service->stats();
    return stats.n_cancelled > 0 && stats.n_running + stats.n_waiting == 0;
  }));
}

TEST_F(GenerationTest, ANegativeNKeepIsTheWholePrompt) {
  ServedModelParams served;
  served.context = {.n_ctx = 64, .n_sequences = 1, .n_threads = 1};
  ServedModel model({.name = "m"},
                    Model::load(std::filesystem::path(WEFT_TEST_DATA) / "golden" / "llama" / "model.gguf",
                                {.n_threads = 1}),
                    served);
  RequestParams params{.n_predict = 100, .ignore_end = true, .context_shift = true, .n_keep = -1};
  Response response = submit_prompt(model, {1, 2, 3}, params);
  int n_generated = 0;
  for (Output chunk; response.next(chunk);) n_generated = chunk.stats.n_generated;
  EXPECT_EQ(n_generated, 100);
}

}  // namespace
}  // namespace weft::server
