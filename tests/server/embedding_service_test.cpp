// The embedding service when devices are lost.
#include "models/embedding_service.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "weft/error.h"
#include "weft/model.h"

namespace weft::server {
namespace {

class Renewal : public testing::Test {
 protected:
  Embedder made() const { return Embedder(model_, {.n_threads = 1}); }
  std::future<std::vector<float>> ask() {
    auto answer = std::make_shared<std::promise<std::vector<float>>>();
    std::future<std::vector<float>> result = answer->get_future();
    service_->submit({.texts = {{.tokens = {1, 2, 3}, .second = -1}},
                      .is_abandoned = nullptr,
                      .done = [answer](std::vector<float> values, const std::exception_ptr& error) {
                        if (error != nullptr) return answer->set_exception(error);
                        answer->set_value(std::move(values));
                      }});
    return result;
  }

  const std::shared_ptr<const Model> model_ = Model::load(
      std::filesystem::path(WEFT_TEST_DATA) / "golden_encoders" / "bert" / "model.gguf", {.n_threads = 1});
  std::optional<EmbeddingService> service_{std::in_place, made(), 0};
};

TEST_F(Renewal, RequestsDuringRenewalRunInTheNewEmbedder) {
  const std::vector<float> expected = ask().get();
  std::future<std::vector<float>> answer;
  service_->renew([&] {
    answer = ask();
    return made();
  });
  EXPECT_EQ(answer.get(), expected);
  EXPECT_EQ(ask().get(), expected);
}

TEST_F(Renewal, FailureReachesWaitingRequests) {
  std::future<std::vector<float>> answer;
  const auto fail = [&]() -> Embedder {
    answer = ask();
    throw Error(ErrorCode::kOutOfMemory, "it does not fit");
  };
  EXPECT_THROW(service_->renew(fail), Error);
  EXPECT_THROW(ask(), Error);
  service_.reset();
  try {
    answer.get();
    FAIL() << "no error came";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory) << error.what();
  }
}

TEST_F(Renewal, RequestsInTheBackgroundComeAfterAllOthers) {
  std::mutex mutex;
  std::vector<int> order;
  std::vector<std::future<void>> ended;
  const auto submit = [&](int number, bool is_background) {
    auto promise = std::make_shared<std::promise<void>>();
    ended.push_back(promise->get_future());
    service_->submit({.texts = {{.tokens = {1, 2, 3}, .second = -1}},
                      .is_background = is_background,
                      .is_abandoned = nullptr,
                      .done = [&, number, promise](const std::vector<float>&, const std::exception_ptr&) {
                        const std::lock_guard lock(mutex);
                        order.push_back(number);
                        promise->set_value();
                      }});
  };
  service_->renew([&] {
    submit(3, true);
    submit(1, false);
    submit(4, true);
    submit(2, false);
    return made();
  });
  for (std::future<void>& one : ended) one.get();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

// As a Batcher's queue: half of its places are for clients.
TEST_F(Renewal, RequestsInTheBackgroundHaveHalfThePlaces) {
  constexpr int kPlaces = 6;
  service_.emplace(made(), kPlaces);
  const auto submit = [&](bool is_background) {
    service_->submit({.texts = {{.tokens = {1, 2, 3}, .second = -1}},
                      .is_background = is_background,
                      .is_abandoned = nullptr,
                      .done = [](const std::vector<float>&, const std::exception_ptr&) {}});
  };
  service_->renew([&] {
    for (int i = 0; i < kPlaces / 2; ++i) submit(true);
    EXPECT_THROW(submit(true), OverloadedError);
    for (int i = 0; i < kPlaces / 2; ++i) submit(false);
    EXPECT_THROW(submit(false), OverloadedError);
    return made();
  });
}

}  // namespace
}  // namespace weft::server
