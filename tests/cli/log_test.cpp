#include "serving/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "weft/error.h"

namespace weft::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class LogFile : public testing::Test {
 protected:
  void TearDown() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".1");
  }

  static std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  const std::string path_ = testing::TempDir() + "weft_log_" + std::to_string(::getpid());
  const Verbosity quiet_ = {.quiet = true};
};

constexpr std::string_view kNasty = "a\n2026 error \x1b[31mforged \"x\" {} \xff";

TEST_F(LogFile, WritesOneJsonObjectPerLine) {
  Log log({.file = path_, .json = true}, quiet_);
  log.write(LogLevel::kInfo, "loaded",
            {{"model", "tiny"}, {"ms", std::int64_t{42}}, {"share", 0.5}, {"mapped", true}});
  log.write(LogLevel::kError, kNasty, {{"path", kNasty}, {"rate", std::nan("")}});
  const std::vector<std::string> lines = lines_of(path_);
  ASSERT_EQ(lines.size(), 2u);
  const auto first = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(first["level"], "info");
  EXPECT_EQ(first["message"], "loaded");
  EXPECT_EQ(first["model"], "tiny");
  EXPECT_EQ(first["ms"], 42);
  EXPECT_EQ(first["share"], 0.5);
  EXPECT_EQ(first["mapped"], true);
  EXPECT_THAT(first["time"].get<std::string>(), ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T.*\\.[0-9]{3}Z$"));
  const auto second = nlohmann::json::parse(lines[1]);
  EXPECT_EQ(second["level"], "error");
  EXPECT_THAT(second["message"].get<std::string>(), AllOf(HasSubstr("forged \"x\" {}"), HasSubstr("\x1b")));
  EXPECT_EQ(second["path"], second["message"]);
  EXPECT_TRUE(second["rate"].is_null());
}

TEST_F(LogFile, TextIsOneLineWithoutControlCharacters) {
  Log log({.file = path_}, quiet_);
  log.write(LogLevel::kWarning, kNasty,
            {{"plain", "x"}, {"words", "two words"}, {"nasty", "\x1b[0m"}, {"none", ""}});
  const std::vector<std::string> lines = lines_of(path_);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr(" warning a 2026 error \\x1b[31mforged"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(lines[0], HasSubstr("plain=x words=\"two words\" nasty=\"\\u001b[0m\" none=\"\""));
}

TEST_F(LogFile, VerboseSaysMore) {
  Log usual({.file = path_}, quiet_);
  EXPECT_FALSE(usual.enabled(LogLevel::kDebug));
  EXPECT_TRUE(usual.enabled(LogLevel::kInfo));
  Log verbose({}, {.verbose = true});
  EXPECT_TRUE(verbose.enabled(LogLevel::kDebug));
  Log quiet({}, quiet_);
  EXPECT_FALSE(quiet.enabled(LogLevel::kInfo));
  EXPECT_TRUE(quiet.enabled(LogLevel::kWarning));
}

TEST_F(LogFile, WritesToStderrToo) {
  testing::internal::CaptureStderr();
  {
    Log log({.file = path_}, {});
    log.write(LogLevel::kDebug, "unseen");
    log.write(LogLevel::kInfo, "seen");
    Log silent({.file = path_}, quiet_);
    silent.write(LogLevel::kInfo, "in the file alone");
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("info seen\n"), Not(HasSubstr("unseen")), Not(HasSubstr("alone")),
                    Not(HasSubstr("\x1b"))));
  EXPECT_EQ(lines_of(path_).size(), 2u);
}

TEST_F(LogFile, ReopensAfterRotation) {
  Log log({.file = path_}, quiet_);
  log.write(LogLevel::kInfo, "before");
  std::filesystem::rename(path_, path_ + ".1");
  log.write(LogLevel::kInfo, "still there");
  EXPECT_TRUE(log.reopen());
  log.write(LogLevel::kInfo, "behind");
  EXPECT_EQ(lines_of(path_ + ".1").size(), 2u);
  EXPECT_EQ(lines_of(path_).size(), 1u);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(log.reopen());
  log.write(LogLevel::kInfo, "nowhere to be seen, and no harm done");
}

TEST_F(LogFile, TakesLinesFromManyThreads) {
  constexpr int kThreads = 4, kLines = 200;
  {
    Log log({.file = path_, .json = true}, quiet_);
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&log, t] {
        for (int i = 0; i < kLines; ++i) {
          log.write(LogLevel::kInfo, std::string(100, 'x'), {{"thread", std::int64_t{t}}});
          if (i % 50 == 0) log.reopen();
        }
      });
  }
  const std::vector<std::string> lines = lines_of(path_);
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(kThreads * kLines));
  for (const std::string& line : lines) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
}

TEST(Log, ReportsUnwritableFilesAtTheStart) {
  try {
    const Log log({.file = "/nonexistent/log"}, {});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'/nonexistent/log'"));
  }
}

TEST(Log, IgnoresAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  testing::internal::CaptureStderr();
  {
    Log log({.file = "/dev/full"}, {.quiet = true});
    log.write(LogLevel::kInfo, "lost");
    log.write(LogLevel::kInfo, "lost too");
    log.write(LogLevel::kError, "on stderr");
  }
  // Reported once, without the lost lines.
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::MatchesRegex("weft: warning: --log-file: cannot write to '/dev/full': [^\n]*\n"
                                    "[^\n]* error on stderr\n"));
}

}  // namespace
}  // namespace weft::cli
