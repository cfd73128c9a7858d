#include "api/response_store.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace weft::server {
namespace {

StoredResponse of_bytes(std::size_t n) { return {.response = std::string(n, 'x')}; }

TEST(ResponseStore, DropsTheOldestBeyondItsNumber) {
  ResponseStore store({.n_responses = 2});
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(store.add("", id, of_bytes(10)));
  EXPECT_EQ(store.find("", "a"), nullptr);
  EXPECT_NE(store.find("", "b"), nullptr);
  EXPECT_NE(store.find("", "c"), nullptr);
}

TEST(ResponseStore, DropsTheOldestBeyondItsBytes) {
  ResponseStore store({.n_responses = 100, .bytes = 100'000});
  EXPECT_TRUE(store.add("", "a", of_bytes(40'000)));
  EXPECT_TRUE(store.add("", "b", of_bytes(40'000)));
  const auto held = store.find("", "a");
  EXPECT_TRUE(store.add("", "c", of_bytes(50'000)));
  EXPECT_EQ(store.find("", "a"), nullptr);
  EXPECT_NE(store.find("", "b"), nullptr);
  EXPECT_EQ(held->response.size(), 40'000u);  // A reader keeps its response.
}

TEST(ResponseStore, RefusesWhatIsLargerThanAll) {
  ResponseStore store({.n_responses = 100, .bytes = 1000});
  EXPECT_TRUE(store.add("", "a", of_bytes(40)));
  EXPECT_FALSE(store.add("", "b", of_bytes(1000)));
  EXPECT_NE(store.find("", "a"), nullptr);
  EXPECT_FALSE(ResponseStore({.n_responses = 0}).add("", "a", of_bytes(1)));
}

TEST(ResponseStore, OwnersFindOnlyTheirOwn) {
  ResponseStore store({});
  EXPECT_TRUE(store.add("alice", "a", of_bytes(1)));
  EXPECT_EQ(store.find("bob", "a"), nullptr);
  EXPECT_FALSE(store.remove("bob", "a"));
  EXPECT_TRUE(store.remove("alice", "a"));
  EXPECT_EQ(store.find("alice", "a"), nullptr);
}

TEST(ResponseStore, FindsItemsOfOutputs) {
  ResponseStore store({.n_responses = 1});
  StoredResponse first = of_bytes(1), second = of_bytes(2);
  first.item_ids = {"x", "y"};
  second.item_ids = {"z"};
  EXPECT_TRUE(store.add("alice", "a", first));
  ASSERT_NE(store.find_item("alice", "y"), nullptr);
  EXPECT_EQ(store.find_item("alice", "y")->response.size(), 1u);
  EXPECT_EQ(store.find_item("bob", "y"), nullptr);
  EXPECT_EQ(store.find_item("alice", "a"), nullptr);
  EXPECT_EQ(store.find("alice", "y"), nullptr);
  EXPECT_FALSE(store.remove("alice", "y"));
  EXPECT_TRUE(store.add("alice", "b", second));
  EXPECT_EQ(store.find_item("alice", "y"), nullptr);
  EXPECT_NE(store.find_item("alice", "z"), nullptr);
}

TEST(ResponseStore, RemovedResponsesFreeTheirBytes) {
  ResponseStore store({.n_responses = 100, .bytes = 100'000});
  EXPECT_TRUE(store.add("", "a", of_bytes(99'000)));
  EXPECT_TRUE(store.add("", "a", of_bytes(60'000)));  // In place of the first.
  EXPECT_TRUE(store.add("", "b", of_bytes(39'000)));
  EXPECT_NE(store.find("", "a"), nullptr);
  EXPECT_TRUE(store.remove("", "b"));
  EXPECT_TRUE(store.add("", "c", of_bytes(39'000)));
  EXPECT_NE(store.find("", "a"), nullptr);
  EXPECT_TRUE(store.remove("", "a"));
  EXPECT_TRUE(store.remove("", "c"));
  EXPECT_EQ(store.bytes(), 0u);
}

TEST(ResponseStore, AnOwnerThatStoresMuchDropsItsOwn) {
  for (const StoreLimits& limits : {StoreLimits{.n_responses = 4}, StoreLimits{.bytes = 100'000}}) {
    ResponseStore store(limits);
    EXPECT_TRUE(store.add("bob", "b", of_bytes(20'000)));
    for (const char* id : {"a1", "a2", "a3", "a4", "a5", "a6"})
      EXPECT_TRUE(store.add("alice", id, of_bytes(20'000)));
    EXPECT_NE(store.find("bob", "b"), nullptr);
    EXPECT_EQ(store.find("alice", "a3"), nullptr);
    EXPECT_NE(store.find("alice", "a4"), nullptr);
    // A new response stays, also as the only one of its owner.
    EXPECT_TRUE(store.add("carol", "c", of_bytes(70'000)));
    EXPECT_NE(store.find("carol", "c"), nullptr);
  }
}

TEST(ResponseStore, CountsIds) {
  ResponseStore store({.bytes = 100'000});
  StoredResponse many = of_bytes(1);
  for (int i = 0; i < 5000; ++i) many.item_ids.push_back("msg_" + std::to_string(i));
  EXPECT_FALSE(store.add("", "a", many));
  EXPECT_FALSE(store.add("", std::string(100'000, 'x'), of_bytes(1)));
}

TEST(ResponseStore, SharedItemsCountOnceUntilTheLastOfTheirResponsesIsDropped) {
  ResponseStore store({.bytes = 100'000});
  StoredResponse one = of_bytes(1);
  one.input.push_back(std::make_shared<const StoredItems>(std::string(60'000, 'x')));
  for (const char* id : {"a", "b", "c"}) EXPECT_TRUE(store.add("", id, one));
  EXPECT_GT(store.bytes(), 60'000u);
  EXPECT_LT(store.bytes(), 70'000u);
  EXPECT_TRUE(store.remove("", "a"));
  EXPECT_TRUE(store.remove("", "c"));
  EXPECT_GT(store.bytes(), 60'000u);
  EXPECT_TRUE(store.remove("", "b"));
  EXPECT_EQ(store.bytes(), 0u);
}

}  // namespace
}  // namespace weft::server
