// Files that appear whole or not at all, whatever ends their writer, and take the place of what a path leads
// to.
#include "base/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/error.h"

namespace {
std::atomic<bool> names_needed{false};
std::function<void()> before_lock;  // Once.
}  // namespace

extern "C" int flock(int fd, int operation) noexcept {
  if (const auto f = std::exchange(before_lock, nullptr)) f();
  return static_cast<int>(::syscall(SYS_flock, fd, operation));
}

/// The system's own, or one for a file system without unnamed files.
extern "C" int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  if (names_needed && (flags & O_TMPFILE) == O_TMPFILE) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return ::openat(AT_FDCWD, path, flags, mode);
}

namespace weft::base {
namespace {

namespace fs = std::filesystem;

/// With files that have no name before they are there, and without.
class AtomicFileTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    names_needed = GetParam();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override {
    names_needed = false;
    fs::remove_all(folder_);
  }

  static std::string contents(char kind) { return std::string(300000, kind); }
  static void save(const fs::path& path, const std::string& text) {
    AtomicFile file(path);
    // In pieces, so that there is a middle.
    for (std::size_t at = 0; at < text.size(); at += 10000)
      file.write(std::as_bytes(std::span(text).subspan(at, std::min<std::size_t>(10000, text.size() - at))));
    file.commit();
  }
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t n_files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string refusal(const fs::path& path) {
    try {
      const AtomicFile file(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      return error.what();
    }
    return "";
  }

  fs::path folder_ = fs::temp_directory_path() / ("weft-atomic-" + std::to_string(::getpid()));
  fs::path path_ = folder_ / "state";
};

TEST_P(AtomicFileTest, AppearsWhenItIsCommitted) {
  save(path_, "old");
  {
    AtomicFile file(path_);
    file.write(std::as_bytes(std::span("new", 3)));
    EXPECT_EQ(read(path_), "old");
    EXPECT_EQ(n_files(), names_needed ? 2u : 1u);
  }
  EXPECT_EQ(read(path_), "old");
  EXPECT_EQ(n_files(), 1u);
  save(path_, "new");
  EXPECT_EQ(read(path_), "new");
  EXPECT_EQ(n_files(), 1u);
}

TEST_P(AtomicFileTest, AKilledWriterLeavesTheOldOrTheNewAndNoRubbish) {
  const std::string a = contents('a'), b = contents('b');
  save(path_, a);
  std::mt19937 random(7);
  for (int kill = 0; kill < 60; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        save(path_, b);
        save(path_, a);
      }
    }
    ASSERT_GT(child, 0);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string found = read(path_);
    ASSERT_TRUE(found == a || found == b) << "after kill " << kill << ": " << found.size() << " bytes";
    ASSERT_LE(n_files(), 2u) << "those of writers before are removed";
  }
  save(path_, b);
  EXPECT_EQ(read(path_), b);
  EXPECT_EQ(n_files(), 1u);
}

TEST_P(AtomicFileTest, WritersAtTheSameTimeLeaveOneOfTheirFiles) {
  std::vector<std::thread> writers;
  std::atomic<int> n_failed{0};
  for (const char kind : {'a', 'b', 'c', 'd'})
    writers.emplace_back([&, kind] {
      for (int i = 0; i < 20; ++i) {
        try {
          save(path_, contents(kind));
        } catch (const Error&) {
          ++n_failed;
        }
      }
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(n_failed, 0);
  const std::string found = read(path_);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found, contents(found[0]));
  EXPECT_EQ(n_files(), 1u);
}

TEST_P(AtomicFileTest, AWriteThatFailsLeavesTheOldFile) {
  save(path_, "old");
  const auto previous = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small = {.rlim_cur = 100001,
                        .rlim_max = limit.rlim_max};  // Within a write: that one is short.
  ::setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THROW(save(path_, contents('a')), Error);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, previous);
  EXPECT_EQ(read(path_), "old");
  EXPECT_EQ(n_files(), 1u);
}

TEST_P(AtomicFileTest, AnOutputThatIsNoFileIsRefused) {
  for (const fs::path& special : {fs::path("/dev/null"), fs::path("/dev/full"), folder_}) {
    EXPECT_NE(refusal(special).find(special.string() + ": it is not a regular file"), std::string::npos)
        << refusal(special);
  }
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_NE(refusal(folder_ / "pipe"), "");
  fs::create_symlink("/dev/null", folder_ / "link");
  EXPECT_NE(refusal(folder_ / "link"), "");
  EXPECT_NE(refusal(folder_ / "none" / "state"), "");
}

TEST_P(AtomicFileTest, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directories(folder_ / "there");
  fs::create_symlink("there/target", folder_ / "second");
  fs::create_symlink(folder_ / "second", path_);
  for (const char* text : {"made", "replaced"}) {
    save(path_, text);
    EXPECT_TRUE(fs::is_symlink(path_) && fs::is_symlink(folder_ / "second"));
    EXPECT_FALSE(fs::is_symlink(folder_ / "there" / "target"));
    EXPECT_EQ(read(folder_ / "there" / "target"), text);
  }
  fs::create_symlink("circle", folder_ / "circle");
  EXPECT_NE(refusal(folder_ / "circle").find("too many levels of symbolic links"), std::string::npos);
}

TEST_P(AtomicFileTest, KeepsThePermissionsOfWhatItReplaces) {
  save(path_, "old");
  for (const mode_t mode : {0600, 0666}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    save(path_, "new");
    struct stat status{};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, mode);
  }
}

TEST_P(AtomicFileTest, OnlyFilesWithoutAWriterAreAbandoned) {
  names_needed = true;
  const fs::path name = folder_ / "state.tmp-0";
  {
    const AtomicFile living(path_);
    ASSERT_TRUE(fs::exists(name));
    EXPECT_FALSE(remove_abandoned(name));
  }
  EXPECT_FALSE(remove_abandoned(name)) << "it is not there";
  std::ofstream(name) << "rest";
  EXPECT_TRUE(remove_abandoned(name));
  EXPECT_FALSE(fs::exists(name));
}

// Between making its file and locking it, a writer looks like one that was killed.
TEST_P(AtomicFileTest, AFileThatIsTakenForAbandonedIsNotWritten) {
  names_needed = true;
  const fs::path name = folder_ / "state.tmp-0";
  std::jthread other;
  before_lock = [&] {
    const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
    other = std::jthread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // Until the writer wants the lock.
      ::unlink(name.c_str());
      std::ofstream(name) << "by half";
      ::close(fd);
    });
  };
  AtomicFile file(path_);
  other = {};
  file.write(std::as_bytes(std::span("whole", 5)));
  file.commit();
  std::string text;
  std::getline(std::ifstream(path_), text);
  EXPECT_EQ(text, "whole");
}

INSTANTIATE_TEST_SUITE_P(Temporaries, AtomicFileTest, testing::Bool(),
                         [](const auto& param) { return param.param ? "WithNames" : "WithoutNames"; });

}  // namespace
}  // namespace weft::base
