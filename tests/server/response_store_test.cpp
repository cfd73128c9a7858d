#include "api/response_store.h"

#include <gtest/gtest.h>

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
  ResponseStore store({.n_responses = 100, .bytes = 100});
  EXPECT_TRUE(store.add("", "a", of_bytes(40)));
  EXPECT_TRUE(store.add("", "b", of_bytes(40)));
  const auto held = store.find("", "a");
  EXPECT_TRUE(store.add("", "c", of_bytes(60)));
  EXPECT_EQ(store.find("", "a"), nullptr);
  EXPECT_NE(store.find("", "b"), nullptr);
  EXPECT_EQ(held->bytes(), 40u);  // A reader keeps its response.
}

TEST(ResponseStore, RefusesWhatIsLargerThanAll) {
  ResponseStore store({.n_responses = 100, .bytes = 100});
  EXPECT_TRUE(store.add("", "a", of_bytes(40)));
  EXPECT_FALSE(store.add("", "b", of_bytes(101)));
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
  EXPECT_EQ(store.find_item("alice", "y")->bytes(), 1u);
  EXPECT_EQ(store.find_item("bob", "y"), nullptr);
  EXPECT_EQ(store.find_item("alice", "a"), nullptr);
  EXPECT_EQ(store.find("alice", "y"), nullptr);
  EXPECT_FALSE(store.remove("alice", "y"));
  EXPECT_TRUE(store.add("alice", "b", second));
  EXPECT_EQ(store.find_item("alice", "y"), nullptr);
  EXPECT_NE(store.find_item("alice", "z"), nullptr);
}

TEST(ResponseStore, RemovedResponsesFreeTheirBytes) {
  ResponseStore store({.n_responses = 100, .bytes = 100});
  EXPECT_TRUE(store.add("", "a", of_bytes(100)));
  EXPECT_TRUE(store.add("", "a", of_bytes(60)));  // In place of the first.
  EXPECT_TRUE(store.add("", "b", of_bytes(40)));
  EXPECT_NE(store.find("", "a"), nullptr);
  EXPECT_TRUE(store.remove("", "b"));
  EXPECT_TRUE(store.add("", "c", of_bytes(40)));
  EXPECT_NE(store.find("", "a"), nullptr);
}

}  // namespace
}  // namespace weft::server
