#pragma once
// What tests of conversion share: copies of folders to be spoilt, and what a refusal leaves.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "weft/convert.h"
#include "weft/error.h"

namespace weft {

inline const std::filesystem::path kData = WEFT_TEST_DATA;

class ConvertTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(scratch_);
    std::filesystem::create_directories(scratch_);
  }
  void TearDown() override { std::filesystem::remove_all(scratch_); }

  /// A copy of a folder, to be spoilt.
  std::filesystem::path copy_of(const std::string& name) {
    const std::filesystem::path copy = scratch_ / name;
    std::filesystem::copy(kData / "convert" / name, copy, std::filesystem::copy_options::recursive);
    return copy;
  }

  static void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  static std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static void replace(const std::filesystem::path& path, const std::string& from, const std::string& to) {
    std::string text = read(path);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << from;
    write(path, text.replace(at, from.size(), to));
  }

  /// That it is refused so, and leaves nothing behind.
  void expect_refused(const std::filesystem::path& folder, ErrorCode code, const std::string& text,
                      const ConvertParams& params = {}) {
    const std::filesystem::path to = scratch_ / "result.gguf";
    try {
      convert(folder, to, params);
      ADD_FAILURE() << "was converted, expected: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
    for (const auto& entry : std::filesystem::directory_iterator(scratch_))
      EXPECT_EQ(entry.path().string().find("result"), std::string::npos) << entry.path();
  }

  /// That a folder is refused as damaged with this in a file changed, which is as before again then.
  void expect_change_refused(const std::filesystem::path& file, const std::string& from,
                             const std::string& to, const std::string& text) {
    const std::string before = read(file);
    replace(file, from, to);
    expect_refused(file.parent_path(), ErrorCode::kInvalidFile, text);
    write(file, before);
  }

  const std::filesystem::path scratch_ =
      std::filesystem::temp_directory_path() / ("weft_convert_" + std::to_string(getpid()));
};

}  // namespace weft
