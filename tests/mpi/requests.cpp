// Requests over all processes that mpirun started. Each ends with the tokens of a single process or, after
// processes died, with an error that says so. test_mpi.py starts it and kills processes.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/batcher_testing.h"
#include "weft/backend/registry.h"
#include "weft/device.h"

namespace weft {
namespace {

std::shared_ptr<Registry> registry() {
  const std::vector<std::filesystem::path> folders = {WEFT_LAUNCHED};
  return load_backends(folders);
}

std::shared_ptr<const Model> load(std::vector<std::string> devices) {
  ModelParams params;
  params.n_threads = 1;
  params.registry = registry();
  params.placement.devices = std::move(devices);
  params.placement.n_ctx = 160;
  params.placement.n_sequences = 12;
  return Model::load(test::golden_file("llama"), params);
}

TEST(Launched, EveryRequestEndsWithItsTextOrAnError) {
  const char* const n = std::getenv("WEFT_REQUESTS");
  int n_requests = n != nullptr ? std::atoi(n) : 300;
  const bool may_fail = std::getenv("WEFT_MAY_FAIL") != nullptr;
  const auto one = load({"cpu"});
  std::mt19937_64 random(99);
  std::vector<test::Ask> asks;
  std::vector<test::Result> references;
  for (int i = 0; i < 40; ++i) {
    asks.push_back(test::random_ask(*one, random, 40, 10));
    references.push_back(test::alone(one, asks.back()));
  }
  const auto all = load({});
  ASSERT_GT(list_devices(*registry()).size(), 1u);
  // A cache far too small, so that sequences are preempted and computed again.
  Context context(all, {.n_ctx = 160, .n_sequences = 12, .n_threads = 1});
  Batcher batcher(context, {.speculation = Speculation::kNgram, .n_draft = 4, .adapt_drafts = false});
  std::printf("begun\n");
  std::fflush(stdout);

  std::map<RequestId, test::Result> open;
  int n_submitted = 0, n_right = 0, n_failed = 0;
  while (n_submitted < n_requests || !open.empty()) {
    for (; n_submitted < n_requests && open.size() < 40; ++n_submitted) {
      const std::size_t which = random() % asks.size();
      RequestParams params = asks[which].params;
      params.on_output = [&, which](const Output& output) {
        test::Result& result = open[output.request];
        result.text += output.text;
        for (const OutputToken& token : output.tokens) result.tokens.push_back(token.id);
        if (!output.done) return true;
        result.done = true;
        result.stop = output.stop;
        if (output.stop == StopReason::kError) {
          ++n_failed;
          n_requests = n_submitted;  // All others would fail, too.
          EXPECT_TRUE(may_fail) << output.error;
          EXPECT_NE(output.error.find("is lost"), std::string_view::npos) << output.error;
          EXPECT_TRUE(output.error.starts_with("rank")) << output.error;
        } else {
          ++n_right;
          test::expect_same(result, references[which], "request " + std::to_string(output.request));
        }
        open.erase(output.request);
        return true;
      };
      open[batcher.submit(asks[which].prompt, std::move(params))];
    }
    batcher.step();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_EQ(n_right + n_failed, n_requests);
  EXPECT_EQ(n_failed > 0, may_fail);
  EXPECT_TRUE(may_fail || batcher.stats().n_preempted > 0);
  std::printf("right %d failed %d of %d\n", n_right, n_failed, n_requests);
  std::fflush(stdout);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  if (weft::registry()->init_worker_process()) return 0;
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
