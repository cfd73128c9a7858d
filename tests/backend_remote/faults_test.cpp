// Ends that hang, and ends of other builds.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backend/forwarding_device.h"
#include "backend/host_tensor.h"
#include "backend/remote/protocol.h"
#include "backend/remote/wire.h"
#include "backend_remote/remote_testing.h"
#include "base/hash.h"
#include "base/mapped_file.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

/// Nothing is asked of it: its leader watches it all the same.
TEST(RemoteFaults, HangingFollowersAreDroppedAndExit) {
  test::RemoteCpu remote("rank1", {.lost_after = 200ms});
  EXPECT_EQ(remote.lost(), "");
  remote.hang();
  while (remote.lost().empty()) std::this_thread::sleep_for(5ms);
  try {
    remote.open();
    FAIL() << "opened by nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kDevice);
    EXPECT_EQ(std::string(error.what()), "rank1 is lost: it does not respond");
  }
  remote.join();
}

/// Steps that last until they are cancelled.
struct Endless {
  std::mutex mutex;
  std::vector<bool> were_cancelled;  // When they began.
  std::atomic<int> n_running = 0;
};
class EndlessPlan final : public test::ForwardingPlan {
 public:
  EndlessPlan(std::unique_ptr<DevicePlan> inner, std::shared_ptr<Endless> steps,
              const std::atomic<bool>* cancelled)
      : ForwardingPlan(std::move(inner)), steps_(std::move(steps)), cancelled_(cancelled) {}
  void submit(std::span<const std::int64_t> /*symbols*/, const Bindings& /*bindings*/,
              const Changes& /*actual*/) override {
    {
      const std::scoped_lock lock(steps_->mutex);
      steps_->were_cancelled.push_back(is_cancelled(cancelled_));
    }
    ++steps_->n_running;
    while (!is_cancelled(cancelled_)) std::this_thread::sleep_for(1ms);
    --steps_->n_running;
  }

 private:
  const std::shared_ptr<Endless> steps_;
  const std::atomic<bool>* const cancelled_;
};
class EndlessDevice final : public test::ForwardingDevice {
 public:
  EndlessDevice(std::shared_ptr<Device> inner, std::shared_ptr<Endless> steps)
      : ForwardingDevice(std::move(inner), "cpu"), steps_(std::move(steps)) {}
  std::unique_ptr<DevicePlan> compile(const Graph& graph, const Bindings& bindings,
                                      const CompileOptions& options) override {
    return std::make_unique<EndlessPlan>(inner_->compile(graph, bindings, options), steps_,
                                         options.cancelled);
  }

 private:
  const std::shared_ptr<Endless> steps_;
};

/// It ends the step that it is for, also one that has not begun there, and no other.
TEST(RemoteFaults, CancelAffectsOneStep) {
  const auto steps = std::make_shared<Endless>();
  const test::RemoteCpu remote("rank1", {}, nullptr, 0, [&](std::shared_ptr<Device> cpu) {
    return std::make_shared<EndlessDevice>(std::move(cpu), steps);
  });
  const auto device = remote.open();
  Graph graph;
  const ValueId x = graph.add_input("x", DType::kF32, {4}), y = graph.add(ops::Scale{2.0f}, {x}, "y");
  graph.add_output(y);
  const std::int64_t shape[] = {4};
  const auto xs = device->create_host_tensor(DType::kF32, shape);
  const auto ys = device->create_host_tensor(DType::kF32, shape);
  Bindings bindings(graph.values().size(), nullptr);
  bindings[static_cast<std::size_t>(x)] = xs.get();
  bindings[static_cast<std::size_t>(y)] = ys.get();
  std::atomic<bool> first_cancelled = false, second_cancelled = false;
  const auto first = device->compile(graph, bindings, {.cancelled = &first_cancelled});
  const auto second = device->compile(graph, bindings, {.cancelled = &second_cancelled});

  first->submit({}, bindings, {});
  second->submit({}, bindings, {});  // It waits there for the first.
  while (steps->n_running == 0) std::this_thread::sleep_for(1ms);
  const std::size_t before = remote.bytes_sent();
  second_cancelled = true;
  std::jthread waiting([&] { second->wait(); });
  while (remote.bytes_sent() == before) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(steps->n_running, 1);
  first_cancelled = true;  // Its message follows the other one's.
  first->wait();
  waiting.join();

  second_cancelled = false;
  second->submit({}, bindings, {});
  while (steps->n_running == 0) std::this_thread::sleep_for(1ms);
  second_cancelled = true;
  second->wait();
  EXPECT_EQ(steps->were_cancelled, (std::vector<bool>{false, true, false}));
}

/// A line on which nothing can be sent any more until it is given up.
class FullLink final : public remote::Link {
 public:
  explicit FullLink(std::unique_ptr<remote::Link> inner) : inner_(std::move(inner)) {}
  void send(remote::Message message) override {
    std::unique_lock lock(mutex_);
    given_up_.wait(lock, [&] { return !is_full || is_given_up_; });
    if (is_given_up_) throw Error(ErrorCode::kDevice, "it was given up");
    inner_->send(std::move(message));
  }
  std::optional<remote::Message> receive(remote::Deadline deadline) override {
    return inner_->receive(deadline);
  }
  void give_up() noexcept override {
    const std::scoped_lock lock(mutex_);
    is_given_up_ = true;
    given_up_.notify_all();
    inner_->give_up();
  }
  std::atomic<bool> is_full = false;

 private:
  const std::unique_ptr<remote::Link> inner_;
  std::mutex mutex_;
  std::condition_variable given_up_;
  bool is_given_up_ = false;
};

/// One end of a line to a follower, which gets only the leader's messages that a test sends.
class LoneFollower {
 public:
  explicit LoneFollower(remote::Patience patience = {}) {
    server_ = std::jthread([this, patience, there = there_, back = back_] {
      test::QueueLink link(back, there);
      try {
        remote::serve(*test::registry_of_small_cpu(), link, patience);
      } catch (const Error& error) {
        end_ = error.what();
      }
    });
  }
  test::QueueLink& line() { return line_; }
  /// Tells it to end.
  void dismiss() { line_.send(remote::labelled({}, {.kind = remote::Kind::kEnd})); }
  /// What it ended with.
  const std::string& end() {
    server_.join();
    return end_;
  }

 private:
  const std::shared_ptr<test::QueueLink::Way> there_ = std::make_shared<test::QueueLink::Way>();
  const std::shared_ptr<test::QueueLink::Way> back_ = std::make_shared<test::QueueLink::Way>();
  test::QueueLink line_{there_, back_};
  std::string end_;
  std::jthread server_;
};

/// A leader that ends does not wait indefinitely for a follower that takes nothing.
TEST(RemoteFaults, LeaderExitsDespiteUnresponsiveFollower) {
  const auto there = std::make_shared<test::QueueLink::Way>(),
             back = std::make_shared<test::QueueLink::Way>();
  std::jthread server([=] {
    test::QueueLink link(back, there);
    EXPECT_THROW(remote::serve(*test::registry_of_small_cpu(), link, {}), Error);
  });
  auto link = std::make_unique<FullLink>(std::make_unique<test::QueueLink>(there, back));
  FullLink& line = *link;
  auto follower = std::make_unique<remote::Follower>("rank1", std::move(link), remote::Patience{200ms});
  follower->part();  // Nobody looks any more whether it lives.
  line.is_full = true;
  follower.reset();
}

TEST(RemoteFaults, AFollowerEndsWithoutItsLeader) {
  LoneFollower follower({.lost_after = 100ms});
  // On a busy machine, the follower's message may also say that the follower was suspended itself.
  EXPECT_NE(follower.end().find("leader"), std::string::npos) << follower.end();
}

TEST(RemoteFaults, ALeaderOfAnotherBuildIsRefused) {
  LoneFollower follower;
  follower.line().send(remote::labelled(remote::Writer().put(std::string_view("weft 0.0.1")),
                                        {.kind = remote::Kind::kGreet, .request = 1}));
  auto answer = follower.line().receive(remote::Deadline::max());
  ASSERT_TRUE(answer);
  EXPECT_EQ(remote::take_label(*answer).kind, remote::Kind::kError);
  remote::Reader reader(*answer);
  EXPECT_EQ(reader.get<ErrorCode>(), ErrorCode::kUnsupported);
  const std::string text = reader.text();
  EXPECT_NE(text.find("weft 0.0.1"), std::string::npos) << text;
  EXPECT_NE(text.find(remote::build_name()), std::string::npos) << text;
  follower.dismiss();
  EXPECT_EQ(follower.end(), "");
}

TEST(RemoteFaults, RejectsDifferingRemoteFiles) {
  const std::string path = testing::TempDir() + ("weft_remote_file-" + std::to_string(::getpid()));
  std::ofstream(path) << "0123456789";
  LoneFollower follower;
  const auto ask = [&](const std::string& file, const remote::FilePieces& pieces, std::string_view bytes) {
    base::Hasher hasher;
    hasher.add(std::as_bytes(std::span(bytes)));
    remote::Writer request;
    request.put(std::uint64_t{7}).put(file).put(pieces).put(hasher.result());
    follower.line().send(
        remote::labelled(std::move(request), {.kind = remote::Kind::kFileBytes, .request = 1}));
    return *follower.line().receive(remote::Deadline::max());
  };
  const auto has = [](remote::Message answer) {
    EXPECT_EQ(remote::take_label(answer).kind, remote::Kind::kResponse);
    return remote::Reader(answer).get<bool>();
  };
  const auto one = [](std::uint64_t offset, std::uint64_t n) {
    return remote::FilePieces{.offset = offset, .bytes = n, .n = 1, .stride = 0};
  };
  const auto two = [](std::uint64_t stride) {
    return remote::FilePieces{.offset = 1, .bytes = 2, .n = 2, .stride = stride};
  };
  EXPECT_TRUE(has(ask(path, one(2, 3), "234")));
  EXPECT_TRUE(has(ask(path, two(4), "1256")));
  EXPECT_TRUE(has(ask(path, two(7), "1289")));
  EXPECT_FALSE(has(ask(path + ".none", one(2, 3), "234")));
  for (auto other : {ask(path, one(2, 3), "235"), ask(path, one(8, 3), "89"), ask(path, two(5), "1256"),
                     ask(path, two(8), "129"), ask(path, two(~std::uint64_t{0}), "12"), ask(path, {}, "")}) {
    EXPECT_EQ(remote::take_label(other).kind, remote::Kind::kError);
    remote::Reader reader(other);
    EXPECT_EQ(reader.get<ErrorCode>(), ErrorCode::kInvalidFile);
    EXPECT_NE(reader.text().find(path + " differs from the leader's file"), std::string::npos);
  }
  follower.dismiss();
  EXPECT_EQ(follower.end(), "");
}

/// Both ends have the file: its bytes do not cross.
TEST(RemoteFaults, DoesNotSendExistingFiles) {
  const std::string path = testing::TempDir() + ("weft_remote_weight-" + std::to_string(::getpid()));
  const std::vector<float> rows(64 * 64, 0.5f);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(rows.data()),
             static_cast<std::streamsize>(sizeof(float) * rows.size()));
  const base::MappedFile file(path);
  const test::RemoteCpu remote;
  const auto device = remote.open();
  const std::vector<std::int64_t> shape = {64, 64};
  const std::size_t before = remote.bytes_sent();
  const auto mapped = device->create_weight(DType::kF32, shape, {.bytes = file.bytes(), .name = "mapped"});
  const std::size_t with_file = remote.bytes_sent() - before;
  EXPECT_LT(with_file, file.bytes().size() / 4);
  const auto sent =
      device->create_weight(DType::kF32, shape, {.bytes = std::as_bytes(std::span(rows)), .name = "sent"});
  EXPECT_GE(remote.bytes_sent() - before - with_file, file.bytes().size());
  EXPECT_EQ(mapped->bytes(), sent->bytes());
}

/// The same for scattered rows of a file, such as experts' rows of a share.
TEST(RemoteFaults, DoesNotSendScatteredRowsOfFiles) {
  const std::string path = testing::TempDir() + ("weft_remote_rows-" + std::to_string(::getpid()));
  std::vector<float> matrices(4 * 64 * 64);
  std::iota(matrices.begin(), matrices.end(), 0.0f);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(matrices.data()),
             static_cast<std::streamsize>(sizeof(float) * matrices.size()));
  const base::MappedFile file(path);
  // The second half of the rows of each.
  const std::size_t matrix = sizeof(float) * 64 * 64, half = matrix / 2;
  std::vector<std::byte> rows;
  for (std::size_t i = 0; i < 4; ++i) {
    const auto piece = file.bytes().subspan(i * matrix + half, half);
    rows.insert(rows.end(), piece.begin(), piece.end());
  }
  const test::RemoteCpu remote;
  const auto device = remote.open();
  const std::vector<std::int64_t> shape = {4, 32, 64};
  const std::size_t before = remote.bytes_sent();
  const auto weight = device->create_weight(
      DType::kF32, shape,
      {.bytes = rows,
       .name = "rows",
       .copied_from = {.first = file.bytes().subspan(half, half), .n = 4, .stride = matrix}});
  EXPECT_LT(remote.bytes_sent() - before, rows.size() / 16);
  // Where the file says otherwise, the follower does.
  rows[0] ^= std::byte{1};
  EXPECT_THROW(device->create_weight(
                   DType::kF32, shape,
                   {.bytes = rows,
                    .name = "others",
                    .copied_from = {.first = file.bytes().subspan(half, half), .n = 4, .stride = matrix}}),
               Error);
}

/// A leader's end of a line that changes responses, from the n-th message on.
class ChangingLink final : public remote::Link {
 public:
  using Change = std::function<void(remote::Message&)>;
  ChangingLink(std::unique_ptr<remote::Link> inner, std::shared_ptr<Change> change)
      : inner_(std::move(inner)), change_(std::move(change)) {}
  void send(remote::Message message) override { inner_->send(std::move(message)); }
  std::optional<remote::Message> receive(remote::Deadline deadline) override {
    auto message = inner_->receive(deadline);
    if (message && *change_) (*change_)(*message);
    return message;
  }
  void give_up() noexcept override { inner_->give_up(); }

 private:
  const std::unique_ptr<remote::Link> inner_;
  const std::shared_ptr<Change> change_;
};

/// For any response of a follower the leader continues or reports an error.
TEST(RemoteFaults, RejectsInvalidReplies) {
  Graph graph;
  const Value x = graph.input("x", {4, 64});
  graph.output("y", linear(x, graph.weight("w", {64, 64})));
  const std::vector<float> rows(4 * 64, 0.5f), weight(64 * 64, 0.25f);
  const auto there = std::make_shared<test::QueueLink::Way>(),
             back = std::make_shared<test::QueueLink::Way>();
  const std::jthread server([=] {
    test::QueueLink link(back, there);
    remote::serve(*test::registry_of_small_cpu(), link, {});
  });
  const auto change = std::make_shared<ChangingLink::Change>();
  const remote::Follower follower(
      "rank1", std::make_unique<ChangingLink>(std::make_unique<test::QueueLink>(there, back), change));
  const auto use = [&] {
    DeviceInfo info = follower.devices().front();
    info.name = "rank1.cpu";
    const auto device = follower.open(follower.devices().front(), {}, info);
    for (const Node& node : graph.nodes()) (void)device->supports(graph, node);
    const std::vector<std::int64_t> shape = {64, 64}, of_rows = {4, 64};
    const auto w =
        device->create_weight(DType::kF32, shape, {.bytes = std::as_bytes(std::span(weight)), .name = "w"});
    std::vector<std::unique_ptr<DeviceTensor>> tensors;
    Bindings bindings;
    for (const ValueInfo& value : graph.values()) {
      if (value.kind != ValueKind::kWeight) tensors.push_back(create_host_tensor(*device, value, of_rows));
      bindings.push_back(value.kind == ValueKind::kWeight ? w.get() : tensors.back().get());
    }
    const auto plan = device->compile(graph, bindings, {});
    plan->submit({}, bindings, {});
    plan->wait();
  };
  use();
  int n_errors = 0;
  for (int n = 1; n < 10; ++n)
    for (const std::size_t kept : {std::size_t{0}, std::size_t{1}, std::size_t{9}, std::size_t{40}}) {
      // Not responses to pings: these have no request, and another thread watches for them.
      auto count = std::make_shared<std::atomic<int>>(0);
      *change = [=](remote::Message& message) {
        remote::Message contents = message;
        const remote::Label label = remote::take_label(contents);
        if (label.request == 0 || ++*count != n) return;
        contents.resize(std::min(contents.size(), kept));
        std::fill(contents.begin(), contents.end(), kept == 9 ? std::byte{0} : std::byte{1});
        message = remote::labelled(std::move(remote::Writer().raw(contents)), label);
      };
      try {
        use();
      } catch (const Error&) {
        ++n_errors;
      }
    }
  EXPECT_GT(n_errors, 20);
  *change = {};
  use();
}

/// A follower whose other thread receives a message while the worker responds. That message is processed
/// before any thread receives again.
class HeardBeside final : public remote::Link {
 public:
  void send(remote::Message /*answer*/) override {
    std::unique_lock lock(mutex_);
    if (++n_sent_ > 1) return;
    news_.wait(lock, [&] { return others_listen_; });
    has_answered_ = true;
    news_.notify_all();
  }
  std::optional<remote::Message> receive(remote::Deadline deadline) override {
    std::unique_lock lock(mutex_);
    const bool is_worker = deadline > std::chrono::steady_clock::now();
    if (n_asked_ == 0) return is_worker ? ask() : std::nullopt;
    if (n_asked_ == 1) {
      others_listen_ = true;
      news_.notify_all();
      news_.wait(lock, [&] { return has_answered_; });
      lock.unlock();
      std::this_thread::sleep_for(50ms);  // The worker waits for this thread now.
      lock.lock();
      return ask();
    }
    if (n_sent_ < 2) {
      listened_instead = listened_instead || is_worker;
      return std::nullopt;
    }
    return remote::labelled({}, {.kind = remote::Kind::kEnd});
  }
  void give_up() noexcept override {}

  bool listened_instead = false;

 private:
  /// After a device that is not there.
  std::optional<remote::Message> ask() {
    ++n_asked_;
    return remote::labelled(remote::Writer().put(std::uint64_t{1}),
                            {.kind = remote::Kind::kSettle, .request = 1});
  }
  std::mutex mutex_;
  std::condition_variable news_;
  int n_asked_ = 0, n_sent_ = 0;
  bool others_listen_ = false, has_answered_ = false;
};

TEST(RemoteFaults, DoesNotWaitForReceivedMessages) {
  HeardBeside link;
  remote::serve(*test::registry_of_small_cpu(), link, {});
  EXPECT_FALSE(link.listened_instead);
}

}  // namespace
}  // namespace weft
