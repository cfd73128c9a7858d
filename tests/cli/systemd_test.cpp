#include "serving/systemd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "weft/error.h"

namespace weft::cli {
namespace {

/// A manager's end of the notify socket.
class Manager {
 public:
  // The address as NOTIFY_SOCKET has it: a path, or "@NAME".
  explicit Manager(const std::string& address)
      : descriptor_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un own{};
    own.sun_family = AF_UNIX;
    std::copy(address.begin(), address.end(), own.sun_path);
    if (address[0] == '@') own.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&own), size), 0);
  }
  ~Manager() { ::close(descriptor_); }

  std::string receive() const {
    std::array<char, 4096> block{};
    const ssize_t n = ::recv(descriptor_, block.data(), block.size(), 0);
    return n < 0 ? "nothing" : std::string(block.data(), static_cast<std::size_t>(n));
  }

 private:
  int descriptor_;
};

void check_messages(const std::string& address) {
  const Manager manager(address);
  ServiceNotifier notifier(address);
  ASSERT_TRUE(notifier.connected());
  notifier.status("loading\nREADY=1");
  EXPECT_EQ(manager.receive(), "STATUS=loading\n");
  notifier.ready("at http://127.0.0.1:8080");
  EXPECT_EQ(manager.receive(), "READY=1\nSTATUS=at http://127.0.0.1:8080\n");
  notifier.extend_timeout(std::chrono::milliseconds(1500));
  EXPECT_EQ(manager.receive(), "EXTEND_TIMEOUT_USEC=1500000\n");
  notifier.stopping("2 requests are left");
  EXPECT_EQ(manager.receive(), "STOPPING=1\nSTATUS=2 requests are left\n");
  EXPECT_EQ(manager.receive(), "nothing");
}

TEST(ServiceNotifier, SendsToPathsAndAbstractAddresses) {
  const std::string path = testing::TempDir() + "weft_notify_" + std::to_string(::getpid());
  check_messages(path);
  std::filesystem::remove(path);
  check_messages("@weft_notify_" + std::to_string(::getpid()));
}

TEST(ServiceNotifier, DoesNothingWithoutAManager) {
  for (const std::string& address :
       {std::string(), std::string("/nonexistent/notify"), std::string("@"), std::string("relative"),
        std::string("vsock:2:1234"), std::string(500, '/')}) {
    ServiceNotifier notifier(address);
    EXPECT_FALSE(notifier.connected()) << address;
    notifier.ready("");
    notifier.stopping("");
  }
}

TEST(ServiceNotifier, DoesNotWaitForABusyManager) {
  const Manager manager("@weft_deaf_" + std::to_string(::getpid()));
  ServiceNotifier notifier("@weft_deaf_" + std::to_string(::getpid()));
  for (int i = 0; i < 10'000; ++i) notifier.status("still alive");  // More than any socket's queue.
  EXPECT_EQ(manager.receive(), "STATUS=still alive\n");
}

TEST(ServiceNotifier, IgnoresALostManager) {
  auto notifier = [] {
    const Manager manager("@weft_gone_" + std::to_string(::getpid()));
    return std::make_unique<ServiceNotifier>("@weft_gone_" + std::to_string(::getpid()));
  }();
  EXPECT_TRUE(notifier->connected());
  notifier->ready("");
}

// Descriptors and variables are a process's own: `body` runs in a child, whose exit code is its result.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int listening_socket() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  ::listen(descriptor, 1);
  return descriptor;
}

void set_variables(const char* count, const char* names) {
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", count, 1);
  if (names != nullptr) ::setenv("LISTEN_FDNAMES", names, 1);
}

// 0: the message names `part`; else what went wrong.
int refused(const char* part) {
  try {
    (void)take_listening_sockets();
  } catch (const Error& error) {
    return std::string(error.what()).find(part) != std::string::npos ? 0 : 1;
  }
  return 2;
}

TEST(ListeningSockets, AreTakenOnce) {
  EXPECT_EQ(in_child([] {
              ::dup2(listening_socket(), 3);
              ::dup2(listening_socket(), 4);
              set_variables("2", "http:");
              const std::vector<PassedSocket> sockets = take_listening_sockets();
              if (sockets.size() != 2 || sockets[0].descriptor != 3 || sockets[1].descriptor != 4) return 1;
              if (sockets[0].name != "http" || sockets[1].name != "unknown") return 2;
              if ((::fcntl(3, F_GETFD) & FD_CLOEXEC) == 0) return 3;
              if (std::getenv("LISTEN_FDS") != nullptr || std::getenv("LISTEN_PID") != nullptr) return 4;
              return take_listening_sockets().empty() ? 0 : 5;
            }),
            0);
}

TEST(ListeningSockets, OfAnotherProcessAreLeftAlone) {
  EXPECT_EQ(in_child([] {
              ::setenv("LISTEN_PID", "1", 1);
              ::setenv("LISTEN_FDS", "1", 1);
              return take_listening_sockets().empty() && std::getenv("LISTEN_FDS") != nullptr ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([] { return take_listening_sockets().empty() ? 0 : 1; }), 0);
}

TEST(ListeningSockets, RejectsInvalidVariables) {
  EXPECT_EQ(in_child([] {
              ::close(3);
              set_variables("1", nullptr);
              return refused("descriptor 3");
            }),
            0);
  EXPECT_EQ(in_child([] {
              ::dup2(::socket(AF_INET, SOCK_STREAM, 0), 3);  // It does not listen.
              set_variables("1", nullptr);
              return refused("descriptor 3");
            }),
            0);
  EXPECT_EQ(in_child([] {
              ::dup2(::open("/dev/null", O_RDONLY), 3);
              set_variables("1", nullptr);
              return refused("descriptor 3");
            }),
            0);
  for (const char* count : {"-1", "999999", "1x", ""})
    EXPECT_EQ(in_child([count] {
                set_variables(count, nullptr);
                return refused("LISTEN_FDS");
              }),
              0)
        << count;
}

}  // namespace
}  // namespace weft::cli
