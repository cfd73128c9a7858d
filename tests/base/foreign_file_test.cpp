// Files that users take for a model, named with the way out.
#include "base/foreign_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace weft::base {
namespace {

using testing::HasSubstr;

std::string text_of(const std::string& begin, FileKind expected = FileKind::kGguf) {
  return foreign_file_text(std::as_bytes(std::span(begin)), expected);
}

TEST(ForeignFile, IsNamedByItsBeginning) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}}";
  const std::pair<std::string, const char*> cases[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "git lfs pull"},
      {"<!DOCTYPE html><html>", "HTML page"},
      {"\xef\xbb\xbf\r\n <!doctype HTML>", "HTML page"},
      {"<HTML>\n<head>", "HTML page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied", "XML"},
      {std::string("\x1f\0\0\0\0\0\0\0", 8) + header, "safetensors"},
      {std::string("PK\003\004\0\0", 6), "PyTorch"},
      {"\x80\x02}q", "PyTorch"},
      {"\x1f\x8b\x08", "gzip"},
      {"\x28\xb5\x2f\xfd", "zstd"},
      {"tjgg\3", "before GGUF"},
      {"lmgg\x98\xca", "weft transcribe"},
      {"{\"error\": \"Entry not found\"}", "JSON"},
      {std::string(64, '\0'), "not complete"},
  };
  for (const auto& [begin, part] : cases) EXPECT_THAT(text_of(begin), HasSubstr(part)) << begin;
}

TEST(ForeignFile, OthersAreNotNamed) {
  for (const std::string& begin : {std::string("GGUF\3\0\0\0", 8), std::string("some text"), std::string(),
                                   std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9)})
    EXPECT_EQ(text_of(begin), "") << begin;
}

TEST(ForeignFile, ExpectedFilesAreNotForeign) {
  const std::string damaged("\xff\xff\xff\xff\xff\xff\xff\x7f{", 9);
  EXPECT_EQ(text_of(std::string(8, '\1') + "{}", FileKind::kSafetensors), "");
  EXPECT_EQ(text_of(damaged, FileKind::kSafetensors), "");
  EXPECT_EQ(text_of(" \n[1,", FileKind::kJson), "");
  for (const FileKind expected : {FileKind::kSafetensors, FileKind::kJson})
    EXPECT_THAT(text_of("<html>", expected), HasSubstr("HTML page"));
}

TEST(ForeignFile, FoldersAreNamedByWhatTheyHold) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "weft-foreign-folder";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  EXPECT_THAT(folder_text(folder), HasSubstr("no GGUF file"));
  std::ofstream(folder / "model-q4.gguf");
  EXPECT_THAT(folder_text(folder), HasSubstr("model-q4.gguf"));
  std::ofstream(folder / "config.json");
  EXPECT_THAT(folder_text(folder), HasSubstr("weft convert"));
  std::ofstream(folder / "adapter_config.json");
  EXPECT_THAT(folder_text(folder), HasSubstr("weft convert --base"));
}

}  // namespace
}  // namespace weft::base
