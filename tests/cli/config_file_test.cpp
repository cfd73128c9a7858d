// The syntax of configuration files. test_cli.py tests their effect on options.
#include "options/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "commands/command.h"

namespace weft::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ConfigFile, HasValuesAsTheyWouldBeTyped) {
  const ConfigFile file = parse_config("c.toml", R"(
number = 8192
hex = 0x10
real = 0.25
truth = true
text = "a \"b\" ☃"
[run]
list = [1, "two",
        false]
)");
  ASSERT_EQ(file.entries.size(), 6u);
  const auto value = [&](std::size_t i) { return file.entries[i].values; };
  EXPECT_THAT(value(0), ElementsAre("8192"));
  EXPECT_THAT(value(1), ElementsAre("16"));
  EXPECT_THAT(value(2), ElementsAre("0.25"));
  EXPECT_THAT(value(3), ElementsAre("true"));
  EXPECT_THAT(value(4), ElementsAre("a \"b\" ☃"));
  EXPECT_THAT(value(5), ElementsAre("1", "two", "false"));
  EXPECT_TRUE(file.entries[5].is_array);
  EXPECT_EQ(file.entries[5].table, "run");
  EXPECT_EQ(file.entries[5].line, 8);
  EXPECT_EQ(file.entries[0].table, "");
  ASSERT_EQ(file.tables.size(), 1u);
  EXPECT_EQ(file.tables[0].line, 7);
}

std::string refusal(const std::string& text) {
  try {
    parse_config("c.toml", text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(ConfigFile, RejectsInvalidValuesWithTheirLine) {
  EXPECT_THAT(refusal("[run]\na.b = 1"), HasSubstr("c.toml:2: a must be a string"));
  EXPECT_THAT(refusal("a = [1, [2]]"), HasSubstr("c.toml:1: a must be a string"));
  EXPECT_THAT(refusal("\na = 12:30:00"), HasSubstr("c.toml:2: a must be"));
  EXPECT_THAT(refusal("a = \"x\\u0000y\""), HasSubstr("c.toml:1: a must be"));
  EXPECT_THAT(refusal("a = 1\na = 2"), HasSubstr("c.toml:2"));
  EXPECT_THAT(refusal("a = \xff"), HasSubstr("c.toml:1"));
  EXPECT_THAT(refusal("[run"), HasSubstr("c.toml:1"));
  EXPECT_EQ(refusal(""), "taken");
}

}  // namespace
}  // namespace weft::cli
