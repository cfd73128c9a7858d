// Templates with the turns, calls and thoughts of models' families against Jinja2
// (scripts/make_template_vectors.py): the same bytes, or an error where Jinja raises one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/abilities.h"
#include "chat/chat_testing.h"
#include "chat/derived_format.h"
#include "weft/error.h"

namespace weft {
namespace {

using nlohmann::ordered_json;

std::string read(const std::string& name) { return read_test_file("templates/" + name); }

ChatTemplate::Options options_of(const ordered_json& variant) {
  ChatTemplate::Options options;
  options.add_generation_prompt = variant.value("add_generation_prompt", true);
  if (variant.contains("tools")) options.tools_json = variant["tools"].dump();
  if (variant.contains("variables")) options.variables_json = variant["variables"].dump();
  return options;
}

/// The output of a row. It names an earlier row by its distance, a prefix length and a suffix length of that
/// row's output, and the bytes between both.
std::string output_of(const ordered_json& row, const std::vector<std::string>& known) {
  const auto back = row[2].get<std::size_t>(), begin = row[3].get<std::size_t>(),
             end = row[4].get<std::size_t>();
  const std::string other = back > 0 ? known.at(known.size() - back) : std::string();
  return other.substr(0, begin) + row[5].get<std::string>() + other.substr(other.size() - end);
}

TEST(FamilyTemplates, RenderAsJinjaDoes) {
  const ordered_json data = ordered_json::parse(read("families.json"));
  int n_rendered = 0, n_errors = 0;
  for (const auto& of_template : data["cases"]) {
    const std::string file = of_template["template"];
    const ChatTemplate chat_template(read("families/" + file), "<s>", "</s>");
    std::vector<std::string> known;
    for (const auto& row : of_template["rows"]) {
      SCOPED_TRACE(file + ", " + row[0].get<std::string>() + ", variant " + row[1].dump());
      const std::string messages = data["conversations"][row[0].get<std::string>()].dump();
      const ChatTemplate::Options options = options_of(data["variants"][row[1].get<std::size_t>()]);
      const bool is_error = row.size() == 3;
      const std::string expected = is_error ? row[2].get<std::string>() : output_of(row, known);
      try {
        const std::string output = join(chat_template.render_json(messages, options));
        EXPECT_FALSE(is_error) << "expected the error " << expected << ", found: " << output;
        EXPECT_TRUE(is_error || output == expected) << "expected: " << expected << "\nfound: " << output;
      } catch (const Error& error) {
        EXPECT_TRUE(is_error) << error.what();
        const std::string raised = "TemplateError: ";
        if (expected.starts_with(raised)) {
          EXPECT_THAT(error.what(), testing::HasSubstr(expected.substr(raised.size())));
        }
      }
      ++(is_error ? n_errors : n_rendered);
      if (!is_error) known.push_back(expected);
    }
  }
  EXPECT_GT(n_rendered, 2500);
  EXPECT_GT(n_errors, 150);
}

/// What a template writes as calls is read back as the same calls, where weft knows the way they are written.
TEST(FamilyTemplates, CallsAreReadBack) {
  int n_read = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(WEFT_TEST_DATA) + "/templates/families")) {
    SCOPED_TRACE(entry.path().filename());
    const ChatTemplate chat_template(read("families/" + entry.path().filename().string()), "<s>", "</s>");
    const Chat chat(chat_template);
    const auto written = chat::write_probe_calls(chat_template, chat::find_abilities(chat_template));
    if (!written) continue;
    for (const chat::Format& format : chat::known_formats()) {
      if (format.name != chat.format() || format.name == "generic") continue;
      EXPECT_TRUE(chat::reads_back(format, *written)) << format.name;
      ++n_read;
    }
  }
  EXPECT_GE(n_read, 15);
}

}  // namespace
}  // namespace weft
