// Requests that continue stored responses or refer to their items.
#include "api/stored_responses.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::server {
namespace {

/// A response with one message.
Json response_of(int n, const std::string& text) {
  const std::string number = std::to_string(n);
  return {{"id", "resp_" + number},
          {"output", Json::array({{{"id", "msg_" + number},
                                   {"type", "message"},
                                   {"role", "assistant"},
                                   {"content", Json::array({{{"type", "output_text"}, {"text", text}}})}}})}};
}

class StoredResponses : public testing::Test {
 protected:
  StoredResponses() { job_.responses = &store_; }

  /// The error of a request whose input is `n` references to one item.
  int status_of_references(std::size_t n) {
    job_.body = {{"input", Json::array()}};
    for (std::size_t i = 0; i < n; ++i)
      job_.body["input"].push_back({{"type", "item_reference"}, {"id", "msg_1"}});
    try {
      continue_previous(job_);
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  }

  ResponseStore store_{StoreLimits{}};
  Job job_;
};

TEST_F(StoredResponses, ReferencesBringInNoMoreThanABody) {
  ASSERT_TRUE(store_response(store_, "", response_of(1, std::string(1 << 20, 'x')), {}));
  EXPECT_EQ(status_of_references(3), 200);
  EXPECT_EQ(job_.body["input"][2], response_of(1, std::string(1 << 20, 'x'))["output"][0]);
  EXPECT_EQ(status_of_references(30), 400);
}

TEST_F(StoredResponses, TooManyReferencesAreRefusedBeforeTheyAreReplaced) {
  ASSERT_TRUE(store_response(store_, "", response_of(1, "x"), {}));
  EXPECT_EQ(status_of_references(16384), 200);
  EXPECT_EQ(status_of_references(16385), 400);
  EXPECT_EQ(job_.body["input"][0]["type"], "item_reference");
}

TEST_F(StoredResponses, TurnsOfAConversationShareItsItems) {
  constexpr int kTurns = 64;
  constexpr std::size_t kText = 1000;
  for (int i = 0; i < kTurns; ++i) {
    job_.body = {{"input", std::string(kText, 'q') + std::to_string(i)}};
    if (i > 0) job_.body["previous_response_id"] = "resp_" + std::to_string(i - 1);
    const Continued continued = continue_previous(job_);
    const Json& input = job_.body["input"];
    ASSERT_EQ(input.size(), 2 * static_cast<std::size_t>(i) + 1) << i;
    ASSERT_TRUE(store_response(store_, "", response_of(i, std::string(kText, 'a')),
                               input_to_store(input, continued)));
  }
  // A question is stored once. An output is stored in its response and in the input of the next one.
  EXPECT_LT(store_.bytes(), kTurns * (3 * kText + 2000));
  // The items have their order and ids.
  job_.body = {{"input", "more"}, {"previous_response_id", "resp_" + std::to_string(kTurns - 1)}};
  continue_previous(job_);
  const Json& all = job_.body["input"];
  ASSERT_EQ(all.size(), 2u * kTurns + 1);
  for (int i = 0; i < kTurns; ++i) {
    const Json& question = all[2 * static_cast<std::size_t>(i)];
    EXPECT_EQ(question["content"][0]["text"], std::string(kText, 'q') + std::to_string(i));
    EXPECT_TRUE(question["id"].is_string());
    EXPECT_EQ(all[2 * static_cast<std::size_t>(i) + 1]["id"], "msg_" + std::to_string(i));
  }
  // A conversation outlives its first response.
  EXPECT_TRUE(store_.remove("", "resp_0"));
  job_.body = {{"input", "more"}, {"previous_response_id", "resp_" + std::to_string(kTurns - 1)}};
  continue_previous(job_);
  EXPECT_EQ(job_.body["input"].size(), 2u * kTurns + 1);
}

TEST_F(StoredResponses, AConversationContinuesWithoutNewItems) {
  ASSERT_TRUE(store_response(store_, "", Json{{"id", "resp_1"}, {"output", Json::array()}},
                             input_to_store("hello", {})));
  job_.body = {{"input", Json::array()}, {"previous_response_id", "resp_1"}};
  const Continued continued = continue_previous(job_);
  EXPECT_EQ(job_.body["input"].size(), 1u);
  EXPECT_EQ(input_to_store(job_.body["input"], continued).size(), 1u);
}

}  // namespace
}  // namespace weft::server
