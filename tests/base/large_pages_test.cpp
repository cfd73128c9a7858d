// A mapped file keeps its bytes and addresses while large pages take its place under those who read.
#include "base/large_pages.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "base/memory.h"
#include "base/thread_limit.h"

namespace weft::base {
namespace {

TEST(LargePages, TakeTheFilesPlaceUnderItsReaders) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_large_pages_" + std::to_string(getpid()));
  // More than one part, and an end that fills no page.
  std::vector<std::uint32_t> words((std::size_t{22} << 20) / 4 + 5);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint32_t>(i * 2654435761u);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path));
  const MappedFile& file = watch->file();
  std::filesystem::remove(path);
  ASSERT_EQ(file.bytes().size(), words.size() * 4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(file.bytes().data()) % kLargePage, 0u);
  const auto* const mapped = reinterpret_cast<const std::uint32_t*>(file.bytes().data());

  std::atomic<bool> stop{false};
  std::atomic<int> n_wrong{0};
  std::thread reader([&] {
    while (!stop.load())
      for (std::size_t i = 0; i < words.size(); i += 997)
        if (mapped[i] != words[i]) ++n_wrong;
  });
  LargePages pages(watch);
  pages.wait();
  stop = true;
  reader.join();
  EXPECT_EQ(n_wrong.load(), 0);
  EXPECT_TRUE(std::equal(words.begin(), words.end(), mapped));
}

TEST(LargePages, MayBeGivenUpInTheMiddle) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_large_pages_" + std::to_string(getpid()));
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, std::size_t{128} << 20);
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path));
  const MappedFile& file = watch->file();
  std::filesystem::remove(path);
  {
    const LargePages pages(watch);
  }
  EXPECT_EQ(static_cast<char>(file.bytes()[0]), 'x');
  EXPECT_EQ(static_cast<char>(file.bytes().back()), '\0');
}

TEST(LargePages, AreLeftAloneWhereNoThreadCanBeMade) {
  if (!test::kLimitsThreads) GTEST_SKIP() << "sanitizers have a pthread_create of their own";
  const auto path = std::filesystem::temp_directory_path() / ("weft_large_pages_" + std::to_string(getpid()));
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, std::size_t{8} << 20);
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path));
  const MappedFile& file = watch->file();
  std::filesystem::remove(path);
  const test::ThreadLimit limit(0);
  LargePages pages(watch);
  pages.wait();
  EXPECT_EQ(static_cast<char>(file.bytes()[0]), 'x');
}

/// Once all is moved, nothing that becomes of the file matters.
TEST(LargePages, MakeTheProcessIndependentOfTheFile) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_large_pages_" + std::to_string(getpid()));
  constexpr std::size_t kBytes = (std::size_t{10} << 20) + 12345;
  std::ofstream(path, std::ios::binary) << std::string(kBytes, 'x');
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path));
  watch->add(watch->file().bytes());
  watch->learn({});
  LargePages pages(watch);
  pages.wait();
  std::filesystem::resize_file(path, 0);
  std::filesystem::remove(path);
  const auto bytes = watch->file().bytes();
  const bool is_whole =
      std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{'x'}; });
  if (!is_whole) GTEST_SKIP() << "this system has no large pages, or too little memory";
  EXPECT_FALSE(watch->file().lost());
  watch->check();
}

TEST(LargePages, LeaveAFileThatHasChanged) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_large_pages_" + std::to_string(getpid()));
  std::ofstream(path, std::ios::binary) << std::string(std::size_t{20} << 20, 'x');
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path));
  watch->add(watch->file().bytes());
  watch->learn({});
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "y";
  LargePages pages(watch);
  pages.wait();
  EXPECT_THROW(watch->check(), std::exception);
  std::filesystem::remove(path);
}

TEST(LargePages, OfNothingAreNothing) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_large_pages_" + std::to_string(getpid()));
  std::ofstream(path).close();
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path));
  LargePages none, empty{watch};
  std::filesystem::remove(path);
  none.wait();
  empty.wait();
  EXPECT_TRUE(watch->file().bytes().empty());
  EXPECT_FALSE(watch->file().lost());
  EXPECT_NO_THROW(watch->check());
}

}  // namespace
}  // namespace weft::base
