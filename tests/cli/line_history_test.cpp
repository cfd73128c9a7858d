// The file of the lines that were typed, which libedit wrote before.
#include "terminal/line_history.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::cli {
namespace {

TEST(LineHistory, LinesSurviveTheFile) {
  for (const std::string line :
       {"plain", "two words", "a\\b", "first\nsecond\tthird", "漢字 é 👨‍👩‍👧", "\\040"}) {
    const std::string encoded = encode_history_line(line);
    EXPECT_EQ(encoded.find_first_of(" \n\t"), std::string::npos);
    EXPECT_EQ(decode_history_line(encoded), line);
  }
  EXPECT_EQ(decode_history_line("Hello\\040w\\303\\251lt"), "Hello wélt");
  EXPECT_EQ(decode_history_line("a\\\\b\\"), "a\\b\\");
}

TEST(LineHistory, IsReadAndWrittenBack) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "weft-line-history";
  std::filesystem::remove_all(folder);
  const std::filesystem::path file = folder / "new" / "history";
  {
    LineHistory history(file);
    history.add("one line");
    history.add("one line");
    history.add("two\nlines");
  }
  EXPECT_EQ(std::filesystem::status(file).permissions() & std::filesystem::perms::mask,
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(LineHistory(file).lines(), (std::vector<std::string>{"one line", "two\nlines"}));
  EXPECT_TRUE(LineHistory("").lines().empty());
  LineHistory unwritable("/dev/null/none/history");
  unwritable.add("a line");
}

}  // namespace
}  // namespace weft::cli
