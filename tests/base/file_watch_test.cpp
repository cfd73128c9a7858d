// A watch reports whether mapped bytes have changed since the file was opened.
#include "base/file_watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>

#include "base/hash.h"
#include "weft/error.h"

namespace weft::base {
namespace {

namespace fs = std::filesystem;

class FileWatchTest : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 600000;

  FileWatchTest() {
    write(std::string(kBytes, 'x'));
    fs::last_write_time(path_, fs::file_time_type::clock::now() - std::chrono::hours(1));
    watch_.emplace(std::make_shared<const MappedFile>(path_));
  }
  void TearDown() override { fs::remove(path_); }

  void watch_all() { watch_->add(watch_->file().bytes()); }
  void learn() { watch_->learn({}); }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  /// In place.
  void overwrite(std::size_t offset, char byte) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  void expect_changed(const std::string& words) const {
    for (int i = 0; i < 2; ++i) {  // And for good.
      try {
        watch_->check();
        ADD_FAILURE() << "the change was not seen";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kIo);
        EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << error.what();
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      }
    }
  }

  const fs::path path_ = fs::temp_directory_path() / ("weft_file_watch_" + std::to_string(::getpid()));
  std::optional<FileWatch> watch_;
};

TEST_F(FileWatchTest, UnchangedBytesPass) {
  watch_all();
  watch_->check();
  EXPECT_FALSE(watch_->knows_all());
  learn();
  EXPECT_TRUE(watch_->knows_all());
  watch_->check();
}

TEST_F(FileWatchTest, FindsBytesThatWereOverwritten) {
  watch_all();
  learn();
  overwrite(kBytes - 1, 'y');
  expect_changed("was modified");
  overwrite(kBytes - 1, 'x');
  expect_changed("was modified");
}

TEST_F(FileWatchTest, FindsOverwrittenBytesWhoseTimeWasSetBack) {
  watch_all();
  learn();
  const auto time = fs::last_write_time(path_);
  const OpenFile& file = watch_->file().file();
  while (file.stamp_now() == file.stamp()) {  // Clocks of file systems are coarse.
    overwrite(300000, 'y');
    fs::last_write_time(path_, time);
  }
  expect_changed("was modified");
}

TEST_F(FileWatchTest, FindsAFileThatWasCutAtAnyPlace) {
  watch_all();
  learn();
  fs::resize_file(path_, kBytes - 1);
  expect_changed("has lost those from byte 599999 on");
}

TEST_F(FileWatchTest, FindsLostBytesThatWereTouched) {
  watch_all();
  fs::resize_file(path_, 0);
  EXPECT_EQ(watch_->file().bytes()[5000], std::byte{0});
  write(std::string(kBytes, 'x'));  // Too late: zeros were read.
  expect_changed("was truncated");
}

TEST_F(FileWatchTest, FindsAnotherFilesBytesInItsPlace) {
  watch_all();
  learn();
  write(std::string(2 * kBytes, 'z'));
  expect_changed("was modified");
}

TEST_F(FileWatchTest, WhatIsNotKnownCountsAsChangedWhereTheFileWasWrittenTo) {
  watch_all();
  fs::last_write_time(path_, fs::file_time_type::clock::now());
  expect_changed("was modified");
}

TEST_F(FileWatchTest, FilesThatAreTheSameStayInUse) {
  watch_all();
  learn();
  const std::function<void()> changes[] = {
      [&] { fs::last_write_time(path_, fs::file_time_type::clock::now()); },  // touch
      [&] { overwrite(1000, 'x'); },
      [&] { std::ofstream(path_, std::ios::app) << "more"; },
      [&] { fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write); },
      [&] { fs::create_hard_link(path_, path_.string() + "-link"); },
      [&] { fs::remove(path_.string() + "-link"); },
      [&] { fs::rename(path_, path_.string() + "-moved"); },
      [&] { write("another file in its place"); },
      [&] { fs::remove(path_.string() + "-moved"); },
  };
  for (const auto& change : changes) {
    change();
    watch_->check();
    watch_->check();
  }
}

TEST_F(FileWatchTest, PermissionsAndNamesAreNoChangeEvenOfBytesNotKnown) {
  watch_all();
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_write);
  watch_->check();
  fs::rename(path_, path_.string() + "-moved");
  fs::remove(path_.string() + "-moved");
  watch_->check();
}

TEST_F(FileWatchTest, OnlyWatchedBytesCount) {
  const auto piece = watch_->file().bytes().subspan(4096, 1000);
  watch_->add(piece, hash64(piece));
  overwrite(0, 'y');
  overwrite(6000, 'y');
  watch_->check();
  overwrite(5000, 'y');
  expect_changed("was modified");
}

TEST_F(FileWatchTest, BytesOfTheProcesssOwnDoNotCount) {
  watch_all();
  learn();
  watch_->set_own(FileWatch::kPieceBytes);
  overwrite(0, 'y');
  watch_->check();
  watch_->set_own(kBytes);
  fs::resize_file(path_, 0);
  watch_->check();
}

TEST_F(FileWatchTest, LearnsNothingOfAFileThatHasChanged) {
  watch_all();
  overwrite(0, 'y');
  learn();
  EXPECT_FALSE(watch_->knows_all());
  expect_changed("was modified");
}

TEST_F(FileWatchTest, LearningEndsWhereItIsStopped) {
  watch_all();
  std::stop_source stop;
  stop.request_stop();
  watch_->learn(stop.get_token());
  EXPECT_FALSE(watch_->knows_all());
}

}  // namespace
}  // namespace weft::base
