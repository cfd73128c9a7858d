#include "workers.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

namespace weft::server {
namespace {

TEST(Workers, ClientsTakeTurns) {
  Workers workers(1, 100);
  std::promise<void> began, go, all;
  ASSERT_TRUE(workers.run("a", [&] {
    began.set_value();
    go.get_future().wait();
  }));
  began.get_future().wait();
  std::string order;
  for (const std::string client : {"a", "a", "a", "a", "b", "c", "b"})
    ASSERT_TRUE(workers.run(client, [&order, client] { order += client; }));
  ASSERT_TRUE(workers.run("z", [] {}));
  ASSERT_TRUE(workers.run("a", [&] { all.set_value(); }));
  go.set_value();
  all.get_future().wait();
  EXPECT_EQ(order, "abcabaa");
}

TEST(Workers, RefuseWorkBeyondTheirBound) {
  std::promise<void> began, go;  // They outlive the workers.
  Workers workers(1, 2);
  ASSERT_TRUE(workers.run("a", [&] {
    began.set_value();
    go.get_future().wait();
  }));
  began.get_future().wait();
  EXPECT_TRUE(workers.run("a", [] {}));
  EXPECT_TRUE(workers.run("b", [] {}));
  EXPECT_FALSE(workers.run("c", [] {}));
  go.set_value();
}

TEST(Workers, StopDropsWhatWaits) {
  auto held = std::make_shared<int>(1);
  std::promise<void> began, go;
  Workers workers(1, 10);
  workers.run("a", [&] {
    began.set_value();
    go.get_future().wait();
  });
  began.get_future().wait();
  bool ran = false;
  workers.run("b", [held, &ran] { ran = true; });
  std::thread stopping([&] { workers.stop(); });
  while (held.use_count() > 1) std::this_thread::yield();
  go.set_value();
  stopping.join();
  EXPECT_FALSE(ran);
  EXPECT_FALSE(workers.run("c", [] {}));
}

}  // namespace
}  // namespace weft::server
