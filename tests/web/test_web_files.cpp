// The embedded page against its sources, and against the truth of gzip and sha256sum.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "web/web_files.h"

namespace weft::server {
namespace {

namespace fs = std::filesystem;

const fs::path kUi = WEFT_WEB_UI;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What a command writes when it reads `input`.
std::string output_of(const std::string& command, std::string_view input) {
  const fs::path path = fs::path(testing::TempDir()) / ("weft_web_input-" + std::to_string(::getpid()));
  std::ofstream(path, std::ios::binary) << input;
  FILE* pipe = popen((command + " < '" + path.string() + "'").c_str(), "r");
  if (pipe == nullptr) return "";
  std::string text;
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) text.append(buffer.data(), n);
  EXPECT_EQ(pclose(pipe), 0) << command;
  fs::remove(path);
  return text;
}

std::set<std::string> served_paths() {
  std::set<std::string> paths;
  for (const WebFile& file : web_files()) paths.emplace(file.path);
  return paths;
}

TEST(WebFiles, AreTheFilesOfTheFolder) {
  std::set<std::string> expected;
  for (const auto& entry : fs::recursive_directory_iterator(kUi)) {
    if (!entry.is_regular_file()) continue;
    const std::string relative = entry.path().lexically_relative(kUi).generic_string();
    const std::string path = relative == "index.html" ? "/" : "/ui/" + relative;
    expected.insert(path);
    const WebFile* file = find_web_file(path);
    ASSERT_NE(file, nullptr) << path;
    EXPECT_EQ(file->path, path);
    EXPECT_TRUE(file->bytes == read_file(entry.path())) << path;
  }
  EXPECT_EQ(served_paths(), expected);
}

TEST(WebFiles, AreFoundByTheirPathOnly) {
  for (const char* path : {"", "/ui", "/ui/", "/index.html", "/ui/index.html", "/ui/../ui/main.js",
                           "/ui/main.js/", "/UI/main.js", "~"}) {
    EXPECT_EQ(find_web_file(path), nullptr) << path;
  }
}

TEST(WebFiles, GzipAndTagsAreOfTheBytes) {
  for (const WebFile& file : web_files()) {
    EXPECT_TRUE(output_of("gzip -dc", file.gzip) == file.bytes) << file.path;
    EXPECT_EQ(file.etag, '"' + output_of("sha256sum", file.bytes).substr(0, 32) + '"') << file.path;
  }
}

TEST(WebFiles, TypesFitTheNames) {
  for (const WebFile& file : web_files()) {
    const std::string extension = fs::path(file.path).extension();
    const char* expected = extension == ".js"    ? "text/javascript; charset=utf-8"
                           : extension == ".css" ? "text/css; charset=utf-8"
                           : extension == ".svg" ? "image/svg+xml"
                                                 : "text/html; charset=utf-8";
    EXPECT_EQ(file.content_type, expected) << file.path;
  }
}

/// A file that names one that is not there leaves the page blank.
TEST(WebFiles, NameNoFileThatIsMissing) {
  const std::regex import_line("(?:from|import)\\s*\\(?'(\\.[^']+)'");
  const std::regex attribute("(?:src|href)=\"([^\"#]+)\"");
  int n_names = 0;
  for (const WebFile& file : web_files()) {
    const bool script = file.path.ends_with(".js");
    if (!script && file.path != "/") continue;
    const std::string text(file.bytes);
    for (std::sregex_iterator name(text.begin(), text.end(), script ? import_line : attribute), end;
         name != end; ++name) {
      ++n_names;
      const std::string target = (*name)[1];
      const fs::path path = target.starts_with("/")
                                ? fs::path(target)
                                : (fs::path(file.path).parent_path() / target).lexically_normal();
      EXPECT_NE(find_web_file(path.generic_string()), nullptr) << file.path << " names " << target;
    }
  }
  EXPECT_GT(n_names, 20);
}

/// The page is served whole by weft: no other host is named but as a namespace of XML.
TEST(WebFiles, NameNoOtherHost) {
  const std::regex url("https?://[a-z0-9.-]+");
  for (const WebFile& file : web_files()) {
    const std::string text(file.bytes);
    for (std::sregex_iterator found(text.begin(), text.end(), url), end; found != end; ++found) {
      EXPECT_EQ(found->str(), "http://www.w3.org") << file.path;
    }
  }
}

TEST(WebFiles, PolicyAllowsNoInlineCode) {
  const std::string_view policy = web_content_policy();
  EXPECT_THAT(policy, testing::HasSubstr("default-src 'none'"));
  EXPECT_THAT(policy, testing::HasSubstr("script-src 'self';"));
  EXPECT_THAT(policy, testing::HasSubstr("style-src 'self';"));
  EXPECT_THAT(policy, testing::HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(policy, testing::Not(testing::HasSubstr("unsafe")));
  EXPECT_EQ(policy.find_first_of("\r\n"), std::string_view::npos);
  const std::string page(find_web_file("/")->bytes);
  EXPECT_FALSE(std::regex_search(page, std::regex("<script>|<style|\\sstyle=|\\son[a-z]+=")));
}

}  // namespace
}  // namespace weft::server
