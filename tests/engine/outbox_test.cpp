// The outbox and the open requests, with streams that have ended and receivers that cancel, submit and throw.
#include "engine/batching/outbox.h"

#include <stdexcept>
#include <string>
#include <vector>

#include "engine/batching/open_requests.h"
#include "engine/batching_testing.h"

namespace weft::engine {
namespace {

using test::stream_of;
using test::streams_of;

const auto kIgnore = [](const Stream&) {};

StreamPtr ended(RequestId id, std::function<bool(const Output&)> on_output) {
  StreamPtr stream = stream_of(id, {.on_output = std::move(on_output)});
  stream->finish(StopReason::kLength);
  return stream;
}

TEST(Outbox, DeliversEachEndOnce) {
  int n_reported = 0;
  const StreamPtr stream = ended(1, [&](const Output& output) {
    EXPECT_TRUE(output.done);
    ++n_reported;
    return true;
  });
  Outbox outbox;
  outbox.reserve(1);
  outbox.add(stream);
  outbox.add(stream);
  int n_ended = 0;
  outbox.deliver(1, [&](const Stream& of) { n_ended += &of == stream.get() ? 1 : 0; }, kIgnore);
  EXPECT_EQ(n_reported, 1);
  EXPECT_EQ(n_ended, 1);
  EXPECT_TRUE(stream->end_delivered());
  outbox.add(stream);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, TakesNoStreamWithoutOutput) {
  Outbox outbox;
  outbox.add(stream_of(1));
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, KeepsOutputOfLaterRequests) {
  std::vector<RequestId> told;
  const auto receive = [&](const Output& output) {
    told.push_back(output.request);
    return true;
  };
  Outbox outbox;
  outbox.add(ended(2, receive));
  outbox.add(ended(1, receive));
  outbox.deliver(1, kIgnore, kIgnore);
  EXPECT_EQ(told, (std::vector<RequestId>{1}));
  EXPECT_FALSE(outbox.empty());
  outbox.deliver(2, kIgnore, kIgnore);
  EXPECT_EQ(told, (std::vector<RequestId>{1, 2}));
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, DeliversWhatReceiversAdd) {
  Outbox outbox;
  bool told = false;
  const StreamPtr second = ended(2, [&](const Output&) { return told = true; });
  outbox.add(ended(1, [&](const Output&) {
    EXPECT_TRUE(outbox.delivering());
    outbox.reserve(100);
    outbox.add(second);
    return true;
  }));
  outbox.deliver(2, kIgnore, kIgnore);
  EXPECT_TRUE(told);
  EXPECT_FALSE(outbox.delivering());
}

TEST(Outbox, ThrowsAfterAllDeliveries) {
  int n_reported = 0;
  Outbox outbox;
  for (const RequestId id : {1, 2, 3})
    outbox.add(ended(id, [&, id](const Output&) -> bool {
      ++n_reported;
      if (id < 3) throw std::runtime_error("receiver " + std::to_string(id));
      return true;
    }));
  try {
    outbox.deliver(3, kIgnore, kIgnore);
    FAIL() << "it does not throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "receiver 1");
  }
  EXPECT_EQ(n_reported, 3);
  EXPECT_FALSE(outbox.delivering());
}

TEST(OpenRequests, CloseWithTheirLastStream) {
  OpenRequests open;
  EXPECT_EQ(open.next_id(), 1);
  const std::vector<StreamPtr> streams = streams_of(1, {.n = 2});
  open.add(open.make_entry(streams));
  EXPECT_EQ(open.last_id(), 1);
  EXPECT_EQ(open.next_order(), 3);
  EXPECT_EQ(open.n_streams(), 2u);
  ASSERT_EQ(open.streams(1).size(), 2u);
  EXPECT_TRUE(open.streams(2).empty());
  for (const StreamPtr& stream : streams) {
    EXPECT_FALSE(open.streams(1).empty());
    stream->finish(StopReason::kCancelled);
    open.close(*stream);
    stream->deliver();
  }
  EXPECT_TRUE(open.streams(1).empty());
  EXPECT_EQ(open.n_streams(), 0u);
}

TEST(OpenRequests, KnowDeadlinesWhileTheyAreOpen) {
  OpenRequests open;
  EXPECT_FALSE(open.any_deadlines());
  open.add(open.make_entry(streams_of(1, {})));
  EXPECT_FALSE(open.any_deadlines());
  const std::vector<StreamPtr> late = streams_of(2, {.timeout_ms = 5.0});
  open.add(open.make_entry(late));
  EXPECT_TRUE(open.any_deadlines());
  open.close(*late.front());
  open.close(*open.streams(1).front());
  EXPECT_FALSE(open.any_deadlines());
  open.add(open.make_entry(streams_of(3, {})));
  EXPECT_FALSE(open.any_deadlines());
}

}  // namespace
}  // namespace weft::engine
