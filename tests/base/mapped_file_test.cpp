// A file that is cut under its mapping is an error for who reads it, and the process lives.
#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/large_pages.h"
#include "weft/error.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public testing::Test {
 protected:
  void write(std::size_t n_bytes) {
    std::ofstream(path_).close();
    fs::resize_file(path_, n_bytes);
    std::fstream(path_, std::ios::in | std::ios::out | std::ios::binary) << "front";
  }
  void TearDown() override { fs::remove(path_); }

  fs::path path_ = fs::temp_directory_path() / ("weft_mapped_file_" + std::to_string(::getpid()));
};

TEST_F(MappedFileTest, ReadsAnyPart) {
  write(20000);
  const MappedFile file(path_);
  std::string text(3, ' ');
  file.read(file.bytes().subspan(1, 3), std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "ron");
  file.read(file.bytes().last(0), {});
  const MappedFile none;
  none.read({}, {});
  EXPECT_TRUE(file.holds(file.bytes()));
  EXPECT_FALSE(file.holds(std::as_bytes(std::span(text))));
}

TEST_F(MappedFileTest, RejectsTruncatedFiles) {
  write(std::size_t{4} << 20);
  const MappedFile file(path_);
  fs::resize_file(path_, 10000);
  std::vector<std::byte> to(5000);
  file.read(file.bytes().first(5000), to);
  EXPECT_EQ(static_cast<char>(to[0]), 'f');
  try {
    file.read(file.bytes().subspan(9000, 5000), to);
    FAIL() << "what is gone was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("lost those from byte 10000 on"), std::string::npos)
        << error.what();
  }
}

TEST_F(MappedFileTest, ReportsModifiedFiles) {
  write(20000);
  fs::last_write_time(path_, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const MappedFile file(path_);
  file.file().check_unchanged();
  const fs::path elsewhere = path_.string() + "-moved";
  fs::rename(path_, elsewhere);
  write(20000);  // Another file.
  file.file().check_unchanged();
  std::fstream(elsewhere, std::ios::in | std::ios::out | std::ios::binary) << "other";
  EXPECT_THROW(file.file().check_unchanged(), Error);
  fs::remove(elsewhere);
}

TEST_F(MappedFileTest, LargePagesSkipTruncatedParts) {
  write(std::size_t{32} << 20);
  const auto watch = std::make_shared<FileWatch>(std::make_shared<const MappedFile>(path_));
  const MappedFile& file = watch->file();
  fs::resize_file(path_, std::size_t{20} << 20);
  LargePages pages(watch);
  pages.wait();
  EXPECT_EQ(static_cast<char>(file.bytes()[0]), 'f');
  EXPECT_EQ(file.bytes()[(std::size_t{20} << 20) - 1], std::byte{0});
}

}  // namespace
}  // namespace weft::base
